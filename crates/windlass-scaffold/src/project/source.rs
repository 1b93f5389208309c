//! Source of a project's Windlass dependency.

use semver::VersionReq;
use serde::{Deserialize, Serialize};

use crate::ScaffoldError;

/// Source of Windlass for a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SourceFields", into = "SourceFields")]
pub enum Source {
    /// A release on crates.io.
    Version(String),
    /// A checkout of Windlass.
    Path(String),
    /// A git repository.
    Git(GitSource),
}

/// A git repository of Windlass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSource {
    /// The URL of the repository.
    pub url: String,
    /// The commit; the default branch if there is none.
    pub rev: Option<String>,
}

/// [`Source`] in the PROJECT file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    git: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rev: Option<String>,
}

impl From<Source> for SourceFields {
    fn from(source: Source) -> Self {
        match source {
            Source::Version(version) => Self { version: Some(version), ..Self::default() },
            Source::Path(path) => Self { path: Some(path), ..Self::default() },
            Source::Git(GitSource { url, rev }) => Self { git: Some(url), rev, ..Self::default() },
        }
    }
}

impl TryFrom<SourceFields> for Source {
    type Error = &'static str;

    fn try_from(fields: SourceFields) -> Result<Self, Self::Error> {
        match fields {
            SourceFields { version: Some(version), path: None, git: None, rev: None } => Ok(Self::Version(version)),
            SourceFields { version: None, path: Some(path), git: None, rev: None } => Ok(Self::Path(path)),
            SourceFields { version: None, path: None, git: Some(url), rev } => Ok(Self::Git(GitSource { url, rev })),
            _ => Err("windlass must have exactly one of version, path and git, and rev only with git"),
        }
    }
}

impl Source {
    /// Rejects a source that cargo would reject.
    pub(crate) fn check(&self) -> Result<(), ScaffoldError> {
        let reject = |why: String, hint: &str| Err(ScaffoldError::Contradiction { why, hint: hint.to_owned() });
        match self {
            Self::Version(version) => match VersionReq::parse(version) {
                Ok(_) => Ok(()),
                Err(error) => reject(
                    format!("{version:?} is not a version requirement: {error}"),
                    "write it as in Cargo.toml, for example 0.1 or =0.1.2",
                ),
            },
            Self::Git(GitSource { url, rev }) => {
                let rest = ["https://", "http://", "ssh://", "git://", "file://"]
                    .iter()
                    .find_map(|scheme| url.strip_prefix(scheme));
                if !rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace)) {
                    return reject(
                        format!("{url:?} is not the URL of a git repository"),
                        "write it as https://HOST/PATH or ssh://git@HOST/PATH; for a directory, use --path",
                    );
                }
                match rev.as_ref().is_some_and(|rev| rev.is_empty() || rev.contains(char::is_whitespace)) {
                    true => reject(format!("{rev:?} is not a git revision"), "give the id of a commit"),
                    false => Ok(()),
                }
            }
            Self::Path(_) => Ok(()),
        }
    }

    /// The strings that end up in Cargo.toml.
    pub(super) fn texts(&self) -> Vec<&String> {
        match self {
            Self::Version(text) | Self::Path(text) => vec![text],
            Self::Git(GitSource { url, rev }) => std::iter::once(url).chain(rev).collect(),
        }
    }
}
