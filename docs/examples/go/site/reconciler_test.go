package site

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"windlass.dev/examples/plane"
)

// ANCHOR: envtest
var environment = &envtest.Environment{UseExistingCluster: ptr.To(true), CRDDirectoryPaths: []string{"."}}

// ANCHOR_END: envtest

// start points envtest at a plane that stops when the test ends.
func start(t *testing.T) client.Client {
	t.Helper()
	environment.Config = plane.Start(t)
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = environment.Stop() })
	AddToScheme(scheme.Scheme)
	reader, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

func TestASiteHasADeploymentUntilItGoes(t *testing.T) {
	cluster := start(t)
	reconciler := &SiteReconciler{Client: cluster, Scheme: scheme.Scheme}
	site := &Site{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default"}, Spec: SiteSpec{Replicas: 2}}
	if err := cluster.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(site)
	reconcile := func() {
		t.Helper()
		if _, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	var deployment appsv1.Deployment
	if err := cluster.Get(t.Context(), key, &deployment); err != nil {
		t.Fatal(err)
	}
	if *deployment.Spec.Replicas != 2 || !metav1.IsControlledBy(&deployment, site) {
		t.Fatalf("%+v", deployment)
	}
	if err := cluster.Get(t.Context(), key, site); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(site.Status.Conditions, "Ready") {
		t.Fatalf("%+v", site.Status)
	}
	if err := cluster.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if err := cluster.Get(t.Context(), key, site); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("it is still there: %v", err)
	}
}
