//! Processes as pods: what containers would run, run as processes of this machine.
//!
//! There is no container engine and nothing of root's. A pod is a folder, a loopback address of its own and a process
//! group for each container:
//!
//! | | |
//! |---|---|
//! | address | one of 127.0.0.0/8, as `status.podIP`, in `WINDLASS_POD_IP`, and wherever the downward API is asked for it; a program has to listen there, since ports of the machine's other addresses are shared by all pods |
//! | image | a command, by a file of the user's (`images`) |
//! | volumes | folders (`volumes` says how paths lead there) |
//! | logs | files (`logs`) |
//! | probes, hooks, restarts, init containers and sidecars, graceful ends | as a kubelet does |
//!
//! [`Processes`] runs the pods of nodes, and answers for them when clients ask the API server for logs, `exec`, `attach`
//! and `port-forward`.

mod r#become;
mod connections;
mod container;
mod downward;
mod environment;
mod images;
mod launch;
mod leftovers;
mod logs;
mod pod;
mod probes;
mod root;
mod sources;
mod status;
mod volumes;

use std::{
    collections::{HashMap, HashSet},
    fmt, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc, Once, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use windlass::{Result, controller::Trigger, key::ObjectKey};
use windlass_apiserver::pod_connections::PodConnections;
use windlass_clock::now_in_seconds;

pub use self::r#become::{POD_PROCESS, become_pod_process};
use self::{
    launch::Spawner,
    pod::{Run, Shared},
};
use crate::{Kubelet, Next, PodRuntime};

/// How long processes that are killed may take to be gone.
const CLOSING: Duration = Duration::from_millis(200);

/// How pods are run as processes.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The folder of pods, their logs and volumes.
    pub folder: PathBuf,
    /// The file that says what images are on this machine.
    pub images: Option<PathBuf>,
    /// A program that starts the others: run with [`POD_PROCESS`] and what follows, it has to call
    /// [`become_pod_process`]. With one, terminals are complete, and no process outlives the plane, whatever becomes of
    /// that.
    pub launcher: Option<PathBuf>,
    /// The pause before a container that has failed twice is started again; it doubles with every failure.
    pub pause: Duration,
}

impl ProcessOptions {
    /// Pods in a folder, with images that need no file.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), images: None, launcher: None, pause: Duration::from_secs(10) }
    }
}

/// Runs pods as processes. A cheap handle: clones share them. When the last one is dropped, the processes end.
#[derive(Clone)]
pub struct Processes {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    pods: Mutex<Pods>,
    tidied: Once,
}

#[derive(Default)]
struct Pods {
    runs: HashMap<String, Arc<Run>>,
    /// Which pod of a name was seen last.
    uids: HashMap<ObjectKey, String>,
    addresses: HashMap<String, Ipv4Addr>,
    next: u32,
    /// The lives of pods; they end with this.
    lives: JoinSet<()>,
}

