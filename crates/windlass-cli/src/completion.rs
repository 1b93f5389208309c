//! `windlass completion`: completions for a shell.

use std::io;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script to standard output.
pub(crate) fn run(args: CompletionArgs) -> anyhow::Result<()> {
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "windlass", &mut io::stdout());
    Ok(())
}
