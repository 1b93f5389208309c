//! The PROJECT file, which describes a project.
//!
//! It is YAML similar to kubebuilder's. Fields of a spec are stored in command-line syntax. `files` contains
//! fingerprints of the generated files, which identify edited ones.

mod overlay;
mod source;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use overlay::Overlay;
pub use source::{GitSource, Source};

use crate::{Field, ScaffoldError, builtin::Builtin, field, names};

/// Version of the scaffold. Increased by every change of the templates that projects are upgraded for.
pub const SCAFFOLD: u32 = 3;

/// The version requirement that matches this release of Windlass.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

const HEAD: &str = "# Scaffold metadata, managed by windlass. Change it with `windlass edit`.\n";

/// A project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Project {
    /// Version of the scaffold; [`SCAFFOLD`] once it is upgraded.
    pub scaffold: u32,
    /// Name of the project, its crate, its Deployment and its Lease.
    pub project_name: String,
    /// Domain of its API groups.
    pub domain: String,
    /// One-sentence description.
    pub description: String,
    /// License.
    #[serde(default)]
    pub license: License,
    /// Copyright holder for the LICENSE file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Source of Windlass for the project.
    pub windlass: Source,
    /// Resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    /// Kustomize overlays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<Overlay>,
    /// Whether there is a release workflow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub release_workflow: bool,
    /// Fingerprints of generated files by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// A resource that the project defines, or that it has a controller or a webhook for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resource {
    /// Full API group, including the domain; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Plural.
    pub plural: String,
    /// Name of its modules.
    pub module: String,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Origin of its definition.
    #[serde(default)]
    pub origin: Origin,
    /// Storage version, which the operator uses.
    pub storage_version: String,
    /// All versions.
    pub versions: Vec<Version>,
    /// Whether it has a controller of its own name.
    pub controller: bool,
    /// Names of further controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<String>,
    /// Its webhooks.
    #[serde(default)]
    pub webhooks: Webhooks,
}

/// Origin of a resource's definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The project.
    #[default]
    Own,
    /// Kubernetes.
    Builtin,
    /// Another project; this one knows some of its fields.
    Foreign,
    /// Another project; its types were imported from its CRD and belong to the user.
    Imported,
    /// The project, in an API server of its own that the cluster's API server forwards requests to.
    Served,
}

impl Origin {
    /// Checks a kind. Kinds of other projects need not follow the conventions for new kinds.
    pub(crate) fn check_kind(self, kind: &str) -> Result<(), ScaffoldError> {
        match self {
            Self::Own | Self::Served => names::check_kind(kind),
            Self::Builtin | Self::Foreign | Self::Imported => names::check_foreign_kind(kind),
        }
    }

    /// Checks a version.
    pub(crate) fn check_version(self, version: &str) -> Result<(), ScaffoldError> {
        match self {
            Self::Own | Self::Served => names::check_version(version),
            Self::Builtin | Self::Foreign | Self::Imported => names::check_foreign_version(version),
        }
    }
}

/// A version of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Version {
    /// Name.
    pub name: String,
    /// Fields of the spec, in command-line syntax.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "fields")]
    pub fields: Vec<Field>,
    /// Fields of the status besides conditions and the observed generation.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "fields")]
    pub status_fields: Vec<Field>,
}

/// Webhooks of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Webhooks {
    /// Defaulting (mutating) webhook.
    #[serde(default)]
    pub defaulting: bool,
    /// Validating webhook.
    #[serde(default)]
    pub validating: bool,
    /// Conversion webhook.
    #[serde(default)]
    pub conversion: bool,
}

/// License of a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum License {
    /// Apache License 2.0.
    #[default]
    Apache2,
    /// MIT License.
    Mit,
    /// No license.
    None,
}

/// Options of a new project.
#[derive(Clone, Debug)]
pub struct ProjectOptions {
    /// Name.
    pub name: String,
    /// Domain of its API groups.
    pub domain: String,
    /// One-sentence description.
    pub description: Option<String>,
    /// License.
    pub license: License,
    /// Copyright holder.
    pub owner: Option<String>,
    /// Source of Windlass for the project.
    pub windlass: Source,
}

