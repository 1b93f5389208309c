//! The life of one pod: its containers in order, from the first to the last.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use windlass::{controller::Trigger, events::EventType, key::ObjectKey};
use windlass_clock::now_in_seconds;
use windlass_loops::json_text;

use super::{
    container::Instance,
    deadline,
    downward::{Amounts, PodAddresses},
    launch::Spawner,
    sources::Sources,
    status::{self, ContainerRecord, Role, RunState, Snapshot, Termination},
    tokens::Tokens,
    volumes,
};

/// Interval at which files of config maps, secrets and tokens are refreshed.
const REFRESH: Duration = Duration::from_secs(5);
/// Default grace period.
const GRACE: i64 = 30;

/// State shared by all pods of a runtime.
pub(super) struct Shared {
    pub(super) directory: PathBuf,
    pub(super) images: Option<PathBuf>,
    pub(super) launcher: Option<PathBuf>,
    pub(super) restart_backoff: Duration,
    pub(super) api: OnceLock<SocketAddr>,
    pub(super) wake: OnceLock<Trigger>,
    /// Whether the plane is stopping, so that statuses are no longer reported.
    pub(super) closing: AtomicBool,
    pub(super) spawner: Spawner,
}

/// An event to record about a pod.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: EventType,
    pub(super) reason: &'static str,
    pub(super) note: String,
}

/// A request to terminate a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) deadline: Instant,
}

/// A pod that is running or has run.
pub(super) struct Run {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    /// The pod as of its start; later changes are ignored.
    pub(super) pod: Arc<Pod>,
    pub(super) directory: PathBuf,
    pub(super) addresses: PodAddresses,
    pub(super) client: Client,
    pub(super) shared: Arc<Shared>,
    /// Allocatable resources of the node when the pod started.
    allocatable: Amounts,
    tokens: Tokens,
    state: Mutex<State>,
    stop: watch::Sender<Option<Stop>>,
    /// Incremented with every change of state.
    changes: watch::Sender<u64>,
    /// The ephemeral containers to start.
    ephemeral: mpsc::UnboundedSender<Container>,
    added: Mutex<Option<mpsc::UnboundedReceiver<Container>>>,
}

/// A running sidecar, which is aborted when this is dropped.
struct Sidecar {
    stop: watch::Sender<Option<Stop>>,
    task: JoinSet<()>,
}

struct State {
    snapshot: Snapshot,
    events: Vec<Event>,
    instances: HashMap<String, Arc<Instance>>,
}

impl Run {
    pub(super) fn new(
        pod: Arc<Pod>,
        uid: &str,
        address: Ipv4Addr,
        host: Ipv4Addr,
        allocatable: Amounts,
        client: Client,
        shared: Arc<Shared>,
    ) -> Arc<Self> {
        let (ephemeral, added) = mpsc::unbounded_channel();
        let snapshot = Snapshot {
            containers: containers(&pod).map(|(container, role)| recall(&pod, container, role)).collect(),
            address,
            host,
            since: now_in_seconds(),
            over: false,
            failure: None,
        };
        Arc::new(Self {
            key: ObjectKey::of(pod.as_ref()),
            uid: uid.to_owned(),
            directory: shared.directory.join("pods").join(uid),
            addresses: PodAddresses { pod: Some(address), host: Some(host) },
            client,
            shared,
            allocatable,
            tokens: Tokens::default(),
            state: Mutex::new(State { snapshot, events: Vec::new(), instances: HashMap::new() }),
            stop: watch::Sender::new(None),
            changes: watch::Sender::new(0),
            ephemeral,
            added: Mutex::new(Some(added)),
            pod,
        })
    }

    /// Starts the ephemeral containers that a pod has got since the last call. Those that an earlier plane has started have
    /// ended with it.
    pub(super) fn add_ephemeral(&self, pod: &Pod) {
        for container in ephemeral_containers(pod) {
            let mut state = self.state.lock();
            if state.snapshot.containers.iter().any(|known| known.name == container.name) {
                continue;
            }
            let record = recall(pod, &container, Role::Ephemeral);
            let is_new = matches!(record.state, RunState::Waiting { .. });
            state.snapshot.containers.push(record);
            drop(state);
            if is_new {
                // The receiver is gone when the pod has ended.
                let _ = self.ephemeral.send(container);
            }
        }
    }

