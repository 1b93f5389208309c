//! `windlass up`: runs the embedded control plane until a signal stops it.

pub(crate) mod admission;
pub(crate) mod audit;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod background;
pub(crate) mod limits;
pub(crate) mod oidc;
pub(crate) mod service_network;
mod store;

use std::{
    collections::BTreeMap,
    env, fs, io,
    io::Write as _,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use futures_util::FutureExt as _;
use windlass_plane::{
    NodeOptions, Plane, PlaneOptions, ProcessOptions, Processes, Runtime, RuntimeConfig, Selection, ServiceNetwork,
    Stages, StoreKind, UnknownLoop,
};

use self::service_network::ServiceNetworks;
use crate::{
    data_dir::DataDirArgs,
    failure::ErrorWithHint,
    ready_file::ReadyFile,
    running::{self, Presence},
    shell::Shell,
    signals::Signals,
    threads, version,
};

/// Run a Kubernetes control plane on this machine
///
/// Creates certificates and a kubeconfig in the data directory, prints the variable to export, and serves until Ctrl-C
/// or SIGTERM; with --background, until `windlass down`. The next start resumes with the same data.
///
/// Exits with code 3 if the data directory is deleted or replaced while it is in use, or if its disk fails. If the disk
/// is full, writes fail and the health endpoints report it, until there is space again.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Run in the background: return once the control plane is serving; `windlass down` stops it
    #[arg(short = 'd', long, visible_alias = "detach")]
    background: bool,
    /// Run as the background process
    #[arg(long, hide = true)]
    detached: bool,
    /// Seconds to wait until the background control plane is serving
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u16,
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
    /// Address of this API server in the endpoints of the service default/kubernetes [default: --address, or that of the
    /// machine]
    #[arg(long, value_name = "IP")]
    advertise_address: Option<IpAddr>,
    /// File with the keys of an API server that uses the same etcd, written by `windlass join-file`
    #[arg(long, value_name = "FILE")]
    join: Option<PathBuf>,
    /// Port to listen on; 0 picks a free port
    #[arg(long, default_value_t = 6443)]
    port: u16,
    /// Additional DNS name or IP address for the serving certificate; may be repeated
    #[arg(long, value_name = "NAME")]
    tls_san: Vec<String>,
    /// Control loops to run, in the syntax of kube-controller-manager: "*" for all, "name" for one, "-name" to exclude
    /// one, "" for none
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true)]
    controllers: String,
    /// Number of nodes; with 0, pods are not scheduled
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=5000))]
    nodes: u16,
    /// Runtime of pods
    #[arg(long, value_enum, default_value_t = RuntimeArg::Simulated)]
    runtime: RuntimeArg,
    /// File with stages for simulated pods and nodes that extend or override the default stages
    #[arg(long, value_name = "FILE")]
    stages: Option<PathBuf>,
    /// File that maps images to programs, for `--runtime process` [default: images.yaml in the data directory]
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
    /// Do not serve resource metrics of the nodes (metrics.k8s.io), which `kubectl top` and autoscalers read
    #[arg(long)]
    no_resource_metrics: bool,
    /// Reject CustomResourceDefinitions of apiextensions.k8s.io/v1beta1, as Kubernetes 1.22 and later do
    #[arg(long = "no-v1beta1-crds", alias = "no-old-definitions")]
    no_v1beta1_crds: bool,
    /// API versions to serve besides the stable ones, or to omit: KEY=true or KEY=false, where KEY is GROUP/VERSION,
    /// GROUP/VERSION/RESOURCE, api/all, api/ga, api/beta or api/alpha
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    runtime_config: Vec<String>,
    /// IPv4 network of the cluster IPs of services, in CIDR form
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24")]
    service_cluster_ip_range: String,
    /// File to create, with the server's URL, once it is serving
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    #[command(flatten)]
    store: store::StoreArgs,
    #[command(flatten)]
    audit: audit::AuditArgs,
    #[command(flatten)]
    authentication: authentication::AuthenticationArgs,
    #[command(flatten)]
    oidc: oidc::OidcArgs,
    #[command(flatten)]
    authorization: authorization::AuthorizationArgs,
    #[command(flatten)]
    admission: admission::AdmissionArgs,
    #[command(flatten)]
    limits: limits::LimitArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RuntimeArg {
    /// No containers: stages simulate the lifecycle of pods
    Simulated,
    /// Processes of this machine, without a container engine or root. Not isolated: pods can read and change all files
    /// of your user, including the keys of the control plane. Run only pods that you trust
    Process,
}

