//! `windlass crd upgrade`: converts CRDs from `v1beta1` to `v1`.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;

use super::{manifest, replace};
use crate::{failure::ErrorWithHint, output};

/// Convert CustomResourceDefinitions from apiextensions.k8s.io/v1beta1 to v1
///
/// Writes YAML to standard output, and a report of changes and assumptions to standard error. Other documents are
/// copied unchanged. Nothing is written unless all CRDs can be converted.
#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// Manifests with one or more documents; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// File to write instead of standard output
    #[arg(long, value_name = "FILE", conflicts_with = "in_place")]
    output: Option<PathBuf>,
    /// Replace the files
    #[arg(long)]
    in_place: bool,
}

/// Converts all files, then writes.
pub(crate) fn run(args: UpgradeArgs) -> anyhow::Result<()> {
    let stdin = Path::new("-");
    let from_stdin = args.files.iter().filter(|file| *file == stdin).count();
    if from_stdin > 1 || (from_stdin == 1 && args.in_place) {
        let message = match args.in_place {
            true => "standard input cannot be replaced",
            false => "standard input can only be read once",
        };
        return Err(
            ErrorWithHint { message: message.into(), hint: "give - once, and without --in-place".into() }.into()
        );
    }
    let mut manifests = Vec::with_capacity(args.files.len());
    for file in &args.files {
        let name = if file == stdin { "standard input".to_owned() } else { file.display().to_string() };
        let text = read(file, stdin).with_context(|| format!("cannot read {name}"))?;
        let manifest = manifest::upgrade(&text).with_context(|| name.clone())?;
        manifests.push((file, name, manifest));
    }
    for (_, name, manifest) in &manifests {
        for line in &manifest.account {
            eprintln!("{name}: {line}");
        }
    }
    let count: usize = manifests.iter().map(|(_, _, manifest)| manifest.upgraded).sum();
    if args.in_place {
        let changed = manifests.iter().filter(|(_, _, manifest)| manifest.upgraded > 0);
        replace::all(changed.map(|(file, _, manifest)| (file.as_path(), manifest.text.as_str())))?;
    } else {
        let text = manifest::join(manifests.iter().map(|(_, _, manifest)| manifest.text.as_str()));
        match &args.output {
            Some(file) => replace::all([(file.as_path(), text.as_str())])?,
            None => output::print(&text)?,
        }
    }
    match count {
        0 => eprintln!("nothing to convert"),
        1 => eprintln!("converted 1 CustomResourceDefinition"),
        count => eprintln!("converted {count} CustomResourceDefinitions"),
    }
    Ok(())
}

fn read(file: &Path, stdin: &Path) -> io::Result<String> {
    if file != stdin {
        return fs::read_to_string(file);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}
