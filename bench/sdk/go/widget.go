package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The custom resource that all subjects watch; the same as in src/widget.rs.

var groupVersion = schema.GroupVersion{Group: "bench.example.com", Version: "v1"}

type port struct {
	Name string `json:"name"`
	Port int32  `json:"port"`
}

type widgetSpec struct {
	Replicas int32  `json:"replicas"`
	Mode     string `json:"mode,omitempty"`
	Blob     string `json:"blob,omitempty"`
	Ports    []port `json:"ports,omitempty"`
}

type widgetStatus struct {
	Ready int32 `json:"ready,omitempty"`
}

type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   widgetSpec   `json:"spec,omitempty"`
	Status widgetStatus `json:"status,omitempty"`
}

type widgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []widget `json:"items"`
}

func (w *widget) DeepCopyObject() runtime.Object {
	out := &widget{}
	w.copyInto(out)
	return out
}

func (w *widget) copyInto(out *widget) {
	*out = *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Ports = append([]port(nil), w.Spec.Ports...)
}

func (l *widgetList) DeepCopyObject() runtime.Object {
	out := &widgetList{TypeMeta: l.TypeMeta, Items: make([]widget, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		l.Items[i].copyInto(&out.Items[i])
	}
	return out
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypeWithName(groupVersion.WithKind("Widget"), &widget{})
	s.AddKnownTypeWithName(groupVersion.WithKind("WidgetList"), &widgetList{})
	metav1.AddToGroupVersion(s, groupVersion)
	return s
}
