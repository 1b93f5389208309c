package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// objects holds the checks of single objects and lists.
func (c clients) objects() []check {
	return []check{
		{"the version and the resources", c.discovery},
		{"a namespace for the other checks, and an account for its pods", c.namespace},
		{"typed clients create, read, update and delete", c.crud},
		{"a large object survives protobuf whole", c.pod},
		{"an update after a conflict succeeds", c.conflict},
		{"errors have their reasons and causes", c.errors},
		{"status and scale are subresources", c.subresources},
		{"a pod is bound to a node", c.bind},
		{"patches of every type", c.patches},
		{"lists come in pages", c.pages},
		{"the dynamic client works on any kind", c.dynamicClient},
		{"the metadata client gets metadata only", c.metadataClient},
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "e2e"}},
		Data:       map[string]string{"a": "b"},
	}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}}},
			},
		},
	}
}

func (c clients) discovery(context.Context) error {
	version, err := c.typed.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	groups, resources, err := c.typed.Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	if len(groups) < 15 || len(resources) < 15 {
		return fmt.Errorf("%d groups and %d group versions", len(groups), len(resources))
	}
	return equal("minor version", version.Minor, "36")
}

func (c clients) namespace(ctx context.Context) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	created, err := c.typed.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err = c.typed.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return equal("phase", created.Status.Phase, corev1.NamespaceActive)
}

func (c clients) crud(ctx context.Context) error {
	for name, client := range map[string]clients{"protobuf": c, "json": {typed: c.json}} {
		maps := client.typed.CoreV1().ConfigMaps(namespace)
		object := configMap("crud-" + name)
		object.BinaryData = map[string][]byte{"bytes": {0, 1, 254, 255}}
		created, err := maps.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("%s: create: %w", name, err)
		}
		created.Data["c"] = "d"
		if _, err := maps.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("%s: update: %w", name, err)
		}
		read, err := maps.Get(ctx, created.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%s: get: %w", name, err)
		}
		if err := equal(name+": data", read.Data, map[string]string{"a": "b", "c": "d"}); err != nil {
			return err
		}
		if err := equal(name+": bytes", read.BinaryData["bytes"], object.BinaryData["bytes"]); err != nil {
			return err
		}
		background := metav1.DeletePropagationBackground
		if err := maps.Delete(ctx, created.Name, metav1.DeleteOptions{
			PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(string(read.UID)),
		}); err != nil {
			return fmt.Errorf("%s: delete: %w", name, err)
		}
		if _, err := maps.Get(ctx, created.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s: expected NotFound, got %v", name, err)
		}
	}
	return nil
}

func (c clients) conflict(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	stale, err := maps.Create(ctx, configMap("conflict"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := maps.Patch(ctx, stale.Name, types.MergePatchType, []byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	stale.Data["mine"] = "1"
	if _, err := maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("expected a conflict, got %v", err)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh, err := maps.Get(ctx, stale.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		fresh.Data["mine"] = "1"
		_, err = maps.Update(ctx, fresh, metav1.UpdateOptions{})
		return err
	})
}

func (c clients) errors(ctx context.Context) error {
	_, err := c.typed.AppsV1().Deployments(namespace).Create(ctx, deployment("invalid", -1), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("expected Invalid, got %v", err)
	}
	cause, _ := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	if err := equal("cause", cause.Field, "spec.replicas"); err != nil {
		return err
	}
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	if _, err := maps.Create(ctx, configMap("conflict"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("expected AlreadyExists, got %v", err)
	}
	if _, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "a in b"}); !apierrors.IsBadRequest(err) {
		return fmt.Errorf("expected BadRequest, got %v", err)
	}
	return nil
}

func (c clients) subresources(ctx context.Context) error {
	deployments := c.typed.AppsV1().Deployments(namespace)
	created, err := deployments.Create(ctx, deployment("web", 2), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status.Replicas, created.Status.ObservedGeneration = 2, created.Generation
	replicas := int32(50)
	created.Spec.Replicas = &replicas
	updated, err := deployments.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if err := equal("spec and status", []int32{*updated.Spec.Replicas, updated.Status.Replicas}, []int32{2, 2}); err != nil {
		return err
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 4},
	}
	if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	got, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return equal("scale", []any{got.Spec.Replicas, got.Status.Selector}, []any{4, "app=web"})
}

func (c clients) bind(ctx context.Context) error {
	pods := c.typed.CoreV1().Pods(namespace)
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "large"}, Target: corev1.ObjectReference{Kind: "Node", Name: "some-node"},
	}
	if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	pod, err := pods.Get(ctx, "large", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := equal("node", pod.Spec.NodeName, "some-node"); err != nil {
		return err
	}
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=some-node"})
	if err != nil {
		return err
	}
	return equal("pods of the node", len(list.Items), 1)
}

func (c clients) patches(ctx context.Context) error {
	deployments := c.typed.AppsV1().Deployments(namespace)
	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/annotations","value":{"json":"yes"}}]`,
		types.MergePatchType:          `{"spec":{"minReadySeconds":3}}`,
		types.StrategicMergePatchType: `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example.com/main:2"}]}}}}`,
	} {
		if _, err := deployments.Patch(ctx, "web", kind, []byte(patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	got, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	actual := []any{got.Annotations["json"], got.Spec.MinReadySeconds, got.Spec.Template.Spec.Containers[0].Image}
	return equal("patched", actual, []any{"yes", 3, "example.com/main:2"})
}

func (c clients) pages(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	for i := range 9 {
		object := configMap(fmt.Sprintf("page-%d", i))
		object.Labels = map[string]string{"page": "yes"}
		if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	names, options := []string{}, metav1.ListOptions{LabelSelector: "page=yes", Limit: 4}
	for {
		list, err := maps.List(ctx, options)
		if err != nil {
			return err
		}
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if err := equal("names", names, "[page-0 page-1 page-2 page-3 page-4 page-5 page-6 page-7 page-8]"); err != nil {
		return err
	}
	return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "page=yes"})
}

func (c clients) dynamicClient(ctx context.Context) error {
	maps := c.dynamic.Resource(configMaps).Namespace(namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "dynamic"},
		"data": map[string]any{"a": "1"},
	}}
	created, err := maps.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(created.Object, "2", "data", "a"); err != nil {
		return err
	}
	updated, err := maps.Update(ctx, created, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	value, _, _ := unstructured.NestedString(updated.Object, "data", "a")
	if err := equal("dry run", value, "2"); err != nil {
		return err
	}
	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=dynamic"})
	if err != nil {
		return err
	}
	value, _, _ = unstructured.NestedString(list.Items[0].Object, "data", "a")
	if err := equal("stored", value, "1"); err != nil {
		return err
	}
	return maps.Delete(ctx, "dynamic", metav1.DeleteOptions{})
}

func (c clients) metadataClient(ctx context.Context) error {
	maps := c.metadata.Resource(configMaps).Namespace(namespace)
	one, err := maps.Get(ctx, "conflict", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := equal("one", []any{one.Name, one.Labels["app"]}, []any{"conflict", "e2e"}); err != nil {
		return err
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "app=e2e"})
	if err != nil {
		return err
	}
	return equal("list", []any{len(list.Items), list.Items[0].Name}, []any{1, "conflict"})
}
