//! The operator as a process of this machine, with what looks after it.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, Ipv6Addr, TcpListener},
    path::{Path, PathBuf},
    pin::Pin,
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{
    event::{Event, Operator, Reporter, Source},
    install::Installer,
    numbers,
    process::{Plan, Process},
    tunnel::Installation,
};

/// How long it may take to end, before it is ended.
const STOPPING: Duration = Duration::from_secs(10);
/// How often it is asked whether it is ready.
const READINESS: Duration = Duration::from_millis(100);
/// How often its numbers are read.
const NUMBERS: Duration = Duration::from_secs(1);

/// How the operator is run.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) root: PathBuf,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    /// What the user adds to its command line.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) webhook_port: u16,
    pub(crate) certificates: PathBuf,
}

/// A folder of manifests, taken by the first operator that is ready.
pub(crate) type Samples = Arc<Mutex<Option<PathBuf>>>;

/// What is done once it is ready.
pub(crate) struct Afterwards {
    pub(crate) installer: Installer,
    pub(crate) installation: Arc<Installation>,
    /// A folder of manifests to apply, unless that has been done.
    pub(crate) samples: Samples,
}

/// An operator that has been started. What looks after it ends with it.
pub(crate) struct Running {
    process: Process,
    since: Instant,
    /// What is done until and once it is ready; here, as it cannot be done by another thread.
    readiness: Option<Pin<Box<dyn Future<Output = ()>>>>,
    _counting: JoinSet<()>,
}

impl Surroundings {
    /// Starts the operator. Metrics and probes are on free ports of the loopback address.
    pub(crate) fn start(&self, program: &Path, after: Afterwards, reporter: &Reporter) -> anyhow::Result<Running> {
        let (metrics, probes) = free_ports().context("there is no free port")?;
        let plan = Plan {
            program: program.into(),
            arguments: self.arguments.clone(),
            variables: self.variables(metrics, probes),
            source: Source::Operator,
        };
        let process = Process::start(plan, &self.root, reporter, None::<fn(String)>);
        let process = process.with_context(|| format!("cannot start {}", program.display()))?;
        let mut counting = JoinSet::new();
        counting.spawn(count(metrics, reporter.clone()));
        let readiness: Pin<Box<dyn Future<Output = ()>>> = Box::pin(become_ready(probes, after, reporter.clone()));
        Ok(Running { process, since: Instant::now(), readiness: Some(readiness), _counting: counting })
    }

    /// Variables in place of flags: flags that the user adds win.
    fn variables(&self, metrics: u16, probes: u16) -> Vec<(&'static str, OsString)> {
        let mut variables: Vec<(&'static str, OsString)> = vec![
            ("WINDLASS_METRICS_BIND_ADDRESS", format!("127.0.0.1:{metrics}").into()),
            ("WINDLASS_HEALTH_PROBE_BIND_ADDRESS", format!("127.0.0.1:{probes}").into()),
            ("WINDLASS_LEADER_ELECT", "false".into()),
            ("WINDLASS_WEBHOOK_PORT", self.webhook_port.to_string().into()),
            ("WINDLASS_WEBHOOK_CERT_DIR", self.certificates.clone().into()),
            ("WINDLASS_GRACEFUL_TIMEOUT", "5s".into()),
        ];
        for name in ["KUBECONFIG", "WINDLASS_KUBECONFIG"] {
            variables.extend(self.kubeconfig.as_ref().map(|file| (name, file.into())));
        }
        variables.extend(self.context.as_ref().map(|context| ("WINDLASS_CONTEXT", context.into())));
        variables
    }
}

impl Running {
    /// Number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for its end: how, and after how long. May be dropped and called again.
    pub(crate) async fn ended(&mut self) -> (std::io::Result<ExitStatus>, Duration) {
        if let Some(readiness) = &mut self.readiness {
            tokio::select! {
                status = self.process.wait() => return (status, self.since.elapsed()),
                () = readiness => self.readiness = None,
            }
        }
        (self.process.wait().await, self.since.elapsed())
    }

    /// Ends it.
    pub(crate) async fn stop(self) {
        self.process.stop(STOPPING).await;
    }
}

/// Two ports that nobody uses at the moment.
fn free_ports() -> std::io::Result<(u16, u16)> {
    // Both at once, so that they are different.
    let (first, second) = (TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
    Ok((first.local_addr()?.port(), second.local_addr()?.port()))
}

/// A port that nobody uses at the moment, on any address.
pub(crate) fn free_port_everywhere() -> std::io::Result<u16> {
    let any = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)));
    Ok(any?.local_addr()?.port())
}

async fn become_ready(probes: u16, after: Afterwards, reporter: Reporter) {
    while numbers::page(probes, "/readyz").await.is_err() {
        tokio::time::sleep(READINESS).await;
    }
    let Afterwards { installer, installation, samples } = after;
    if let Err(error) = installer.connect(&installation).await {
        reporter.complain(&error.context("webhooks are not called")).await;
    }
    reporter.tell(Event::Operator(Operator::Ready)).await;
    let Some(folder) = samples.lock().take() else { return };
    match installer.apply_folder(&folder).await {
        Ok(()) => reporter.say("the samples are in place").await,
        Err(error) => reporter.complain(&error).await,
    }
}

async fn count(metrics: u16, reporter: Reporter) {
    let mut each = tokio::time::interval(NUMBERS);
    each.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        each.tick().await;
        if let Ok(text) = numbers::page(metrics, "/metrics").await {
            reporter.tell(Event::Numbers(numbers::controllers(&text))).await;
        }
    }
}
