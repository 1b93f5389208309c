//! `windlass create release`: a workflow that publishes releases.

use clap::Args;

use crate::project::{self, Writing};

/// Scaffold a GitHub workflow that tests every tag and publishes the image (amd64 and arm64), the installer and the chart
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    writing: Writing,
}

/// Adds the workflow.
pub(crate) fn run(args: ReleaseArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    opened.change(args.writing, windlass_scaffold::Project::create_release_workflow)
}
