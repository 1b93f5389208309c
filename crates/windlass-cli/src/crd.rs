//! `windlass crd`: CustomResourceDefinition manifests, without a server.

use clap::{Args, Subcommand};

mod manifest;
mod replace;
mod upgrade;

/// Work with CustomResourceDefinition manifests
#[derive(Debug, Args)]
pub(crate) struct CrdArgs {
    #[command(subcommand)]
    command: CrdCommand,
}

#[derive(Debug, Subcommand)]
enum CrdCommand {
    Upgrade(upgrade::UpgradeArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: CrdArgs) -> anyhow::Result<()> {
    match args.command {
        CrdCommand::Upgrade(args) => upgrade::run(args),
    }
}
