//! `windlass create version`: another version of a resource.

use std::collections::BTreeSet;

use clap::Args;
use windlass_scaffold::{Files, VersionOptions, copy_version, types_path};

use super::{FieldArgs, StatusFieldArgs};
use crate::project::{self, TargetState, Writing};

/// Scaffold another version of a resource, with a conversion
///
/// Its types start as a copy of the storage version, including your edits. The conversion copies fields that exist in
/// both versions.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Group of the resource, if several groups have the kind
    #[arg(long)]
    group: Option<String>,
    /// New version
    #[arg(long)]
    version: String,
    /// Kind of the resource
    #[arg(long)]
    kind: String,
    /// Version to copy [default: the storage version]
    #[arg(long)]
    from: Option<String>,
    /// Make the new version the storage version
    #[arg(long)]
    storage: bool,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    status_fields: StatusFieldArgs,
    #[command(flatten)]
    writing: Writing,
}

/// Adds the version.
pub(crate) fn run(args: VersionArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    let resource = opened.project.resource(args.group.as_deref(), &args.kind)?.clone();
    let from = args.from.clone().unwrap_or_else(|| resource.storage_version.clone());
    let (fields, status_fields) = (args.fields.read()?, args.status_fields.read()?);
    let copies = fields.is_empty() && status_fields.is_empty();
    let mut project = opened.project.clone();
    project.create_version(VersionOptions {
        group: args.group,
        version: args.version.clone(),
        kind: args.kind,
        from: args.from,
        storage: args.storage,
        fields,
        status_fields,
    })?;
    let mut overrides = Files::new();
    let (old, new) = (types_path(&resource, &from), types_path(&resource, &args.version));
    let there = project::read(&opened.root, &BTreeSet::from([old.clone()]))?;
    // Unmodified types are generated. So are types with new fields: these are added to the fields recorded in PROJECT.
    let edited = there.get(&old).filter(|text| {
        opened.project.files.get(&old).is_some_and(|known| *known != windlass_scaffold::fingerprint(text))
    });
    match edited {
        Some(text) if copies => {
            overrides.insert(new, copy_version(text, &resource.kind, &from, &args.version));
        }
        Some(_) => eprintln!("{old} was edited: with --field, {new} only has the fields recorded in PROJECT"),
        None => {}
    }
    opened.regenerate(TargetState { project, overrides }, args.writing)
}
