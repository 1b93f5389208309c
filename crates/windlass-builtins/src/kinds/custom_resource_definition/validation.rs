//! Validation of CustomResourceDefinitions, except for their schemas.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::go_format::{first_unprintable, marshal};
use windlass_schema::go_regex;
use windlass_schema::names::{is_dns1035_label, is_dns1123_subdomain};
use windlass_schema::sorting;

use super::internal_version::{Spec, Version, open_api};
use super::options::Options;
use super::schema::Props;
use super::{approval, conversion, render, selectable_fields, structural, validate_schema};
use crate::object::{boolean, copy, is_set, items, text};
use crate::validate;

/// Validates a new CRD.
pub(super) fn validate(object: &Value) -> ErrorList {
    let spec = Spec::new(object);
    let mut errors = name(object);
    errors.extend(validate_spec(&spec, Options::for_create()));
    errors.extend(rest(object, &spec, None));
    errors
}

/// Validates a changed CRD.
pub(super) fn validate_update(object: &Value, old: &Value) -> ErrorList {
    let (spec, old_spec) = (Spec::new(object), Spec::new(old));
    if let Some(error) = too_deep(&old_spec, &Path::new("spec")) {
        return vec![error];
    }
    let options = Options::for_update(&spec, &old_spec, old);
    let immutable_names = options.immutable_names;
    let mut errors = validate_spec(&spec, options);
    let established = if immutable_names { &["scope", "names.kind"][..] } else { &[] };
    for field in established.iter().chain(&["group", "names.plural"]) {
        let pointer = format!("/spec/{}", field.replace('.', "/"));
        let path = Path::new("spec").child(field);
        errors.extend(validate::immutable(&path, &text(object, &pointer).into(), &text(old, &pointer).into()));
    }
    errors.extend(rest(object, &spec, Some(old)));
    errors
}

/// Validates the status of a CRD.
pub(super) fn validate_status(object: &Value) -> ErrorList {
    names(&copy(object, "/status/acceptedNames"), &Path::new("status").child("acceptedNames"))
}

/// Validates that the name is `<plural>.<group>`.
fn name(object: &Value) -> ErrorList {
    let required = format!("{}.{}", text(object, "/spec/names/plural"), text(object, "/spec/group"));
    let mut errors = ErrorList::new();
    for field in ["generateName", "name"] {
        let name = text(object, &format!("/metadata/{field}"));
        if !name.is_empty() && name != required {
            let path = Path::new("metadata").child(field);
            let detail = "must be spec.names.plural+\".\"+spec.group";
            errors.push(FieldError::invalid(&path, &name.into(), detail));
        }
    }
    errors
}

/// Validates everything but the spec.
fn rest(object: &Value, spec: &Spec<'_>, old: Option<&Value>) -> ErrorList {
    let mut errors = validate_status(object);
    errors.extend(stored_versions(object, spec));
    errors.extend(approval::validate(object, old));
    let preserved_before = old.is_some_and(|old| boolean(old, "/spec/preserveUnknownFields") == Some(true));
    if spec.preserve_unknown_fields && !preserved_before {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&Path::new("spec").child("preserveUnknownFields"), &true.into(), detail));
    }
    errors
}

fn stored_versions(object: &Value, spec: &Spec<'_>) -> ErrorList {
    let path = Path::new("status").child("storedVersions");
    let stored = items(object, "/status/storedVersions");
    let value = copy(object, "/status/storedVersions");
    if stored.is_empty() {
        return vec![FieldError::invalid(&path, &value, "must have at least one stored version")];
    }
    let mut errors = ErrorList::new();
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, version) in stored.iter().enumerate() {
        missing.insert(version.as_str().unwrap_or_default(), index);
    }
    for version in &spec.versions {
        let is_storage = boolean(version.value, "/storage").unwrap_or_default();
        if missing.remove(version.name).is_none() && is_storage {
            let detail = format!("must have the storage version {}", version.name);
            errors.push(FieldError::invalid(&path, &value, detail));
        }
    }
    let mut missing: Vec<_> = missing.into_iter().collect();
    sorting::sort_by_key(&mut missing, |(_, index)| *index);
    for (version, index) in missing {
        let detail = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in \
             spec.versions until a storage migration ensures no data remains persisted in {version} and removes \
             {version} from status.storedVersions"
        );
        errors.push(FieldError::invalid(&path.index(index), &version.into(), detail));
    }
    errors
}

