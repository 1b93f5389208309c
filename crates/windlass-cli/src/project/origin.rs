//! Source that this windlass was compiled from. New projects depend on the same source.

use std::{
    fs,
    path::{Path, PathBuf},
};

use windlass_scaffold::{GitSource, ProjectOptions, Source};

use crate::failure::ErrorWithHint;

/// Source that this program was compiled from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A published release: `cargo install windlass-cli`.
    Release,
    /// A git revision: `cargo install --git URL`.
    Git(GitSource),
    /// A checkout of the repository: `cargo install --path crates/windlass-cli` or `cargo run`.
    Checkout(PathBuf),
}

/// Facts recorded by the build script and cargo.
#[derive(Clone, Copy, Debug)]
struct BuildFacts<'a> {
    /// The directory of this package.
    package: &'a str,
    /// Whether the package was built for a registry.
    packaged: bool,
    /// The commit of cargo's git checkout.
    commit: Option<&'a str>,
    /// The URL that cargo fetched the checkout from.
    fetched_from: Option<&'a str>,
    /// The repository named in Cargo.toml.
    repository: &'a str,
}

impl Origin {
    /// The origin of this program.
    pub(crate) fn of_this_program() -> Self {
        Self::of(BuildFacts {
            package: env!("CARGO_MANIFEST_DIR"),
            packaged: option_env!("WINDLASS_BUILD_PACKAGED").is_some(),
            commit: option_env!("WINDLASS_BUILD_COMMIT"),
            fetched_from: option_env!("WINDLASS_BUILD_REPOSITORY"),
            repository: env!("CARGO_PKG_REPOSITORY"),
        })
    }

    fn of(facts: BuildFacts<'_>) -> Self {
        let package = Path::new(facts.package);
        let is_below = |folder: &str| package.ancestors().any(|above| above.ends_with(folder));
        if facts.packaged || is_below("registry/src") {
            return Self::Release;
        }
        if let Some(checkouts) = package.ancestors().find(|above| above.ends_with("git/checkouts")) {
            // Without git at compile time, the name of the directory is the abbreviated commit.
            let abbreviated = || package.strip_prefix(checkouts).ok()?.components().nth(1)?.as_os_str().to_str();
            let url = facts.fetched_from.unwrap_or(facts.repository).to_owned();
            return Self::Git(GitSource { url, rev: facts.commit.or_else(abbreviated).map(str::to_owned) });
        }
        Self::Checkout(package.ancestors().nth(2).unwrap_or(package).to_owned())
    }

    /// The dependency that a new project gets.
    pub(crate) fn source(self) -> anyhow::Result<Source> {
        match self {
            Self::Release => Ok(ProjectOptions::new("", "").windlass),
            Self::Git(git) => Ok(Source::Git(git)),
            Self::Checkout(root) => {
                check_checkout(&root)?;
                let text = root.to_str().map(str::to_owned);
                text.map(Source::Path).ok_or_else(|| unusable(&root, "its path is not UTF-8").into())
            }
        }
    }
}

/// Checks that the checkout still exists, and is still of the version that this program was compiled from.
fn check_checkout(root: &Path) -> Result<(), ErrorWithHint> {
    let ours = env!("CARGO_PKG_VERSION");
    if !is_checkout(root) {
        return Err(unusable(root, "it no longer exists"));
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    match workspace_version(&manifest) {
        Some(version) if version == ours => Ok(()),
        Some(version) => Err(unusable(root, &format!("it is now version {version}, and this is windlass {ours}"))),
        None => Err(unusable(root, "its Cargo.toml has no workspace version")),
    }
}

/// Returns whether a directory has the sources of Windlass.
pub(crate) fn is_checkout(root: &Path) -> bool {
    root.join("crates/windlass/Cargo.toml").is_file()
}

fn unusable(root: &Path, why: &str) -> ErrorWithHint {
    ErrorWithHint {
        message: format!("cannot depend on {}, the checkout that windlass was built from: {why}", root.display()),
        hint: "install windlass again, or choose a source with --path, --git or --version".into(),
    }
}

/// Returns the version under `[workspace.package]`.
fn workspace_version(manifest: &str) -> Option<&str> {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[workspace.package]").skip(1);
    let version = lines.by_ref().take_while(|line| !line.starts_with('[')).find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "version").then_some(value)
    })?;
    version.trim().strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: BuildFacts<'_> = BuildFacts {
        package: "/home/me/windlass/crates/windlass-cli",
        packaged: false,
        commit: None,
        fetched_from: None,
        repository: "https://example.com/upstream",
    };
    const GIT: &str = "/home/me/.cargo/git/checkouts/windlass-0a9a765b9c96c568/5ea7566/crates/windlass-cli";

    fn git(url: &str, rev: &str) -> Origin {
        Origin::Git(GitSource { url: url.to_owned(), rev: Some(rev.to_owned()) })
    }

    #[test]
    fn a_package_of_the_registry_is_a_release() {
        let package = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/windlass-cli-0.1.0";
        assert_eq!(Origin::of(BuildFacts { package, ..FACTS }), Origin::Release);
        // As vendored by `cargo vendor`, or unpacked by a distribution.
        let package = "/build/windlass-cli-0.1.0";
        assert_eq!(Origin::of(BuildFacts { package, packaged: true, ..FACTS }), Origin::Release);
    }

    #[test]
    fn a_git_checkout_of_cargo_is_a_revision_of_the_repository_it_was_fetched_from() {
        let commit = "5ea75667efd0bdce4a4610b7539d7535be6cba58";
        let fork = "https://example.com/fork";
        let facts = BuildFacts { package: GIT, commit: Some(commit), fetched_from: Some(fork), ..FACTS };
        assert_eq!(Origin::of(facts), git(fork, commit));
        let facts = BuildFacts { package: GIT, ..FACTS };
        assert_eq!(Origin::of(facts), git("https://example.com/upstream", "5ea7566"));
    }

    #[test]
    fn everything_else_is_a_checkout() {
        assert_eq!(Origin::of(FACTS), Origin::Checkout("/home/me/windlass".into()));
    }

    #[test]
    fn a_checkout_must_still_exist_and_have_the_version_of_this_program() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let source = || Origin::Checkout(root.to_owned()).source();
        assert!(source().unwrap_err().to_string().ends_with("it no longer exists"));
        fs::create_dir_all(root.join("crates/windlass")).unwrap();
        fs::write(root.join("crates/windlass/Cargo.toml"), "").unwrap();
        assert!(source().unwrap_err().to_string().ends_with("has no workspace version"));
        let manifest =
            |version: &str| format!("[package]\nversion = \"7\"\n[workspace.package]\nversion = \"{version}\"");
        fs::write(root.join("Cargo.toml"), manifest("99.0.0")).unwrap();
        assert!(source().unwrap_err().to_string().contains("it is now version 99.0.0"));
        fs::write(root.join("Cargo.toml"), manifest(env!("CARGO_PKG_VERSION"))).unwrap();
        assert_eq!(source().unwrap(), Source::Path(root.to_str().unwrap().to_owned()));
    }

    #[test]
    fn a_release_depends_on_its_own_version() {
        assert!(matches!(Origin::Release.source().unwrap(), Source::Version(version) if !version.is_empty()));
    }
}
