// Package envtest has what projects do with controller-runtime's envtest. Every test starts a control plane of its own.
package envtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience is far more than anything takes.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// check prints the outcome of a test, and limits its time.
func check(t *testing.T, what string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(func() {
		cancel()
		outcome := "ok"
		if t.Failed() {
			outcome = "FAILED"
		}
		fmt.Printf("%s %s\n", outcome, what)
	})
	return ctx
}

// start starts a control plane that stops with the test.
func start(t *testing.T, env *envtest.Environment) *rest.Config {
	t.Helper()
	config, err := env.Start()
	if err != nil {
		t.Fatalf("cannot start a control plane: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("cannot stop the control plane: %v", err)
		}
	})
	return config
}

func connect(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition holds.
func eventually(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("timed out waiting: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func gadget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "e2e.windlass.dev/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": name, "namespace": metav1.NamespaceDefault},
		"spec":     map[string]any{"size": size},
	}}
}
