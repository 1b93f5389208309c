//! Conversion of CustomResourceDefinitions from `apiextensions.k8s.io/v1beta1`, which Kubernetes no longer serves, to
//! `v1`.
//!
//! Performs the steps that the old server performed implicitly: fields that applied to all versions are copied into
//! each, and implied values are made explicit. Requirements that are new in `v1`, above all a structural schema, are
//! satisfied if there is only one sensible way. Every change beyond a move is described in a [`Note`]; what cannot be
//! converted is an error with a hint. No input panics.

use serde_json::{Map, Value, json};

mod downgrade;
mod notes;
mod schema;
mod types;

pub use downgrade::{apply_legacy_fields, downgrade};
pub use notes::Note;
use notes::Notes;
use windlass_schema::sorting::Gather as _;

/// API version that is converted.
pub const OLD: &str = "apiextensions.k8s.io/v1beta1";
/// API version it is converted to.
pub const NEW: &str = "apiextensions.k8s.io/v1";

const APPROVAL: &str = "api-approved.kubernetes.io";
const APPROVAL_VALUE: &str = "unapproved, legacy upgrade";
/// Fields of `spec.names`, which some manifests have one level too high.
const NAMES: [&str; 6] = ["plural", "singular", "shortNames", "kind", "listKind", "categories"];

/// Fields that applied to all versions, and their names within a version.
const MOVED: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// A CustomResourceDefinition converted to `v1`.
#[derive(Debug, Clone, PartialEq)]
pub struct Upgraded {
    /// The CustomResourceDefinition.
    pub definition: Value,
    /// The changes and assumptions, in the order of the CRD.
    pub notes: Vec<Note>,
}

/// Reasons why a CustomResourceDefinition cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeError {
    /// The object is not a `v1beta1` CustomResourceDefinition.
    #[error("not a CustomResourceDefinition of {OLD}")]
    NotOld,
    /// A required field is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A field has a value of the wrong type.
    #[error("{field} must be {expected}")]
    WrongType {
        /// The field.
        field: String,
        /// The expected type, with an article.
        expected: &'static str,
    },
    /// `spec.version` and the first entry of `spec.versions` differ.
    #[error("spec.version is {version:?}, but the first entry of spec.versions is {first:?}")]
    DifferentVersions {
        /// `spec.version`.
        version: String,
        /// The name of the first version.
        first: String,
    },
    /// The schema uses something that a structural schema cannot express.
    #[error("{field}: {reason}")]
    NotStructural {
        /// Path of the field.
        field: String,
        /// The problem.
        reason: String,
        /// Advice for the user.
        hint: &'static str,
    },
}

impl UpgradeError {
    /// Returns how to fix the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotOld => {
                "pass a manifest of kind CustomResourceDefinition with apiVersion apiextensions.k8s.io/v1beta1"
            }
            Self::Missing(_) => "add the field: every version of Kubernetes requires it",
            Self::WrongType { .. } => "correct the field: no version of Kubernetes accepts this value",
            Self::DifferentVersions { .. } => "remove spec.version, or move its entry to the front of spec.versions",
            Self::NotStructural { hint, .. } => hint,
        }
    }
}

/// Returns whether an object is a `v1beta1` CustomResourceDefinition, which [`upgrade`] converts.
pub fn is_old(object: &Value) -> bool {
    object.get("apiVersion").and_then(Value::as_str) == Some(OLD)
        && object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition")
}

/// Converts a CustomResourceDefinition from `v1beta1` to `v1`.
///
/// # Errors
/// Returns an error if the object is not a `v1beta1` CustomResourceDefinition, lacks required fields, or has a schema
/// that cannot be made structural.
pub fn upgrade(old: &Value) -> Result<Upgraded, UpgradeError> {
    if !is_old(old) {
        return Err(UpgradeError::NotOld);
    }
    let mut definition = old.clone();
    let mut notes = Notes::default();
    definition["apiVersion"] = NEW.into();
    let metadata = object_at(&definition, "metadata")?;
    let spec = object_at(&definition, "spec")?;
    let (Some(mut metadata), Some(mut spec)) = (metadata, spec) else {
        return Err(UpgradeError::Missing(if old.get("spec").is_none() { "spec" } else { "metadata" }));
    };

    move_names(&mut spec, &mut notes)?;
    if spec.get("scope").is_none_or(|scope| scope.is_null() || scope == "") {
        spec.insert("scope".to_owned(), "Namespaced".into());
        notes.add("spec.scope was not set: it is now Namespaced, the former default");
    }
    let mut versions = versions(&mut spec, &mut notes)?;
    move_into_versions(&mut spec, &mut versions, &mut notes)?;
    let preserve = match spec.remove("preserveUnknownFields") {
        Some(Value::Bool(preserve)) => preserve,
        None | Some(Value::Null) => true,
        Some(_) => return Err(wrong("spec.preserveUnknownFields", "a boolean")),
    };
    upgrade_schemas(&mut versions, preserve, &mut notes)?;
    spec.insert("versions".to_owned(), versions.into_iter().map(Value::Object).collect());
    upgrade_conversion(&mut spec, &mut notes)?;
    approve(&spec, &mut metadata, &mut notes)?;

    definition["metadata"] = Value::Object(metadata);
    definition["spec"] = Value::Object(spec);
    let status = definition.as_object_mut().and_then(|definition| definition.remove("status"));
    if status.as_ref().is_some_and(has_content) {
        notes.add("status was dropped: only the server sets it");
    }
    Ok(Upgraded { definition, notes: notes.finish() })
}

