//! Projects: files that are written, files that are left alone, and messages.

mod hazards;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use windlass_scaffold::{SCAFFOLD, fingerprint};

use crate::process::{output, windlass};

/// A project in a temporary directory.
struct Project {
    folder: tempfile::TempDir,
}

/// Output of a command.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Project {
    fn new() -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        let said = run(project.folder.path(), &["init", "shop", "--domain", "example.com"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        project
    }

    fn with_book() -> Self {
        let project = Self::new();
        let said = project.run(&[&["create", "api", "--group", "store"], BOOK].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        project
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("shop")
    }

    fn run(&self, arguments: &[&str]) -> Said {
        run(&self.root(), arguments)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{from} in {text}");
        fs::write(self.root().join(path), text.replace(from, to)).unwrap();
    }

    /// All files and their contents.
    fn everything(&self) -> Vec<(PathBuf, String)> {
        let mut files = Vec::new();
        let mut pending = vec![self.root()];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => pending.push(path),
                    false => files.push((path.clone(), fs::read_to_string(path).unwrap())),
                }
            }
        }
        files.sort();
        files
    }
}

const BOOK: &[&str] = &["--version", "v1", "--kind", "Book", "--field", "pages:int32=1..5000"];
const PEN: &[&str] = &["create", "api", "--group", "store", "--version", "v1", "--kind", "Pen"];

