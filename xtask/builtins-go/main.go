// Command builtins describes the stable built-in resources of Kubernetes as JSON on standard output; with the argument
// `unstable`, the resources without a stable version that can be enabled.
//
// Types come from the published Go modules by reflection. Facts that Go types lack (required, defaults, list types,
// discovery) come from the files under api/ of the k8s.io/kubernetes module, whose directory is the first argument.
// `cargo xtask builtins` runs it and converts the output to the compact table of windlass-builtins.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	isUnstable := len(os.Args) == 3 && os.Args[2] == "unstable"
	if len(os.Args) != 2 && !isUnstable {
		fail(fmt.Errorf("usage: builtins KUBERNETES_MODULE_DIR [unstable]"))
	}
	schemas, deletions, err := readSchemas(os.Args[1])
	if err != nil {
		fail(err)
	}
	groups, resources, err := readDiscovery(os.Args[1], isUnstable)
	if err != nil {
		fail(err)
	}
	for i := range resources {
		resource := &resources[i]
		kind := metav1.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: resource.Kind}
		resource.DeletionReturnsObject = deletions[kind]
	}
	walk := newWalk(schemas)
	table, err := walk.table(groups, resources, !isUnstable)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(table); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "builtins:", err)
	os.Exit(1)
}
