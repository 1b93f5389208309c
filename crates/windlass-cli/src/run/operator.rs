//! The operator as a local process, with its readiness and metrics.

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
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{
    account::{self, AccountCredentials},
    event::{Event, Operator, Reporter, Source},
    install::Installer,
    numbers,
    process::{CommandLine, Process},
    reconciles,
    tunnel::Installation,
};
use crate::service_account::AccountName;

/// Maximum time for it to stop before it is killed.
const STOPPING: Duration = Duration::from_secs(10);
/// Polling interval of readiness.
const READINESS: Duration = Duration::from_millis(100);
/// Polling interval of metrics.
const NUMBERS: Duration = Duration::from_secs(1);

/// Settings of a run.
#[derive(Clone)]
pub(crate) struct OperatorOptions {
    pub(crate) root: PathBuf,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    /// Additional arguments from the user.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) webhook_port: u16,
    pub(crate) certificates: PathBuf,
    /// Credentials of the operator's service account, if it runs as that.
    pub(crate) credentials: Option<AccountCredentials>,
}

/// A directory of manifests, applied once the first operator is ready.
pub(crate) type Samples = Arc<Mutex<Option<PathBuf>>>;

/// Work to do once it is ready.
pub(crate) struct OnReady {
    pub(crate) installer: Installer,
    pub(crate) installation: Arc<Installation>,
    /// A directory of manifests to apply, unless that has been done.
    pub(crate) samples: Samples,
}

/// A running operator. Its helper tasks end with it.
pub(crate) struct RunningOperator {
    process: Process,
    since: Instant,
    /// Work until and after it is ready; polled here, as it is not `Send`.
    readiness: Option<Pin<Box<dyn Future<Output = ()>>>>,
    _counting: JoinSet<()>,
}

impl OperatorOptions {
    /// Starts the operator. Metrics and probes use free ports of the loopback address.
    pub(crate) fn start(&self, program: &Path, after: OnReady, reporter: &Reporter) -> anyhow::Result<RunningOperator> {
        let (metrics, probes) = free_ports().context("failed to find a free port")?;
        let account = account::account(&after.installation.roles);
        let command_line = CommandLine {
            program: program.into(),
            arguments: self.arguments.clone(),
            variables: self.variables(metrics, probes, account.as_ref()),
            source: Source::Operator,
        };
        let process = Process::start(command_line, &self.root, reporter, None::<fn(String)>);
        let process = process.with_context(|| format!("cannot start {}", program.display()))?;
        let mut counting = JoinSet::new();
        counting.spawn(count(metrics, reporter.clone()).boxed());
        let readiness: Pin<Box<dyn Future<Output = ()>>> = Box::pin(become_ready(probes, after, reporter.clone()));
        Ok(RunningOperator { process, since: Instant::now(), readiness: Some(readiness), _counting: counting })
    }

    /// Environment variables instead of flags, so that flags of the user take precedence.
    fn variables(&self, metrics: u16, probes: u16, account: Option<&AccountName>) -> Vec<(&'static str, OsString)> {
        let mut variables: Vec<(&'static str, OsString)> = vec![
            ("WINDLASS_METRICS_BIND_ADDRESS", format!("127.0.0.1:{metrics}").into()),
            ("WINDLASS_METRICS_SECURE", "false".into()),
            ("WINDLASS_DEBUG_STATE", "true".into()),
            ("WINDLASS_HEALTH_PROBE_BIND_ADDRESS", format!("127.0.0.1:{probes}").into()),
            ("WINDLASS_LEADER_ELECT", "false".into()),
            ("WINDLASS_WEBHOOK_PORT", self.webhook_port.to_string().into()),
            ("WINDLASS_WEBHOOK_CERT_DIR", self.certificates.clone().into()),
            ("WINDLASS_GRACEFUL_TIMEOUT", "5s".into()),
        ];
        let own = self.credentials.as_ref().zip(account);
        let kubeconfig = own.map(|(credentials, _)| credentials.kubeconfig()).or(self.kubeconfig.as_deref());
        for name in ["KUBECONFIG", "WINDLASS_KUBECONFIG"] {
            variables.extend(kubeconfig.map(|file| (name, file.into())));
        }
        // Its roles for its own objects, such as leases, are in the namespace of its account.
        variables.extend(own.map(|(_, account)| ("POD_NAMESPACE", account.namespace.clone().into())));
        variables.extend(self.context.as_ref().map(|context| ("WINDLASS_CONTEXT", context.into())));
        variables
    }
}

impl RunningOperator {
    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it exits, and returns how and after how long. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> (std::io::Result<ExitStatus>, Duration) {
        if let Some(readiness) = &mut self.readiness {
            tokio::select! {
                status = self.process.wait() => return (status, self.since.elapsed()),
                () = readiness => self.readiness = None,
            }
        }
        (self.process.wait().await, self.since.elapsed())
    }

    /// Stops it.
    pub(crate) async fn stop(self) {
        self.process.stop(STOPPING).await;
    }
}

/// Returns two ports that are currently free.
fn free_ports() -> std::io::Result<(u16, u16)> {
    // Bound at the same time, so that they differ.
    let (first, second) = (TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
    Ok((first.local_addr()?.port(), second.local_addr()?.port()))
}

/// Returns a port that is currently free on all addresses.
pub(crate) fn free_port_everywhere() -> std::io::Result<u16> {
    let any = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)));
    Ok(any?.local_addr()?.port())
}

async fn become_ready(probes: u16, after: OnReady, reporter: Reporter) {
    while numbers::page(probes, "/readyz").await.is_err() {
        tokio::time::sleep(READINESS).await;
    }
    let OnReady { installer, installation, samples } = after;
    if let Err(error) = installer.connect(&installation).await {
        reporter.complain(&error.context("failed to connect webhooks")).await;
    }
    reporter.send(Event::Operator(Operator::Ready)).await;
    let Some(folder) = samples.lock().take() else { return };
    match installer.apply_folder(&folder).await {
        Ok(()) => reporter.say("samples applied").await,
        Err(error) => reporter.complain(&error).await,
    }
}

async fn count(metrics: u16, reporter: Reporter) {
    let mut each = tokio::time::interval(NUMBERS);
    each.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        each.tick().await;
        if let Ok(text) = numbers::page(metrics, "/metrics").await {
            reporter.send(Event::Numbers(numbers::controllers(&text))).await;
        }
        if let Ok(page) = numbers::page(metrics, "/debug/state").await
            && let Ok(reconciles) = reconciles::reconciles(&page)
        {
            reporter.send(Event::Reconciles(reconciles)).await;
        }
    }
}
