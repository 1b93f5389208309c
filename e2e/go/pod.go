package main

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pod sends a pod with fields of every protobuf type, and reads it back in both formats.
func (c clients) pod(ctx context.Context) error {
	yes, user, seconds := true, int64(1000), int64(45)
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "large", Labels: map[string]string{"app": "large"}, Annotations: map[string]string{"note": "größer"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "u-1", Controller: &yes,
			}},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &seconds,
			SecurityContext:               &corev1.PodSecurityContext{RunAsUser: &user, RunAsNonRoot: &yes},
			NodeSelector:                  map[string]string{"disk": "fast"},
			Tolerations: []corev1.Toleration{{
				Key: "x", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			}},
			Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(1<<20, resource.BinarySI)},
			}}},
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/main:1", Command: []string{"sh", "-c", "sleep 1"},
				Env: []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
				}}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
				}},
				Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")},
				}},
			}},
		},
	}
	created, err := c.typed.CoreV1().Pods(namespace).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	protobuf, err := c.typed.CoreV1().Pods(namespace).Get(ctx, "large", metav1.GetOptions{})
	if err != nil {
		return err
	}
	json, err := c.json.CoreV1().Pods(namespace).Get(ctx, "large", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for name, pod := range map[string]*corev1.Pod{"create": created, "protobuf": protobuf, "json": json} {
		// Quantities keep their original notation; their values are compared below.
		main := &pod.Spec.Containers[0]
		cpu, limit := main.Resources.Requests.Cpu().String(), pod.Spec.Volumes[0].EmptyDir.SizeLimit.String()
		probe := main.LivenessProbe
		actual := []any{
			cpu, limit, main.Env[0].ValueFrom.FieldRef.FieldPath, probe.HTTPGet.Port.String(), probe.PeriodSeconds,
			main.Ports[0].Protocol, *pod.Spec.SecurityContext.RunAsUser, *pod.Spec.Tolerations[0].TolerationSeconds,
			pod.Annotations["note"], *pod.OwnerReferences[0].Controller, pod.Status.QOSClass,
		}
		expected := []any{"250m", "1Mi", "metadata.name", "http", 10, "TCP", 1000, 45, "größer", true, "Burstable"}
		if err := equal(name, actual, expected); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(protobuf.ObjectMeta.Labels, json.ObjectMeta.Labels) || protobuf.UID != json.UID {
		return fmt.Errorf("protobuf and JSON differ:\n%v\n%v", protobuf.ObjectMeta, json.ObjectMeta)
	}
	return nil
}
