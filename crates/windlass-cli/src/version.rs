//! `windlass version`: what this is, and which Kubernetes it is compatible with.

use clap::Args;

/// The Kubernetes release whose API the embedded control plane serves.
pub(crate) const KUBERNETES: &str = "v1.36";

/// Print the version, and that of the Kubernetes API it serves
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {}

/// Prints one line to standard output.
pub(crate) fn run(VersionArgs {}: VersionArgs) -> anyhow::Result<()> {
    println!("windlass v{} (Kubernetes {KUBERNETES})", env!("CARGO_PKG_VERSION"));
    Ok(())
}
