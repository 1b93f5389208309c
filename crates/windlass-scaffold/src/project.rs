//! What a project is: the PROJECT file.
//!
//! It is YAML in the manner of kubebuilder's. Fields of a spec are kept as they were given on the command line. Under
//! `files` are the fingerprints of what was generated, by which edited files are told from others.

use std::collections::BTreeMap;

use semver::VersionReq;
use serde::{Deserialize, Serialize};

use crate::{Field, ScaffoldError, builtin::Builtin, names};

/// The version of what is generated: raised with every change of it that upgrades have to know about.
pub const SCAFFOLD: u32 = 3;

/// The version requirement that matches this release of Windlass.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

const HEAD: &str =
    "# Scaffold metadata, managed by windlass. Change it with `windlass edit`.\n";

/// A project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Project {
    /// The version of the scaffold, [`SCAFFOLD`] once it is upgraded.
    pub scaffold: u32,
    /// The name: of the crate, the Deployment and the lease.
    pub project_name: String,
    /// What groups of its resources end with.
    pub domain: String,
    /// A sentence about it.
    pub description: String,
    /// Under which terms it is.
    #[serde(default)]
    pub license: License,
    /// Whose it is, for the licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Where Windlass comes from.
    pub windlass: Source,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    /// Fingerprints of what was generated, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// A resource that the project defines, or that it has a controller or a webhook for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resource {
    /// The whole group, with the domain; empty for the core of Kubernetes.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The plural.
    pub plural: String,
    /// The name of its modules.
    pub module: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whose it is.
    #[serde(default)]
    pub origin: Origin,
    /// The version that is stored, and that the program works with.
    pub storage_version: String,
    /// All versions.
    pub versions: Vec<Version>,
    /// Whether there is a controller.
    pub controller: bool,
    /// What the API server asks about it.
    #[serde(default)]
    pub webhooks: Webhooks,
}

/// Whose a resource is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The project defines it.
    #[default]
    Own,
    /// Kubernetes has it.
    Builtin,
    /// Another project defines it; this one knows some of its fields.
    Foreign,
    /// Another project defines it; its types were made from its definition, and are the user's.
    Imported,
}

impl Origin {
    /// Whether a kind can be called so. Others have chosen theirs already.
    pub(crate) fn check_kind(self, kind: &str) -> Result<(), ScaffoldError> {
        match self {
            Self::Own => names::check_kind(kind),
            Self::Builtin | Self::Foreign | Self::Imported => names::check_foreign_kind(kind),
        }
    }

    /// Whether a version can be called so.
    pub(crate) fn check_version(self, version: &str) -> Result<(), ScaffoldError> {
        match self {
            Self::Own => names::check_version(version),
            Self::Builtin | Self::Foreign | Self::Imported => names::check_foreign_version(version),
        }
    }
}

/// A version of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Version {
    /// Its name.
    pub name: String,
    /// Fields of its spec, as on the command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "fields")]
    pub fields: Vec<Field>,
}

/// What the API server asks about a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Webhooks {
    /// What to fill in.
    #[serde(default)]
    pub defaulting: bool,
    /// What to refuse.
    #[serde(default)]
    pub validating: bool,
    /// What one version is in another.
    #[serde(default)]
    pub conversion: bool,
}

/// The terms of a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum License {
    /// The Apache License, version 2.0.
    #[default]
    Apache2,
    /// The MIT license.
    Mit,
    /// None.
    None,
}

/// Where a project gets Windlass from.
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

    /// The texts that end up in Cargo.toml.
    fn texts(&self) -> Vec<&String> {
        match self {
            Self::Version(text) | Self::Path(text) => vec![text],
            Self::Git(GitSource { url, rev }) => std::iter::once(url).chain(rev).collect(),
        }
    }
}

/// What a new project is made of.
#[derive(Clone, Debug)]
pub struct ProjectOptions {
    /// The name.
    pub name: String,
    /// The domain.
    pub domain: String,
    /// A sentence about it.
    pub description: Option<String>,
    /// The terms.
    pub license: License,
    /// Whose it is.
    pub owner: Option<String>,
    /// Where Windlass comes from.
    pub windlass: Source,
}

impl ProjectOptions {
    /// A project under the Apache License that depends on this version of Windlass.
    pub fn new(name: impl Into<String>, domain: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            domain: domain.into(),
            description: None,
            license: License::default(),
            owner: None,
            windlass: Source::Version(VERSION.to_owned()),
        }
    }
}

impl Project {
    /// A project without resources.
    pub fn new(options: ProjectOptions) -> Result<Self, ScaffoldError> {
        names::check_project(&options.name)?;
        names::check_domain(&options.domain)?;
        let description = options.description.unwrap_or_else(|| format!("The {} operator", options.name));
        let project = Self {
            scaffold: SCAFFOLD,
            project_name: options.name,
            domain: options.domain,
            description,
            license: options.license,
            owner: options.owner,
            windlass: options.windlass,
            resources: Vec::new(),
            files: BTreeMap::new(),
        };
        project.check_texts()?;
        project.windlass.check()?;
        Ok(project)
    }

    /// Reads a PROJECT file, of this scaffold or an older one.
    pub fn read(text: &str) -> Result<Self, ScaffoldError> {
        let project: Self = serde_saphyr::from_str(text).map_err(|error| ScaffoldError::Project {
            line: error.location().map(|location| location.line()),
            why: first_line(&error.without_snippet().to_string()),
        })?;
        if project.scaffold > SCAFFOLD {
            return Err(ScaffoldError::Scaffold { project: project.scaffold, ours: SCAFFOLD });
        }
        project.check().map_err(|error| ScaffoldError::Project { line: None, why: error.to_string() })?;
        Ok(project)
    }

