//! Projects on disk: opening and updating them.

mod ask;
mod cargo;
mod deferred_signals;
mod format;
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
    Change, Conflicts, FilePlan, Files, Project, Question, Resource, ScaffoldError, difference, fingerprint, generate,
    plan,
};
use windlass_schema::sorting::{self, Gather as _};

pub(crate) use cargo::{Artifact, artifact, cargo};
pub(crate) use format::{format_all, style_of};
pub(crate) use origin::{Origin, is_checkout};
pub(crate) use program::{DeployTarget, Program};
pub(crate) use source::{SourceArgs, describe};
pub(crate) use tree::{KustomizeTree, roles, samples};
pub(crate) use write::all as write_all;

use crate::{
    failure::{AlreadyReported, ErrorWithHint},
    output,
};

/// The file that marks the root of a project.
const PROJECT: &str = "PROJECT";

/// A file that exists once manifests have been generated.
const MANIFESTS: &str = "deploy/crd/crds.yaml";

/// Options of commands that write into a project.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Writing {
    /// Print the changes as a diff, without writing files
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Overwrite and delete edited files without asking
    #[arg(long)]
    pub(crate) force: bool,
}

/// A project and its directory.
pub(crate) struct OpenProject {
    pub(crate) root: PathBuf,
    pub(crate) project: Project,
}

/// Target state of a project.
pub(crate) struct TargetState {
    pub(crate) project: Project,
    /// File contents that replace the generated ones.
    pub(crate) overrides: Files,
}

impl From<Project> for TargetState {
    fn from(project: Project) -> Self {
        Self { project, overrides: Files::new() }
    }
}

/// Opens the project that contains the working directory.
pub(crate) fn open() -> anyhow::Result<OpenProject> {
    let here = env::current_dir().context("failed to determine the working directory")?;
    let Some(root) = here.ancestors().find(|folder| folder.join(PROJECT).is_file()) else {
        let message = format!("{} is not in a project: no {PROJECT} file was found", here.display());
        return Err(ErrorWithHint {
            message,
            hint: "create a project with `windlass init NAME --domain DOMAIN`".into(),
        }
        .into());
    };
    let file = root.join(PROJECT);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let project = match Project::read(&text) {
        Err(_) if is_of_kubebuilder(&text) => {
            let message = format!("{} is a kubebuilder or Operator SDK project", root.display());
            let hint = "create a project in another directory with `windlass init NAME --domain DOMAIN`; import its CRDs \
                        with `windlass import crd FILE`";
            return Err(ErrorWithHint { message, hint: hint.into() }.into());
        }
        read => read.with_context(|| root.display().to_string())?,
    };
    write::sweep(root);
    Ok(OpenProject { root: root.to_owned(), project })
}

/// Returns whether this is the PROJECT file of kubebuilder or Operator SDK, which has the same name.
fn is_of_kubebuilder(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("layout:"));
    lines.next().is_some_and(|line| {
        let layout = std::iter::once(line).chain(lines.take_while(|line| line.starts_with(['-', ' '])));
        layout.into_iter().any(|line| line.contains("kubebuilder.io") || line.contains("operatorframework.io"))
    })
}

/// Opens the project, which must have the current scaffold version.
pub(crate) fn open_current() -> anyhow::Result<OpenProject> {
    let opened = open()?;
    opened.project.check_scaffold()?;
    Ok(opened)
}

/// Parses the name of a namespace.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    match windlass_scaffold::names::is_dns_label(text) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is not a valid namespace: it must consist of at most 63 lower-case letters, digits and '-', and \
             start and end with a letter or digit"
        )),
    }
}

impl OpenProject {
    /// Changes the project and its files.
    pub(crate) fn change(
        &self,
        writing: Writing,
        change: impl FnOnce(&mut Project) -> Result<(), ScaffoldError>,
    ) -> anyhow::Result<()> {
        let mut project = self.project.clone();
        change(&mut project)?;
        self.regenerate(project.into(), writing)
    }

    /// Regenerates the project's files for its target state.
    pub(crate) fn regenerate(&self, wanted: TargetState, writing: Writing) -> anyhow::Result<()> {
        let before = generate(&self.project);
        let update =
            ProjectUpdate { root: &self.root, recorded: &self.project.files, before, conflicts: Conflicts::Report };
        let project = wanted.project.clone();
        update.execute(wanted, writing)?;
        if !writing.dry_run {
            suggest_migrations(&self.project, &project);
        }
        Ok(())
    }
}

/// An update of the files of a project.
pub(crate) struct ProjectUpdate<'a> {
    pub(crate) root: &'a Path,
    /// Fingerprints in the PROJECT file.
    pub(crate) recorded: &'a BTreeMap<String, String>,
    /// Previously generated files.
    pub(crate) before: Files,
    pub(crate) conflicts: Conflicts,
}

