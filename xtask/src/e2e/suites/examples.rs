//! The examples of the book in other languages, from `docs/examples`. Each starts planes of its own with the `windlass`
//! that is first on the path.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use super::{install, must, tool};
use crate::{cargo, peers};

pub(super) fn go(_: &Path, _: &Path) -> anyhow::Result<Command> {
    let sources = examples().join("go");
    must(tool("go", "version")?.args(["vet", "./..."]).current_dir(&sources))?;
    let mut command = tool("go", "version")?;
    command.args(["test", "-count=1", "./..."]).current_dir(sources).env("PATH", path(&[])?);
    Ok(command)
}

pub(super) fn python(folder: &Path, peers: &Path) -> anyhow::Result<Command> {
    let kubectl = std::path::absolute(peers::find(peers, "kubectl")?)?;
    let venv = std::path::absolute(folder.join("examples-python"))?;
    let sources = examples().join("python");
    install(&venv, &sources.join("requirements.txt"), |requirements| {
        must(tool("python3", "--version")?.args(["-m", "venv", "--clear"]).arg(&venv))?;
        must(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "--requirement"]).arg(requirements))
    })?;
    let mut command = checked("Python examples");
    command.arg(venv.join("bin/python")).args(["-m", "pytest", "-p", "no:cacheprovider"]).current_dir(sources);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PATH", path(&[&kubectl])?);
    Ok(command)
}

pub(super) fn java(folder: &Path, _: &Path) -> anyhow::Result<Command> {
    tool("javac", "-version")?;
    tool("mvn", "--version")?;
    let classes = std::path::absolute(folder.join("examples-java"))?;
    let mut command = checked("Java examples");
    command.args(["mvn", "--quiet", "--batch-mode", "test"]).arg(format!("-Dbuild.folder={}", classes.display()));
    command.current_dir(examples().join("java")).env("PATH", path(&[])?);
    Ok(command)
}

/// Turns a program that prints no checks into one check: the command must succeed.
fn checked(what: &str) -> Command {
    let mut command = Command::new("sh");
    // On a line of its own: Maven ends with colour codes and without a line break.
    command.args(["-c", r#"what=$1; shift; "$@" && printf '\nok %s\n' "$what""#, "sh", what]);
    command
}

/// Returns the path with windlass and other programs in front.
fn path(programs: &[&Path]) -> anyhow::Result<std::ffi::OsString> {
    let windlass = cargo::windlass()?;
    let folders = [windlass.as_path()].into_iter().chain(programs.iter().copied()).filter_map(Path::parent);
    let path = env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = folders.map(Path::to_owned).chain(env::split_paths(&path)).collect();
    env::join_paths(all).context("failed to extend PATH")
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask must be in the workspace").join("docs/examples")
}
