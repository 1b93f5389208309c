//! Where a project has Windlass from.

use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use windlass_scaffold::Source;

use crate::failure::Advised;

/// Where the project has Windlass from
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub(crate) struct SourceArgs {
    /// Folder with the sources of Windlass to depend on, instead of a release
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Repository with the sources of Windlass to depend on, instead of a release
    #[arg(long, value_name = "URL")]
    git: Option<String>,
    /// Release of Windlass to depend on
    #[arg(long, value_name = "VERSION")]
    windlass_version: Option<String>,
}

impl SourceArgs {
    /// What was said, for a project in a folder.
    pub(crate) fn source(self, root: &Path) -> anyhow::Result<Option<Source>> {
        let Some(path) = self.path else {
            return Ok(self.git.map(Source::Git).or(self.windlass_version.map(Source::Version)));
        };
        if !path.join("crates/windlass/Cargo.toml").is_file() {
            let message = format!("{} has no crates/windlass: it is not the sources of Windlass", path.display());
            return Err(Advised { message, hint: "give the root of a checkout".into() }.into());
        }
        let absolute = path.canonicalize().with_context(|| format!("cannot use {}", path.display()))?;
        let path = match path.is_absolute() {
            true => absolute,
            // One that is said relatively stays so, seen from the project.
            false => relative(&std::path::absolute(root).context("cannot find the project")?, &absolute),
        };
        let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
        Ok(Some(Source::Path(text.to_owned())))
    }
}

/// The way from one folder to another.
fn relative(from: &Path, to: &Path) -> PathBuf {
    // The project may not be there yet, but what is above it is.
    let from = from.ancestors().find_map(|above| {
        let rest = from.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(rest))
    });
    let from = from.unwrap_or_default();
    let shared = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_leads_up_and_down_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(relative(&root.join("not/there"), &root.join("windlass")), Path::new("../../windlass"));
        assert_eq!(relative(&root, &root.join("windlass")), Path::new("windlass"));
    }
}
