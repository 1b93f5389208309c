//! `windlass rbac`: permissions of operators.

use clap::{Args, Subcommand};

mod compare;
mod learn;
mod needs;
mod print;
mod rules;

/// Determine the permissions an operator needs
#[derive(Debug, Args)]
pub(crate) struct RbacArgs {
    #[command(subcommand)]
    command: RbacCommand,
}

#[derive(Debug, Subcommand)]
enum RbacCommand {
    Learn(learn::LearnArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: RbacArgs) -> anyhow::Result<()> {
    match args.command {
        RbacCommand::Learn(args) => learn::run(args),
    }
}