/// Returns an error if a schema is nested too deeply to be validated.
fn too_deep(spec: &Spec<'_>, path: &Path) -> Option<FieldError> {
    let deep = |validation: &Value| open_api(validation).is_some_and(|schema| super::is_too_deep(schema));
    let path = if spec.validation.is_some_and(deep) {
        path.child("validation")
    } else {
        let index = spec.versions.iter().position(|version| version.schema.is_some_and(deep))?;
        path.child("versions").index(index).child("schema")
    };
    Some(FieldError::forbidden(&path.child("openAPIV3Schema"), super::too_deep()))
}

fn validate_spec(spec: &Spec<'_>, mut options: Options) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = ErrorList::new();
    match text(spec.value, "/group") {
        "" => errors.push(FieldError::required(&path.child("group"), "")),
        group => {
            let messages = is_dns1123_subdomain(group);
            let detail = match messages.is_empty() {
                false => messages.join(","),
                true if group.contains('.') => String::new(),
                true => "should be a domain with at least one dot".to_owned(),
            };
            if !detail.is_empty() {
                errors.push(FieldError::invalid(&path.child("group"), &group.into(), detail));
            }
        }
    }
    match text(spec.value, "/scope") {
        "" => errors.push(FieldError::required(&path.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let supported = &["Cluster", "Namespaced"];
            errors.push(FieldError::not_supported(&path.child("scope"), &other.into(), supported));
        }
    }
    if let Some(error) = too_deep(spec, &path) {
        errors.push(error);
        return errors;
    }
    errors.extend(missing_schemas(spec, &path, &options));
    let preserve = spec.preserve_unknown_fields;
    let has_defaults = spec.has_schema(|schema| schema.value("default").is_some());
    if has_defaults && preserve {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(&path.child("preserveUnknownFields"), &true.into(), detail));
    }
    options.structural |= !preserve || has_defaults || spec.has_schema(has_extensions);
    // The patterns of all versions of a CRD share one size limit.
    go_regex::with_shared_limits(|| {
        errors.extend(versions(spec, &path.child("versions"), &options));
        errors.extend(shared(spec, &path, &options));
    });
    let strategy = text(spec.value, "/conversion/strategy");
    if is_set(spec.value, "/conversion") && strategy != "None" && preserve {
        let path = path.child("conversion").child("strategy");
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(&path, &strategy.into(), detail));
    }
    errors.extend(conversion::validate(spec.value, &path.child("conversion"), options.conversion));
    errors
}

fn missing_schemas(spec: &Spec<'_>, path: &Path, options: &Options) -> ErrorList {
    let mut errors = ErrorList::new();
    if spec.validation.and_then(open_api).is_some() {
        return errors;
    }
    for (index, version) in spec.versions.iter().enumerate() {
        let path = path.child("versions").index(index).child("schema").child("openAPIV3Schema");
        let served = boolean(version.value, "/served").unwrap_or_default();
        if version.schema.and_then(open_api).is_some() {
            continue;
        }
        if options.has_schema {
            errors.push(FieldError::required(&path, ""));
        } else if !spec.preserve_unknown_fields && served {
            errors.push(FieldError::required(&path, "because otherwise all fields are pruned"));
        }
    }
    errors
}

/// Returns whether a schema uses an extension that requires a structural schema.
fn has_extensions(schema: Props<'_>) -> bool {
    ["x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"].iter().any(|name| schema.flag(name))
        || ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type"]
            .iter()
            .any(|name| schema.value(name).is_some())
        || ["x-kubernetes-list-map-keys", "x-kubernetes-validations"].iter().any(|name| !schema.list(name).is_empty())
}