/// Returns the given flags with their values.
fn flags(arguments: impl Iterator<Item = String>) -> BTreeMap<String, String> {
    let mut flags = BTreeMap::new();
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let Some(flag) = argument.strip_prefix("--").filter(|flag| !flag.is_empty()) else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (flag, arguments.next_if(|next| !next.starts_with('-')).unwrap_or_else(|| "true".to_owned())),
        };
        flags.insert(name.to_owned(), value);
    }
    flags
}

/// Serves until a signal, then drains.
pub(crate) fn run(args: UpArgs) -> anyhow::Result<()> {
    let controllers = controllers(&args.controllers)?;
    let authorization = args.authorization.options()?;
    let admission_configuration = args.admission.configuration()?;
    if let Some(name) = admission_configuration.ignored.first() {
        bail!(ErrorWithHint {
            message: format!(
                "cannot configure the admission plugin {name}: its configuration is not supported by Windlass"
            ),
            hint: "remove it from the file of --admission-control-config-file".into(),
        });
    }
    let plugins = args.admission.plugins(&admission_configuration)?;
    let runtime_config = runtime_config(&args.runtime_config)?;
    let service_network = service_network(&args.service_cluster_ip_range)?;
    let jwt = args.oidc.jwt()?;
    let authentication = args.authentication.options(jwt.as_ref())?;
    let (quota_bytes, store) = (args.store.quota_bytes(), args.store.kind()?);
    let is_shared = matches!(store, StoreKind::Etcd(_));
    let data_dir = args.data_dir.resolve()?;
    if args.background && !args.detached {
        return background::start(&data_dir, &args.data_dir.option(), Duration::from_secs(args.wait.into()));
    }
    match Presence::of(&data_dir)? {
        Presence::Serving(running) => return Err(background::taken(&data_dir, &running, &args.data_dir.option())),
        Presence::Busy { pid } => return Err(background::busy(&data_dir, pid, &args.data_dir.option())),
        Presence::Nobody => {}
    }
    let nodes = NodeOptions {
        count: args.nodes.into(),
        runtime: match args.runtime {
            RuntimeArg::Simulated => Runtime::Simulated,
            RuntimeArg::Process => Runtime::Processes(processes(&data_dir, args.images)?),
        },
        stages: args.stages.as_deref().map(stages).transpose()?,
    };
    let options = PlaneOptions {
        address: args.address,
        port: args.port,
        store,
        join: join(args.join.as_deref(), is_shared)?,
        advertise_address: args.advertise_address,
        quota_bytes,
        extra_names: args.tls_san,
        old_definitions: !args.no_v1beta1_crds,
        controllers,
        nodes,
        resource_metrics: !args.no_resource_metrics,
        authentication,
        jwt,
        token_webhook: args.oidc.token_webhook()?,
        authorization,
        enabled_admission_plugins: plugins.enabled,
        disabled_admission_plugins: plugins.disabled,
        flags: flags(env::args().skip(1)),
        admission_configuration,
        runtime_config,
        service_network,
        limits: args.limits.limits(),
        audit: args.audit.options()?,
        ..PlaneOptions::new(&data_dir)
    };
    let ready_file =
        args.ready_file.map(std::path::absolute).transpose().context("cannot resolve the path of the ready file")?;
    if args.detached {
        background::leave_terminal(&data_dir)?;
    }
    limits::raise_open_files();
    threads::block_on_all(serve(options, ready_file))
}

