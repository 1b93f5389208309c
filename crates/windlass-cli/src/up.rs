//! `windlass up`: the embedded control plane, until a signal stops it.

pub(crate) mod background;

use std::{
    env, fs, io,
    io::Write as _,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use windlass_plane::{
    NodeOptions, Plane, PlaneOptions, ProcessOptions, Processes, Runtime, Selection, Stages, StoreKind, UnknownLoop,
};

use crate::{
    data_dir::DataDirArgs,
    failure::Advised,
    ready_file::ReadyFile,
    running::{self, Presence},
    shell::Shell,
    signals::Signals,
    threads, version,
};

/// Run a Kubernetes control plane on this machine
///
/// Makes certificates and a kubeconfig in the data folder, prints what to export, and serves until Ctrl-C or SIGTERM;
/// with --background, until `windlass down`. A second start resumes with the data.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Run on after the terminal is closed; returns once the plane serves. `windlass down` stops it
    #[arg(short = 'd', long, visible_alias = "detach")]
    background: bool,
    /// Become the process in the background
    #[arg(long, hide = true)]
    detached: bool,
    /// How many seconds a plane in the background may take until it serves
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u16,
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
    /// Port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 6443)]
    port: u16,
    /// Where objects are kept
    #[arg(long, value_enum, default_value_t = StoreArg::Embedded)]
    store: StoreArg,
    /// Further DNS name or IP address for the serving certificate; may be repeated
    #[arg(long, value_name = "NAME")]
    tls_san: Vec<String>,
    /// Control loops to run, as kube-controller-manager's flag: "*" is all, "name" one, "-name" all but this one, ""
    /// none
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true)]
    controllers: String,
    /// How many nodes there are for pods to run on; with 0, nobody schedules pods
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=5000))]
    nodes: u16,
    /// What runs the pods of nodes
    #[arg(long, value_enum, default_value_t = RuntimeArg::Simulated)]
    runtime: RuntimeArg,
    /// File of stages that say what becomes of simulated pods and nodes, beside and in place of the usual ones
    #[arg(long, value_name = "FILE")]
    stages: Option<PathBuf>,
    /// File that says which programs images are, for `--runtime process` [default: images.yaml in the data folder]
    #[arg(long, value_name = "FILE")]
    images: Option<PathBuf>,
    /// Do not accept definitions of apiextensions.k8s.io/v1beta1, like Kubernetes 1.22 and later
    #[arg(long)]
    no_old_definitions: bool,
    /// File to write, with the server's URL, once it serves
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StoreArg {
    /// In memory: gone when the server stops
    Memory,
    /// In a file of the data folder
    Embedded,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RuntimeArg {
    /// Nothing: stages say what becomes of pods
    Simulated,
    /// Processes of this machine: no container engine, no root
    Process,
}

/// Serves until a signal, then drains.
pub(crate) fn run(args: UpArgs) -> anyhow::Result<()> {
    let controllers = controllers(&args.controllers)?;
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
        store: match args.store {
            StoreArg::Memory => StoreKind::Memory,
            StoreArg::Embedded => StoreKind::Embedded,
        },
        extra_names: args.tls_san,
        old_definitions: !args.no_old_definitions,
        controllers,
        nodes,
        ..PlaneOptions::new(&data_dir)
    };
    let ready_file = args.ready_file.map(std::path::absolute).transpose().context("cannot use the ready file")?;
    if args.detached {
        background::leave_terminal(&data_dir)?;
    }
    threads::block_on_all(serve(options, ready_file))
}

async fn serve(options: PlaneOptions, ready_file: Option<PathBuf>) -> anyhow::Result<()> {
    let mut signals = Signals::catch().context("cannot catch signals")?;
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
            tokio::spawn(signals.abort_on_next());
        })
        .await?;
    Ok(())
}

/// The loops of a list.
fn controllers(list: &str) -> anyhow::Result<Selection> {
    list.parse().map_err(|UnknownLoop(name)| {
        let names: Vec<&str> = Selection::names().collect();
        let message = format!("there is no controller {name:?}");
        Advised { message, hint: format!("there are {}", names.join(", ")).into() }.into()
    })
}

/// Pods as processes, which this program starts for the plane.
pub(crate) fn processes(data_dir: &Path, images: Option<PathBuf>) -> anyhow::Result<Processes> {
    let images = images.unwrap_or_else(|| data_dir.join("images.yaml"));
    let images = std::path::absolute(&images).with_context(|| format!("cannot use {}", images.display()))?;
    let options = ProcessOptions {
        images: Some(images),
        launcher: Some(env::current_exe().context("cannot find this program")?),
        ..ProcessOptions::new(data_dir.join("runtime"))
    };
    Processes::new(options).context("cannot run pods as processes")
}

/// The usual stages with those of a file.
fn stages(file: &Path) -> anyhow::Result<Stages> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let stages = Stages::parse(&text).with_context(|| format!("cannot use {}", file.display()))?;
    Ok(Stages::default().with(&stages))
}

fn announce(plane: &Plane, data_dir: &Path, ready_file: Option<&ReadyFile>) -> anyhow::Result<()> {
    eprintln!("windlass serves Kubernetes {} on {}; Ctrl-C stops it", version::KUBERNETES, plane.url());
    export(plane.kubeconfig_path());
    running::announce(data_dir, plane.url())?;
    match ready_file {
        Some(file) => file.announce(plane.url()),
        None => Ok(()),
    }
}

/// Prints what a shell needs.
fn export(kubeconfig: &Path) {
    // Whoever closed the pipe does not want to know.
    let _ = writeln!(io::stdout(), "{}", Shell::Sh.export("KUBECONFIG", kubeconfig));
}
