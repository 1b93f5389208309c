//! Source of a project's Windlass dependency.

use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use windlass_scaffold::{GitSource, Source};

use super::origin::is_checkout;
use crate::failure::ErrorWithHint;

/// Source of Windlass for the project
#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArgs {
    /// Checkout of Windlass to depend on by path
    #[arg(long, value_name = "DIR", conflicts_with_all = ["git", "windlass_version"])]
    path: Option<PathBuf>,
    /// Git repository of Windlass to depend on
    #[arg(long, value_name = "URL", conflicts_with = "windlass_version")]
    git: Option<String>,
    /// Commit of the --git repository [default: its default branch]
    #[arg(long, value_name = "COMMIT", requires = "git")]
    rev: Option<String>,
}

impl SourceArgs {
    /// Returns the source chosen on the command line, if any, for a project in `root`.
    pub(crate) fn source(self, windlass_version: Option<String>, root: &Path) -> anyhow::Result<Option<Source>> {
        let Some(path) = self.path else {
            let git = self.git.map(|url| Source::Git(GitSource { url, rev: self.rev }));
            return Ok(git.or(windlass_version.map(Source::Version)));
        };
        if !is_checkout(&path) {
            let message = format!("{} is not a checkout of Windlass: it has no crates/windlass", path.display());
            return Err(ErrorWithHint { message, hint: "use the root directory of a checkout".into() }.into());
        }
        let absolute = path.canonicalize().with_context(|| format!("cannot use {}", path.display()))?;
        let path = match path.is_absolute() {
            true => absolute,
            // A relative path stays relative, as seen from the project.
            false => relative(&std::path::absolute(root).context("cannot resolve the path of the project")?, &absolute),
        };
        let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
        Ok(Some(Source::Path(text.to_owned())))
    }
}

/// Describes in one line where a project gets Windlass from.
pub(crate) fn describe(source: &Source) -> String {
    match source {
        Source::Version(version) => format!("windlass {version} from crates.io"),
        Source::Path(path) => format!(
            "windlass from the checkout {path}, by path; for CI and images, choose a revision or a release with \
             `windlass edit`"
        ),
        Source::Git(GitSource { url, rev: None }) => format!("windlass from {url}"),
        Source::Git(GitSource { url, rev: Some(rev) }) => format!("windlass from {url} at {rev}"),
    }
}

/// Returns the relative path from one directory to another.
fn relative(from: &Path, to: &Path) -> PathBuf {
    // The project may not exist yet, but one of its ancestors does.
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
    fn relative_paths_go_up_and_down() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(relative(&root.join("not/there"), &root.join("windlass")), Path::new("../../windlass"));
        assert_eq!(relative(&root, &root.join("windlass")), Path::new("windlass"));
    }
}
