//! `windlass uninstall`: deletes a project's CRDs from a cluster.

use std::time::Duration;

use clap::Args;

use crate::{
    cluster::{self, ClusterArgs, DeleteOptions},
    confirm::confirm,
    install, project,
    run::trace::Trace,
    threads,
};

/// Delete the project's CRDs and all their objects from a cluster
///
/// Webhook configurations left behind by a killed `windlass run` are deleted first: they would block the deletion.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Delete CRDs that have objects without asking
    #[arg(long)]
    force: bool,
    /// Seconds to wait until everything is deleted; 0 to return immediately
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Print what would be deleted, without deleting it
    #[arg(long)]
    dry_run: bool,
}

/// Deletes the CRDs.
pub(crate) fn run(args: UninstallArgs) -> anyhow::Result<()> {
    let definitions = install::definitions(None)?;
    threads::block_on(async {
        let cluster = args.cluster.connect().await?;
        cluster.announce();
        let objects = cluster.objects_of(&definitions).await?;
        if !objects.is_empty() && !args.dry_run {
            confirm(&format!("{} would be deleted", objects.join(", ")), args.force)?;
        }
        let trace = Trace::new(cluster.client.clone(), project::open()?.project.project_name);
        trace.withdraw(args.dry_run, &mut |line| cluster::report(&line, args.dry_run)).await?;
        let wait = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
        let options = DeleteOptions { dry_run: args.dry_run, wait };
        cluster.delete(&definitions, options, &mut |deleted| cluster::report(deleted, args.dry_run)).await?;
        Ok(())
    })
}
