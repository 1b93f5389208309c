// Package site is a small operator as kubebuilder's users write it. The book shows its reconcile beside the one in Rust.
package site

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is where sites are.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// SiteSpec is what a site is to be.
type SiteSpec struct {
	Replicas int32 `json:"replicas"`
}

// SiteStatus is what a site is.
type SiteStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Site is a web site.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitempty"`
}

// DeepCopyObject is what kubebuilder generates.
func (s *Site) DeepCopyObject() runtime.Object {
	out := *s
	out.ObjectMeta = *s.ObjectMeta.DeepCopy()
	out.Status.Conditions = nil
	for _, condition := range s.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *condition.DeepCopy())
	}
	return &out
}

// AddToScheme makes clients know sites.
func AddToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(GroupVersion, &Site{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
}
