//! `windlass delete`: removals from a project.

use clap::{Args, Subcommand};

use windlass_scaffold::Origin;

use crate::project::{self, Writing};

/// Remove a resource or an overlay from the project
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(subcommand)]
    command: DeleteCommand,
}

#[derive(Debug, Subcommand)]
enum DeleteCommand {
    Api(DeleteApiArgs),
    Overlay(DeleteOverlayArgs),
}

/// Remove a kustomize overlay
#[derive(Debug, Args)]
struct DeleteOverlayArgs {
    /// Name of the overlay
    name: String,
    #[command(flatten)]
    writing: Writing,
}

/// Remove a resource with its controller, webhooks, tests and manifests, or one version of it
#[derive(Debug, Args)]
struct DeleteApiArgs {
    /// Group of the resource, if several groups have the kind
    #[arg(long)]
    group: Option<String>,
    /// Version to remove [default: all versions]
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
    let opened = project::open_current()?;
    let args = match args.command {
        DeleteCommand::Api(args) => args,
        DeleteCommand::Overlay(args) => {
            opened.change(args.writing, |project| project.delete_overlay(&args.name))?;
            if !args.writing.dry_run {
                eprintln!("\nnext:\n  windlass generate --only overlays");
            }
            return Ok(());
        }
    };
    let group = args.group.as_deref();
    if let Ok(resource) = opened.project.resource(group, &args.kind)
        && resource.origin == Origin::Imported
    {
        eprintln!("the imported types in src/api/{} are kept: delete them if you no longer need them", resource.module);
    }
    opened.change(args.writing, |project| project.delete_api(group, &args.kind, args.version.as_deref()))
}
