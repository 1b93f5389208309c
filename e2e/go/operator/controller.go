// Package operator is a small operator on plain client-go: a Deployment for every Greeting.
package operator

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

var greetings = schema.GroupVersionResource{Group: "e2e.windlass.dev", Version: "v1", Resource: "greetings"}

// Controller maintains a Deployment for every Greeting and reports the number of ready pods in its status.
type Controller struct {
	kube        kubernetes.Interface
	dynamic     dynamic.Interface
	greetings   cache.GenericLister
	deployments appslisters.DeploymentLister
	queue       workqueue.TypedRateLimitingInterface[string]
	factories   []interface {
		Start(<-chan struct{})
	}
	synced []cache.InformerSynced
}

// New creates a controller.
func New(kube kubernetes.Interface, dyn dynamic.Interface) (*Controller, error) {
	typed := informers.NewSharedInformerFactory(kube, 30*time.Second)
	untyped := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 30*time.Second)
	c := &Controller{
		kube:        kube,
		dynamic:     dyn,
		greetings:   untyped.ForResource(greetings).Lister(),
		deployments: typed.Apps().V1().Deployments().Lister(),
		queue:       workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	own := untyped.ForResource(greetings).Informer()
	if _, err := own.AddEventHandler(c.handler(c.enqueue)); err != nil {
		return nil, err
	}
	owned := typed.Apps().V1().Deployments().Informer()
	if _, err := owned.AddEventHandler(c.handler(c.enqueueOwner)); err != nil {
		return nil, err
	}
	c.factories = append(c.factories, typed, untyped)
	c.synced = []cache.InformerSynced{own.HasSynced, owned.HasSynced}
	return c, nil
}

// Run reconciles until the context is cancelled.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	for _, factory := range c.factories {
		factory.Start(ctx.Done())
	}
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return fmt.Errorf("caches were not synced")
	}
	go func() {
		for c.next(ctx) {
		}
	}()
	<-ctx.Done()
	return nil
}

func (c *Controller) handler(enqueue func(any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
		DeleteFunc: enqueue,
	}
}

func (c *Controller) enqueue(object any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		c.queue.Add(key)
	}
}

func (c *Controller) enqueueOwner(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	child, ok := object.(metav1.Object)
	if !ok {
		return
	}
	if owner := metav1.GetControllerOf(child); owner != nil && owner.Kind == "Greeting" {
		c.queue.Add(child.GetNamespace() + "/" + owner.Name)
	}
}

func (c *Controller) next(ctx context.Context) bool {
	key, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(key)
	if err := c.sync(ctx, key); err != nil {
		c.queue.AddRateLimited(key)
	} else {
		c.queue.Forget(key)
	}
	return true
}

func (c *Controller) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	found, err := c.greetings.ByNamespace(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	greeting := found.(*unstructured.Unstructured).DeepCopy()
	if greeting.GetDeletionTimestamp() != nil {
		return nil
	}
	replicas, _, err := unstructured.NestedInt64(greeting.Object, "spec", "replicas")
	if err != nil {
		return err
	}
	deployment, err := c.deployments.Deployments(namespace).Get(name)
	switch {
	case apierrors.IsNotFound(err):
		deployment, err = c.kube.AppsV1().Deployments(namespace).Create(ctx, wanted(greeting, int32(replicas)), metav1.CreateOptions{})
	case err == nil && *deployment.Spec.Replicas != int32(replicas):
		changed := deployment.DeepCopy()
		*changed.Spec.Replicas = int32(replicas)
		deployment, err = c.kube.AppsV1().Deployments(namespace).Update(ctx, changed, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	told, _, _ := unstructured.NestedInt64(greeting.Object, "status", "ready")
	if told == int64(deployment.Status.ReadyReplicas) {
		return nil
	}
	if err := unstructured.SetNestedField(greeting.Object, int64(deployment.Status.ReadyReplicas), "status", "ready"); err != nil {
		return err
	}
	_, err = c.dynamic.Resource(greetings).Namespace(namespace).UpdateStatus(ctx, greeting, metav1.UpdateOptions{})
	return err
}

func wanted(greeting *unstructured.Unstructured, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"greeting": greeting.GetName()}
	controller := true
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: greeting.GetName(),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: greeting.GetAPIVersion(), Kind: greeting.GetKind(),
				Name: greeting.GetName(), UID: greeting.GetUID(), Controller: &controller,
			}},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/hello:1"}}},
			},
		},
	}
}
