//! What a project must survive: a rejected prompt, a killed command, and an upgrade without a known ancestor.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::Stdio,
};

use rustix::pty;

use super::*;

/// Runs a command at a terminal with typed input.
fn at_a_terminal(project: &Project, arguments: &[&str], typed: &str) -> Said {
    let main = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&main).unwrap();
    pty::unlockpt(&main).unwrap();
    let name = pty::ptsname(&main, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || fs::File::options().read(true).write(true).open(&name).unwrap();
    let mut command = windlass();
    command.args(arguments).current_dir(project.root()).stdin(terminal()).stdout(Stdio::null()).stderr(terminal());
    let mut child = command.spawn().unwrap();
    // Closes its ends of the terminal.
    drop(command);
    let mut main = fs::File::from(main);
    main.write_all(typed.as_bytes()).unwrap();
    let mut err = Vec::new();
    // Reading a terminal that is no longer open fails on some systems.
    let _ = main.read_to_end(&mut err);
    let code = child.wait().unwrap().code();
    Said { code, out: String::new(), err: String::from_utf8(err).unwrap() }
}

#[test]
fn declining_a_prompt_changes_nothing() {
    let project = Project::with_book();
    project.edit("src/controller/book.rs", "all resources are up to date", "it is mine");
    let before = project.everything();
    let said = at_a_terminal(&project, &["delete", "api", "--kind", "Book"], "n\n");
    assert!(said.err.contains("it was edited; remove it? [y/N, d for the diff]"), "{}", said.err);
    assert!(said.err.contains("aborted") && said.err.contains("hint: "), "{}", said.err);
    assert_eq!(said.code, Some(1));
    assert_eq!(project.everything(), before);
    let said = at_a_terminal(&project, &["delete", "api", "--kind", "Book"], "y\n");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!project.root().join("src/controller/book.rs").exists());
}

#[test]
fn temporary_files_of_a_killed_command_are_removed() {
    let project = Project::new();
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let left = project.root().join(format!("src/.main.rs.windlass-{}", ended.id()));
    let others = project.root().join(format!("src/.main.rs.windlass-{}", std::process::id()));
    let mine = project.root().join("src/.main.rs.windlass-notes");
    for file in [&left, &others, &mine] {
        fs::write(file, "half").unwrap();
    }
    assert_eq!(project.run(PEN).code, Some(0));
    assert!(!left.exists() && others.exists() && mine.exists());
}

#[test]
fn stale_manifests_are_reported() {
    let project = Project::new();
    assert!(!project.run(PEN).err.contains("windlass generate"));
    fs::create_dir_all(project.root().join("deploy/crd")).unwrap();
    fs::write(project.root().join("deploy/crd/crds.yaml"), "").unwrap();
    let edited = project.run(&["edit", "--kind", "Pen", "--field", "ink:string?"]);
    assert!(edited.err.contains("next:\n  windlass generate "), "{}", edited.err);
    let described = project.run(&["edit", "--description", "Sells pens"]);
    assert_eq!(described.code, Some(0), "{}", described.err);
    assert!(!described.err.contains("windlass generate"), "{}", described.err);
    assert!(project.run(&["delete", "api", "--kind", "Pen"]).err.contains("windlass generate"));
}

/// A project with an edited file of an older windlass.
fn edited_since() -> Project {
    let project = Project::with_book();
    let old = project.read("src/main.rs").replace("//! Entry point of the operator.", "//! Runs the operator.");
    age(&project, "src/main.rs", &old);
    project.edit("PROJECT", &format!("scaffold: {SCAFFOLD}"), "scaffold: 0");
    project
}

#[test]
fn an_upgrade_never_loses_an_edit() {
    let project = edited_since();
    project.edit("src/main.rs", "async fn main", "// Mine.\nasync fn main");
    let mine = project.read("src/main.rs");
    let said = project.run(&["upgrade"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("edited files were not changed: src/main.rs\nhint: "), "{}", said.err);
    assert!(said.err.contains("--from PROGRAM"), "{}", said.err);
    assert_eq!(project.read("src/main.rs"), mine);
    let new = project.read("src/main.rs.new");
    assert!(new.starts_with("//! Entry point of the operator.") && !new.contains("Mine"), "{new}");
    assert!(project.read("PROJECT").contains(&format!("scaffold: {SCAFFOLD}")));
}

#[test]
fn an_upgrade_finds_generated_files_in_git() {
    let project = edited_since();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "commit.gpgsign=false"]);
        command.args(arguments).current_dir(project.root()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    assert!(git(&["init"]), "this test needs git");
    assert!(git(&["add", "."]) && git(&["commit", "-m", "generated"]));
    project.edit("src/main.rs", "async fn main", "// Mine.\nasync fn main");
    assert!(git(&["commit", "-a", "-m", "mine"]));
    let said = project.run(&["upgrade"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let merged = project.read("src/main.rs");
    assert!(
        merged.starts_with("//! Entry point of the operator.") && merged.contains("// Mine.\nasync fn main"),
        "{merged}"
    );
}

#[test]
fn programs_and_projects_of_other_tools_are_rejected() {
    let project = edited_since();
    let said = project.run(&["upgrade", "--from", "true"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("error: true did not write the files it generates\nhint: "), "{}", said.err);
    let theirs = "domain: acme.io\nlayout:\n- go.kubebuilder.io/v4\nprojectName: shop\nversion: \"3\"\n";
    fs::write(project.root().join("PROJECT"), theirs).unwrap();
    let said = project.run(PEN);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("is a kubebuilder or Operator SDK project\nhint: "), "{}", said.err);
}

#[test]
fn an_invalid_namespace_is_rejected() {
    let project = Project::new();
    let said = project.run(&["generate", "--namespace", "Bad_NS"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("\"Bad_NS\" is not a valid namespace: it must consist of at most 63"), "{}", said.err);
    let said = project.run(&["rbac", "learn", "--name", "Bad Name", "--", "true"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("a name must consist of lower-case letters"), "{}", said.err);
}
