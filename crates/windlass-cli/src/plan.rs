//! `windlass plan`: prints what the project's operator would change in a cluster.

use std::ffi::OsString;

use clap::Args;

use crate::{
    cluster::ClusterArgs,
    failure::ExitWith,
    project::{self, Program},
};

/// Print what the project's operator would change in a cluster, without changing it
///
/// Builds the operator and runs `OPERATOR plan`: one pass over all objects in which every write is a server-side dry
/// run. Exits with 0 if nothing would change, 2 if something would, and 1 if something failed.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Additional arguments for the operator, after `--`
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Builds the operator and runs its subcommand.
pub(crate) fn run(args: PlanArgs) -> anyhow::Result<()> {
    let opened = project::open()?;
    let program = Program::build(&opened.root, &opened.project.project_name)?;
    let mut arguments: Vec<OsString> = vec!["plan".into()];
    if let Some(kubeconfig) = args.cluster.kubeconfig_file()? {
        arguments.push("--kubeconfig".into());
        arguments.push(kubeconfig.into());
    }
    if let Some(context) = args.cluster.context {
        arguments.push("--context".into());
        arguments.push(context.into());
    }
    arguments.extend(args.arguments);
    match program.run(&arguments)? {
        0 => Ok(()),
        code => Err(ExitWith(code).into()),
    }
}
