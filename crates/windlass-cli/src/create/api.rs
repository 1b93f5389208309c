//! `windlass create api`: a resource that the project defines.

use clap::Args;
use windlass_scaffold::ApiOptions;

use super::FieldArgs;
use crate::project::{self, Writing};

/// Add a resource: its types, a controller, a sample and a test
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    /// Group of the resource, without the domain of the project; empty for the domain alone
    #[arg(long, default_value = "")]
    group: String,
    /// Version of the resource, as v1alpha1
    #[arg(long)]
    version: String,
    /// Kind of the resource, in CamelCase
    #[arg(long)]
    kind: String,
    /// Plural of the resource [default: made from the kind]
    #[arg(long)]
    plural: Option<String>,
    /// Objects are in namespaces; so it is unless --cluster is given
    #[arg(long)]
    namespaced: bool,
    /// Objects are of the whole cluster
    #[arg(long, conflicts_with = "namespaced")]
    cluster: bool,
    /// Only the types, no controller
    #[arg(long)]
    no_controller: bool,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    writing: Writing,
}

/// Adds the resource.
pub(crate) fn run(args: ApiArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    let options = ApiOptions {
        plural: args.plural,
        namespaced: !args.cluster,
        controller: !args.no_controller,
        fields: args.fields.read()?,
        ..ApiOptions::new(args.group, args.version, args.kind)
    };
    opened.change(args.writing, |project| project.create_api(options))
}