    /// Returns the current state.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.state.lock().snapshot.clone()
    }

    /// Returns whether all of its containers have ended for good.
    pub(super) fn is_over(&self) -> bool {
        self.state.lock().snapshot.over
    }

    /// Resolves when it has ended.
    pub(super) async fn until_over(&self) {
        let mut changes = self.changes.subscribe();
        while !self.is_over() && changes.changed().await.is_ok() {}
    }

    /// Returns the events since the last call.
    pub(super) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.state.lock().events)
    }

    /// The process of a container that is running or ran last.
    pub(super) fn instance(&self, container: &str) -> Option<Arc<Instance>> {
        self.state.lock().instances.get(container).cloned()
    }

    pub(super) fn set_instance(&self, container: &str, instance: Arc<Instance>) {
        self.state.lock().instances.insert(container.to_owned(), instance);
    }

    /// The process groups of its running containers.
    pub(super) fn groups(&self) -> Vec<(String, i32)> {
        let state = self.state.lock();
        let running = state.instances.iter().filter(|(_, instance)| instance.ended.borrow().is_none());
        running.map(|(container, instance)| (container.clone(), instance.group)).collect()
    }

    /// Requests termination within a time. Later calls can only shorten it.
    pub(super) fn end_within(&self, grace: Duration) {
        let deadline = deadline::after(grace);
        self.stop.send_if_modified(|stop| {
            let nearer = stop.is_none_or(|stop| deadline < stop.deadline);
            if nearer {
                *stop = Some(Stop { deadline });
            }
            nearer
        });
    }

    /// Changes the record of a container, and notifies watchers.
    pub(super) fn update(&self, container: &str, change: impl FnOnce(&mut ContainerRecord)) {
        if let Some(seen) = self.state.lock().snapshot.containers.iter_mut().find(|seen| seen.name == container) {
            change(seen);
        }
        self.changed();
    }

    pub(super) fn seen(&self, container: &str) -> Option<ContainerRecord> {
        self.state.lock().snapshot.containers.iter().find(|seen| seen.name == container).cloned()
    }

    pub(super) fn event(&self, kind: EventType, reason: &'static str, note: impl Into<String>) {
        self.state.lock().events.push(Event { kind, reason, note: note.into() });
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
        if let Some(wake) = self.shared.wake.get()
            && !self.shared.closing.load(Ordering::Relaxed)
        {
            wake.enqueue(self.key.clone());
        }
    }

    /// The grace period for termination.
    pub(super) fn grace(&self) -> Duration {
        let seconds = self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(GRACE);
        deadline::seconds(seconds)
    }

    /// Fetches the objects that it refers to.
    pub(super) async fn sources(&self) -> Result<Sources, String> {
        let sources = Sources::fetch(&self.client, &self.pod, self.addresses, &self.allocatable, &self.tokens);
        sources.await.map_err(|error| error.to_string())
    }

    pub(super) fn claims(&self) -> PathBuf {
        self.shared.directory.join("claims")
    }

    /// Runs the pod from start to end.
    pub(super) async fn live(self: Arc<Self>) {
        let limit = self.pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        let limit = limit.filter(|seconds| *seconds >= 0).map(|seconds| deadline::after(deadline::seconds(seconds)));
        let work = self.clone().work();
        tokio::pin!(work);
        let refresh = self.refresh();
        tokio::pin!(refresh);
        let overdue = async {
            match limit {
                Some(limit) => sleep_until(limit).await,
                None => std::future::pending().await,
            }
            let message = "Pod was active on the node longer than the specified deadline".to_owned();
            self.state.lock().snapshot.failure = Some(("DeadlineExceeded".to_owned(), message));
            self.end_within(self.grace());
            std::future::pending::<()>().await;
        };
        let ephemeral = self.clone().run_ephemeral();
        tokio::pin!(ephemeral);
        tokio::select! {
            () = &mut work => {}
            () = &mut refresh => {}
            () = &mut ephemeral => {}
            () = overdue => {}
        }
        let mut state = self.state.lock();
        state.snapshot.over = true;
        state.snapshot.containers.iter_mut().for_each(end_ephemeral);
        drop(state);
        self.changed();
    }

    /// Runs ephemeral containers, as long as the others run. Never returns.
    async fn run_ephemeral(self: Arc<Self>) {
        let added = self.added.lock().take();
        let mut running = JoinSet::new();
        let Some(mut added) = added else { return std::future::pending().await };
        loop {
            tokio::select! {
                Some(container) = added.recv() => {
                    running.spawn(self.clone().supervise(container, Role::Ephemeral, self.stop.subscribe()).boxed());
                }
                Some(_) = running.join_next() => {}
                else => return std::future::pending().await,
            }
        }
    }

    async fn work(self: Arc<Self>) {
        let mut sidecars = Vec::new();
        let mut mains = JoinSet::new();
        if self.initialize(&mut sidecars).await {
            for (container, role) in containers(&self.pod).filter(|(_, role)| *role == Role::Main) {
                mains.spawn(self.clone().supervise(container.clone(), role, self.stop.subscribe()).boxed());
            }
            while mains.join_next().await.is_some() {}
        }
        let mut stop = self.stop.subscribe();
        let mut end = stop.borrow_and_update().unwrap_or_else(|| Stop { deadline: deadline::after(self.grace()) });
        // A sidecar may need those that have started before it until it ends.
        while let Some(mut sidecar) = sidecars.pop() {
            loop {
                sidecar.stop.send_replace(Some(end));
                tokio::select! {
                    ended = sidecar.task.join_next() => if ended.is_none() {
                        break;
                    },
                    Ok(()) = stop.changed() => end = stop.borrow_and_update().unwrap_or(end),
                }
            }
        }
    }

    /// Runs the init containers. Returns whether the main containers may start.
    async fn initialize(self: &Arc<Self>, sidecars: &mut Vec<Sidecar>) -> bool {
        for (container, role) in containers(&self.pod).filter(|(_, role)| *role != Role::Main) {
            if role == Role::Init {
                self.clone().supervise(container.clone(), role, self.stop.subscribe()).await;
                let done = self.seen(&container.name).map(|seen| seen.state);
                if !matches!(done, Some(RunState::Terminated(ended)) if ended.code == 0) {
                    return false;
                }
                continue;
            }
            let (stop, stopped) = watch::channel(None);
            let mut task = JoinSet::new();
            task.spawn(self.clone().supervise(container.clone(), role, stopped).boxed());
            sidecars.push(Sidecar { stop, task });
            let (mut changes, mut stop) = (self.changes.subscribe(), self.stop.subscribe());
            while !self.seen(&container.name).is_some_and(|seen| seen.started) {
                tokio::select! {
                    _ = changes.changed() => {}
                    _ = stop.changed() => {}
                }
                if stop.borrow().is_some() {
                    return false;
                }
            }
        }
        self.stop.borrow().is_none()
    }

    /// Refreshes files whose contents come from the server. Never returns.
    async fn refresh(&self) {
        let volumes = self.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let mut changing = volumes
            .filter(|volume| volume.config_map.is_some() || volume.secret.is_some() || volume.projected.is_some());
        let shows_metadata = volumes::show_metadata(&self.pod);
        if changing.next().is_none() && !shows_metadata {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(REFRESH).await;
            let current = if shows_metadata { self.current().await } else { None };
            let pod = current.as_ref().unwrap_or(&self.pod);
            // Files of objects that are missing meanwhile stay unchanged.
            if let Ok(sources) = self.sources().await
                && let Err(why) = volumes::prepare(pod, &sources, &self.directory.join("volumes"), &self.claims())
            {
                tracing::debug!(pod = %self.key, why, "failed to refresh volumes");
            }
        }
    }

    /// Returns the pod as it is now, if the server answers.
    async fn current(&self) -> Option<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), self.key.namespace().unwrap_or_default());
        let pod = pods.get_opt(self.key.name()).await.ok().flatten()?;
        (pod.metadata.uid == self.pod.metadata.uid).then_some(pod)
    }
}

