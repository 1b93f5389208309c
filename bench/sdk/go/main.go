// Command sdk measures controller-runtime as bench/sdk measures the Rust runtimes: one scenario per process, the result as one
// line of JSON on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

var (
	scenario    = flag.String("scenario", "", "sync, reconcile, latency or queue")
	kubeconfig  = flag.String("kubeconfig", "", "the server")
	objects     = flag.Int("objects", 0, "objects that are there, or keys of the queue")
	concurrency = flag.Int("concurrency", 8, "reconciles at a time")
)

func main() {
	flag.Parse()
	// Logging is not part of the measurement.
	log.SetLogger(logr.Discard())
	run := map[string]func() any{"sync": syncAll, "reconcile": reconcileAll, "latency": latency, "queue": queue}[*scenario]
	if run == nil {
		fail(fmt.Errorf("no such scenario: %q", *scenario))
	}
	fail(json.NewEncoder(os.Stdout).Encode(run()))
}

// syncAll fills a cache.
func syncAll() any {
	before := memory("VmRSS")
	start := time.Now()
	c, err := cache.New(config(), cache.Options{Scheme: scheme()})
	fail(err)
	_, err = c.GetInformer(context.Background(), &widget{})
	fail(err)
	go func() { fail(c.Start(context.Background())) }()
	if !c.WaitForCacheSync(context.Background()) {
		fail(fmt.Errorf("the cache does not sync"))
	}
	took := time.Since(start)
	time.Sleep(time.Second)
	peak, after := memory("VmHWM"), memory("VmRSS")
	list := &widgetList{}
	fail(c.List(context.Background(), list, client.UnsafeDisableDeepCopy))
	return map[string]any{"objects": len(list.Items), "seconds": took.Seconds(), "before": before, "peak": peak, "after": after}
}

// reconcileAll triggers all objects again after the first reconcile of each.
func reconcileAll() any {
	var count atomic.Int64
	channel := make(chan event.GenericEvent, 1024)
	mgr := start(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		count.Add(1)
		return reconcile.Result{}, nil
	}), channel, nil)
	wait(func() bool { return count.Load() >= int64(*objects) })
	list := &widgetList{}
	fail(mgr.GetCache().List(context.Background(), list))
	begin, already := time.Now(), count.Load()
	for i := range list.Items {
		channel <- event.GenericEvent{Object: &list.Items[i]}
	}
	wait(func() bool { return count.Load() >= already+int64(*objects) })
	return map[string]any{"reconciles": count.Load() - already, "seconds": time.Since(begin).Seconds()}
}

// latency measures the time from a write to its reconcile. Each write carries the time at which it was sent.
func latency() any {
	var lock sync.Mutex
	var ready atomic.Int64
	seen := map[string]string{}
	writes, events, since := []int64{}, []int64{}, time.Now().UnixMicro()
	arrivals := newArrivals()
	var mgr manager.Manager
	started := make(chan struct{})
	mgr = start(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		now := time.Now()
		<-started
		ready.Add(1)
		object := &widget{}
		if err := mgr.GetClient().Get(ctx, request.NamespacedName, object); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		at := object.Annotations["bench.example.com/at"]
		lock.Lock()
		defer lock.Unlock()
		if at != "" && seen[object.Name] != at {
			seen[object.Name] = at
			sent, err := strconv.ParseInt(at, 10, 64)
			fail(err)
			// Earlier writes belong to another contender.
			if sent >= since {
				writes = append(writes, now.UnixMicro()-sent)
				if arrived, found := arrivals.take(at); found {
					events = append(events, now.UnixMicro()-arrived)
				}
			}
		}
		return reconcile.Result{}, nil
	}), nil, arrivals.watching)
	close(started)
	wait(func() bool { return ready.Load() >= int64(*objects) })
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	lock.Lock()
	return map[string]any{"writes": writes, "events": events}
}

// queue adds keys and removes them again.
func queue() any {
	keys := make([]string, *objects)
	for i := range keys {
		keys[i] = "default/object-" + strconv.Itoa(i)
	}
	q := priorityqueue.New[string]("bench")
	begin := time.Now()
	for _, key := range keys {
		q.AddWithOpts(priorityqueue.AddOpts{}, key)
	}
	for range keys {
		key, _, _ := q.GetWithPriority()
		q.Done(key)
	}
	took := time.Since(begin)
	q.ShutDown()
	return map[string]any{"keys": len(keys), "seconds": took.Seconds()}
}

// start runs a manager with one controller for widgets; its connections may be wrapped.
func start(r reconcile.Reconciler, channel chan event.GenericEvent, wrap transport.WrapperFunc) manager.Manager {
	c := config()
	c.Wrap(wrap)
	mgr, err := manager.New(c, manager.Options{Scheme: scheme(), Metrics: server.Options{BindAddress: "0"}})
	fail(err)
	widgets, err := controller.New("widget", mgr, controller.Options{Reconciler: r, MaxConcurrentReconciles: *concurrency})
	fail(err)
	fail(widgets.Watch(source.Kind(mgr.GetCache(), &widget{}, &handler.TypedEnqueueRequestForObject[*widget]{})))
	if channel != nil {
		fail(widgets.Watch(source.Channel(channel, &handler.EnqueueRequestForObject{})))
	}
	go func() { fail(mgr.Start(context.Background())) }()
	return mgr
}

func config() *rest.Config {
	c, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	fail(err)
	return c
}

func wait(holds func() bool) {
	for !holds() {
		time.Sleep(200 * time.Microsecond)
	}
}

// memory returns a field of /proc/self/status in bytes.
func memory(name string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	fail(err)
	for _, line := range strings.Split(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			fail(err)
			return kib * 1024
		}
	}
	fail(fmt.Errorf("/proc/self/status has no %s", name))
	return 0
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