impl Processes {
    /// Nothing yet: the folder is taken when nodes begin to run pods.
    pub fn new(options: ProcessOptions) -> io::Result<Self> {
        let shared = Shared {
            folder: options.folder,
            images: options.images,
            launcher: options.launcher,
            pause: options.pause,
            api: OnceLock::new(),
            wake: OnceLock::new(),
            closing: AtomicBool::new(false),
            spawner: Spawner::new()?,
        };
        let inner = Inner { shared: Arc::new(shared), pods: Mutex::default(), tidied: Once::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Says where the API server is reached, for programs that look for it in their environment.
    pub fn set_api_server(&self, address: SocketAddr) {
        let _ = self.inner.shared.api.set(address);
    }

    /// What answers for the pods when clients ask the API server. It does not keep them running.
    pub fn connections(&self) -> Arc<dyn PodConnections> {
        Arc::new(connections::Answering(Arc::downgrade(&self.inner)))
    }

    /// Ends all processes, with a chance to end by themselves. What is known of pods stays as it was: the next plane
    /// starts them again.
    pub async fn shutdown(&self, within: Duration) {
        self.inner.shared.closing.store(true, Ordering::Relaxed);
        let runs: Vec<Arc<Run>> = self.inner.pods.lock().runs.values().cloned().collect();
        runs.iter().for_each(|run| run.end_within(within));
        // Those that do not end are killed when their lives are cut off.
        let all = async {
            for run in &runs {
                run.until_over().await;
            }
        };
        let _ = tokio::time::timeout(within + CLOSING, all).await;
        self.inner.pods.lock().lives.abort_all();
    }

    fn run_of(&self, pod: &Pod) -> Option<Arc<Run>> {
        self.inner.pods.lock().runs.get(pod.metadata.uid.as_deref()?).cloned()
    }

    async fn advance(&self, pod: Arc<Pod>, kubelet: &Kubelet) -> Result<Next> {
        self.tidy(kubelet);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let deleting = pod.metadata.deletion_timestamp.is_some();
        self.inner.pods.lock().uids.insert(ObjectKey::of(pod.as_ref()), uid.clone());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let run = match self.run_of(&pod) {
            Some(run) => run,
            None if deleting => {
                kubelet.remove(&pod).await?;
                return Ok(Next::Wait);
            }
            None if matches!(phase, "Succeeded" | "Failed") => return Ok(Next::Wait),
            None => self.begin(pod.clone(), &uid, kubelet),
        };
        if deleting {
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
            run.end_within(Duration::from_secs(u64::try_from(grace).unwrap_or(0)));
        }
        for event in run.take_events() {
            kubelet.event(&pod, event.kind, event.reason, &event.note);
        }
        let over = run.is_over();
        let before = serde_json::to_value(&pod.status)?;
        let after = serde_json::to_value(status::status(&pod, &run.snapshot(), now_in_seconds()))?;
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
        let address = if on_host { Ipv4Addr::LOCALHOST } else { pods.address(uid, &shared.folder) };
        let run = Run::new(pod, uid, address, Ipv4Addr::LOCALHOST, kubelet.context().client(), shared.clone());
        if let Err(error) = fs::create_dir_all(&run.folder) {
            tracing::warn!(%error, folder = %run.folder.display(), "a pod has no folder");
        }
        pods.runs.insert(uid.to_owned(), run.clone());
        // Those that are over.
        while pods.lives.try_join_next().is_some() {}
        pods.lives.spawn(run.clone().live());
        run
    }

    /// Learns the addresses of pods that were there before, and removes the folders of those that went while no plane was
    /// there.
    fn tidy(&self, kubelet: &Kubelet) {
        self.inner.tidied.call_once(|| {
            let Ok(pods) = kubelet.context().list::<Pod>() else { return };
            for pod in &pods {
                self.inner.pods.lock().learn(pod);
            }
            let known: HashSet<&str> = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
            let folders =
                fs::read_dir(self.inner.shared.folder.join("pods")).into_iter().flatten().filter_map(io::Result::ok);
            for folder in folders.filter(|folder| !folder.file_name().to_str().is_some_and(|uid| known.contains(uid))) {
                let _ = fs::remove_dir_all(folder.path());
            }
        });
    }

    fn forget(&self, key: &ObjectKey) {
        let mut pods = self.inner.pods.lock();
        let Some(uid) = pods.uids.remove(key) else { return };
        let folder = self.inner.shared.folder.join("pods").join(&uid);
        pods.addresses.remove(&uid);
        let Some(run) = pods.runs.remove(&uid) else {
            drop(pods);
            let _ = fs::remove_dir_all(folder);
            return;
        };
        // Whoever removes a pod at once does not wait for its processes, but they get to know.
        run.end_within(Duration::from_secs(2));
        let over = async move {
            run.until_over().await;
            let _ = fs::remove_dir_all(folder);
        };
        pods.lives.spawn(over);
    }
}

impl PodRuntime for Processes {
    fn attach(&self, wake: Trigger) {
        // What another plane may have left running here.
        let pods = fs::read_dir(self.inner.shared.folder.join("pods")).into_iter().flatten();
        for pod in pods.filter_map(io::Result::ok) {
            leftovers::end(&pod.path().join("processes"));
        }
        let _ = self.inner.shared.wake.set(wake);
    }

    fn sync<'a>(&'a self, pod: Arc<Pod>, kubelet: &'a Kubelet) -> BoxFuture<'a, Result<Next>> {
        Box::pin(self.advance(pod, kubelet))
    }

    fn gone(&self, pod: &ObjectKey) {
        self.forget(pod);
    }
}

impl Pods {
    /// Takes note of the address that a pod has from before.
    fn learn(&mut self, pod: &Pod) {
        let had = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()?.parse::<Ipv4Addr>().ok());
        let had = had.filter(|had| had.is_loopback() && *had != Ipv4Addr::LOCALHOST);
        self.addresses.extend(pod.metadata.uid.clone().zip(had));
    }

    /// An address that no other pod has, and which a pod of before keeps. The network differs between folders, so that
    /// planes beside each other rarely meet.
    fn address(&mut self, uid: &str, folder: &Path) -> Ipv4Addr {
        let mut hasher = DefaultHasher::new();
        folder.hash(&mut hasher);
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
        f.debug_struct("Processes").field("folder", &self.inner.shared.folder).finish_non_exhaustive()
    }
}

impl PartialEq for Processes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Processes {}

/// The log of a container's run in a pod's folder.
fn log_path(pod: &Path, container: &str, restarts: i32) -> PathBuf {
    pod.join("logs").join(container).join(format!("{restarts}.log"))
}