fn wrong(field: impl Into<String>, expected: &'static str) -> UpgradeError {
    UpgradeError::WrongType { field: field.into(), expected }
}

/// Returns a copy of a field that holds an object; `None` if it is absent.
fn object_at(of: &Value, field: &str) -> Result<Option<Map<String, Value>>, UpgradeError> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object.clone())),
        Some(_) => Err(wrong(field, "an object")),
    }
}

/// Returns whether a value is neither empty nor consists of empty values only.
fn has_content(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => list.iter().any(has_content),
        Value::Object(object) => object.values().any(has_content),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Moves misplaced fields into `spec.names`.
fn move_names(spec: &mut Map<String, Value>, notes: &mut Notes) -> Result<(), UpgradeError> {
    let mut names = match spec.remove("names") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(names)) => names,
        Some(_) => return Err(wrong("spec.names", "an object")),
    };
    for field in NAMES {
        let Some(value) = spec.remove(field).filter(|value| !value.is_null()) else { continue };
        match names.get_mut(field) {
            None | Some(Value::Null) => {
                names.insert(field.to_owned(), value);
                notes.add(format!("spec.{field} was moved to spec.names.{field}"));
            }
            Some(have) if *have == value => {
                notes.add(format!("spec.{field} repeats spec.names.{field} and was dropped"))
            }
            Some(_) => notes.add(format!("spec.{field} was dropped: spec.names.{field} has another value")),
        }
    }
    if names.is_empty() {
        return Err(UpgradeError::Missing("spec.names"));
    }
    spec.insert("names".to_owned(), Value::Object(names));
    Ok(())
}

/// Returns the versions; a single one if only `spec.version` is set.
fn versions(spec: &mut Map<String, Value>, notes: &mut Notes) -> Result<Vec<Map<String, Value>>, UpgradeError> {
    let version = match spec.remove("version") {
        Some(Value::String(version)) if !version.is_empty() => Some(version),
        None | Some(Value::Null | Value::String(_)) => None,
        Some(_) => return Err(wrong("spec.version", "a string")),
    };
    let given = match spec.remove("versions") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(versions)) => versions,
        Some(_) => return Err(wrong("spec.versions", "a list")),
    };
    let mut versions = Vec::with_capacity(given.len());
    for (index, one) in given.into_iter().enumerate() {
        match one {
            Value::Object(one) => versions.push(one),
            _ => return Err(wrong(format!("spec.versions[{index}]"), "an object")),
        }
    }
    match (version, versions.first()) {
        (None, None) => Err(UpgradeError::Missing("spec.versions")),
        (Some(version), None) => {
            notes.add(format!("spec.version {version} is now the only entry of spec.versions, served and stored"));
            let fields = [("name", version.into()), ("served", true.into()), ("storage", true.into())];
            Ok(vec![fields.map(|(name, value)| (name.to_owned(), value)).into_iter().gather()])
        }
        (Some(version), Some(first)) => {
            let first = first.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if first == version { Ok(versions) } else { Err(UpgradeError::DifferentVersions { version, first }) }
        }
        (None, Some(_)) => Ok(versions),
    }
}

