//! Rust types generated from CustomResourceDefinitions of other projects.
//!
//! A [`Definition`] is a parsed CustomResourceDefinition of `apiextensions.k8s.io/v1`; [`Definition::types`] generates
//! Rust code for one of its versions. The CRD that kube-derive generates from these types has the same schema: every
//! keyword that the Rust type does not imply is added as an attribute. Differences that cannot be expressed are
//! reported as notes.

mod head;
mod idents;
mod literal;
mod model;
mod print;
mod resource;
mod schema;

use serde_json::{Map, Value};

pub use resource::ImportOptions;

use crate::{ScaffoldError, names};

/// A JSON object.
type Object = Map<String, Value>;

/// A CustomResourceDefinition to generate types from.
#[derive(Clone, Debug)]
pub struct Definition {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Plural.
    pub plural: String,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    names: Object,
    versions: Vec<Object>,
}

/// Generated types of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Types {
    /// Source code of the module.
    pub text: String,
    /// Differences between the imported CRD and the CRD of the types.
    pub notes: Vec<String>,
}

impl Definition {
    /// Reads a CustomResourceDefinition of `apiextensions.k8s.io/v1`.
    pub fn read(definition: &Value) -> Result<Self, ScaffoldError> {
        let kind = definition.get("kind").and_then(Value::as_str).unwrap_or_default();
        let api_version = definition.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if kind != "CustomResourceDefinition" || api_version != "apiextensions.k8s.io/v1" {
            let what = if kind.is_empty() { "an object without a kind".to_owned() } else { kind.to_owned() };
            let why = format!("this is {what} of {api_version:?}, not a CustomResourceDefinition");
            let hint = "specify a CustomResourceDefinition of apiextensions.k8s.io/v1 or v1beta1".to_owned();
            return Err(ScaffoldError::Contradiction { why, hint });
        }
        let text = |path: &str| {
            let found = definition.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
            found.map(str::to_owned).ok_or_else(|| missing(&path[1..].replace('/', ".")))
        };
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        let versions: Vec<Object> = versions.into_iter().flatten().filter_map(Value::as_object).cloned().collect();
        let read = Self {
            group: text("/spec/group")?,
            kind: text("/spec/names/kind")?,
            plural: text("/spec/names/plural")?,
            namespaced: text("/spec/scope")? == "Namespaced",
            names: definition.pointer("/spec/names").and_then(Value::as_object).cloned().unwrap_or_default(),
            versions,
        };
        names::check_group(&read.group)?;
        names::check_foreign_kind(&read.kind)?;
        names::check_plural(&read.plural)?;
        if read.versions.is_empty() {
            return Err(missing("spec.versions"));
        }
        for version in read.versions() {
            names::check_foreign_version(version)?;
            schema::check(read.schema(version)?).map_err(|(place, why)| ScaffoldError::Contradiction {
                why: format!("{version}: {place}: {why}"),
                hint: "no API server accepts such a CustomResourceDefinition: fix it, or report it to its author"
                    .to_owned(),
            })?;
        }
        if !read.versions.iter().any(|version| version.get("storage") == Some(&Value::Bool(true))) {
            return Err(missing("storage version in spec.versions"));
        }
        Ok(read)
    }

    /// Name of the CRD: `PLURAL.GROUP`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Names of the versions in order.
    pub fn versions(&self) -> Vec<&str> {
        self.versions.iter().map(|version| text_of(version, "name")).collect()
    }

    /// Returns whether a version is served.
    pub fn is_served(&self, version: &str) -> bool {
        self.version(version).is_some_and(|version| version.get("served") != Some(&Value::Bool(false)))
    }

    /// The storage version.
    pub fn storage_version(&self) -> &str {
        let stored = self.versions.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)));
        stored.map(|version| text_of(version, "name")).unwrap_or_default()
    }

    /// Generates the types of a version as a module.
    pub fn types(&self, version: &str) -> Result<Types, ScaffoldError> {
        let versions = || format!("versions: {}", self.versions().join(", "));
        let entry = self.version(version).ok_or_else(|| ScaffoldError::Missing {
            what: format!("version {version} of {}", self.name()),
            hint: versions(),
        })?;
        let mut root = self.schema(version)?.clone();
        let mut notes = Vec::new();
        schema::prepare(&mut root, "", &mut notes);
        let mut model = model::Model::new(&names::type_name(&self.kind), notes);
        let shape = head::shape(&mut model, entry, &root);
        let head = head::head(self, entry, &root, &shape, &mut model.notes);
        let text = print::module(&self.kind, version, &self.group, &head, &model);
        Ok(Types { text, notes: model.notes })
    }

    fn version(&self, name: &str) -> Option<&Object> {
        self.versions.iter().find(|version| text_of(version, "name") == name)
    }

    fn schema(&self, version: &str) -> Result<&Object, ScaffoldError> {
        let entry = self.version(version);
        let schema = entry.and_then(|entry| entry.get("schema")?.get("openAPIV3Schema")?.as_object());
        schema.ok_or_else(|| missing(&format!("schema of version {version}")))
    }
}

fn text_of<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn missing(what: &str) -> ScaffoldError {
    let hint = "no API server accepts a CustomResourceDefinition without it".to_owned();
    ScaffoldError::Missing { what: format!("{what} of the CustomResourceDefinition"), hint }
}

#[cfg(test)]
mod tests;
