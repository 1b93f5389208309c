//! `windlass create api`: a resource defined by the project.

use clap::Args;
use windlass_scaffold::ApiOptions;

use super::{FieldArgs, StatusFieldArgs};
use crate::project::{self, Writing};

/// Scaffold a resource: types, controller, sample and test
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    /// Group of the resource, without the project's domain; empty for the domain itself
    #[arg(long, default_value = "")]
    group: String,
    /// Version of the resource, for example v1alpha1
    #[arg(long)]
    version: String,
    /// Kind of the resource, in CamelCase
    #[arg(long)]
    kind: String,
    /// Plural of the resource [default: derived from the kind]
    #[arg(long)]
    plural: Option<String>,
    /// Namespaced resource (the default)
    #[arg(long)]
    namespaced: bool,
    /// Cluster-scoped resource
    #[arg(long, conflicts_with = "namespaced")]
    cluster: bool,
    /// Scaffold the types without a controller
    #[arg(long)]
    no_controller: bool,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    status_fields: StatusFieldArgs,
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
        status_fields: args.status_fields.read()?,
        ..ApiOptions::new(args.group, args.version, args.kind)
    };
    opened.change(args.writing, |project| project.create_api(options))
}
