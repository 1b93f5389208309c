//! Projects on the disk: finding one, and bringing it from one state to another.

mod ask;
mod cargo;
mod format;
mod program;
mod source;
mod tree;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use windlass_scaffold::{
    Change, Conflicts, Files, Plan, Project, ScaffoldError, difference, fingerprint, generate, plan,
};

pub(crate) use cargo::{Artifact, artifact, cargo};
pub(crate) use format::{format_all, style_of};
pub(crate) use program::{Place, Program};
pub(crate) use source::SourceArgs;
pub(crate) use tree::{Tree, roles, samples};
pub(crate) use write::all as write_all;

use crate::{failure::Advised, output};

/// The file that makes a folder a project.
const PROJECT: &str = "PROJECT";

/// How a command that writes into a project goes about it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Writing {
    /// Print what would be done as a diff, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Overwrite and remove edited files without asking
    #[arg(long)]
    pub(crate) force: bool,
}

/// A project and where it is.
pub(crate) struct Opened {
    pub(crate) root: PathBuf,
    pub(crate) project: Project,
}

/// A project as it is to be.
pub(crate) struct Wanted {
    pub(crate) project: Project,
    /// Texts in place of those that are generated.
    pub(crate) instead: Files,
}

impl From<Project> for Wanted {
    fn from(project: Project) -> Self {
        Self { project, instead: Files::new() }
    }
}

/// The project that the working directory is in.
pub(crate) fn open() -> anyhow::Result<Opened> {
    let here = env::current_dir().context("cannot find the working directory")?;
    let Some(root) = here.ancestors().find(|folder| folder.join(PROJECT).is_file()) else {
        let message = format!("{} is in no project: there is no file {PROJECT}", here.display());
        return Err(Advised { message, hint: "make a project with `windlass init NAME --domain DOMAIN`".into() }.into());
    };
    let file = root.join(PROJECT);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let project = Project::read(&text).with_context(|| root.display().to_string())?;
    Ok(Opened { root: root.to_owned(), project })
}

/// The same, of this version of the scaffold.
pub(crate) fn open_current() -> anyhow::Result<Opened> {
    let opened = open()?;
    opened.project.check_scaffold()?;
    Ok(opened)
}

impl Opened {
    /// Changes the project, and its files with it.
    pub(crate) fn change(
        &self,
        writing: Writing,
        change: impl FnOnce(&mut Project) -> Result<(), ScaffoldError>,
    ) -> anyhow::Result<()> {
        let mut project = self.project.clone();
        change(&mut project)?;
        self.become_as(project.into(), writing)
    }

    /// Makes the project as it is wanted.
    pub(crate) fn become_as(&self, wanted: Wanted, writing: Writing) -> anyhow::Result<()> {
        let before = generate(&self.project);
        let step = Step { root: &self.root, recorded: &self.project.files, before, conflicts: Conflicts::ByHand };
        step.take(wanted, writing)
    }
}

/// From what was generated to what is to be.
pub(crate) struct Step<'a> {
    pub(crate) root: &'a Path,
    /// Fingerprints of the PROJECT file.
    pub(crate) recorded: &'a BTreeMap<String, String>,
    /// What was generated.
    pub(crate) before: Files,
    pub(crate) conflicts: Conflicts,
}

impl Step<'_> {
    /// Plans it, asks where something of the user would be lost, and does it all or not at all.
    pub(crate) fn take(mut self, mut wanted: Wanted, writing: Writing) -> anyhow::Result<()> {
        let mut after = generate(&wanted.project);
        let changed: BTreeSet<String> = self
            .before
            .keys()
            .chain(after.keys())
            .filter(|path| self.before.get(*path) != after.get(*path))
            .cloned()
            .collect();
        let style = style_of(self.root);
        format_all(&mut self.before, &changed, &style);
        format_all(&mut after, &changed, &style);
        wanted.project.files = self.fingerprints(&changed, &after);
        // Those that nothing is generated for are only ever written once, and belong to the user from then on.
        let others: BTreeSet<String> =
            wanted.instead.keys().filter(|path| !after.contains_key(*path)).cloned().collect();
        format_all(&mut wanted.instead, &others, &style);
        after.extend(wanted.instead);

        let there = read(self.root, &changed.union(&others).cloned().collect())?;
        let mut plan = plan(self.recorded, &self.before, &after, &|path| there.get(path).cloned(), self.conflicts);
        ask::resolve(&mut plan, writing)?;
        plan.changes.extend(self.project_file(&wanted.project)?);
        if writing.dry_run {
            show_changes(&plan.changes)?;
        } else {
            write::all(self.root, &plan.changes)?;
        }
        tell(&plan, writing);
        match plan.conflicts.is_empty() {
            true => Ok(()),
            false => Err(Advised {
                message: format!("there are conflicts in {}", plan.conflicts.join(", ")),
                hint: "look for <<<<<<< in these files and choose".into(),
            }
            .into()),
        }
    }

    /// What is to be remembered: files that stay as they were keep what they had.
    fn fingerprints(&self, changed: &BTreeSet<String>, after: &Files) -> BTreeMap<String, String> {
        let fingerprint_of = |(path, text): (&String, &String)| {
            let kept = self.recorded.get(path).filter(|_| !changed.contains(path));
            (path.clone(), kept.cloned().unwrap_or_else(|| fingerprint(text)))
        };
        after.iter().map(fingerprint_of).collect()
    }

    fn project_file(&self, project: &Project) -> anyhow::Result<Option<Change>> {
        let old = read(self.root, &BTreeSet::from([PROJECT.to_owned()]))?.remove(PROJECT);
        let new = Some(project.write());
        Ok((old != new).then(|| Change { path: PROJECT.to_owned(), old, new, merged: false }))
    }
}

/// The files that are there.
pub(crate) fn read(root: &Path, paths: &BTreeSet<String>) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for path in paths {
        let file = root.join(path);
        match fs::read_to_string(&file) {
            Ok(text) => {
                files.insert(path.clone(), text);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }
    Ok(files)
}

/// Prints what would be done.
pub(crate) fn show_changes(changes: &[Change]) -> anyhow::Result<()> {
    let all: String =
        changes.iter().map(|change| difference(&change.path, change.old.as_deref(), change.new.as_deref())).collect();
    output::print(&all)
}

/// Says what was done, and what is left to do.
fn tell(plan: &Plan, writing: Writing) {
    if !writing.dry_run {
        for Change { path, old, new, merged } in plan.changes.iter().filter(|change| change.path != PROJECT) {
            let done = match (old, new, merged) {
                (_, _, true) => "merged ",
                (None, ..) => "created",
                (_, None, _) => "removed",
                _ => "changed",
            };
            eprintln!("{done} {path}");
        }
    }
    if plan.changes.is_empty() {
        eprintln!("there was nothing to do");
    }
    if plan.by_hand.is_empty() {
        return;
    }
    eprintln!("\nsome files are too different from what was generated; please edit them:");
    for windlass_scaffold::ByHand { path, line, remove, add } in &plan.by_hand {
        eprintln!("{path}:{line}:");
        for line in remove {
            eprint!("  - {line}");
        }
        for line in add {
            eprint!("  + {line}");
        }
    }
}
