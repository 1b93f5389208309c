//! `cargo xtask tidy`: project conventions that the compiler does not check.
//!
//! Every rule returns a list of complaints, each naming the file or crate and the fix. The same check is a test, so
//! `cargo test --workspace` runs it.

mod dependencies;
mod features;
mod loops;
mod manifests;
mod prose;
mod sources;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};

use self::dependencies::Metadata;
use crate::cargo;

/// The platform whose dependencies are checked: crates that only other systems need are not shipped.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Checks the repository and fails with all complaints.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    ensure!(args.is_empty(), "usage: cargo xtask tidy");
    let complaints = check()?;
    if complaints.is_empty() {
        return Ok(());
    }
    bail!("{} complaints\n{}", complaints.len(), complaints.join("\n"))
}

fn check() -> anyhow::Result<Vec<String>> {
    let root = root();
    let metadata = metadata(&root)?;
    let mut complaints = dependencies::check(&metadata);
    complaints.extend(manifests::check(&metadata));
    complaints.extend(features::check(&root)?);
    let deny = fs::read_to_string(root.join("deny.toml")).context("failed to read deny.toml")?;
    complaints.extend(manifests::check_versions(&metadata, &deny));
    complaints.extend(sources::check(&root)?);
    complaints.extend(loops::check(&root)?);
    complaints.extend(prose::check(&root)?);
    Ok(complaints)
}

/// Returns the root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask must be in the workspace").to_owned()
}

/// Returns the files that `wanted` accepts by their path in the repository, sorted: those in the root and below these
/// directories. Build output and installed packages are skipped.
fn files(root: &Path, folders: &[&str], wanted: impl Fn(&Path) -> bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending: Vec<PathBuf> = folders.iter().map(|name| root.join(name)).filter(|path| path.is_dir()).collect();
    pending.push(root.to_owned());
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))? {
            let entry = entry?;
            let path = entry.path();
            let kind = entry.file_type()?;
            let is_output = ["target", "node_modules"].iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && folder != root && !is_output {
                pending.push(path);
            } else if kind.is_file() && wanted(path.strip_prefix(root).unwrap_or(&path)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn metadata(root: &Path) -> anyhow::Result<Metadata> {
    let output = Command::new(cargo::program())
        .args(["metadata", "--format-version", "1", "--quiet", "--filter-platform", PLATFORM])
        .current_dir(root)
        .output()
        .context("failed to run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("failed to read the output of cargo metadata")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        let complaints = super::check().unwrap();
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    }
}
