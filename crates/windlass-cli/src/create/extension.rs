//! `windlass create extension`: a resource that an API server of the project serves.

use clap::Args;
use windlass_scaffold::ApiOptions;

use super::FieldArgs;
use crate::project::{self, Writing};

/// Scaffold a resource that an aggregated API server of the project serves
///
/// The first such resource adds the server: its program, its tests, and its manifests in deploy/extension, which
/// `windlass generate` writes. Choose a custom resource (`windlass create api`) unless objects are not stored, come
/// from another database, or need code for every request.
#[derive(Debug, Args)]
pub(crate) struct ExtensionArgs {
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
    /// Cluster-scoped resource
    #[arg(long)]
    cluster: bool,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    writing: Writing,
}

/// Adds the resource.
pub(crate) fn run(args: ExtensionArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    let options = ApiOptions {
        plural: args.plural,
        namespaced: !args.cluster,
        controller: false,
        fields: args.fields.read()?,
        ..ApiOptions::new(args.group, args.version, args.kind)
    };
    opened.change(args.writing, |project| project.create_extension(options))
}