/// The containers of a pod in start order.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = (&Container, Role)> {
    let spec = pod.spec.iter();
    let init = spec.clone().flat_map(|spec| spec.init_containers.iter().flatten()).map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        (container, if sidecar { Role::Sidecar } else { Role::Init })
    });
    init.chain(spec.flat_map(|spec| &spec.containers).map(|container| (container, Role::Main)))
}

/// Records that an ephemeral container has been killed, because its pod has ended.
fn end_ephemeral(record: &mut ContainerRecord) {
    if let (Role::Ephemeral, RunState::Running { since }) = (record.role, &record.state) {
        record.state = RunState::Terminated(Termination {
            code: 137,
            reason: "Error".to_owned(),
            message: None,
            started: Some(*since),
            finished: Some(now_in_seconds()),
            id: record.id.clone(),
        });
    }
}

/// The ephemeral containers of a pod.
fn ephemeral_containers(pod: &Pod) -> impl Iterator<Item = Container> {
    let all = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    // They have the fields of other containers, and the name of another one.
    all.filter_map(|container| serde_json::from_value(json_text::to_value(container).ok()?).ok())
}

/// The initial record of a container, from the pod's status if present.
fn recall(pod: &Pod, container: &Container, role: Role) -> ContainerRecord {
    let image = container.image.as_deref().unwrap_or_default();
    let status = pod.status.as_ref();
    let known = status
        .into_iter()
        .flat_map(|status| status.container_statuses.iter().chain(&status.init_container_statuses).flatten())
        .chain(status.into_iter().flat_map(|status| status.ephemeral_container_statuses.iter().flatten()));
    if let Some(known) = known.into_iter().find(|known| known.name == container.name) {
        return status::recall(known, role, image);
    }
    let has_init =
        pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref()).is_some_and(|init| !init.is_empty());
    let reason = if has_init && role != Role::Ephemeral { "PodInitializing" } else { "ContainerCreating" };
    ContainerRecord {
        name: container.name.clone(),
        role,
        image: image.to_owned(),
        state: RunState::Waiting { reason: reason.to_owned(), message: None },
        last: None,
        restarts: 0,
        ready: false,
        started: false,
        id: None,
    }
}
