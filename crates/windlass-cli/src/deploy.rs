//! `windlass deploy`: deploys a project's operator to a cluster.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use windlass_scaffold::package::Image;

use crate::{
    cluster::{self, ApplyOptions, ClusterArgs, Reference},
    project::{self, KustomizeTree, Program},
    threads,
};

/// Deploy the operator to a cluster and wait until it is available
///
/// Applies deploy/default, regenerated from the operator. The cluster must be able to pull the image.
#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Overlay to deploy instead of deploy/default
    #[arg(long, value_name = "NAME")]
    overlay: Option<String>,
    /// Image of the operator [default: from deploy/default]
    #[arg(long, value_name = "IMAGE")]
    image: Option<Image>,
    /// Namespace of the operator [default: from deploy/default]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Take ownership of fields that conflict with other field managers
    #[arg(long)]
    force_conflicts: bool,
    /// Seconds to wait until the operator is available; 0 to return immediately
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Print what the server would change, without changing it
    #[arg(long)]
    dry_run: bool,
}

/// Applies the manifests and waits.
pub(crate) fn run(args: DeployArgs) -> anyhow::Result<()> {
    let objects = objects(args.image.as_ref(), args.namespace.as_deref(), args.overlay.as_deref())?;
    threads::block_on(async {
        let cluster = args.cluster.connect().await?;
        cluster.announce();
        let options = ApplyOptions { dry_run: args.dry_run, force_conflicts: args.force_conflicts };
        let applied = cluster.apply(&objects, options, &mut |applied| cluster::report(applied, args.dry_run)).await?;
        if args.dry_run || args.timeout == 0 {
            return Ok(());
        }
        let deployments: Vec<&Reference> =
            applied.iter().map(|applied| &applied.reference).filter(|one| one.kind == "Deployment").collect();
        for deployment in deployments {
            cluster.wait_until_available(deployment, Duration::from_secs(args.timeout)).await?;
        }
        Ok(())
    })
}

/// Returns all objects of the deployment.
pub(crate) fn objects(
    image: Option<&Image>,
    namespace: Option<&str>,
    overlay: Option<&str>,
) -> anyhow::Result<Vec<Value>> {
    let opened = project::open()?;
    let overlay = overlay.map(|name| opened.project.overlay(name)).transpose()?;
    let tree = KustomizeTree::read(&opened, image, namespace)?;
    let program = Program::build(&opened.root, &opened.project.project_name)?;
    tree.objects(&opened, &program, overlay)
}
