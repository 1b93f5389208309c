// Package plane provides a control plane for tests, in place of envtest.
package plane

// ANCHOR: plane
import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Start starts a control plane that stops when the test ends.
func Start(t *testing.T) *rest.Config {
	t.Helper()
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	up := exec.Command("windlass", "up", "--port", "0", "--store", "memory", "--data-dir", dir, "--ready-file", ready)
	up.Stderr = os.Stderr
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Process.Signal(os.Interrupt); _ = up.Wait() })
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the control plane does not start")
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// ANCHOR_END: plane
