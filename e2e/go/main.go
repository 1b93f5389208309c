// client-go against the server of $KUBECONFIG: the typed clients, which speak protobuf, informers, the dynamic client,
// leader election and events, as operators in Go use them.
package main

import (
	"fmt"
	"os"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The namespace of this run.
var namespace = fmt.Sprintf("e2e-go-%d", os.Getpid())

// clients holds every client that the checks use.
type clients struct {
	// typed sends and accepts protobuf; json does neither.
	typed, json kubernetes.Interface
	dynamic     dynamic.Interface
	metadata    metadata.Interface
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		panic(err)
	}
	config.QPS, config.Burst = 1000, 1000
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c := clients{
		typed:    kubernetes.NewForConfigOrDie(protobuf),
		json:     kubernetes.NewForConfigOrDie(config),
		dynamic:  dynamic.NewForConfigOrDie(config),
		metadata: metadata.NewForConfigOrDie(config),
	}
	if !runAll(append(c.objects(), c.watching()...)) {
		os.Exit(1)
	}
}
