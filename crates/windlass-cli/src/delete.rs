//! `windlass delete`: less in a project.

use clap::{Args, Subcommand};

use crate::project::{self, Writing};

/// Remove a resource from the project
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(subcommand)]
    command: DeleteCommand,
}

#[derive(Debug, Subcommand)]
enum DeleteCommand {
    Api(DeleteApiArgs),
}

/// Remove a resource with its controller, webhooks, tests and manifests, or one version of it
#[derive(Debug, Args)]
struct DeleteApiArgs {
    /// Group of the resource, if several have the kind
    #[arg(long)]
    group: Option<String>,
    /// Only this version
    #[arg(long)]
    version: Option<String>,
    /// Kind of the resource
    #[arg(long)]
    kind: String,
    #[command(flatten)]
    writing: Writing,
}

/// Runs the subcommand.
pub(crate) fn run(args: DeleteArgs) -> anyhow::Result<()> {
    let DeleteCommand::Api(args) = args.command;
    let opened = project::open_current()?;
    opened
        .change(args.writing, |project| project.delete_api(args.group.as_deref(), &args.kind, args.version.as_deref()))
}
