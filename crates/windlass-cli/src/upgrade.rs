//! `windlass upgrade`: a project that an older windlass made.

mod history;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use clap::Args;
use windlass_scaffold::{Change, Conflicts, Files, GitSource, SCAFFOLD, Source, VERSION, fingerprint, generate};

use crate::{
    failure::Advised,
    project::{self, Opened, Origin, Step, Writing},
};

/// Bring a project that an older windlass made to what this one makes
///
/// Files that nobody has edited are replaced. Edited ones are merged by what the older windlass generated: that is in
/// the history of git, if it was committed before it was edited, or that program tells it if it is given with --from.
/// Where it conflicts, both are in the file, with markers. Where it is not known what was generated, the edited file
/// stays, and what it would be is beside it as FILE.new.
#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// The older windlass, the program itself
    #[arg(long, value_name = "PROGRAM", conflicts_with = "base")]
    from: Option<PathBuf>,
    /// Folder with what the older windlass generates for this project
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Write what this windlass generates for the project into a folder, and do nothing else: for a newer one
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "base", "dry_run", "force"])]
    write_base: Option<PathBuf>,
    #[command(flatten)]
    writing: Writing,
}

/// Upgrades the project.
pub(crate) fn run(args: UpgradeArgs) -> anyhow::Result<()> {
    let opened = project::open()?;
    if let Some(folder) = args.write_base {
        opened.project.check_scaffold()?;
        return write_base(&opened, &folder);
    }
    if opened.project.scaffold == SCAFFOLD {
        eprintln!("the project is of this windlass already");
        return Ok(());
    }
    let mut base = match (&args.base, &args.from) {
        (Some(folder), _) => read_base(folder, &opened)?,
        (None, Some(program)) => ask_base(program, &opened)?,
        (None, None) => Files::new(),
    };
    let paths: BTreeSet<String> = opened.project.files.keys().cloned().collect();
    for (path, text) in project::read(&opened.root, &paths)? {
        // What nobody has edited is what was generated.
        let Some(known) = opened.project.files.get(&path) else { continue };
        if *known == fingerprint(&text) {
            base.insert(path, text);
        } else if !base.contains_key(&path)
            && let Some(text) = history::find(&opened.root, &path, known)
        {
            base.insert(path, text);
        }
    }
    let mut project = opened.project.clone();
    project.scaffold = SCAFFOLD;
    match (&mut project.windlass, Origin::of_this_program()) {
        (Source::Version(version), _) => *version = VERSION.to_owned(),
        (Source::Git(GitSource { url, rev }), Origin::Git(ours)) if *url == ours.url && rev.is_some() => {
            *rev = ours.rev
        }
        _ => {}
    }
    let step = Step { root: &opened.root, recorded: &opened.project.files, before: base, conflicts: Conflicts::Mark };
    step.take(project.into(), args.writing)
}

fn write_base(opened: &Opened, folder: &Path) -> anyhow::Result<()> {
    let mut files = generate(&opened.project);
    let paths = files.keys().cloned().collect();
    project::format_all(&mut files, &paths, &project::style_of(&opened.root));
    let changes = files.into_iter().map(|(path, text)| Change { path, old: None, new: Some(text), merged: false });
    project::write_all(folder, &changes.collect::<Vec<_>>())
}

/// What the older windlass generated, as far as it is in the folder.
fn read_base(folder: &Path, opened: &Opened) -> anyhow::Result<Files> {
    let paths: BTreeSet<String> = opened.project.files.keys().cloned().collect();
    ensure!(folder.is_dir(), "{} is no folder", folder.display());
    project::read(folder, &paths)
}

fn ask_base(program: &Path, opened: &Opened) -> anyhow::Result<Files> {
    let folder = std::env::temp_dir().join(format!("windlass-base-{}", std::process::id()));
    let outcome = Command::new(program)
        .args(["upgrade", "--write-base"])
        .arg(&folder)
        .current_dir(&opened.root)
        .status()
        .with_context(|| format!("cannot run {}", program.display()));
    let base = outcome.and_then(|status| {
        ensure!(status.success(), "{} could not say what it generated", program.display());
        if !folder.is_dir() {
            let message = format!("{} has not written what it generates", program.display());
            let hint = "give the program of the older windlass with --from, or a folder with what it made with --base";
            return Err(Advised { message, hint: hint.into() }.into());
        }
        read_base(&folder, opened)
    });
    let _ = fs::remove_dir_all(&folder);
    base
}
