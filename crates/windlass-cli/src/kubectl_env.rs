//! `windlass kubectl-env`: what a shell needs so that kubectl talks to the plane.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use clap::Args;

use crate::{data_dir::DataDirArgs, failure::Advised, output, running::Presence, shell::Shell};

/// Print what sets KUBECONFIG to the running plane, for a shell
///
/// eval "$(windlass kubectl-env)" in bash and zsh, windlass kubectl-env | source in fish,
/// & windlass kubectl-env | Invoke-Expression in PowerShell.
#[derive(Debug, Args)]
pub(crate) struct KubectlEnvArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// The shell [default: the one of the environment]
    #[arg(long, value_enum)]
    shell: Option<Shell>,
    /// Print what takes KUBECONFIG away again
    #[arg(long)]
    unset: bool,
}

/// Prints one line to standard output; and how to use it, if nothing does.
pub(crate) fn run(args: KubectlEnvArgs) -> anyhow::Result<()> {
    let shell = args.shell.unwrap_or_else(|| Shell::detect(&|name| env::var(name).ok()));
    let option = args.data_dir.option();
    let line = if args.unset {
        shell.unset("KUBECONFIG")
    } else {
        let folder = args.data_dir.resolve()?;
        let Presence::Serving(_) = Presence::of(&folder)? else {
            return Err(Advised {
                message: format!("no plane runs in {}", folder.display()),
                hint: format!("start one with `windlass up --background{option}`").into(),
            }
            .into());
        };
        shell.export("KUBECONFIG", &folder.join("kubeconfig"))
    };
    output::print(&format!("{line}\n"))?;
    if io::stdout().is_terminal() {
        let unset = if args.unset { " --unset" } else { "" };
        eprintln!("# to do so: {}", shell.evaluate(&format!("windlass kubectl-env{option}{unset}")));
    }
    Ok(())
}
