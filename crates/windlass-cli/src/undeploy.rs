//! `windlass undeploy`: deletes a project's operator from a cluster.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::{
    cluster::{self, ClusterArgs, DeleteOptions},
    confirm::confirm,
    deploy, project,
    run::trace::Trace,
    threads,
};

/// Delete everything that `windlass deploy` applied
///
/// CRDs are deleted first, while the operator is running, so that it can finalize their objects. Webhook configurations
/// left behind by a killed `windlass run` are deleted before that.
#[derive(Debug, Args)]
pub(crate) struct UndeployArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Overlay that was deployed instead of deploy/default
    #[arg(long, value_name = "NAME")]
    overlay: Option<String>,
    /// Namespace of the operator [default: from deploy/default]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Keep the CRDs and all their objects
    #[arg(long)]
    keep_crds: bool,
    /// Delete CRDs that have objects without asking
    #[arg(long)]
    force: bool,
    /// Seconds to wait until everything is deleted; 0 to return immediately
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Print what would be deleted, without deleting it
    #[arg(long)]
    dry_run: bool,
}

/// Deletes the deployment.
pub(crate) fn run(args: UndeployArgs) -> anyhow::Result<()> {
    let objects = deploy::objects(None, args.namespace.as_deref(), args.overlay.as_deref())?;
    let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
    let (definitions, rest): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(is_definition);
    let definitions = if args.keep_crds { Vec::new() } else { definitions };
    threads::block_on(async {
        let cluster = args.cluster.connect().await?;
        cluster.announce();
        let lost = cluster.objects_of(&definitions).await?;
        if !lost.is_empty() && !args.dry_run {
            confirm(&format!("{} would be deleted", lost.join(", ")), args.force)?;
        }
        let trace = Trace::new(cluster.client.clone(), project::open()?.project.project_name);
        trace.withdraw(args.dry_run, &mut |line| cluster::report(&line, args.dry_run)).await?;
        let wait = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
        let options = DeleteOptions { dry_run: args.dry_run, wait };
        for objects in [definitions, rest] {
            cluster.delete(&objects, options, &mut |deleted| cluster::report(deleted, args.dry_run)).await?;
        }
        Ok(())
    })
}