impl ProjectOptions {
    /// A project under the Apache License that depends on this release of Windlass.
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
    /// Creates a project without resources.
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
            overlays: Vec::new(),
            release_workflow: false,
            files: BTreeMap::new(),
        };
        project.check_texts()?;
        project.windlass.check()?;
        Ok(project)
    }

    /// Reads a PROJECT file of this or an older scaffold.
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

    /// Writes the PROJECT file.
    pub fn write(&self) -> String {
        let text = serde_saphyr::to_string(self).expect("a project must have a YAML form");
        let end = if text.ends_with('\n') { "" } else { "\n" };
        format!("{HEAD}{text}{end}")
    }

    /// Rejects a project that must be upgraded first.
    pub fn check_scaffold(&self) -> Result<(), ScaffoldError> {
        match self.scaffold == SCAFFOLD {
            true => Ok(()),
            false => Err(ScaffoldError::Scaffold { project: self.scaffold, ours: SCAFFOLD }),
        }
    }

    /// Validates names, which end up in paths and code and may have been edited in the file.
    fn check(&self) -> Result<(), ScaffoldError> {
        names::check_project(&self.project_name)?;
        names::check_domain(&self.domain)?;
        self.check_texts()?;
        self.overlays.iter().try_for_each(Overlay::check)?;
        for resource in &self.resources {
            resource.origin.check_kind(&resource.kind)?;
            names::check_plural(&resource.plural)?;
            if !resource.group.is_empty() {
                names::check_group(&resource.group)?;
            }
            for version in &resource.versions {
                resource.origin.check_version(&version.name)?;
                resource.check_fields(version)?;
            }
            for name in &resource.controllers {
                names::check_controller(name)?;
            }
            let fits = resource.module.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let begins = resource.module.starts_with(|letter: char| letter.is_ascii_lowercase());
            if !fits || !begins || names::is_keyword(&resource.module) {
                let why = format!("{:?} is not a module name", resource.module);
                return Err(ScaffoldError::Contradiction { why, hint: String::new() });
            }
            if resource.version(&resource.storage_version).is_none() {
                let why = format!("{} has no version {}", resource.kind, resource.storage_version);
                return Err(ScaffoldError::Contradiction { why, hint: String::new() });
            }
        }
        Ok(())
    }

    /// Rejects strings that cannot be quoted in generated files.
    pub(crate) fn check_texts(&self) -> Result<(), ScaffoldError> {
        let texts = std::iter::once(&self.description).chain(&self.owner).chain(self.windlass.texts());
        for text in texts {
            if text.chars().any(|letter| letter.is_control() || letter == '"' || letter == '\\') {
                let why = format!("{text:?} contains a quote, a backslash or a line break");
                return Err(ScaffoldError::Contradiction { why, hint: "remove these characters".to_owned() });
            }
        }
        Ok(())
    }

    /// Returns whether the project has an API server of its own.
    pub fn has_extension(&self) -> bool {
        self.resources.iter().any(|resource| resource.origin == Origin::Served)
    }

    /// Returns the name of its API server and of that server's program.
    pub fn extension_name(&self) -> String {
        format!("{}-apiserver", self.project_name)
    }

    /// Returns the resource of a kind; the group is needed only if several groups have the kind.
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
                what: format!("kind {kind}"),
                hint: match self.resources.is_empty() {
                    true => "create one with `windlass create api`".to_owned(),
                    false => format!("kinds of this project: {}", self.kinds()),
                },
            }),
            _ => Err(ScaffoldError::Contradiction {
                why: format!("several groups have the kind {kind}"),
                hint: format!("choose one with --group: {}", self.kinds()),
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

    /// Groups that a group given on the command line may stand for.
    fn group_names(&self, group: &str) -> Vec<String> {
        let core = if group == "core" { String::new() } else { group.to_owned() };
        vec![self.own_group(group), group.to_owned(), core]
    }

    /// Returns the full name of a group of the project: `apps` is `apps.example.com`, and the empty name is
    /// `example.com`.
    pub fn own_group(&self, group: &str) -> String {
        let is_whole = group == self.domain || group.ends_with(&format!(".{}", self.domain));
        match group {
            "" => self.domain.clone(),
            group if is_whole => group.to_owned(),
            group => format!("{group}.{}", self.domain),
        }
    }

    /// Name of the crate as a Rust identifier.
    pub(crate) fn crate_name(&self) -> String {
        self.project_name.replace('-', "_")
    }
}

impl Resource {
    /// Returns a version by name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns whether it has any controller.
    pub(crate) fn has_controller(&self) -> bool {
        self.controller || !self.controllers.is_empty()
    }

    /// Modules of its controllers, the one of its own name first.
    pub(crate) fn controller_modules(&self) -> impl Iterator<Item = String> {
        let own = self.controller.then(|| self.module.clone());
        own.into_iter().chain(self.controllers.iter().map(|name| self.controller_module(name)))
    }

    /// Module of one of its further controllers.
    pub(crate) fn controller_module(&self, name: &str) -> String {
        format!("{}_{}", self.module, name.replace('-', "_"))
    }

    /// Rejects fields that do not fit together.
    pub(crate) fn check_fields(&self, version: &Version) -> Result<(), ScaffoldError> {
        let Version { fields, status_fields, .. } = version;
        field::check_tree(fields)?;
        field::check_tree(status_fields)?;
        for reserved in ["conditions", "observedGeneration"] {
            if status_fields.iter().any(|field| field.name == reserved) {
                let what = format!("the field {reserved} of the status");
                return Err(ScaffoldError::Exists { what, hint: "every status has it".to_owned() });
            }
        }
        field::check_types(&self.type_name(), fields, status_fields)
    }

    pub(crate) fn builtin(&self) -> Option<&'static Builtin> {
        Builtin::find(&self.group, &self.storage_version, &self.kind)
    }

    /// Returns whether the project defines the kind.
    pub(crate) fn is_defined(&self) -> bool {
        matches!(self.origin, Origin::Own | Origin::Served)
    }

    /// Rust type of its objects.
    pub(crate) fn type_name(&self) -> String {
        match self.origin {
            Origin::Own | Origin::Served | Origin::Builtin => self.kind.clone(),
            Origin::Foreign | Origin::Imported => names::type_name(&self.kind),
        }
    }

    /// The kind in words, for names of tests.
    pub(crate) fn words(&self) -> String {
        self.module_words().replace('_', " ")
    }

    fn module_words(&self) -> String {
        names::snake(&self.kind)
    }

    /// Name of a variable for such an object.
    pub(crate) fn variable(&self) -> String {
        match names::snake(&self.kind) {
            word if names::is_keyword(&word) || names::is_variable(&word) => format!("the_{word}"),
            word => word,
        }
    }
}

/// Drops the source excerpt that may follow.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Serialization of fields as strings.
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
