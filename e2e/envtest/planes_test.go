package envtest

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}}
}

func TestParallelControlPlanes(t *testing.T) {
	for number := range 4 {
		name := "plane-" + strconv.Itoa(number)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := check(t, "control planes run side by side: "+name)
			c := connect(t, start(t, &envtest.Environment{CRDDirectoryPaths: []string{"testdata/crds"}}))
			must(t, c.Create(ctx, configMap(name)))
			must(t, c.Create(ctx, gadget(name, 1)))
			var maps corev1.ConfigMapList
			must(t, c.List(ctx, &maps, client.InNamespace(metav1.NamespaceDefault)))
			for _, found := range maps.Items {
				if strings.HasPrefix(found.Name, "plane-") && found.Name != name {
					t.Errorf("%s has the object %s of another control plane", name, found.Name)
				}
			}
			if err := c.Create(ctx, gadget("small", 0)); !apierrors.IsInvalid(err) {
				t.Errorf("the schema has not taken effect: %v", err)
			}
		})
	}
}

func TestRestartsKeepObjects(t *testing.T) {
	ctx := check(t, "an API server that is started again on the same etcd has the same objects")
	env := &envtest.Environment{}
	must(t, connect(t, start(t, env)).Create(ctx, configMap("kept")))
	must(t, env.ControlPlane.APIServer.Stop())
	must(t, env.ControlPlane.APIServer.Start())
	// The certificates of the old server have ended with it.
	user, err := env.ControlPlane.AddUser(envtest.User{Name: "again", Groups: []string{"system:masters"}}, nil)
	must(t, err)
	must(t, connect(t, user.Config()).Get(ctx, client.ObjectKeyFromObject(configMap("kept")), &corev1.ConfigMap{}))
}

func TestEnvironmentsStartAgain(t *testing.T) {
	ctx := check(t, "an environment that was stopped starts again, empty")
	env := &envtest.Environment{}
	config, err := env.Start()
	must(t, err)
	must(t, connect(t, config).Create(ctx, configMap("gone")))
	must(t, env.Stop())
	again := connect(t, start(t, &envtest.Environment{}))
	err = again.Get(ctx, client.ObjectKeyFromObject(configMap("gone")), &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("expected an empty control plane, not %v", err)
	}
}

func TestUsersHaveTheirRoles(t *testing.T) {
	ctx := check(t, "users that are added have the permissions of their roles")
	env := &envtest.Environment{}
	admin := connect(t, start(t, env))
	added, err := env.AddUser(envtest.User{Name: "reader", Groups: []string{"dev"}}, nil)
	must(t, err)
	reader := connect(t, added.Config())
	if err := reader.List(ctx, &corev1.ConfigMapList{}); !apierrors.IsForbidden(err) {
		t.Fatalf("expected a denial, not %v", err)
	}
	must(t, admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "dev"}},
	}))
	eventually(ctx, t, "the role takes effect", func() bool { return reader.List(ctx, &corev1.ConfigMapList{}) == nil })
	if err := reader.Create(ctx, configMap("denied")); !apierrors.IsForbidden(err) {
		t.Errorf("expected a denial, not %v", err)
	}
}

func TestPodsNeedNoServiceAccount(t *testing.T) {
	ctx := check(t, "pods and services can be created without control loops")
	c := connect(t, start(t, &envtest.Environment{}))
	must(t, c.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: metav1.NamespaceDefault},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "busybox"}}},
	}))
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "service", Namespace: metav1.NamespaceDefault},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	must(t, c.Create(ctx, service))
	if !strings.HasPrefix(service.Spec.ClusterIP, "10.0.0.") {
		t.Errorf("the cluster IP %s is not in --service-cluster-ip-range", service.Spec.ClusterIP)
	}
}

func TestPortsInUseAreErrors(t *testing.T) {
	check(t, "a control plane whose port is in use does not start")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	env := &envtest.Environment{}
	var log bytes.Buffer
	server := env.ControlPlane.GetAPIServer()
	server.SecureServing.Address = "127.0.0.1"
	server.SecureServing.Port = strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	server.Err = &log
	if _, err := env.Start(); err == nil {
		t.Error("it has started")
	}
	_ = env.Stop()
	if !strings.Contains(log.String(), "address already in use") {
		t.Errorf("the output does not have the reason: %s", log.String())
	}
}

func TestFlagsCanBeAdded(t *testing.T) {
	ctx := check(t, "flags that a project adds are accepted, wrong ones end the API server")
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Configure().
		Append("feature-gates", "WatchList=true").
		Append("enable-admission-plugins", "NodeRestriction").
		Set("audit-log-path", "-")
	must(t, connect(t, start(t, env)).Create(ctx, configMap("flags")))
	wrong := &envtest.Environment{}
	var log bytes.Buffer
	wrong.ControlPlane.GetAPIServer().Configure().Append("windlass", "true")
	wrong.ControlPlane.GetAPIServer().Err = &log
	if _, err := wrong.Start(); err == nil {
		t.Error("it has started with an unknown flag")
	}
	_ = wrong.Stop()
	if !strings.Contains(log.String(), "Error: unknown flag: --windlass") {
		t.Errorf("the output does not have the reason: %s", log.String())
	}
}

func TestLoopsAreSwitchedOn(t *testing.T) {
	if os.Getenv("ENVTEST_OF") == "kubernetes" {
		t.Skip("kube-apiserver has no control loops")
	}
	ctx := check(t, "variables switch on control loops and nodes")
	t.Setenv("WINDLASS_CONTROLLERS", "*")
	t.Setenv("WINDLASS_NODES", "2")
	c := connect(t, start(t, &envtest.Environment{}))
	var nodes corev1.NodeList
	eventually(ctx, t, "nodes are registered", func() bool {
		return c.List(ctx, &nodes) == nil && len(nodes.Items) == 2
	})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short"}}
	must(t, c.Create(ctx, namespace))
	must(t, c.Delete(ctx, namespace))
	eventually(ctx, t, "the namespace is deleted", func() bool {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace))
	})
}
