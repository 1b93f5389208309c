use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, client::Body};
use tokio::sync::mpsc;

use super::*;
use crate::{
    cache::{Informer, Settings},
    controller::{Action, Trigger, Watch, worker::tests::workers},
    lease::{LeadershipState, Ring},
    watch,
};

/// Returns handles of a process whose API server does not respond.
fn handles(leadership: Leadership) -> SharedHandles {
    let service = tower::service_fn(|_: http::Request<Body>| async {
        Err::<http::Response<Body>, _>(std::io::Error::other("connection refused"))
    });
    SharedHandles::for_test(Client::new(service, "default"), leadership)
}

fn config(name: &str, revision: u64) -> Arc<ConfigMap> {
    let mut config = ConfigMap::default();
    config.metadata.namespace = Some("default".into());
    config.metadata.name = Some(name.into());
    config.metadata.uid = Some(name.into());
    config.metadata.resource_version = Some(revision.to_string());
    Arc::new(config)
}

type Changes = mpsc::Sender<watch::Change<ConfigMap>>;
type Seen = Arc<parking_lot::Mutex<Vec<String>>>;

/// Returns a controller that records what it sees, and its channel.
fn journaling(settings: Settings<ConfigMap>) -> (Controller<ConfigMap>, Changes, Seen) {
    let (sender, changes) = mpsc::channel(16);
    let (informer, source) = Informer::<ConfigMap>::fed(&(), settings, changes);
    tokio::spawn(source);
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let noted = seen.clone();
    let controller = Controller::of("test", Watch::informer(informer), move |config: Arc<ConfigMap>, _ctx| {
        noted.lock().push(ObjectKey::of(&*config).name().to_owned());
        async { Ok(Action::done()) }
    });
    (controller, sender, seen)
}

/// Counts running handlers.
struct Present(Arc<AtomicUsize>);

