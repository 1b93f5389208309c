//! `windlass kubectl-env`: shell commands that make kubectl use the plane.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use clap::Args;

use crate::{data_dir::DataDirArgs, failure::ErrorWithHint, output, running::Presence, shell::Shell};

/// Print shell commands that set KUBECONFIG for the running control plane
///
/// Use it as `eval "$(windlass kubectl-env)"` in bash and zsh, `windlass kubectl-env | source` in fish, and
/// `& windlass kubectl-env | Invoke-Expression` in PowerShell.
#[derive(Debug, Args)]
pub(crate) struct KubectlEnvArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Shell to print for [default: detected from the environment]
    #[arg(long, value_enum)]
    shell: Option<Shell>,
    /// Print commands that unset KUBECONFIG
    #[arg(long)]
    unset: bool,
}

/// Prints one line to standard output, and how to use it if that is a terminal.
pub(crate) fn run(args: KubectlEnvArgs) -> anyhow::Result<()> {
    let shell = args.shell.unwrap_or_else(|| Shell::detect(&|name| env::var(name).ok()));
    let option = args.data_dir.option();
    let line = if args.unset {
        shell.unset("KUBECONFIG")
    } else {
        let folder = args.data_dir.resolve()?;
        let Presence::Serving(_) = Presence::of(&folder)? else {
            return Err(ErrorWithHint {
                message: format!("no control plane is running in {}", folder.display()),
                hint: format!("start it with `windlass up --background{option}`").into(),
            }
            .into());
        };
        shell.export("KUBECONFIG", &folder.join("kubeconfig"))
    };
    output::print(&format!("{line}\n"))?;
    if io::stdout().is_terminal() {
        let unset = if args.unset { " --unset" } else { "" };
        eprintln!("# to run this: {}", shell.evaluate(&format!("windlass kubectl-env{option}{unset}")));
    }
    Ok(())
}
