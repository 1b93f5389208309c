//! `windlass assets`: a directory of programs for envtest.

use std::{
    env, fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;

use crate::{
    drop_in::Entry,
    failure::ErrorWithHint,
    output,
    shell::{self, Shell},
};

const KUBECTL: &str = "kubectl";

/// Create kube-apiserver and etcd programs that run Windlass, for envtest
///
/// Creates the directory with links to this program, which behaves like kube-apiserver or etcd depending on its name,
/// and prints the variable to export. `KUBEBUILDER_ASSETS=DIR go test ./...` then runs the tests of any kubebuilder
/// project. A kubectl in the PATH is linked as well.
#[derive(Debug, Args)]
pub(crate) struct AssetsArgs {
    /// Directory to write
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Replace files that are not links to windlass
    #[arg(long)]
    force: bool,
    /// Print what would be written, without writing it
    #[arg(long)]
    dry_run: bool,
}

/// Writes the links and prints the variable.
pub(crate) fn run(args: AssetsArgs) -> anyhow::Result<()> {
    let directory =
        std::path::absolute(&args.directory).with_context(|| format!("cannot use {}", args.directory.display()))?;
    let program = env::current_exe().context("failed to find the path of this program")?;
    let kubectl = found(&env::var_os("PATH").unwrap_or_default(), &directory);
    let links: Vec<Link> = Entry::ALL
        .iter()
        .map(|entry| Link { path: directory.join(entry.name()), target: program.clone() })
        .chain(kubectl.iter().map(|kubectl| Link { path: directory.join(KUBECTL), target: kubectl.clone() }))
        .collect();
    // Nothing is written unless everything can be.
    let mut missing = Vec::new();
    for link in &links {
        if link.is_needed(args.force)? {
            missing.push(link);
        }
    }
    if !args.dry_run {
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    }
    for link in missing {
        if !args.dry_run {
            link.write()?;
        }
        let done = if args.dry_run { "would be linked" } else { "linked" };
        eprintln!("{}: {done} to {}", link.path.display(), link.target.display());
    }
    if kubectl.is_none() && !directory.join(KUBECTL).exists() {
        eprintln!(
            "there is no kubectl in the PATH: only tests that call it need one. Install it from \
             https://kubernetes.io/docs/tasks/tools, then run `windlass assets {}` again",
            shell::word(&args.directory)
        );
    }
    output::print(&format!("{}\n", Shell::Sh.export("KUBEBUILDER_ASSETS", &directory)))
}

struct Link {
    path: PathBuf,
    target: PathBuf,
}

impl Link {
    /// Returns whether it has to be written. A file that is not a link of windlass is an error, unless it is replaced.
    fn is_needed(&self, force: bool) -> anyhow::Result<bool> {
        let failed = || format!("cannot use {}", self.path.display());
        let kind = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error).with_context(failed),
        };
        if kind.is_symlink() {
            let target = fs::read_link(&self.path).with_context(failed)?;
            let is_ours = target.file_name() == self.target.file_name() || !self.path.exists();
            if target == self.target {
                return Ok(false);
            }
            if is_ours || force {
                return Ok(true);
            }
        }
        if force && !kind.is_dir() {
            return Ok(true);
        }
        let message = format!("{} already exists, and is not a link to windlass", self.path.display());
        Err(ErrorWithHint { message, hint: "choose another directory, or replace it with --force".into() }.into())
    }

    /// Replaces the file at once, so that a test that starts it finds the old or the new one.
    fn write(&self) -> anyhow::Result<()> {
        let new = self.path.with_extension(format!("{}.new", std::process::id()));
        let written = symlink(&self.target, &new).and_then(|()| fs::rename(&new, &self.path));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Returns the kubectl of a search path, outside of the directory itself.
fn found(path: &std::ffi::OsStr, directory: &Path) -> Option<PathBuf> {
    env::split_paths(path).filter(|folder| folder.is_absolute() && folder != directory).find_map(|folder| {
        let candidate = folder.join(KUBECTL);
        let metadata = fs::metadata(&candidate).ok()?;
        (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(candidate)
    })
}
