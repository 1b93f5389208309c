// Package site is a small operator in the style of kubebuilder. The book compares its Reconcile with the Rust version.
package site

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of Site.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// SiteSpec is the desired state of a Site.
type SiteSpec struct {
	Replicas int32 `json:"replicas"`
}

// SiteStatus is the observed state of a Site.
type SiteStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Site is the schema of the sites API.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitempty"`
}

// DeepCopyObject is written by hand; kubebuilder generates it.
func (s *Site) DeepCopyObject() runtime.Object {
	out := *s
	out.ObjectMeta = *s.ObjectMeta.DeepCopy()
	out.Status.Conditions = nil
	for _, condition := range s.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *condition.DeepCopy())
	}
	return &out
}

// AddToScheme registers Site with a scheme.
func AddToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(GroupVersion, &Site{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
}