async fn serve(options: PlaneOptions, ready_file: Option<PathBuf>) -> anyhow::Result<()> {
    let mut signals = Signals::catch().context("failed to install signal handlers")?;
    let ready_file = ready_file.map(ReadyFile::prepare).transpose()?;
    let data_dir = options.data_dir.clone();
    let plane = tokio::select! {
        plane = Plane::start(options) => plane?,
        () = signals.first() => return Ok(()),
    };
    announce(&plane, &data_dir, ready_file.as_ref())?;
    plane
        .run(async {
            signals.first().await;
            eprintln!("stopping");
            running::retract(&data_dir);
            tokio::spawn(signals.abort_on_next().boxed());
        })
        .await?;
    Ok(())
}

/// Returns the absolute path of the join file, which only a shared store has a use for.
fn join(file: Option<&Path>, is_shared: bool) -> anyhow::Result<Option<PathBuf>> {
    let Some(file) = file else { return Ok(None) };
    if !is_shared {
        bail!(ErrorWithHint {
            message: "--join has no effect, because objects are not stored in etcd".into(),
            hint: "add --store etcd, or remove the flag".into(),
        });
    }
    std::path::absolute(file).map(Some).with_context(|| format!("cannot use {}", file.display()))
}

/// Parses the versions to serve.
fn runtime_config(entries: &[String]) -> anyhow::Result<RuntimeConfig> {
    RuntimeConfig::parse(entries.iter().map(String::as_str)).map_err(|error| {
        let available: Vec<String> = RuntimeConfig::available().collect();
        let hint = format!("these versions can be enabled: {}", available.join(", ")).into();
        ErrorWithHint { message: error.to_string(), hint }.into()
    })
}

/// Parses the network of cluster IPs.
fn service_network(ranges: &str) -> anyhow::Result<ServiceNetwork> {
    let networks = ServiceNetworks::parse(ranges).map_err(anyhow::Error::msg)?;
    if let Some(unused) = networks.unused {
        eprintln!("warning: {unused} of --service-cluster-ip-range has no effect: services have only IPv4 addresses");
    }
    Ok(networks.used)
}

/// Parses a list of control loops.
fn controllers(list: &str) -> anyhow::Result<Selection> {
    list.parse().map_err(|UnknownLoop(name)| {
        let names: Vec<&str> = Selection::names().collect();
        let message = format!("unknown controller {name:?}");
        ErrorWithHint { message, hint: format!("known controllers: {}", names.join(", ")).into() }.into()
    })
}

/// Pods as processes, started by this program.
pub(crate) fn processes(data_dir: &Path, images: Option<PathBuf>) -> anyhow::Result<Processes> {
    let images = images.unwrap_or_else(|| data_dir.join("images.yaml"));
    let images = std::path::absolute(&images).with_context(|| format!("cannot use {}", images.display()))?;
    let options = ProcessOptions {
        images: Some(images),
        launcher: Some(env::current_exe().context("failed to find the path of this program")?),
        ..ProcessOptions::new(data_dir.join("runtime"))
    };
    Processes::new(options).context("failed to set up pods as processes")
}

/// The default stages with those of a file.
fn stages(file: &Path) -> anyhow::Result<Stages> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let stages = Stages::parse(&text).with_context(|| format!("cannot use {}", file.display()))?;
    Ok(Stages::default().with(&stages))
}

fn announce(plane: &Plane, data_dir: &Path, ready_file: Option<&ReadyFile>) -> anyhow::Result<()> {
    eprintln!("Windlass serves Kubernetes {} at {}; press Ctrl-C to stop", version::KUBERNETES, plane.url());
    export(plane.kubeconfig_path());
    running::announce(data_dir, plane.url())?;
    match ready_file {
        Some(file) => file.announce(plane.url()),
        None => Ok(()),
    }
}

/// Prints the shell command that sets KUBECONFIG.
fn export(kubeconfig: &Path) {
    // The reader has closed the pipe.
    let _ = writeln!(io::stdout(), "{}", Shell::Sh.export("KUBECONFIG", kubeconfig));
}