impl ProjectUpdate<'_> {
    /// Plans the changes, asks before user edits are lost, and writes all files or none.
    pub(crate) fn execute(mut self, mut wanted: TargetState, writing: Writing) -> anyhow::Result<()> {
        let mut after = generate(&wanted.project);
        let changed: BTreeSet<String> = self
            .before
            .keys()
            .chain(after.keys())
            .filter(|path| self.before.get(*path) != after.get(*path))
            .cloned()
            .gather();
        let style = style_of(self.root);
        format_all(&mut self.before, &changed, &style);
        format_all(&mut after, &changed, &style);
        wanted.project.files = self.fingerprints(&changed, &after);
        // Files that are not generated are written once and belong to the user from then on.
        let others: BTreeSet<String> =
            wanted.overrides.keys().filter(|path| !after.contains_key(*path)).cloned().gather();
        format_all(&mut wanted.overrides, &others, &style);
        after.extend(wanted.overrides);

        let there = read(self.root, &changed.union(&others).cloned().gather())?;
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
        report(&plan, writing);
        if !writing.dry_run && !self.recorded.is_empty() {
            suggest_generate(self.root, &plan.changes);
        }
        if !plan.conflicts.is_empty() {
            let message = format!("conflicts in {}", plan.conflicts.join(", "));
            return Err(ErrorWithHint { message, hint: "resolve the conflicts marked with <<<<<<<".into() }.into());
        }
        if !beside.is_empty() {
            let message = format!("edited files were not changed: {}", beside.join(", "));
            let hint = "the new versions are next to them (.new): merge and delete these; or restore everything from \
                        version control and run `windlass upgrade --from PROGRAM` with the older windlass to merge \
                        automatically";
            return Err(ErrorWithHint { message, hint: hint.into() }.into());
        }
        // The remaining edits have been reported.
        if plan.manual_edits.is_empty() { Ok(()) } else { Err(AlreadyReported.into()) }
    }

    /// Resolves questions by keeping edited files and writing the new version next to each. Returns the edited files.
    fn put_beside(&self, plan: &mut FilePlan) -> anyhow::Result<Vec<String>> {
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
                None => eprintln!("kept    {}: edited, but no longer generated", change.path),
            }
        }
        sorting::sort_by(&mut plan.changes, |one, other| one.path.cmp(&other.path));
        Ok(edited)
    }

    /// Fingerprints to record; unchanged files keep theirs.
    fn fingerprints(&self, changed: &BTreeSet<String>, after: &Files) -> BTreeMap<String, String> {
        let fingerprint_of = |(path, text): (&String, &String)| {
            let kept = self.recorded.get(path).filter(|_| !changed.contains(path));
            (path.clone(), kept.cloned().unwrap_or_else(|| fingerprint(text)))
        };
        after.iter().map(fingerprint_of).gather()
    }

    fn project_file(&self, project: &Project) -> anyhow::Result<Option<Change>> {
        let old = read(self.root, &BTreeSet::from([PROJECT.to_owned()]))?.remove(PROJECT);
        let new = Some(project.write());
        Ok((old != new).then(|| Change { path: PROJECT.to_owned(), old, new, merged: false }))
    }
}

/// Reads those of the files that exist.
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

/// Prints the changes as a diff.
pub(crate) fn show_changes(changes: &[Change]) -> anyhow::Result<()> {
    let all: String =
        changes.iter().map(|change| difference(&change.path, change.old.as_deref(), change.new.as_deref())).collect();
    output::print(&all)
}

/// Tells the user to regenerate manifests after code changes: the project's tests compare them.
fn suggest_generate(root: &Path, changes: &[Change]) {
    // These two files do not affect manifests.
    let others = ["src/lib.rs", "src/main.rs"];
    let is_code = |Change { path, .. }: &Change| {
        path.starts_with("src/") && path.ends_with(".rs") && !others.contains(&path.as_str())
    };
    if changes.iter().any(is_code) && root.join(MANIFESTS).is_file() {
        eprintln!("\nnext:\n  windlass generate    # {MANIFESTS} and others are out of date");
    }
}

/// Tells the user to migrate stored objects after a change of the storage version.
fn suggest_migrations(old: &Project, new: &Project) {
    let changed = old.resources.iter().filter(|one| {
        let same = |other: &&Resource| (&one.group, &one.kind) == (&other.group, &other.kind);
        let other = new.resources.iter().find(same);
        one.origin == windlass_scaffold::Origin::Own
            && other.is_some_and(|other| other.storage_version != one.storage_version)
    });
    let lines = changed.map(|one| {
        let Resource { plural, group, storage_version, .. } = one;
        format!("\n  windlass migrate {plural}.{group}    # existing objects are still stored as {storage_version}")
    });
    let lines: String = lines.collect();
    if !lines.is_empty() {
        eprintln!("\nafter deploying this:{lines}");
    }
}

/// Reports the changes, and the edits left to the user.
fn report(plan: &FilePlan, writing: Writing) {
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
        eprintln!("nothing to do");
    }
    if plan.manual_edits.is_empty() {
        return;
    }
    eprintln!("\ncould not merge all changes into edited files; apply these by hand:");
    for windlass_scaffold::ManualEdit { path, line, remove, add } in &plan.manual_edits {
        eprintln!("{path}:{line}:");
        for line in remove {
            eprint!("  - {line}");
        }
        for line in add {
            eprint!("  + {line}");
        }
    }
}
