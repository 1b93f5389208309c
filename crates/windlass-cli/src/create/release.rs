//! `windlass create release`: a workflow that publishes releases.

use clap::Args;

use crate::project::{self, Writing};

/// Scaffold a GitHub workflow that tests every tag, and publishes its image for amd64 and arm64, its installer and its chart
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
