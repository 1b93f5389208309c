//! `windlass store`: the storage of the objects of a control plane.

use clap::{Args, Subcommand};

mod location;
mod migrate;

/// Manage the storage of objects
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    Migrate(migrate::MigrateArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: StoreArgs) -> anyhow::Result<()> {
    match args.command {
        StoreCommand::Migrate(args) => migrate::run(&args),
    }
}