fn versions(spec: &Spec<'_>, path: &Path, options: &Options) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut seen = BTreeSet::new();
    let (mut unique, mut storage) = (true, 0);
    for (index, version) in spec.versions.iter().enumerate() {
        storage += usize::from(boolean(version.value, "/storage").unwrap_or_default());
        unique &= seen.insert(version.name);
        let path = path.index(index);
        errors.extend(label(version.name, &path.child("name")));
        errors.extend(validate_version(spec, version, &path, options));
    }
    let mut invalid = |detail: &str| {
        let value = if is_set(spec.value, "/versions") { render::versions(&spec.versions) } else { "null".to_owned() };
        errors.push(FieldError {
            kind: ErrorKind::Invalid,
            field: path.to_string(),
            value: Some(value),
            detail: detail.to_owned(),
        });
    };
    if !unique {
        invalid("must contain unique version names");
    }
    if storage != 1 {
        invalid("must have exactly one version marked as storage version");
    }
    if let Some(first) = spec.versions.first().filter(|first| !first.name.is_empty()) {
        errors.extend(label(first.name, &Path::new("spec").child("version")));
    }
    errors
}

/// Validates a DNS label, with all messages in one error.
fn label(value: &str, path: &Path) -> Option<FieldError> {
    let messages = is_dns1035_label(value);
    (!messages.is_empty()).then(|| FieldError::invalid(path, &value.into(), messages.join(",")))
}

fn validate_version(spec: &Spec<'_>, version: &Version<'_>, path: &Path, options: &Options) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(warning) = version.value.get("deprecationWarning").and_then(Value::as_str) {
        let deprecated = boolean(version.value, "/deprecated").unwrap_or_default();
        for detail in deprecation_warning(deprecated, warning) {
            errors.push(FieldError {
                kind: ErrorKind::Invalid,
                field: path.child("deprecationWarning").to_string(),
                value: Some(marshal(&warning.into())),
                detail,
            });
        }
    }
    if let Some(validation) = version.schema {
        let costs = !options.unchanged_versions.contains(version.name);
        let has_status = spec.has_status(version.name);
        errors.extend(validate_schema::validate(validation, has_status, costs, options, &path.child("schema")));
    }
    errors.extend(subresources(version.subresources, &path.child("subresources")));
    errors.extend(columns(version.columns, &path.child("additionalPrinterColumns")));
    let fields = version.selectable.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (path, schema_path) = (path.child("selectableFields"), path.child("schema").child("openAPIV3Schema"));
    if !fields.is_empty() {
        match version.schema.and_then(open_api) {
            None => {
                let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.push(FieldError::invalid(&path, &"".into(), detail));
            }
            schema => {
                let any_number = options.many_selectable.contains(version.name);
                errors.extend(selectable_fields(fields, schema, &path, &schema_path, any_number));
            }
        }
    }
    errors
}

/// Validates selectable fields; if the schema has no structural form, the error is reported for `schema_path`.
fn selectable_fields(
    fields: &[Value],
    schema: Option<Props<'_>>,
    path: &Path,
    schema_path: &Path,
    any_number: bool,
) -> ErrorList {
    let error = schema.and_then(structural::unsupported);
    let mut errors: ErrorList =
        error.map(|error| FieldError::invalid(schema_path, &"".into(), error)).into_iter().collect();
    errors.extend(selectable_fields::validate(fields, schema.filter(|_| error.is_none()), path, any_number));
    errors
}

fn deprecation_warning(deprecated: bool, warning: &str) -> Vec<String> {
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut errors = Vec::new();
    if warning.len() > 256 {
        errors.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        errors.push("must not be an empty string".to_owned());
    }
    if let Some(index) = first_unprintable(warning) {
        let what = "must only contain printable UTF-8 characters; non-printable character found at index";
        errors.push(format!("{what} {index}"));
    }
    errors
}

