package operator

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const namespace = "default"

type world struct {
	*testing.T
	ctx     context.Context
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

// start starts a control plane with one node for the test. $WINDLASS names the binary.
func start(t *testing.T) world {
	program := os.Getenv("WINDLASS")
	if program == "" {
		t.Fatal("set WINDLASS to the program to test")
	}
	data := t.TempDir()
	ready := filepath.Join(data, "ready")
	plane := exec.Command(program, "up", "--port", "0", "--data-dir", data, "--ready-file", ready, "--store", "memory")
	plane.Stderr = os.Stderr
	if err := plane.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = plane.Process.Signal(syscall.SIGTERM)
		if err := plane.Wait(); err != nil {
			t.Errorf("the plane ended badly: %v", err)
		}
	})
	w := world{T: t, ctx: ctx}
	w.eventually("the plane serves", func() bool {
		_, err := os.Stat(ready)
		return err == nil
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(data, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 500, 500
	w.kube, w.dynamic = kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)
	w.define()
	controller, err := New(w.kube, w.dynamic)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := controller.Run(ctx); err != nil {
			t.Errorf("the controller ended: %v", err)
		}
	}()
	return w
}

func (w world) eventually(what string, holds func() bool) {
	w.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("never came true: %s", what)
		}
	}
}

func (w world) define() {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "greetings.e2e.windlass.dev"},
		"spec": map[string]any{
			"group": "e2e.windlass.dev", "scope": "Namespaced",
			"names": map[string]any{"plural": "greetings", "singular": "greeting", "kind": "Greeting"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": open, "status": open},
				}},
			}},
		},
	}}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := w.dynamic.Resource(definitions).Create(w.ctx, definition, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w world) greet(name string, replicas int64) {
	greeting := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "e2e.windlass.dev/v1", "kind": "Greeting",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"replicas": replicas},
	}}
	if _, err := w.dynamic.Resource(greetings).Namespace(namespace).Create(w.ctx, greeting, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w world) isReady(name string, replicas int64) {
	w.Helper()
	w.eventually("the greeting has its pods", func() bool {
		greeting, err := w.dynamic.Resource(greetings).Namespace(namespace).Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		ready, found, _ := unstructured.NestedInt64(greeting.Object, "status", "ready")
		return found && ready == replicas
	})
}

func TestAGreetingGetsPodsThatBecomeReady(t *testing.T) {
	w := start(t)
	w.greet("hello", 2)
	w.isReady("hello", 2)
	patch := []byte(`{"spec":{"replicas":4}}`)
	if _, err := w.dynamic.Resource(greetings).Namespace(namespace).Patch(w.ctx, "hello", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.isReady("hello", 4)
}

func TestADeploymentThatIsDeletedComesBack(t *testing.T) {
	w := start(t)
	w.greet("hello", 1)
	w.isReady("hello", 1)
	deployments := w.kube.AppsV1().Deployments(namespace)
	before, err := deployments.Get(w.ctx, "hello", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := deployments.Delete(w.ctx, "hello", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("there is another", func() bool {
		after, err := deployments.Get(w.ctx, "hello", metav1.GetOptions{})
		return err == nil && after.UID != before.UID && after.Status.ReadyReplicas == 1
	})
}

func TestEverythingGoesWithTheGreeting(t *testing.T) {
	w := start(t)
	w.greet("hello", 3)
	w.isReady("hello", 3)
	foreground := metav1.DeletePropagationForeground
	options := metav1.DeleteOptions{PropagationPolicy: &foreground}
	if err := w.dynamic.Resource(greetings).Namespace(namespace).Delete(w.ctx, "hello", options); err != nil {
		t.Fatal(err)
	}
	w.eventually("deployment, replica sets and pods are gone", func() bool {
		deployments, err1 := w.kube.AppsV1().Deployments(namespace).List(w.ctx, metav1.ListOptions{})
		sets, err2 := w.kube.AppsV1().ReplicaSets(namespace).List(w.ctx, metav1.ListOptions{})
		pods, err3 := w.kube.CoreV1().Pods(namespace).List(w.ctx, metav1.ListOptions{})
		return err1 == nil && err2 == nil && err3 == nil && len(deployments.Items)+len(sets.Items)+len(pods.Items) == 0
	})
}
