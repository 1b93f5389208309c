//! `windlass create overlay`: a kustomize overlay for another way to deploy the operator.

use clap::Args;
use windlass_scaffold::Overlay;

use crate::project::{self, Writing};

/// Add a kustomize overlay: replicas, shards, cert-manager or watched namespaces
///
/// `windlass generate` writes the differences from deploy/default to deploy/overlays/NAME. Run the command again to change
/// an overlay.
#[derive(Debug, Args)]
pub(crate) struct OverlayArgs {
    /// Name of the overlay, for example production
    name: String,
    /// Let cert-manager issue the webhook certificate
    #[arg(long)]
    cert_manager: bool,
    /// Number of replicas
    #[arg(long, value_name = "COUNT")]
    replicas: Option<u32>,
    /// Shard objects across all replicas instead of electing a leader
    #[arg(long)]
    shards: bool,
    /// Namespaces to watch, comma-separated; the operator has a Role in each of them
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    watch_namespaces: Vec<String>,
    #[command(flatten)]
    writing: Writing,
}

/// Adds the overlay.
pub(crate) fn run(args: OverlayArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    let OverlayArgs { name, cert_manager, replicas, shards, watch_namespaces, writing } = args;
    let overlay = Overlay { name, cert_manager, replicas, shards, watch_namespaces };
    opened.change(writing, |project| project.create_overlay(overlay))?;
    if !writing.dry_run {
        eprintln!("\nnext:\n  windlass generate --only overlays");
    }
    Ok(())
}
