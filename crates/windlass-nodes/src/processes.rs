//! Pods as processes: containers run as processes of this machine.
//!
//! There is no container engine, and no root privileges are needed. There is no isolation either: containers run as the
//! user of the plane, and can read and change everything that this user can. A pod has a directory, its own loopback address and
//! a process group per container:
//!
//! | | |
//! |---|---|
//! | address | one of 127.0.0.0/8, in `status.podIP`, `WINDLASS_POD_IP` and the downward API; programs must listen on it, because all pods share the ports of the machine's other addresses |
//! | image | a command, from the user's image file (`images`) |
//! | volumes | directories (`volumes` describes how paths are rewritten) |
//! | logs | files (`logs`) |
//! | probes, hooks, restarts, init containers, sidecars, graceful termination | as in a kubelet |
//!
//! [`Processes`] runs the pods of nodes, and serves the API server's `logs`, `exec`, `attach` and `port-forward` for them.

mod connections;
mod container;
mod deadline;
mod downward;
mod environment;
mod grpc;
mod images;
mod launch;
mod leftovers;
mod logs;
mod memory;
mod pod;
mod pod_process;
mod probes;
mod proc_stat;
mod root;
mod sources;
mod status;
mod tokens;
mod volumes;

use std::{
    collections::{HashMap, HashSet},
    fmt, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Once, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use windlass::{Result, controller::Trigger, key::ObjectKey};
use windlass_apiserver::pod_connections::PodConnections;
use windlass_clock::now_in_seconds;
use windlass_loops::json_text;

pub use self::pod_process::{POD_PROCESS, exec_pod_process};
use self::{
    launch::Spawner,
    pod::{Run, Shared},
};
use crate::{Kubelet, Next, PodRuntime};

/// Maximum time that killed processes may take to end.
const CLOSING: Duration = Duration::from_millis(200);

/// Options for running pods as processes.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The directory for pods, their logs and volumes.
    pub directory: PathBuf,
    /// The file that maps images to programs on this machine.
    pub images: Option<PathBuf>,
    /// A program that starts the pod processes: run with [`POD_PROCESS`] and further arguments, it must call
    /// [`exec_pod_process`]. With a launcher, terminals work fully, and no process outlives the plane even if the plane
    /// is killed.
    pub launcher: Option<PathBuf>,
    /// Backoff before a container that has failed twice is restarted; it doubles with every failure.
    pub restart_backoff: Duration,
}

impl ProcessOptions {
    /// Options with a directory and without an image file.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), images: None, launcher: None, restart_backoff: Duration::from_secs(10) }
    }
}

/// Runs pods as processes. A cheap handle: clones share the pods. Dropping the last one kills the processes.
#[derive(Clone)]
pub struct Processes {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    pods: Mutex<Pods>,
    cleaned_up: Once,
}

#[derive(Default)]
struct Pods {
    runs: HashMap<String, Arc<Run>>,
    /// The UID of the latest pod with each key.
    uids: HashMap<ObjectKey, String>,
    addresses: HashMap<String, Ipv4Addr>,
    next: u32,
    /// The tasks that run pods; they are aborted when this is dropped.
    tasks: JoinSet<()>,
}