fn run(folder: &Path, arguments: &[&str]) -> Said {
    let output = output(windlass().args(arguments).current_dir(folder));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn a_project_is_created_only_once() {
    let project = Project::new();
    for path in ["PROJECT", "Cargo.toml", "src/main.rs", "tests/it/main.rs", "deploy/default/kustomization.yaml"] {
        assert!(!project.read(path).is_empty());
    }
    let before = project.everything();
    let again = run(project.folder.path(), &["init", "shop", "--domain", "example.com"]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("shop is already a project\nhint: "), "{}", again.err);
    assert_eq!(project.everything(), before);
}

#[test]
fn invalid_names_are_rejected_with_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let said = run(folder.path(), &["init", "My_Shop", "--domain", "example.com"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.starts_with("error: the project's name \"My_Shop\" must consist of lower-case"), "{}", said.err);
    assert!(said.err.ends_with("hint: try \"my-shop\"\n"), "{}", said.err);
    for (arguments, hint) in [
        (&["build"][..], "try \"build-operator\""),
        (&["shop", "--windlass-version", "nonsense"], "write it as in Cargo.toml"),
        (&["shop", "--git", "not a url"], "write it as https://"),
    ] {
        let said = run(folder.path(), &[&["init", "--domain", "example.com"], arguments].concat());
        assert_eq!(said.code, Some(1), "{arguments:?}");
        assert!(said.err.contains(&format!("\nhint: {hint}")), "{}", said.err);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let said = run(folder.path(), PEN);
    assert!(said.err.contains("is not in a project") && said.err.contains("hint: create a project"), "{}", said.err);
}

#[test]
fn a_dry_run_is_a_diff_and_nothing_else() {
    let project = Project::with_book();
    let before = project.everything();
    let said = project.run(&[PEN, &["--dry-run"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    for line in ["+++ b/src/api/pen/v1.rs", "--- /dev/null", "+        .define::<api::pen::v1::Pen>()", "+pub mod pen;"]
    {
        assert!(said.out.lines().any(|other| other == line), "{line} in {}", said.out);
    }
    assert_eq!(project.everything(), before);
}

#[test]
fn commands_work_from_any_directory_and_keep_edits() {
    let project = Project::with_book();
    project.edit(
        "src/operator.rs",
        ".controller(controller::book::controller())",
        ".controller(controller::book::controller().concurrency(4))\n        .task(\"mine\", async |_, _| Ok(()))",
    );
    project.edit("src/api/book/v1.rs", "pub pages: i32,", "pub pages: i32,\n    pub mine: String,");
    let types = project.read("src/api/book/v1.rs");
    let said = run(&project.root().join("src/api/book"), PEN);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(project.read("src/api/book/v1.rs"), types);
    let operator = project.read("src/operator.rs");
    assert!(operator.contains(".concurrency(4))\n        .task(\"mine\""), "{operator}");
    for line in [".define::<api::pen::v1::Pen>()", ".controller(controller::pen::controller())"] {
        let is_there = operator.contains(line);
        let is_told = said.err.contains(line) && said.err.contains("src/operator.rs:");
        assert!(is_there != is_told, "{line}: {operator}\n{}", said.err);
    }
    // Another version starts with the user's edits of the first.
    let said = project.run(&["create", "version", "--kind", "Book", "--version", "v2"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let second = project.read("src/api/book/v2.rs");
    assert!(second.contains("version = \"v2\"") && second.contains("pub mine: String"), "{second}");
    assert!(project.read("src/api/book/conversion.rs").contains("impl TryFrom<v2::Book> for v1::Book"));
}

#[test]
fn changes_that_cannot_be_placed_are_reported_with_file_and_line() {
    let project = Project::with_book();
    let mine = "//! Mine.\n\npub fn operator() -> windlass::operator::Operator {\n    mine()\n}\n";
    fs::write(project.root().join("src/operator.rs"), mine).unwrap();
    let said = project.run(PEN);
    // Manual edits remain, which scripts have to know.
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert_eq!(project.read("src/operator.rs"), mine);
    assert!(said.err.contains("src/operator.rs:5:\n  +         .define::<api::pen::v1::Pen>()"), "{}", said.err);
    assert!(project.read("src/api/pen/v1.rs").contains("pub struct PenSpec"));
}

#[test]
fn edited_files_are_only_deleted_with_force() {
    let project = Project::with_book();
    let pristine = project.everything();
    project.edit("src/controller/book.rs", "all resources are up to date", "it is mine");
    let before = project.everything();
    let said = project.run(&["delete", "api", "--kind", "Book"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("src/controller/book.rs: it was edited"), "{}", said.err);
    assert!(said.err.contains("hint: review with --dry-run"), "{}", said.err);
    assert_eq!(project.everything(), before);
    let said = project.run(&["delete", "api", "--kind", "Book", "--force"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(project.everything(), Project::new_like(&project));
    assert!(!project.root().join("src/api").exists());
    // And created again as before.
    project.run(&[&["create", "api", "--group", "store"], BOOK].concat());
    assert_eq!(project.everything(), pristine);
}

impl Project {
    /// Files of a new project, in the directory of another.
    fn new_like(other: &Self) -> Vec<(PathBuf, String)> {
        let new = Self::new();
        let moved = |path: PathBuf| other.root().join(path.strip_prefix(new.root()).unwrap());
        new.everything().into_iter().map(|(path, text)| (moved(path), text)).collect()
    }
}

#[test]
fn unrelated_files_are_not_overwritten() {
    let project = Project::new();
    fs::create_dir_all(project.root().join("src/controller")).unwrap();
    fs::write(project.root().join("src/controller/pen.rs"), "mine\n").unwrap();
    let before = project.everything();
    let said = project.run(PEN);
    assert_eq!(said.code, Some(1));
    assert!(
        said.err.contains("src/controller/pen.rs: it already exists and was not created by windlass"),
        "{}",
        said.err
    );
    assert_eq!(project.everything(), before);
}

#[test]
fn fields_are_edited_in_modified_types() {
    let project = Project::with_book();
    project.edit("src/api/book/v1.rs", "/// Desired state of a Book.", "/// Desired state of a good Book.");
    let said = project.run(&["edit", "--kind", "Book", "--field", "title:string=1..", "--description", "Sells books"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let types = project.read("src/api/book/v1.rs");
    assert!(types.contains("/// Desired state of a good Book.") && types.contains("pub title: String"), "{types}");
    assert!(project.read("Cargo.toml").contains("description = \"Sells books\""));
    let said = project.run(&["edit", "--kind", "Book", "--field", "title:text"]);
    assert!(said.err.contains("unknown type \"text\"\nhint: write string"), "{}", said.err);
}

#[test]
fn a_damaged_project_file_is_reported_with_its_line() {
    let project = Project::new();
    project.edit("PROJECT", "domain: example.com", "domain: example.com\nmoon: full");
    let said = project.run(PEN);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("PROJECT:5: ") && said.err.contains("hint: fix the file"), "{}", said.err);
}

/// Turns a file into what an older windlass generated.
fn age(project: &Project, path: &str, old: &str) {
    let known = fingerprint(&project.read(path));
    fs::write(project.root().join(path), old).unwrap();
    project.edit("PROJECT", &known, &fingerprint(old));
}

#[test]
fn an_upgrade_replaces_merges_and_marks_conflicts() {
    let project = Project::with_book();
    assert!(project.run(&["upgrade"]).err.contains("is already up to date"));
    let (ignored, main, operator) =
        (project.read(".gitignore"), project.read("src/main.rs"), project.read("src/operator.rs"));
    let base = project.folder.path().join("base");
    let said = project.run(&["upgrade", "--write-base", base.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(fs::read_to_string(base.join("src/main.rs")).unwrap(), main);

    age(&project, ".gitignore", "/old\n");
    let old = main.replace("//! Entry point of the operator.", "//! Runs the operator.");
    age(&project, "src/main.rs", &old);
    fs::write(base.join("src/main.rs"), &old).unwrap();
    project.edit("src/main.rs", "async fn main", "// Mine.\nasync fn main");
    let old = operator.replace("its CRDs, controllers", "all its controllers");
    age(&project, "src/operator.rs", &old);
    fs::write(base.join("src/operator.rs"), &old).unwrap();
    project.edit("src/operator.rs", "all its controllers", "my controllers");
    project.edit("PROJECT", &format!("scaffold: {SCAFFOLD}"), "scaffold: 0");

    let said = project.run(PEN);
    assert!(said.err.contains("hint: run `windlass upgrade` first"), "{}", said.err);

    let before = project.everything();
    let shown = project.run(&["upgrade", "--dry-run", "--base", base.to_str().unwrap()]);
    assert!(shown.out.contains("--- a/.gitignore\n+++ b/.gitignore\n"), "{}", shown.out);
    assert_eq!(project.everything(), before);
    // The output of the older program.
    let older = project.folder.path().join("older");
    let script = format!("#!/bin/sh\ntest \"$1 $2\" = 'upgrade --write-base' && cp -r {} \"$3\"", base.display());
    // Not written by this process: another thread may fork in the meantime, and a file that is open for writing cannot
    // be executed.
    let made = Command::new("sh")
        .args(["-c", "echo \"$SCRIPT\" > \"$0\" && chmod +x \"$0\""])
        .arg(&older)
        .env("SCRIPT", script)
        .status();
    assert!(made.unwrap().success());
    let said = project.run(&["upgrade", "--from", older.to_str().unwrap()]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("conflicts in src/operator.rs"), "{}", said.err);
    assert_eq!(project.read(".gitignore"), ignored);
    let merged = project.read("src/main.rs");
    assert!(
        merged.starts_with("//! Entry point of the operator.") && merged.contains("// Mine.\nasync fn main"),
        "{merged}"
    );
    let marked = project.read("src/operator.rs");
    assert!(marked.contains("<<<<<<<") && marked.contains("my controllers"), "{marked}");
    assert!(project.read("PROJECT").contains(&format!("scaffold: {SCAFFOLD}")));
}
