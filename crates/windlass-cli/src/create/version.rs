//! `windlass create version`: another version of a resource.

use std::collections::BTreeSet;

use clap::Args;
use windlass_scaffold::{Files, VersionOptions, copy_version, types_path};

use super::FieldArgs;
use crate::project::{self, Wanted, Writing};

/// Add another version of a resource, with a conversion
///
/// Its types begin as those of the version that is stored, with what was edited in them. The conversion carries over
/// fields that both versions have.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Group of the resource, if several have the kind
    #[arg(long)]
    group: Option<String>,
    /// The new version
    #[arg(long)]
    version: String,
    /// Kind of the resource
    #[arg(long)]
    kind: String,
    /// Version whose types it begins with [default: the one that is stored]
    #[arg(long)]
    from: Option<String>,
    /// Store this version from now on, and work with it
    #[arg(long)]
    storage: bool,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    writing: Writing,
}

/// Adds the version.
pub(crate) fn run(args: VersionArgs) -> anyhow::Result<()> {
    let opened = project::open_current()?;
    let resource = opened.project.resource(args.group.as_deref(), &args.kind)?.clone();
    let from = args.from.clone().unwrap_or_else(|| resource.storage_version.clone());
    let fields = args.fields.read()?;
    let copies = fields.is_empty();
    let mut project = opened.project.clone();
    project.create_version(VersionOptions {
        group: args.group,
        version: args.version.clone(),
        kind: args.kind,
        from: args.from,
        storage: args.storage,
        fields,
    })?;
    let mut instead = Files::new();
    let (old, new) = (types_path(&resource, &from), types_path(&resource, &args.version));
    let there = project::read(&opened.root, &BTreeSet::from([old.clone()]))?;
    // Types that nobody has edited are generated anew. New fields have to be, too: they are added to what windlass knows.
    let edited = there.get(&old).filter(|text| {
        opened.project.files.get(&old).is_some_and(|known| *known != windlass_scaffold::fingerprint(text))
    });
    match edited {
        Some(text) if copies => {
            instead.insert(new, copy_version(text, &resource.kind, &from, &args.version));
        }
        Some(_) => eprintln!("{old} was edited: with --field, {new} has only the fields that PROJECT knows"),
        None => {}
    }
    opened.become_as(Wanted { project, instead }, args.writing)
}
