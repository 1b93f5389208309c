//! `windlass import crd`: Rust types from an existing CRD.

mod source;

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use windlass_scaffold::{Definition, Files, ImportOptions, ScaffoldError, types_path};
use windlass_schema::sorting::Gather as _;

use crate::{
    cluster::ClusterArgs,
    failure::ErrorWithHint,
    output,
    project::{self, TargetState, Writing},
};

/// Generate Rust types from a CustomResourceDefinition
///
/// The types become part of the project and are yours to edit; the resource still belongs to the project that defines
/// it. The CRD that kube-derive generates from the types has the same schema; differences that Rust cannot express are
/// reported. With --print, the types are only printed, and no project is needed.
#[derive(Debug, Args)]
pub(crate) struct CrdArgs {
    /// Manifest with CRDs of v1 or v1beta1; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "from_cluster", conflicts_with = "from_cluster")]
    file: Option<PathBuf>,
    /// Name of a CRD in a running cluster, for example certificates.cert-manager.io
    #[arg(long, value_name = "NAME")]
    from_cluster: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Kind to import [default: all kinds in the manifest]
    #[arg(long)]
    kind: Option<String>,
    /// Version to import; may be repeated [default: all served versions]
    #[arg(long = "version", value_name = "VERSION")]
    versions: Vec<String>,
    /// Scaffold a controller as well
    #[arg(long, conflicts_with = "print")]
    controller: bool,
    /// Print the types instead of adding them to the project
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    writing: Writing,
}

/// Imports the CRDs.
pub(crate) fn run(args: CrdArgs) -> anyhow::Result<()> {
    // Before a cluster is queried.
    let opened = if args.print { None } else { Some(project::open_current()?) };
    let found = match &args.from_cluster {
        Some(name) => vec![source::from_cluster(&args.cluster, name)?],
        None => source::from_file(args.file.as_deref().context("clap requires a file")?)?,
    };
    let mut definitions = Vec::new();
    for found in found {
        let definition = Definition::read(&found).with_context(|| source::name_of(&found))?;
        if args.kind.as_ref().is_none_or(|kind| *kind == definition.kind) {
            definitions.push(definition);
        }
    }
    if definitions.is_empty() {
        let of = args.kind.map(|kind| format!(" of {kind}")).unwrap_or_default();
        let hint = "use a manifest that contains a CustomResourceDefinition";
        return Err(
            ErrorWithHint { message: format!("no CustomResourceDefinition found{of}"), hint: hint.into() }.into()
        );
    }
    let mut imported = Vec::new();
    for definition in &definitions {
        let versions = versions(definition, &args.versions)?;
        for version in versions.iter().rev() {
            let types = definition.types(version).with_context(|| definition.name())?;
            for note in types.notes {
                eprintln!("{} {version}: {note}", definition.name());
            }
            imported.push((definition, version.clone(), types.text));
        }
    }
    let Some(opened) = opened else { return print(imported) };

    let mut project = opened.project.clone();
    for definition in &definitions {
        let versions = versions(definition, &args.versions)?;
        project.import(ImportOptions { definition, versions, controller: args.controller })?;
    }
    let mut overrides = Files::new();
    for (definition, version, text) in imported {
        let resource = project.resource(Some(&definition.group), &definition.kind)?;
        overrides.insert(types_path(resource, &version), text);
    }
    opened.regenerate(TargetState { project, overrides }, args.writing)
}

/// Versions to import: the requested ones, or else all served versions and the storage version.
fn versions(definition: &Definition, said: &[String]) -> Result<Vec<String>, ScaffoldError> {
    let all = definition.versions();
    if let Some(unknown) = said.iter().find(|version| !all.contains(&version.as_str())) {
        let what = format!("version {unknown} of {}", definition.name());
        return Err(ScaffoldError::Missing { what, hint: format!("available versions: {}", all.join(", ")) });
    }
    let stored = definition.storage_version();
    let wanted = |version: &&&str| match said.is_empty() {
        true => definition.is_served(version) || **version == stored,
        false => said.iter().any(|one| one == **version),
    };
    Ok(all.iter().filter(wanted).map(|version| (*version).to_owned()).collect())
}

fn print(imported: Vec<(&Definition, String, String)>) -> anyhow::Result<()> {
    let one = imported.len() == 1;
    let mut files: Files = imported
        .into_iter()
        .map(|(definition, version, text)| (format!("{}-{version}.rs", definition.name()), text))
        .gather();
    let paths: BTreeSet<String> = files.keys().cloned().gather();
    let here = std::env::current_dir().context("failed to determine the working directory")?;
    project::format_all(&mut files, &paths, &project::style_of(&here));
    let text = |(path, text): (String, String)| if one { text } else { format!("// {path}\n\n{text}") };
    output::print(&files.into_iter().map(text).collect::<String>())
}
