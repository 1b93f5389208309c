//! `windlass import crd`: Rust types from an existing definition.

mod source;

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use windlass_scaffold::{Definition, Files, ImportOptions, ScaffoldError, types_path};

use crate::{
    cluster::ClusterArgs,
    failure::Advised,
    output,
    project::{self, Wanted, Writing},
};

/// Make Rust types from a custom resource definition
///
/// The types become part of the project, and are yours: the resource stays that of whoever defines it. The definition
/// that kube-derive makes of the types has the same schema; what cannot be said in Rust is told. With --print they are
/// only printed, wherever that is.
#[derive(Debug, Args)]
pub(crate) struct CrdArgs {
    /// Manifest with definitions, of v1 or v1beta1; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "from_cluster", conflicts_with = "from_cluster")]
    file: Option<PathBuf>,
    /// Name of a definition in a running cluster, as certificates.cert-manager.io
    #[arg(long, value_name = "NAME")]
    from_cluster: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only definitions of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only this version; may be repeated [default: all that are served]
    #[arg(long = "version", value_name = "VERSION")]
    versions: Vec<String>,
    /// Add a controller for it, too
    #[arg(long, conflicts_with = "print")]
    controller: bool,
    /// Print the types instead
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    writing: Writing,
}

/// Imports the definitions.
pub(crate) fn run(args: CrdArgs) -> anyhow::Result<()> {
    // Before anything is asked of a cluster.
    let opened = if args.print { None } else { Some(project::open_current()?) };
    let found = match &args.from_cluster {
        Some(name) => vec![source::from_cluster(&args.cluster, name)?],
        None => source::from_file(args.file.as_deref().context("a file must be given")?)?,
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
        let hint = "give a manifest with a CustomResourceDefinition in it";
        return Err(Advised { message: format!("there is no definition{of}"), hint: hint.into() }.into());
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
    let mut instead = Files::new();
    for (definition, version, text) in imported {
        let resource = project.resource(Some(&definition.group), &definition.kind)?;
        instead.insert(types_path(resource, &version), text);
    }
    opened.become_as(Wanted { project, instead }, args.writing)
}

/// The versions that are wanted: those that are said, else those that anybody can ask for, and the one that is stored.
fn versions(definition: &Definition, said: &[String]) -> Result<Vec<String>, ScaffoldError> {
    let all = definition.versions();
    if let Some(unknown) = said.iter().find(|version| !all.contains(&version.as_str())) {
        let what = format!("version {unknown} of {}", definition.name());
        return Err(ScaffoldError::Missing { what, hint: format!("there are {}", all.join(", ")) });
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
        .collect();
    let paths: BTreeSet<String> = files.keys().cloned().collect();
    let here = std::env::current_dir().context("cannot find the working directory")?;
    project::format_all(&mut files, &paths, &project::style_of(&here));
    let text = |(path, text): (String, String)| if one { text } else { format!("// {path}\n\n{text}") };
    output::print(&files.into_iter().map(text).collect::<String>())
}
