//! `windlass create controller`: for a kind of Kubernetes or of somebody else.

use clap::Args;
use windlass_scaffold::ControllerOptions;

use super::FieldArgs;
use crate::project::{self, Writing};

/// Add a controller for a kind of Kubernetes, of another project, or of this one
///
/// For a foreign kind, types with the fields that are given are made; the rest of its fields is left alone.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// Group of the kind, as apps or cert-manager.io; core for Pods and the like
    #[arg(long)]
    group: Option<String>,
    /// Version of the kind
    #[arg(long)]
    version: Option<String>,
    /// The kind
    #[arg(long)]
    kind: String,
    /// Plural of a foreign kind [default: made from the kind]
    #[arg(long)]
    plural: Option<String>,
    /// Objects of a foreign kind are of the whole cluster
    #[arg(long)]
    cluster: bool,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    writing: Writing,
}

/// Adds the controller.
pub(crate) fn run(args: ControllerArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    let options = ControllerOptions {
        group: args.group,
        version: args.version,
        kind: args.kind,
        plural: args.plural,
        namespaced: !args.cluster,
        fields: args.fields.read()?,
    };
    opened.change(args.writing, |project| project.create_controller(options))
}
