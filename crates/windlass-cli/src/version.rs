//! `windlass version`: versions of windlass and of the Kubernetes API.

use clap::Args;

use crate::output;

/// The Kubernetes release whose API the embedded control plane serves.
pub(crate) const KUBERNETES: &str = "v1.36";
/// The same with a patch version, which programs expect.
pub(crate) const KUBERNETES_RELEASE: &str = "v1.36.4";

/// Print the version of windlass and of the Kubernetes API it serves
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {}

/// Prints one line to standard output.
pub(crate) fn run(VersionArgs {}: VersionArgs) -> anyhow::Result<()> {
    output::print(&format!("windlass v{} (Kubernetes {KUBERNETES})\n", env!("CARGO_PKG_VERSION")))
}