/// Copies the fields that applied to all versions into each version that does not set them itself.
fn move_into_versions(
    spec: &mut Map<String, Value>,
    versions: &mut [Map<String, Value>],
    notes: &mut Notes,
) -> Result<(), UpgradeError> {
    let mut moved = Vec::new();
    for (old, new) in MOVED {
        let Some(value) = spec.remove(old).filter(|value| !value.is_null()) else { continue };
        moved.push(format!("spec.{old}"));
        for (index, version) in versions.iter_mut().enumerate() {
            if version.get(new).is_none_or(Value::is_null) {
                version.insert(new.to_owned(), value.clone());
            } else {
                notes.add(format!("spec.versions[{index}] keeps its own {new}: spec.{old} does not apply to it"));
            }
        }
    }
    if !moved.is_empty() {
        notes.add(format!("{} moved into the entries of spec.versions", notes::enumeration(&moved)));
    }
    for (index, version) in versions.iter_mut().enumerate() {
        let columns = match version.get_mut("additionalPrinterColumns") {
            None | Some(Value::Null) => continue,
            Some(Value::Array(columns)) => columns,
            Some(_) => return Err(wrong(format!("spec.versions[{index}].additionalPrinterColumns"), "a list")),
        };
        for column in columns.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(path) = column.remove("JSONPath") {
                column.entry("jsonPath").or_insert(path);
            }
        }
    }
    Ok(())
}

fn upgrade_schemas(versions: &mut [Map<String, Value>], preserve: bool, notes: &mut Notes) -> Result<(), UpgradeError> {
    let mut preserved = false;
    for (index, version) in versions.iter_mut().enumerate() {
        let field = format!("spec.versions[{index}].schema");
        let given = match version.remove("schema") {
            None | Some(Value::Null) => None,
            Some(Value::Object(mut schema)) => schema.remove("openAPIV3Schema").filter(|schema| !schema.is_null()),
            Some(_) => return Err(wrong(field, "an object")),
        };
        let schema = match given {
            Some(mut schema) => {
                schema::repair(&mut schema, format!("{field}.openAPIV3Schema"), preserve, notes)?;
                preserved |= preserve;
                schema
            }
            None => {
                let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
                notes.add(format!("version {name} had no schema: it now has one that allows any field"));
                json!({"type": "object", schema::PRESERVE: true})
            }
        };
        version.insert("schema".to_owned(), json!({"openAPIV3Schema": schema}));
    }
    if preserved {
        notes.add(format!(
            "spec.preserveUnknownFields was true or not set, so unknown fields were kept: the schema now declares {}",
            schema::PRESERVE
        ));
    }
    Ok(())
}

/// Moves the settings of the conversion webhook to their new place.
fn upgrade_conversion(spec: &mut Map<String, Value>, notes: &mut Notes) -> Result<(), UpgradeError> {
    let conversion = match spec.get_mut("conversion") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(conversion)) => conversion,
        Some(_) => return Err(wrong("spec.conversion", "an object")),
    };
    let config = conversion.remove("webhookClientConfig").filter(|config| !config.is_null());
    let reviews = conversion.remove("conversionReviewVersions").filter(has_content);
    if conversion.get("strategy").and_then(Value::as_str) != Some("Webhook") {
        if config.is_some() || reviews.is_some() {
            notes.add("the webhook settings of spec.conversion were dropped: the strategy is not Webhook");
        }
        return Ok(());
    }
    if conversion.contains_key("webhook") {
        return Ok(());
    }
    let reviews = reviews.unwrap_or_else(|| {
        notes.add("spec.conversion.webhook.conversionReviewVersions is now [v1beta1], the former default");
        json!(["v1beta1"])
    });
    let mut webhook = Map::new();
    webhook.insert("conversionReviewVersions".to_owned(), reviews);
    if let Some(config) = config {
        webhook.insert("clientConfig".to_owned(), config);
        notes.add("spec.conversion.webhookClientConfig moved to spec.conversion.webhook.clientConfig");
    }
    conversion.insert("webhook".to_owned(), Value::Object(webhook));
    Ok(())
}

/// Adds the annotation that CustomResourceDefinitions in a protected group require.
fn approve(
    spec: &Map<String, Value>,
    metadata: &mut Map<String, Value>,
    notes: &mut Notes,
) -> Result<(), UpgradeError> {
    let group = spec.get("group").and_then(Value::as_str).ok_or(UpgradeError::Missing("spec.group"))?;
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if !protected {
        return Ok(());
    }
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = Value::Object(Map::new());
    }
    let Value::Object(annotations) = annotations else {
        return Err(wrong("metadata.annotations", "an object"));
    };
    if annotations.get(APPROVAL).is_none_or(|value| !has_content(value)) {
        annotations.insert(APPROVAL.to_owned(), APPROVAL_VALUE.into());
        notes.add(format!(
            "the group {group} is reserved for Kubernetes: the annotation {APPROVAL} was set to {APPROVAL_VALUE:?}, \
             without which it would be rejected"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
