//! `windlass import`: resources of other projects.

use clap::{Args, Subcommand};

mod crd;

/// Import resources of other projects
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    command: ImportCommand,
}

#[derive(Debug, Subcommand)]
enum ImportCommand {
    Crd(crd::CrdArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: ImportArgs) -> anyhow::Result<()> {
    match args.command {
        ImportCommand::Crd(args) => crd::run(args),
    }
}
