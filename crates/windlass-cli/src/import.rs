//! `windlass import`: what others have defined, in Rust.

use clap::{Args, Subcommand};

mod crd;

/// Take over what others have defined
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
