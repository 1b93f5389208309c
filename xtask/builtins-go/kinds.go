package main

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// newScheme registers the kinds of every stable group version, and of those in unstable.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(
		admissionregistrationv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme,
		authorizationv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
		certificatesv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
		eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme,
		policyv1.AddToScheme, rbacv1.AddToScheme, resourcev1.AddToScheme, schedulingv1.AddToScheme,
		storagev1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, metav1.AddMetaToScheme,
		certificatesv1beta1.AddToScheme, coordinationv1beta1.AddToScheme, resourcev1beta2.AddToScheme,
		schedulingv1alpha2.AddToScheme, storagemigrationv1beta1.AddToScheme,
	)
	return scheme, builder.AddToScheme(scheme)
}

// kinds collects the group-version-kinds that occur in request and response bodies.
type kinds struct {
	walk   *walk
	scheme *runtime.Scheme
	seen   map[schema.GroupVersionKind]int
	list   []Kind
}

func newKinds(walk *walk, scheme *runtime.Scheme) *kinds {
	return &kinds{walk: walk, scheme: scheme, seen: map[schema.GroupVersionKind]int{}}
}

// resource fills in the structs of a resource and its subresources, and adds their kinds and the list kind.
func (k *kinds) resource(resource *Resource) error {
	number, err := k.add(resource.Group, resource.Version, resource.Kind)
	if err != nil {
		return err
	}
	resource.Struct = number
	list := schema.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: resource.Kind + "List"}
	if k.scheme.Recognizes(list) {
		if _, err := k.add(list.Group, list.Version, list.Kind); err != nil {
			return err
		}
	}
	for i := range resource.Subresources {
		subresource := &resource.Subresources[i]
		group, version := subresource.Group, subresource.Version
		if version == "" {
			group, version = resource.Group, resource.Version
		}
		number, err := k.add(group, version, subresource.Kind)
		if err != nil {
			return err
		}
		subresource.Struct = &number
	}
	return nil
}

// bodies adds kinds that occur in bodies but are not resources.
func (k *kinds) bodies() error {
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "DeleteOptions"},
		{Version: "v1", Kind: "Status"},
		{Version: "v1", Kind: "List"},
		{Version: "v1", Kind: "WatchEvent"},
		{Version: "v1", Kind: "PodLogOptions"},
		{Version: "v1", Kind: "APIVersions"},
		{Version: "v1", Kind: "APIGroupList"},
		{Version: "v1", Kind: "APIGroup"},
		{Version: "v1", Kind: "APIResourceList"},
		{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadata"},
		{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadataList"},
	} {
		if _, err := k.add(kind.Group, kind.Version, kind.Kind); err != nil {
			return err
		}
	}
	return nil
}

func (k *kinds) add(group, version, kind string) (int, error) {
	gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	if number, ok := k.seen[gvk]; ok {
		return number, nil
	}
	t, ok := k.scheme.AllKnownTypes()[gvk]
	if !ok {
		return 0, fmt.Errorf("no Go type for %s", gvk)
	}
	number, err := k.walk.number(t)
	if err != nil {
		return 0, err
	}
	k.seen[gvk] = number
	k.list = append(k.list, Kind{Group: group, Version: version, Kind: kind, Struct: number})
	return number, nil
}
