//! The suites: where their sources come from, and how they are compiled.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::Suite;

const CONTROLLER_RUNTIME: &str = "sigs.k8s.io/controller-runtime";
const VERSION: &str = "v0.24.1";

/// Packages whose suites download programs of old releases from GitHub.
const DOWNLOADING: &[&str] = &["client/apiutil"];

/// Compiles the suites of controller-runtime that start a control plane.
pub(super) fn controller_runtime(data: &Path, is_wanted: &dyn Fn(&str) -> bool) -> anyhow::Result<Vec<Suite>> {
    let root = data.join("controller-runtime");
    if !root.join("go.mod").is_file() {
        fs::create_dir_all(data)?;
        let json = output(
            Command::new("go").args(["mod", "download", "-json"]).arg(format!("{CONTROLLER_RUNTIME}@{VERSION}")),
        )?;
        let module: Value = serde_json::from_slice(&json).context("go mod download")?;
        let source = module["Dir"].as_str().context("go mod download names no directory")?;
        // The module cache is read-only, and suites write next to their sources.
        output(Command::new("cp").arg("-r").arg(source).arg(&root))?;
        output(Command::new("chmod").args(["-R", "u+w"]).arg(&root))?;
    }
    let listed = output(Command::new("go").args(["list", "-f", "{{.Dir}}", "./pkg/..."]).current_dir(&root))?;
    let mut suites = Vec::new();
    for directory in String::from_utf8(listed)?.lines().map(PathBuf::from) {
        let name = directory.strip_prefix(root.join("pkg"))?.to_string_lossy().into_owned();
        // The package envtest tests how programs are started, and its tests download some.
        let is_known =
            !name.starts_with("envtest") && !name.starts_with("internal/testing") && !DOWNLOADING.contains(&&*name);
        if is_known && is_wanted(&name) && starts_control_plane(&directory)? {
            suites.push(compile(data, &name, &directory)?);
        }
    }
    Ok(suites)
}

/// Creates a project with an API and its webhooks, and compiles its suites.
pub(super) fn kubebuilder(program: &Path, data: &Path, is_wanted: &dyn Fn(&str) -> bool) -> anyhow::Result<Vec<Suite>> {
    let wanted: Vec<(&str, &str)> = [
        ("kubebuilder project: controller", "internal/controller"),
        ("kubebuilder project: webhook", "internal/webhook/v1"),
    ]
    .into_iter()
    .filter(|(name, _)| is_wanted(name))
    .collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let root = data.join("guestbook");
    if !root.join("internal/webhook").is_dir() {
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(&root)?;
        let api = ["--group", "webapp", "--version", "v1", "--kind", "Guestbook"];
        let in_root = |command: &mut Command| output(command.current_dir(&root).env_remove("GOFLAGS"));
        in_root(Command::new(program).args(["init", "--domain", "example.com", "--repo", "example.com/guestbook"]))?;
        in_root(Command::new(program).args(["create", "api", "--resource", "--controller"]).args(api))?;
        in_root(
            Command::new(program).args(["create", "webhook", "--defaulting", "--programmatic-validation"]).args(api),
        )?;
        in_root(Command::new("make").args(["manifests", "generate"]))?;
    }
    wanted.into_iter().map(|(name, directory)| compile(data, name, &root.join(directory))).collect()
}

/// Returns whether the tests of a package create an `envtest.Environment`.
fn starts_control_plane(directory: &Path) -> anyhow::Result<bool> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with("_test.go") && fs::read_to_string(&path)?.contains("envtest.Environment{") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn compile(data: &Path, name: &str, directory: &Path) -> anyhow::Result<Suite> {
    eprintln!("compiling the suite of {name}");
    let program = data.join("suites").join(name.replace(['/', ' ', ':'], "-"));
    output(Command::new("go").args(["test", "-c", "-o"]).arg(&program).arg(".").current_dir(directory))?;
    Ok(Suite { name: name.to_owned(), program, directory: directory.to_owned() })
}

/// Runs a command and returns what it prints.
fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed\n{stderr}");
    Ok(output.stdout)
}
