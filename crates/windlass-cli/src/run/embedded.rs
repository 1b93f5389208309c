//! The embedded control plane of a run.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use futures_util::FutureExt as _;
use tokio::{sync::oneshot, task::JoinHandle};
use windlass_plane::{NodeOptions, Plane, PlaneError, PlaneOptions, Runtime, StoreKind};

use super::forbidden::AuditLog;
use crate::up::{self, RuntimeArg};

/// Options of the embedded control plane.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Embedded control plane")]
pub(crate) struct EmbeddedArgs {
    /// Directory for objects [default: none; objects are kept in memory and lost on exit]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context"])]
    data_dir: Option<PathBuf>,
    /// Port of the API server; 0 picks a free port
    #[arg(long, default_value_t = 0, conflicts_with_all = ["kubeconfig", "context"])]
    port: u16,
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=5000))]
    #[arg(conflicts_with_all = ["kubeconfig", "context"])]
    nodes: u16,
    /// Runtime of pods
    #[arg(long, value_enum, default_value_t = RuntimeArg::Simulated, conflicts_with_all = ["kubeconfig", "context"])]
    runtime: RuntimeArg,
}

/// The plane, which serves until it is stopped.
pub(crate) struct Embedded {
    pub(crate) kubeconfig: PathBuf,
    /// Requests of service accounts, if they are audited.
    pub(crate) audit: Option<AuditLog>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), PlaneError>>,
}

impl Embedded {
    /// Starts a plane. Without a data directory, certificates and kubeconfig are kept in `folder`.
    pub(crate) async fn start(args: &EmbeddedArgs, folder: &Path, audit: Option<AuditLog>) -> anyhow::Result<Self> {
        let data_dir = args.data_dir.as_deref().unwrap_or(folder);
        let data_dir = std::path::absolute(data_dir).with_context(|| format!("cannot use {}", data_dir.display()))?;
        let runtime = match args.runtime {
            RuntimeArg::Simulated => Runtime::Simulated,
            RuntimeArg::Process => Runtime::Processes(up::processes(&data_dir, None)?),
        };
        let options = PlaneOptions {
            port: args.port,
            store: if args.data_dir.is_some() { StoreKind::Embedded } else { StoreKind::Memory },
            audit: audit.as_ref().map(AuditLog::options).transpose()?,
            nodes: NodeOptions { count: args.nodes.into(), runtime, ..NodeOptions::default() },
            ..PlaneOptions::new(data_dir)
        };
        let plane = Plane::start(options).await?;
        let kubeconfig = plane.kubeconfig_path().to_owned();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = plane.run(async {
            // An error means that the sender was dropped, which is also a reason to stop.
            let _ = stopped.await;
        });
        let serving = tokio::spawn(running.boxed());
        Ok(Self { kubeconfig, audit, stop, serving })
    }

    /// Waits until it stops unexpectedly.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.serving).await {
            Ok(Ok(())) => anyhow::anyhow!("the control plane has stopped"),
            Ok(Err(error)) => error.into(),
            Err(error) => anyhow::Error::new(error).context("the control plane has failed"),
        }
    }

    /// Lets requests in flight finish.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        drop(self.stop);
        self.serving.await.context("the control plane has failed")??;
        Ok(())
    }
}
