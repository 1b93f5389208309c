//! `windlass deploy`: the operator of a project, in a cluster.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use windlass_scaffold::package::Image;

use crate::{
    cluster::{self, ApplyOptions, ClusterArgs, Reference},
    project::{self, Program, Tree},
    threads,
};

/// Apply everything that the operator needs to a cluster, and wait until it runs
///
/// What is applied is what deploy/default says, made anew from the program. The image must be where the cluster finds
/// it.
#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Image of the operator [default: as deploy/default says]
    #[arg(long, value_name = "IMAGE")]
    image: Option<Image>,
    /// Namespace of the operator [default: as deploy/default says]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Take over fields that others have set
    #[arg(long)]
    force_conflicts: bool,
    /// Seconds to wait until the operator is available; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Print what the server would change, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Applies it, and waits.
pub(crate) fn run(args: DeployArgs) -> anyhow::Result<()> {
    let objects = objects(args.image.as_ref(), args.namespace.as_deref())?;
    threads::block_on(async {
        let cluster = args.cluster.connect().await?;
        cluster.announce();
        let options = ApplyOptions { dry_run: args.dry_run, force_conflicts: args.force_conflicts };
        let applied = cluster.apply(&objects, options, &mut |applied| cluster::tell(applied, args.dry_run)).await?;
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

/// Everything that the project deploys.
pub(crate) fn objects(image: Option<&Image>, namespace: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let opened = project::open()?;
    let tree = Tree::read(&opened, image, namespace)?;
    let program = Program::build(&opened.root, &opened.project.project_name)?;
    tree.objects(&opened, &program)
}
