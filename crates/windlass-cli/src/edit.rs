//! `windlass edit`: changes of project settings and fields.

use clap::Args;
use windlass_scaffold::{Edits, FieldEdits};

use crate::{
    create::{FieldArgs, StatusFieldArgs},
    failure::ErrorWithHint,
    init::LicenseArg,
    project::{self, SourceArgs, Writing},
};

/// Change the project or the fields of a resource
///
/// Regenerates the affected files; edited files are merged.
#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// One-sentence description of the project
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// License of the project
    #[arg(long, value_enum)]
    license: Option<LicenseArg>,
    /// Copyright holder for the LICENSE file
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// Release of Windlass to depend on
    #[arg(long, value_name = "VERSION")]
    windlass_version: Option<String>,
    /// Kind of the resource to change
    #[arg(long)]
    kind: Option<String>,
    /// Group of the resource, if several groups have the kind
    #[arg(long, requires = "kind")]
    group: Option<String>,
    /// Version of the resource to change [default: the storage version]
    #[arg(long, requires = "kind")]
    version: Option<String>,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    status_fields: StatusFieldArgs,
    /// Path of a field to remove, with its nested fields; may be repeated
    #[arg(long, value_name = "NAME", requires = "kind")]
    remove_field: Vec<String>,
    /// Name of a field of the status to remove; may be repeated
    #[arg(long, value_name = "NAME", requires = "kind")]
    remove_status_field: Vec<String>,
    /// Version to make the storage version
    #[arg(long, value_name = "VERSION", requires = "kind")]
    storage_version: Option<String>,
    #[command(flatten)]
    writing: Writing,
}

/// Changes the project.
pub(crate) fn run(args: EditArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    let field_edits = FieldEdits {
        add: args.fields.read()?,
        remove: args.remove_field,
        add_status: args.status_fields.read()?,
        remove_status: args.remove_status_field,
    };
    if args.kind.is_none() && !(field_edits.add.is_empty() && field_edits.add_status.is_empty()) {
        let message = "fields are given without a resource".to_owned();
        return Err(ErrorWithHint { message, hint: "add --kind".into() }.into());
    }
    let edits = Edits {
        description: args.description,
        license: args.license.map(Into::into),
        owner: args.owner,
        windlass: args.source.source(args.windlass_version, &opened.root)?,
    };
    opened.change(args.writing, |project| {
        project.edit(edits)?;
        let Some(kind) = args.kind else { return Ok(()) };
        let group = args.group.as_deref();
        project.edit_fields(group, &kind, args.version.as_deref(), field_edits)?;
        match args.storage_version {
            Some(version) => project.set_storage(group, &kind, &version),
            None => Ok(()),
        }
    })
}
