package site

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "example.com/site"

// SiteReconciler maintains one Deployment per Site.
type SiteReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *SiteReconciler) cleanup(context.Context, *Site) error { return nil }

func template(site *Site) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"site": site.Name}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
	}
}

// Reconcile drives the cluster towards the Site's spec.
// ANCHOR: reconcile
func (r *SiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var site Site
	if err := r.Get(ctx, req.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		if controllerutil.ContainsFinalizer(&site, finalizer) {
			if err := r.cleanup(ctx, &site); err != nil {
				return ctrl.Result{}, err
			}
			controllerutil.RemoveFinalizer(&site, finalizer)
			return ctrl.Result{}, r.Update(ctx, &site)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&site, finalizer) {
		if err := r.Update(ctx, &site); err != nil {
			return ctrl.Result{}, err
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		deployment.Spec.Replicas = ptr.To(site.Spec.Replicas)
		deployment.Spec.Selector, deployment.Spec.Template = template(&site)
		return controllerutil.SetControllerReference(&site, deployment, r.Scheme)
	}); err != nil {
		return ctrl.Result{}, err
	}
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Synced", ObservedGeneration: site.Generation,
	})
	return ctrl.Result{}, r.Status().Update(ctx, &site)
}

// ANCHOR_END: reconcile
