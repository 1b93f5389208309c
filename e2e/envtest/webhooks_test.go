package envtest

import (
	"context"
	"net/http"
	"testing"

	"gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestControllersAndWebhooks(t *testing.T) {
	ctx := check(t, "a manager with a controller and webhooks works on its CRD")
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{"testdata/crds"},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"testdata/webhooks"}},
	}
	config := start(t, env)
	options := env.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
	})
	must(t, err)
	hooks := manager.GetWebhookServer()
	hooks.Register("/default", &webhook.Admission{Handler: admission.HandlerFunc(paint)})
	hooks.Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(refuseBroken)})
	kind := gadget("", 0)
	kind.Object = map[string]any{"apiVersion": "e2e.windlass.dev/v1", "kind": "Gadget"}
	see := func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		found := kind.DeepCopy()
		if err := manager.GetClient().Get(ctx, request.NamespacedName, found); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if seen, _, _ := unstructured.NestedBool(found.Object, "status", "seen"); seen {
			return reconcile.Result{}, nil
		}
		must(t, unstructured.SetNestedField(found.Object, true, "status", "seen"))
		return reconcile.Result{}, manager.GetClient().Status().Update(ctx, found)
	}
	must(t, ctrl.NewControllerManagedBy(manager).Named("gadgets").For(kind).Complete(reconcile.Func(see)))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the manager failed: %v", err)
		}
	})
	c := connect(t, config)
	check := hooks.StartedChecker()
	eventually(ctx, t, "webhooks are served", func() bool { return check(&http.Request{}) == nil })

	created := gadget("first", 3)
	must(t, c.Create(ctx, created))
	if colour, _, _ := unstructured.NestedString(created.Object, "spec", "colour"); colour != "red" {
		t.Errorf("the defaulting webhook was not called: %v", created.Object)
	}
	eventually(ctx, t, "the controller has seen the gadget", func() bool {
		found := gadget("first", 3)
		must(t, c.Get(ctx, client.ObjectKeyFromObject(found), found))
		seen, _, _ := unstructured.NestedBool(found.Object, "status", "seen")
		return seen
	})
	if err := c.Create(ctx, gadget("broken", 13)); !apierrors.IsForbidden(err) {
		t.Errorf("the validating webhook was not called: %v", err)
	}
}

func paint(_ context.Context, _ admission.Request) admission.Response {
	return admission.Patched("", painted)
}

func refuseBroken(_ context.Context, request admission.Request) admission.Response {
	if request.Name == "broken" {
		return admission.Denied("it is broken")
	}
	return admission.Allowed("")
}

// painted is the patch of the defaulting webhook.
var painted = jsonpatch.NewOperation("add", "/spec/colour", "red")
