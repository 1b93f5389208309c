//! `windlass run`: builds and runs a project's operator, and restarts it after changes.

mod account;
mod build;
mod changes;
mod embedded;
mod event;
mod forbidden;
mod install;
mod lifecycle;
mod numbers;
mod operator;
mod plain;
mod process;
mod reconciles;
mod resources;
mod supervisor;
pub(crate) mod trace;
mod tunnel;
mod view;

use std::{
    ffi::OsString,
    fs,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use clap::Args;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use windlass_plane::{DataDirLock, LockError};

use self::{
    account::AccountCredentials,
    build::BuildOptions,
    changes::Changes,
    embedded::{Embedded, EmbeddedArgs},
    event::{Event, Reporter},
    forbidden::AuditLog,
    install::Installer,
    operator::OperatorOptions,
    plain::Plain,
    resources::Resources,
    supervisor::{Command, Supervisor},
    tunnel::Tunnel,
};
use crate::{
    cluster::ClusterArgs,
    failure::ErrorWithHint,
    output::colour_allowed,
    project::{self, OpenProject},
    signals::Signals,
    threads,
};

/// Capacity for key presses.
const COMMANDS: usize = 8;
/// Directory for certificates and the kubeconfig of a run, ignored by version control.
const FOLDER: &str = "target/windlass";
const SAMPLES: &str = "deploy/samples";

/// Build and run the operator, and restart it after each change
///
/// Runs against its own in-process control plane, or against the cluster of --kubeconfig and --context. CRDs are
/// applied before the operator starts, and webhooks are routed to it while it runs. On its own control plane, the
/// operator runs as its service account, with exactly the roles of its manifests.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Kubeconfig of the cluster to run against [default: an embedded control plane]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Host name or address at which the cluster reaches webhooks on this machine [default: the local address of the
    /// route to the cluster]
    #[arg(long, value_name = "ADDRESS")]
    webhook_host: Option<String>,
    /// Build once, without watching for changes
    #[arg(long)]
    no_watch: bool,
    /// Print lines instead of the live view; the default without a terminal
    #[arg(long)]
    plain: bool,
    /// Build with optimizations
    #[arg(long)]
    release: bool,
    /// Apply the manifests in deploy/samples once the operator is ready
    #[arg(long)]
    samples: bool,
    /// Run the operator as the administrator, instead of as its service account with its own roles
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    as_admin: bool,
    #[command(flatten)]
    embedded: EmbeddedArgs,
    /// Additional arguments for the operator
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Runs until Ctrl-C, SIGTERM or `q`.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<()> {
    let opened = project::open()?;
    let samples = opened.root.join(SAMPLES);
    if args.samples && !samples.is_dir() {
        let message = format!("there are no samples: {} is not a directory", samples.display());
        return Err(ErrorWithHint { message, hint: "omit --samples".into() }.into());
    }
    threads::block_on_all(serve(args, opened))
}

async fn serve(args: RunArgs, opened: OpenProject) -> anyhow::Result<()> {
    let mut signals = Signals::catch().context("failed to install signal handlers")?;
    let folder = opened.root.join(FOLDER);
    // Before anything is removed there that another run uses.
    let _lock = lock(&folder)?;
    let is_foreign = args.kubeconfig.is_some() || args.context.is_some();
    let embedded = match is_foreign {
        true => None,
        false => {
            let audit = if args.as_admin { None } else { Some(AuditLog::prepare(&folder)?) };
            Some(Embedded::start(&args.embedded, &folder, audit).await?)
        }
    };
    let kubeconfig = match &embedded {
        Some(embedded) => Some(embedded.kubeconfig.clone()),
        None => args
            .kubeconfig
            .as_deref()
            .map(std::path::absolute)
            .transpose()
            .context("cannot resolve the path of the kubeconfig")?,
    };

    let (reporter, events) = Reporter::new();
    let (commands, asked) = mpsc::channel(COMMANDS);
    let has_view = !args.plain && io::stdout().is_terminal() && io::stdin().is_terminal();
    let audit = embedded.as_ref().and_then(|embedded| embedded.audit.as_ref()).map(AuditLog::reader);
    let mut supervisor = tokio::select! {
        supervisor = prepare(&args, &opened, &folder, kubeconfig, has_view, &reporter) => supervisor?,
        () = signals.first() => return Ok(()),
    };
    supervisor.audit = audit;
    let name = opened.project.project_name.clone();
    let showing = async {
        match has_view {
            true => view::show(name, events, commands).await,
            false => {
                Plain::new().show_all(events).await;
                drop(commands);
            }
        }
    };
    drop(reporter);
    let stop = async move {
        signals.first().await;
        tokio::spawn(signals.abort_on_next().boxed());
    };
    let (outcome, ()) = tokio::join!(work(supervisor, asked, stop, embedded), showing);
    outcome
}

/// Reserves the directory for this run until it is dropped.
fn lock(folder: &Path) -> anyhow::Result<DataDirLock> {
    // The control plane may lock the directory itself.
    let folder = folder.join("run");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    DataDirLock::acquire(&folder).map_err(|error| match error {
        LockError::Held { owner, .. } => {
            let process = owner.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            let message = format!("another `windlass run` of this project is running{process}");
            ErrorWithHint { message, hint: "stop it first, or run a copy of the project".into() }.into()
        }
        error => error.into(),
    })
}

/// Supervises the run and its plane. No events are reported after it returns.
async fn work(
    supervisor: Supervisor,
    asked: mpsc::Receiver<Command>,
    stop: impl Future<Output = ()>,
    embedded: Option<Embedded>,
) -> anyhow::Result<()> {
    let Some(mut embedded) = embedded else { return supervisor.run(asked, stop).await };
    let outcome = tokio::select! {
        outcome = supervisor.run(asked, stop) => outcome,
        error = embedded.failed() => return Err(error),
    };
    outcome.and(embedded.stop().await)
}

/// Selects the cluster, and assembles the parts of the run.
async fn prepare(
    args: &RunArgs,
    opened: &OpenProject,
    folder: &Path,
    kubeconfig: Option<PathBuf>,
    has_view: bool,
    reporter: &Reporter,
) -> anyhow::Result<Supervisor> {
    let name = &opened.project.project_name;
    let target = ClusterArgs { kubeconfig: kubeconfig.clone(), context: args.context.clone() };
    let cluster = target.connect().await?;
    let is_own = args.kubeconfig.is_none() && args.context.is_none();
    let credentials = match is_own && !args.as_admin {
        true => {
            let (config, _) = target.configuration().await?;
            Some(AccountCredentials::new(cluster.client.clone(), config, folder, reporter.clone()))
        }
        false => None,
    };
    let shown = kubeconfig.as_ref().map(|path| path.display().to_string());
    reporter.send(Event::Cluster { server: cluster.url.clone(), kubeconfig: shown }).await;
    let host = args.webhook_host.clone().unwrap_or_else(|| tunnel::own_address(&cluster.url).to_string());
    let port = operator::free_port_everywhere().context("failed to find a free port for webhooks")?;
    let tunnel = Tunnel::prepare(&folder.join("webhook"), name, host, port)?;
    let operator_options = OperatorOptions {
        root: opened.root.clone(),
        kubeconfig,
        context: args.context.clone(),
        arguments: args.arguments.clone(),
        webhook_port: port,
        certificates: tunnel.certificates.clone(),
        credentials: credentials.clone(),
    };
    let build_options = BuildOptions {
        root: opened.root.clone(),
        name: name.clone(),
        release: args.release,
        colour: !has_view && colour_allowed() && io::stderr().is_terminal(),
    };
    Ok(Supervisor {
        build_options,
        operator_options,
        resources: Resources::new(cluster.client.clone(), reporter.clone()),
        installer: Installer::new(cluster, tunnel, credentials, reporter.clone()),
        reporter: reporter.clone(),
        changes: if args.no_watch { None } else { Some(Changes::watch(&opened.root)?) },
        samples: Arc::new(Mutex::new(args.samples.then(|| opened.root.join(SAMPLES)))),
        audit: None,
        must_build: args.no_watch && !has_view,
    })
}