/// Validates the names and the fields at the top of the spec, which all versions share.
fn shared(spec: &Spec<'_>, path: &Path, options: &Options) -> ErrorList {
    let mut errors = ErrorList::new();
    let names_path = path.child("names");
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(spec.value, &format!("/names/{field}")).is_empty() {
            errors.push(FieldError::required(&names_path.child(field), ""));
        }
    }
    errors.extend(names(&copy(spec.value, "/names"), &names_path));
    if let Some(validation) = spec.validation {
        let first = spec.versions.first().map_or("", |version| version.name);
        let costs = !options.unchanged_versions.contains(first);
        let has_status = spec.has_any_status();
        errors.extend(validate_schema::validate(validation, has_status, costs, options, &path.child("validation")));
    }
    errors.extend(subresources(spec.subresources, &path.child("subresources")));
    errors.extend(columns(spec.columns, &path.child("additionalPrinterColumns")));
    let fields = spec.selectable.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (path, schema_path) = (path.child("selectableFields"), path.child("schema").child("openAPIV3Schema"));
    if !fields.is_empty() {
        match spec.validation {
            None => {
                let detail = "may only be set when validations.schema is included";
                errors.push(FieldError::invalid(&path, &"".into(), detail));
            }
            Some(validation) => {
                let any_number = options.many_selectable.contains("");
                errors.extend(selectable_fields(fields, open_api(validation), &path, &schema_path, any_number));
            }
        }
    }
    errors
}

fn names(names: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (field, mixed_case) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let name = text(names, &format!("/{field}"));
        let messages =
            if mixed_case { is_dns1035_label(&name.to_lowercase()) } else { is_dns1035_label(name) }.join(",");
        if name.is_empty() || messages.is_empty() {
            continue;
        }
        let prefix = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
        errors.push(FieldError::invalid(&path.child(field), &name.into(), format!("{prefix}{messages}")));
    }
    let labels = |field: &str| {
        let names = items(names, &format!("/{field}")).iter().enumerate();
        names
            .filter_map(|(index, name)| label(name.as_str().unwrap_or_default(), &path.child(field).index(index)))
            .collect::<Vec<_>>()
    };
    errors.extend(labels("shortNames"));
    let (kind, list_kind) = (text(names, "/kind"), text(names, "/listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), &list_kind.into(), detail));
    }
    errors.extend(labels("categories"));
    errors
}

fn columns(columns: Option<&Value>, path: &Path) -> ErrorList {
    const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
    const FORMATS: &[&str] = &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let one_of = |values: &[&str]| format!("must be one of {}", values.join(","));
    let mut errors = ErrorList::new();
    for (index, column) in columns.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let path = path.index(index);
        if text(column, "/name").is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        match text(column, "/type") {
            "" => errors.push(FieldError::required(&path.child("type"), one_of(TYPES))),
            kind if TYPES.contains(&kind) => {}
            other => errors.push(FieldError::invalid(&path.child("type"), &other.into(), one_of(TYPES))),
        }
        let format = text(column, "/format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            errors.push(FieldError::invalid(&path.child("format"), &format.into(), one_of(FORMATS)));
        }
        match text(column, "/jsonPath") {
            "" => errors.push(FieldError::required(&path.child("JSONPath"), "")),
            json_path => errors.extend(simple_path(json_path, &path.child("JSONPath"))),
        }
    }
    errors
}

fn simple_path(json_path: &str, path: &Path) -> Option<FieldError> {
    let detail = "must be a simple json path starting with .";
    (!json_path.starts_with('.')).then(|| FieldError::invalid(path, &json_path.into(), detail))
}

fn subresources(subresources: Option<&Value>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(scale) = subresources.and_then(|all| all.get("scale")).filter(|scale| scale.is_object()) else {
        return errors;
    };
    for (field, prefix, detail) in [
        ("specReplicasPath", ".spec.", "should be a json path under .spec"),
        ("statusReplicasPath", ".status.", "should be a json path under .status"),
    ] {
        let path = path.child("scale").child(field);
        let json_path = text(scale, &format!("/{field}"));
        if json_path.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if let Some(error) = simple_path(json_path, &path) {
            errors.push(error);
        } else if !json_path.starts_with(prefix) {
            errors.push(FieldError::invalid(&path, &json_path.into(), detail));
        }
    }
    let selector = text(scale, "/labelSelectorPath");
    let path = path.child("scale").child("labelSelectorPath");
    if selector.is_empty() {
        return errors;
    }
    if let Some(error) = simple_path(selector, &path) {
        errors.push(error);
    } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        errors.push(FieldError {
            kind: ErrorKind::Invalid,
            field: path.to_string(),
            value: Some(marshal(&selector.into())),
            detail: "should be a json path under either .spec or .status".to_owned(),
        });
    }
    errors
}
