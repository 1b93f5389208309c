//! Projects on the disk: finding one, and bringing it from one state to another.

mod ask;
mod cargo;
mod format;
mod held;
mod origin;
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
    Change, Conflicts, Files, Plan, Project, Question, ScaffoldError, difference, fingerprint, generate, plan,
};

pub(crate) use cargo::{Artifact, artifact, cargo};
pub(crate) use format::{format_all, style_of};
pub(crate) use origin::Origin;
pub(crate) use program::{Place, Program};
pub(crate) use source::{SourceArgs, describe};
pub(crate) use tree::{Tree, roles, samples};
pub(crate) use write::all as write_all;

use crate::{
    failure::{Advised, Told},
    output,
};

/// The file that makes a folder a project.
const PROJECT: &str = "PROJECT";

/// A file that is there once manifests were generated.
const MANIFESTS: &str = "deploy/crd/crds.yaml";

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
    let project = match Project::read(&text) {
        Err(_) if is_of_kubebuilder(&text) => {
            let message = format!("{} is a project of kubebuilder or Operator SDK", root.display());
            let hint = "make a project in another folder with `windlass init NAME --domain DOMAIN`; `windlass import \
                        crd FILE` takes its definitions over";
            return Err(Advised { message, hint: hint.into() }.into());
        }
        read => read.with_context(|| root.display().to_string())?,
    };
    write::sweep(root);
    Ok(Opened { root: root.to_owned(), project })
}

/// Whether the file is the one that kubebuilder and Operator SDK have, which has the same name.
fn is_of_kubebuilder(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("layout:"));
    lines.next().is_some_and(|line| {
        let layout = std::iter::once(line).chain(lines.take_while(|line| line.starts_with(['-', ' '])));
        layout.into_iter().any(|line| line.contains("kubebuilder.io") || line.contains("operatorframework.io"))
    })
}

/// The same, of this version of the scaffold.
pub(crate) fn open_current() -> anyhow::Result<Opened> {
    let opened = open()?;
    opened.project.check_scaffold()?;
    Ok(opened)
}

/// A namespace, as a cluster takes it.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    match windlass_scaffold::names::is_dns_label(text) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} cannot be a namespace: it has at most 63 lower-case letters, digits and -, and begins and ends \
             with a letter or digit"
        )),
    }
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
        let beside = match self.conflicts {
            Conflicts::Mark if !writing.force => self.put_beside(&mut plan)?,
            _ => Vec::new(),
        };
        ask::resolve(&mut plan, writing)?;
        plan.changes.extend(self.project_file(&wanted.project)?);
        if writing.dry_run {
            show_changes(&plan.changes)?;
        } else {
            write::all(self.root, &plan.changes)?;
        }
        tell(&plan, writing);
        if !writing.dry_run && !self.recorded.is_empty() {
            tell_stale(self.root, &plan.changes);
        }
        if !plan.conflicts.is_empty() {
            let message = format!("there are conflicts in {}", plan.conflicts.join(", "));
            return Err(Advised { message, hint: "look for <<<<<<< in these files and choose".into() }.into());
        }
        if !beside.is_empty() {
            let message = format!("edited files were left as they are: {}", beside.join(", "));
            let hint = "what this windlass makes is beside them (.new): take over what you want, and remove it; or put \
                        everything back by version control, and `windlass upgrade --from PROGRAM` with the older \
                        windlass merges it";
            return Err(Advised { message, hint: hint.into() }.into());
        }
        // What is left to do has been said.
        if plan.by_hand.is_empty() { Ok(()) } else { Err(Told.into()) }
    }

    /// Answers the questions of a plan so that edited files stay, with what they would become beside them; answers
    /// which these are.
    fn put_beside(&self, plan: &mut Plan) -> anyhow::Result<Vec<String>> {
        let mut edited = Vec::new();
        for Question { change, .. } in std::mem::take(&mut plan.questions) {
            match change.new {
                Some(new) => {
                    let path = format!("{}.new", change.path);
                    let old = read(self.root, &BTreeSet::from([path.clone()]))?.remove(&path);
                    if old.as_ref() != Some(&new) {
                        plan.changes.push(Change { path, old, new: Some(new), merged: false });
                    }
                    edited.push(change.path);
                }
                None => eprintln!("kept    {}: it was edited, and is not generated any more", change.path),
            }
        }
        plan.changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(edited)
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

/// Says how manifests that are there become those of the changed code: tests of the project compare them.
fn tell_stale(root: &Path, changes: &[Change]) {
    // Nothing in these two is in manifests.
    let others = ["src/lib.rs", "src/main.rs"];
    let is_code = |Change { path, .. }: &Change| {
        path.starts_with("src/") && path.ends_with(".rs") && !others.contains(&path.as_str())
    };
    if changes.iter().any(is_code) && root.join(MANIFESTS).is_file() {
        eprintln!("\nnext:\n  windlass generate    # {MANIFESTS} and others are of before this change");
    }
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
