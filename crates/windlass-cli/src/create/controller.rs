//! `windlass create controller`: a controller for a built-in or foreign kind.

use clap::Args;
use windlass_scaffold::ControllerOptions;

use super::FieldArgs;
use crate::project::{self, Writing};

/// Scaffold a controller for a built-in kind, a kind of another project, or one of this project
///
/// For a kind of another project, the generated types contain the given fields; its other fields are left untouched. A
/// kind can have several controllers, each with its own queue and field manager: give all but one a --name.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// Group of the kind, for example apps or cert-manager.io; core for the core group
    #[arg(long)]
    group: Option<String>,
    /// Version of the kind
    #[arg(long)]
    version: Option<String>,
    /// Kind to reconcile
    #[arg(long)]
    kind: String,
    /// Name of an additional controller for the kind, for example backup
    #[arg(long)]
    name: Option<String>,
    /// Plural of a kind of another project [default: derived from the kind]
    #[arg(long)]
    plural: Option<String>,
    /// Kind of another project is cluster-scoped
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
        name: args.name,
        plural: args.plural,
        namespaced: !args.cluster,
        fields: args.fields.read()?,
    };
    opened.change(args.writing, |project| project.create_controller(options))
}