impl Processes {
    /// Creates the runtime. The directory is not touched before nodes run pods.
    pub fn new(options: ProcessOptions) -> io::Result<Self> {
        let shared = Shared {
            directory: options.directory,
            images: options.images,
            launcher: options.launcher,
            restart_backoff: options.restart_backoff,
            api: OnceLock::new(),
            wake: OnceLock::new(),
            closing: AtomicBool::new(false),
            spawner: Spawner::new()?,
        };
        let inner = Inner { shared: Arc::new(shared), pods: Mutex::default(), cleaned_up: Once::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Sets the address of the API server, for the environment of pods.
    pub fn set_api_server(&self, address: SocketAddr) {
        let _ = self.inner.shared.api.set(address);
    }

    /// Returns the handler for `logs`, `exec`, `attach` and `port-forward`. It does not keep the pods running.
    pub fn connections(&self) -> Arc<dyn PodConnections> {
        Arc::new(connections::ProcessConnections(Arc::downgrade(&self.inner)))
    }

    /// Stops all processes gracefully. Pod statuses are not updated: the next plane restarts the pods.
    pub async fn shutdown(&self, within: Duration) {
        self.inner.shared.closing.store(true, Ordering::Relaxed);
        let runs: Vec<Arc<Run>> = self.inner.pods.lock().runs.values().cloned().collect();
        runs.iter().for_each(|run| run.end_within(within));
        // Processes that do not end in time are killed when their tasks are aborted.
        let all = async {
            for run in &runs {
                run.until_over().await;
            }
        };
        let _ = tokio::time::timeout(within + CLOSING, all).await;
        self.inner.pods.lock().tasks.abort_all();
    }

    /// Returns what the running containers of a pod use: the CPU time since their start, and their memory. `all` are the
    /// processes of this machine.
    pub(crate) fn usage_of(&self, uid: &str, all: &AllProcesses) -> Vec<(String, ContainerTotal)> {
        let groups = self.run_of(uid).map(|run| run.groups()).unwrap_or_default();
        groups.into_iter().map(|(container, group)| (container, all.total(group))).collect()
    }

    /// Returns the running pod with this UID.
    fn run_of(&self, uid: &str) -> Option<Arc<Run>> {
        self.inner.pods.lock().runs.get(uid).cloned()
    }

    async fn advance(&self, pod: Arc<Pod>, kubelet: &Kubelet) -> Result<Next> {
        self.clean_up(kubelet);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let deleting = pod.metadata.deletion_timestamp.is_some();
        self.inner.pods.lock().uids.insert(ObjectKey::of(pod.as_ref()), uid.clone());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let run = match self.run_of(&uid) {
            Some(run) => run,
            None if deleting => {
                kubelet.remove(&pod).await?;
                return Ok(Next::Wait);
            }
            None if matches!(phase, "Succeeded" | "Failed") => return Ok(Next::Wait),
            None => self.begin(pod.clone(), &uid, kubelet),
        };
        if !deleting {
            run.add_ephemeral(&pod);
        }
        if deleting {
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
            run.end_within(deadline::seconds(grace));
        }
        for event in run.take_events() {
            kubelet.event(&pod, event.kind, event.reason, &event.note);
        }
        let over = run.is_over();
        let before = json_text::to_value(&pod.status)?;
        let after = json_text::to_value(&status::status(&pod, &run.snapshot(), now_in_seconds()))?;
        kubelet.write_status(&pod, &before, &after).await?;
        if deleting && over {
            kubelet.remove(&pod).await?;
        }
        Ok(Next::Wait)
    }

    fn begin(&self, pod: Arc<Pod>, uid: &str, kubelet: &Kubelet) -> Arc<Run> {
        let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default();
        let mut pods = self.inner.pods.lock();
        let shared = &self.inner.shared;
        let address = if on_host { Ipv4Addr::LOCALHOST } else { pods.address(uid, &shared.directory) };
        let node = kubelet.node(&pod);
        let allocatable = node.and_then(|node| node.status.as_ref()?.allocatable.clone()).unwrap_or_default();
        let client = kubelet.context().client();
        let run = Run::new(pod, uid, address, Ipv4Addr::LOCALHOST, allocatable, client, shared.clone());
        if let Err(error) = create_directory(&run.directory) {
            tracing::warn!(%error, directory = %run.directory.display(), "failed to create the directory of a pod");
        }
        pods.runs.insert(uid.to_owned(), run.clone());
        // Reap finished tasks.
        while pods.tasks.try_join_next().is_some() {}
        pods.tasks.spawn(run.clone().live().boxed());
        run
    }

    /// Learns the addresses of existing pods, and removes the directories of pods that were deleted while no plane was
    /// running.
    fn clean_up(&self, kubelet: &Kubelet) {
        self.inner.cleaned_up.call_once(|| {
            let Ok(pods) = kubelet.context().list::<Pod>() else { return };
            for pod in &pods {
                self.inner.pods.lock().record(pod);
            }
            let known: HashSet<&str> = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
            let directories =
                fs::read_dir(self.inner.shared.directory.join("pods")).into_iter().flatten().filter_map(io::Result::ok);
            for directory in
                directories.filter(|directory| !directory.file_name().to_str().is_some_and(|uid| known.contains(uid)))
            {
                remove_pod(&directory.path());
            }
        });
    }

    fn remove(&self, key: &ObjectKey) {
        let mut pods = self.inner.pods.lock();
        let Some(uid) = pods.uids.remove(key) else { return };
        let directory = self.inner.shared.directory.join("pods").join(&uid);
        pods.addresses.remove(&uid);
        let Some(run) = pods.runs.remove(&uid) else {
            drop(pods);
            remove_pod(&directory);
            return;
        };
        // The API object is deleted already; its processes still get a chance to end.
        run.end_within(Duration::from_secs(2));
        let over = async move {
            run.until_over().await;
            remove_pod(&directory);
        };
        pods.tasks.spawn(over.boxed());
    }
}

/// The processes of this machine at one time.
pub(crate) struct AllProcesses(Vec<(i32, proc_stat::Stat)>);

/// CPU time and memory of a container's processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ContainerTotal {
    /// CPU time in nanoseconds.
    pub(crate) cpu: u64,
    /// Resident memory in bytes.
    pub(crate) memory: u64,
}

impl AllProcesses {
    /// Reads them.
    pub(crate) fn read() -> Self {
        Self(proc_stat::all().collect())
    }

