//! `windlass install`: applies a project's CRDs to a cluster.

use clap::Args;

use crate::{
    cluster::{self, ApplyOptions, ClusterArgs},
    project::{self, DeployTarget, Program},
    threads,
};

/// Apply the project's CRDs to a cluster and wait until they are established
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the operator, for CRDs with a conversion webhook [default: from deploy/default]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Take ownership of fields that conflict with other field managers
    #[arg(long)]
    force_conflicts: bool,
    /// Print what the server would change, without changing it
    #[arg(long)]
    dry_run: bool,
}

/// Applies the CRDs.
pub(crate) fn run(args: InstallArgs) -> anyhow::Result<()> {
    let definitions = definitions(args.namespace.as_deref())?;
    threads::block_on(async {
        let cluster = args.cluster.connect().await?;
        cluster.announce();
        let options = ApplyOptions { dry_run: args.dry_run, force_conflicts: args.force_conflicts };
        cluster.apply(&definitions, options, &mut |applied| cluster::report(applied, args.dry_run)).await?;
        if definitions.is_empty() {
            eprintln!("the project defines no resources");
        }
        Ok(())
    })
}

/// Returns the CRDs of the project.
pub(crate) fn definitions(namespace: Option<&str>) -> anyhow::Result<Vec<serde_json::Value>> {
    let opened = project::open()?;
    let tree = project::KustomizeTree::read(&opened, None, namespace)?;
    let program = Program::build(&opened.root, &opened.project.project_name)?;
    let image = tree.kustomization.image.to_string();
    program.manifests(&DeployTarget { namespace: &tree.kustomization.namespace, image: &image }, &["--only", "crds"])
}