    /// The PROJECT file.
    pub fn write(&self) -> String {
        let text = serde_saphyr::to_string(self).expect("a project must have a YAML form");
        let end = if text.ends_with('\n') { "" } else { "\n" };
        format!("{HEAD}{text}{end}")
    }

    /// Refuses a project that is to be upgraded first.
    pub fn check_scaffold(&self) -> Result<(), ScaffoldError> {
        match self.scaffold == SCAFFOLD {
            true => Ok(()),
            false => Err(ScaffoldError::Scaffold { project: self.scaffold, ours: SCAFFOLD }),
        }
    }

    /// Names that somebody may have changed in the file go into paths and code.
    fn check(&self) -> Result<(), ScaffoldError> {
        names::check_project(&self.project_name)?;
        names::check_domain(&self.domain)?;
        self.check_texts()?;
        for resource in &self.resources {
            resource.origin.check_kind(&resource.kind)?;
            names::check_plural(&resource.plural)?;
            if !resource.group.is_empty() {
                names::check_group(&resource.group)?;
            }
            for version in &resource.versions {
                resource.origin.check_version(&version.name)?;
            }
            let fits = resource.module.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let begins = resource.module.starts_with(|letter: char| letter.is_ascii_lowercase());
            if !fits || !begins || names::is_keyword(&resource.module) {
                let why = format!("{:?} is no name of a module", resource.module);
                return Err(ScaffoldError::Contradiction { why, hint: String::new() });
            }
            if resource.version(&resource.storage_version).is_none() {
                let why = format!("{} has no version {}", resource.kind, resource.storage_version);
                return Err(ScaffoldError::Contradiction { why, hint: String::new() });
            }
        }
        Ok(())
    }

    /// What goes into files within quotes.
    pub(crate) fn check_texts(&self) -> Result<(), ScaffoldError> {
        let texts = std::iter::once(&self.description).chain(&self.owner).chain(self.windlass.texts());
        for text in texts {
            if text.chars().any(|letter| letter.is_control() || letter == '"' || letter == '\\') {
                let why = format!("{text:?} has a quote, a backslash or a line break in it");
                return Err(ScaffoldError::Contradiction { why, hint: "say it without".to_owned() });
            }
        }
        Ok(())
    }

    /// The resource of a kind, and of a group if several have the kind.
    pub fn resource(&self, group: Option<&str>, kind: &str) -> Result<&Resource, ScaffoldError> {
        let position = self.position(group, kind)?;
        Ok(&self.resources[position])
    }

    pub(crate) fn position(&self, group: Option<&str>, kind: &str) -> Result<usize, ScaffoldError> {
        let whole = group.map(|group| self.group_names(group));
        let fits = |resource: &Resource| {
            resource.kind == kind && whole.as_ref().is_none_or(|names| names.contains(&resource.group))
        };
        let found: Vec<usize> = (0..self.resources.len()).filter(|place| fits(&self.resources[*place])).collect();
        match found[..] {
            [position] => Ok(position),
            [] => Err(ScaffoldError::Missing {
                what: format!("{kind} in this project"),
                hint: match self.resources.is_empty() {
                    true => "make one with `windlass create api`".to_owned(),
                    false => format!("there are {}", self.kinds()),
                },
            }),
            _ => Err(ScaffoldError::Contradiction {
                why: format!("several groups have a {kind}"),
                hint: format!("say which with --group: {}", self.kinds()),
            }),
        }
    }

    fn kinds(&self) -> String {
        let kinds = self.resources.iter().map(|resource| match resource.group.is_empty() {
            true => resource.kind.clone(),
            false => format!("{} ({})", resource.kind, resource.group),
        });
        kinds.collect::<Vec<_>>().join(", ")
    }

    /// What a group on the command line may stand for.
    fn group_names(&self, group: &str) -> Vec<String> {
        let core = if group == "core" { String::new() } else { group.to_owned() };
        vec![self.own_group(group), group.to_owned(), core]
    }

    /// A group of the project by its short name: `apps` is `apps.example.com`, and nothing is `example.com`.
    pub fn own_group(&self, group: &str) -> String {
        let is_whole = group == self.domain || group.ends_with(&format!(".{}", self.domain));
        match group {
            "" => self.domain.clone(),
            group if is_whole => group.to_owned(),
            group => format!("{group}.{}", self.domain),
        }
    }

    /// The name as Rust has it.
    pub(crate) fn crate_name(&self) -> String {
        self.project_name.replace('-', "_")
    }
}

impl Resource {
    /// A version by its name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub(crate) fn builtin(&self) -> Option<&'static Builtin> {
        Builtin::find(&self.group, &self.storage_version, &self.kind)
    }

    /// The Rust type of its objects.
    pub(crate) fn type_name(&self) -> String {
        match self.origin {
            Origin::Own | Origin::Builtin => self.kind.clone(),
            Origin::Foreign | Origin::Imported => names::type_name(&self.kind),
        }
    }

    /// The kind in words, for comments.
    pub(crate) fn words(&self) -> String {
        self.module_words().replace('_', " ")
    }

    fn module_words(&self) -> String {
        names::snake(&self.kind)
    }

    /// A variable that holds such an object.
    pub(crate) fn variable(&self) -> String {
        match names::snake(&self.kind) {
            word if names::is_keyword(&word) || names::is_variable(&word) => format!("the_{word}"),
            word => word,
        }
    }
}

/// Without the excerpt that may follow.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Fields as texts.
mod fields {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use crate::Field;

    pub(super) fn serialize<S: Serializer>(fields: &[Field], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(fields.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Field>, D::Error> {
        let texts: Vec<String> = Vec::deserialize(deserializer)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests;
