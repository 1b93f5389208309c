package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// watching holds the checks of watches and of features built on them.
func (c clients) watching() []check {
	return []check{
		{"a watch in protobuf shows every change in order", func(ctx context.Context) error { return watchChanges(ctx, c.typed) }},
		{"a watch in JSON shows every change in order", func(ctx context.Context) error { return watchChanges(ctx, c.json) }},
		{"a watch can begin with all that is there, and a bookmark", c.watchList},
		{"an informer keeps a copy, in protobuf", func(ctx context.Context) error { return informer(ctx, c.typed) }},
		{"an informer keeps a copy, in JSON", func(ctx context.Context) error { return informer(ctx, c.json) }},
		{"a dynamic informer keeps a copy", c.dynamicInformer},
		{"leader election gets and gives up its lease", c.leaderElection},
		{"recorded events arrive, and repeated ones are counted", c.events},
	}
}

func watchChanges(ctx context.Context, client kubernetes.Interface) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	watcher, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=seen"})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	if _, err := maps.Create(ctx, configMap("seen"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := maps.Patch(ctx, "seen", types.MergePatchType, []byte(`{"data":{"a":"c"}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "seen", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, expected := range []string{"ADDED b", "MODIFIED c", "DELETED c"} {
		event, err := next(ctx, watcher)
		if err != nil {
			return fmt.Errorf("%s: %w", expected, err)
		}
		object, ok := event.Object.(*corev1.ConfigMap)
		if !ok {
			return fmt.Errorf("%s: got %v %v", expected, event.Type, event.Object)
		}
		if err := equal("event", fmt.Sprintf("%s %s", event.Type, object.Data["a"]), expected); err != nil {
			return err
		}
	}
	return nil
}

func next(ctx context.Context, watcher watch.Interface) (watch.Event, error) {
	select {
	case event, open := <-watcher.ResultChan():
		if !open {
			return event, fmt.Errorf("the watch ended")
		}
		return event, nil
	case <-ctx.Done():
		return watch.Event{}, ctx.Err()
	}
}

func (c clients) watchList(ctx context.Context) error {
	yes := true
	watcher, err := c.typed.CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, FieldSelector: "metadata.name=conflict",
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	event, err := next(ctx, watcher)
	if err != nil {
		return err
	}
	if err := equal("first event", event.Type, watch.Added); err != nil {
		return err
	}
	event, err = next(ctx, watcher)
	if err != nil {
		return err
	}
	object, ok := event.Object.(*corev1.ConfigMap)
	if !ok || event.Type != watch.Bookmark {
		return fmt.Errorf("expected a bookmark, got %v %v", event.Type, event.Object)
	}
	return equal("end of the initial events", object.Annotations[metav1.InitialEventsAnnotationKey], "true")
}

func informer(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	maps := client.CoreV1().ConfigMaps(namespace)
	if _, err := maps.Create(ctx, configMap("informed-0"), metav1.CreateOptions{}); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	lister := factory.Core().V1().ConfigMaps().Lister().ConfigMaps(namespace)
	var lock sync.Mutex
	var deleted []string
	if _, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(object any) {
			lock.Lock()
			defer lock.Unlock()
			if object, ok := object.(*corev1.ConfigMap); ok {
				deleted = append(deleted, object.Name)
			}
		},
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("no copy of %v", kind)
		}
	}
	if _, err := lister.Get("informed-0"); err != nil {
		return err
	}
	if _, err := maps.Create(ctx, configMap("informed-1"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "the new object is in the copy", func() bool {
		_, err := lister.Get("informed-1")
		return err == nil
	}); err != nil {
		return err
	}
	for _, name := range []string{"informed-0", "informed-1"} {
		if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	if err := eventually(ctx, "the deletions are seen", func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(deleted) == 2
	}); err != nil {
		return err
	}
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	copied, err := lister.List(labels.Everything())
	if err != nil {
		return err
	}
	return equal("objects in the copy", len(copied), len(list.Items))
}

func (c clients) dynamicInformer(ctx context.Context) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, 0, namespace, nil)
	informer := factory.ForResource(configMaps)
	informer.Informer()
	factory.Start(ctx.Done())
	if synced := factory.WaitForCacheSync(ctx.Done()); !synced[configMaps] {
		return fmt.Errorf("no copy")
	}
	_, err := informer.Lister().ByNamespace(namespace).Get("conflict")
	return err
}

func (c clients) leaderElection(ctx context.Context) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "leader", c.typed.CoreV1(),
		c.typed.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leases := c.typed.CoordinationV1().Leases(namespace)
	led := false
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true,
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				// Releasing the lease during a renewal may conflict with it, so wait for the first renewal.
				led = eventually(ctx, "a renewal", func() bool {
					lease, err := leases.Get(ctx, "leader", metav1.GetOptions{})
					return err == nil && lease.Spec.RenewTime.After(lease.Spec.AcquireTime.Time)
				}) == nil
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	lease, err := leases.Get(context.Background(), "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	holder := "nobody"
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	return equal("led, and then the holder", []any{led, holder}, []any{true, ""})
}

func (c clients) events(ctx context.Context) error {
	object, err := c.typed.CoreV1().ConfigMaps(namespace).Get(ctx, "conflict", metav1.GetOptions{})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.typed.CoreV1().Events(namespace)})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "e2e"})
	for range 2 {
		recorder.Event(object, corev1.EventTypeNormal, "Happened", "something")
	}
	var seen []corev1.Event
	return eventually(ctx, "one event with a count of two", func() bool {
		list, err := c.typed.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Happened"})
		if err != nil {
			return false
		}
		seen = list.Items
		return len(seen) == 1 && seen[0].Count == 2
	})
}