    /// Returns the total of a process group, and of groups that its processes have created in its session.
    fn total(&self, group: i32) -> ContainerTotal {
        let members = self.0.iter().filter(|(_, stat)| stat.group == group || stat.session == group);
        members.fold(ContainerTotal::default(), |total, (process, stat)| ContainerTotal {
            cpu: total.cpu.saturating_add(stat.cpu()),
            memory: total.memory.saturating_add(proc_stat::resident(*process)),
        })
    }
}

impl PodRuntime for Processes {
    fn attach(&self, wake: Trigger) {
        close_to_others(&self.inner.shared.directory);
        // Processes left behind by an earlier plane.
        let pods = fs::read_dir(self.inner.shared.directory.join("pods")).into_iter().flatten();
        for pod in pods.filter_map(io::Result::ok) {
            leftovers::end(&pod.path().join("processes"));
        }
        let _ = self.inner.shared.wake.set(wake);
    }

    fn sync<'a>(&'a self, pod: Arc<Pod>, kubelet: &'a Kubelet) -> BoxFuture<'a, Result<Next>> {
        Box::pin(self.advance(pod, kubelet))
    }

    fn deleted(&self, pod: &ObjectKey) {
        self.remove(pod);
    }
}

impl Pods {
    /// Records the address that a pod already has.
    fn record(&mut self, pod: &Pod) {
        let had = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()?.parse::<Ipv4Addr>().ok());
        let had = had.filter(|had| had.is_loopback() && *had != Ipv4Addr::LOCALHOST);
        self.addresses.extend(pod.metadata.uid.clone().zip(had));
    }

    /// Returns the pod's existing address, or one that no other pod has. The network is derived from the directory, so
    /// that planes on the same machine rarely collide.
    fn address(&mut self, uid: &str, directory: &Path) -> Ipv4Addr {
        let mut hasher = DefaultHasher::new();
        directory.hash(&mut hasher);
        let network = 16 + (hasher.finish() % 200) as u8;
        if let Some(had) = self.addresses.get(uid) {
            return *had;
        }
        let taken: HashSet<Ipv4Addr> = self.addresses.values().copied().collect();
        let address = loop {
            self.next = (self.next + 1) % 0xfffe;
            let [_, _, third, fourth] = (self.next + 1).to_be_bytes();
            let address = Ipv4Addr::new(127, network, third, fourth);
            if !taken.contains(&address) || taken.len() > 0xfff0 {
                break address;
            }
        };
        self.addresses.insert(uid.to_owned(), address);
        address
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes").field("directory", &self.inner.shared.directory).finish_non_exhaustive()
    }
}

impl PartialEq for Processes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Processes {}

/// Creates a directory and its parents, accessible to the owner only.
fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes the directory of a pod, and its volumes in memory.
fn remove_pod(directory: &Path) {
    memory::remove(directory);
    let _ = fs::remove_dir_all(directory);
}

/// Creates an empty file, accessible to the owner only, or empties an existing one.
fn create_file(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Removes the permissions of other users from the directory of all pods, if it exists.
fn close_to_others(directory: &Path) {
    let Ok(mode) = fs::metadata(directory).map(|found| found.permissions().mode() & 0o7777) else { return };
    if mode & 0o077 == 0 {
        return;
    }
    let directory_name = directory.display();
    match fs::set_permissions(directory, fs::Permissions::from_mode(mode & !0o077)) {
        Ok(()) => {
            tracing::warn!(directory = %directory_name, "the directory of pods was accessible to other users; removed their permissions");
        }
        Err(error) => {
            tracing::warn!(directory = %directory_name, %error, "the directory of pods is accessible to other users");
        }
    }
}

/// The path of a container's log within its pod's directory.
fn log_path(pod: &Path, container: &str, restarts: i32) -> PathBuf {
    pod.join("logs").join(container).join(format!("{restarts}.log"))
}
