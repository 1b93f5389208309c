//! `windlass completion`: shell completions.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::output;

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints the script to standard output.
pub(crate) fn run(args: CompletionArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "windlass", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