impl Present {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn leads() -> LeadershipState {
    LeadershipState::Leads { until: tokio::time::Instant::now() + Duration::from_secs(3600) }
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn workers_begin_when_this_process_leads_and_are_dropped_when_it_does_not() {
    let (begun, running) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, present) = (begun.clone(), running.clone());
    let workers = Arc::new(workers(move |_key| {
        counted.fetch_add(1, Ordering::SeqCst);
        let present = Present::new(&present);
        async move {
            let _present = present;
            std::future::pending::<Result<Action, crate::Error>>().await
        }
    }));
    let (election, leadership) = Leadership::followed();
    let shutdown = Shutdown::new();
    let gate = Gate { leadership: Some(leadership), shutdown: shutdown.clone() };
    for name in ["a", "b", "c"] {
        workers.queue.add(key(name), Priority::LOW);
    }
    let life = tokio::spawn(work(workers.clone(), 2, gate));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((begun.load(Ordering::SeqCst), workers.queue.len()), (0, 3), "the queue is warm but idle");
    election.send_replace(leads());
    until(|| running.load(Ordering::SeqCst) == 2).await;
    election.send_replace(LeadershipState::Over { led: true });
    until(|| running.load(Ordering::SeqCst) == 0).await;
    workers.queue.add(key("d"), Priority::NORMAL);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    assert!(!life.is_finished());
    shutdown.drain();
    life.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_expires_while_draining_drops_running_reconciles() {
    let running = Arc::new(AtomicUsize::new(0));
    let present = running.clone();
    let workers = Arc::new(workers(move |_key| {
        let present = Present::new(&present);
        async move {
            let _present = present;
            std::future::pending::<Result<Action, crate::Error>>().await
        }
    }));
    let (election, leadership) = Leadership::followed();
    let shutdown = Shutdown::new();
    workers.queue.add(key("a"), Priority::NORMAL);
    election.send_replace(LeadershipState::Leads { until: tokio::time::Instant::now() + Duration::from_secs(10) });
    let gate = Gate { leadership: Some(leadership), shutdown: shutdown.clone() };
    let life = tokio::spawn(work(workers, 1, gate));
    until(|| running.load(Ordering::SeqCst) == 1).await;
    shutdown.drain();
    // The lease is not renewed: it expires.
    life.await.unwrap().unwrap();
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_of_other_members_are_skipped_until_they_are_ours() {
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let noted = seen.clone();
    let mut workers = workers(move |key| {
        noted.lock().push(key.name().to_owned());
        async { Ok(Action::done()) }
    });
    let (group, shard) = Shard::followed("me".into());
    workers.shard = shard.clone();
    let workers = Arc::new(workers);
    let queue = workers.queue.clone();
    let resync = Arc::new(Resync::new(move || {
        for name in ["a", "b"] {
            queue.add(key(name), Priority::LOW);
        }
    }));
    resync.request();
    assert!(workers.queue.is_empty(), "no worker is busy");
    let shutdown = Shutdown::new();
    let following = tokio::spawn(follow_shard(shard, resync.clone()));
    let life = tokio::spawn(work(workers.clone(), 1, Gate { leadership: None, shutdown: shutdown.clone() }));
    resync.open();
    until(|| workers.queue.is_empty() && workers.queue.held() == 0).await;
    assert!(seen.lock().is_empty(), "nothing is ours");
    group.send_modify(|view| {
        view.until = Some(tokio::time::Instant::now() + Duration::from_secs(3600));
        view.held = vec![Arc::new(Ring::new(["me".into()]))];
    });
    until(|| seen.lock().len() == 2).await;
    assert_eq!(*seen.lock(), ["a", "b"]);
    shutdown.drain();
    life.await.unwrap().unwrap();
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_by_itself_is_an_error() {
    let workers = Arc::new(workers(|_key| async { Ok(Action::done()) }));
    workers.queue.close();
    let ended = work(workers, 1, Gate { leadership: None, shutdown: Shutdown::new() }).await;
    assert!(matches!(ended, Err(ControllerError::WorkerEnded { .. })));
}

#[test]
fn field_managers_are_short_printable_and_one_for_each_controller() {
    assert_eq!(&*field_manager("foo-operator", "foo"), "foo-operator/foo");
    assert_eq!(&*field_manager("foo operator", "a\nb"), "foo operator/a_b");
    let long = |end: &str| field_manager("operator", &format!("{}{end}", "ö".repeat(100)));
    assert!(long("a").len() <= LONGEST_MANAGER && long("a").starts_with("operator/ö"), "{}", long("a"));
    assert_ne!(long("a"), long("b"));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_lead_queues_only_requested_keys() {
    let (controller, sender, seen) = journaling(Settings::default());
    let trigger = Trigger::new();
    let mut controller = controller.every(Duration::from_secs(1)).source(&trigger).into_any();
    let (election, leadership) = Leadership::followed();
    let handles = handles(leadership);
    controller.prepare(&handles);
    let queue = controller.prepared.as_ref().unwrap().source_context.queue.clone();
    let shutdown = Shutdown::new();
    let life = tokio::spawn(controller.run(handles, shutdown.clone()));
    sender
        .send(watch::Change::Replace { objects: vec![config("a", 1)], unreadable: Vec::new(), revision: 1 })
        .await
        .unwrap();
    for revision in 2..1000 {
        let passing = config(&format!("passing-{revision}"), revision);
        sender.send(watch::Change::Apply(passing.clone())).await.unwrap();
        sender.send(watch::Change::Delete(passing)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((queue.len(), queue.delayed(), seen.lock().len()), (0, 0, 0));
    trigger.enqueue(key("missing"));
    assert_eq!(queue.len(), 1);
    election.send_replace(leads());
    until(|| !seen.lock().is_empty()).await;
    assert_eq!(*seen.lock(), ["a"]);
    shutdown.drain();
    life.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_trigger_releases_a_controller_that_has_stopped() {
    let held = Arc::new(());
    let token = held.clone();
    let (controller, sender, seen) = journaling(Settings::default().transform(move |_| {
        let _held = &token;
    }));
    let trigger = Trigger::new();
    trigger.enqueue(key("a"));
    let shutdown = Shutdown::new();
    let handles = handles(Leadership::always());
    let life = tokio::spawn(controller.source(&trigger).into_any().run(handles, shutdown.clone()));
    sender
        .send(watch::Change::Replace { objects: vec![config("a", 1)], unreadable: Vec::new(), revision: 1 })
        .await
        .unwrap();
    until(|| !seen.lock().is_empty()).await;
    trigger.enqueue(key("a"));
    until(|| seen.lock().len() >= 2).await;
    assert!(Arc::strong_count(&held) > 1);
    shutdown.drain();
    life.await.unwrap().unwrap();
    drop(sender);
    until(|| Arc::strong_count(&held) == 1).await;
    trigger.enqueue(key("a"));
    trigger.enqueue_all();
}

#[tokio::test(start_paused = true)]
async fn a_map_that_panics_triggers_all_objects() {
    let (controller, sender, seen) = journaling(Settings::default());
    let (others, changes) = mpsc::channel(1);
    let (informer, source) = Informer::<ConfigMap>::fed(&(), Settings::default(), changes);
    tokio::spawn(source);
    let controller = controller.source(Watch::informer(informer).map(|_, _| panic!("of a test")));
    let shutdown = Shutdown::new();
    sender
        .send(watch::Change::Replace { objects: vec![config("a", 1)], unreadable: Vec::new(), revision: 1 })
        .await
        .unwrap();
    others.send(watch::Change::Replace { objects: Vec::new(), unreadable: Vec::new(), revision: 1 }).await.unwrap();
    let life = tokio::spawn(controller.into_any().run(handles(Leadership::always()), shutdown.clone()));
    until(|| seen.lock().len() == 1).await;
    others.send(watch::Change::Apply(config("other", 2))).await.unwrap();
    until(|| seen.lock().len() == 2).await;
    shutdown.drain();
    life.await.unwrap().unwrap();
}
