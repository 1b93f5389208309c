//! `windlass user`: credentials for users of a cluster.

use clap::{Args, Subcommand};

mod add;
mod bindings;
mod certificate;
mod identity;

/// Create users of the running control plane
#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    Add(add::AddArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: UserArgs) -> anyhow::Result<()> {
    match args.command {
        UserCommand::Add(args) => add::run(args),
    }
}
