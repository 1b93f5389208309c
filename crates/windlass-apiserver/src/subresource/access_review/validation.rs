//! Validation of access reviews.

use serde_json::Value;
use windlass_builtins::validate::go_struct;
use windlass_schema::{
    field::{ErrorKind, ErrorList, FieldError, Path},
    go_format, names,
};

use super::Review;

/// Returns the errors of a review.
pub(super) fn validate(review: &Value, kind: Review) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = &review["spec"];
    let given = |field: &str| spec.get(field).filter(|value| !value.is_null());
    let (resource, path) = (given("resourceAttributes"), given("nonResourceAttributes"));
    let at = |field: &str| Path::new(&format!("spec.{field}"));
    let shown_path = || path.map_or_else(|| "null".to_owned(), non_resource_attributes);
    match (resource, path) {
        (Some(_), Some(_)) => errors.push(invalid(
            &at("nonResourceAttributes"),
            shown_path(),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(invalid(
            &at("resourceAttributes"),
            shown_path(),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    let is_empty = |field: &str| match &spec[field] {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    if kind != Review::Own && is_empty("user") && is_empty("groups") {
        errors.push(invalid(&at("user"), "\"\"".to_owned(), "at least one of user or group must be specified"));
    }
    if let Some(attributes) = resource {
        let fields = &attributes["fieldSelector"];
        validate_selector(fields, &at("resourceAttributes.fieldSelector"), field_requirement, &mut errors);
        let labels = &attributes["labelSelector"];
        validate_selector(labels, &at("resourceAttributes.labelSelector"), label_requirement, &mut errors);
    }
    let metadata = &review["metadata"];
    let ignored = |field: &str| field == "managedFields" || (field == "namespace" && kind == Review::Local);
    let is_set = |value: &Value| !value.is_null() && value != "";
    if metadata.as_object().into_iter().flatten().any(|(field, value)| !ignored(field) && is_set(value)) {
        let detail = if kind == Review::Local { "must be empty except for namespace" } else { "must be empty" };
        errors.push(invalid(&Path::new("metadata"), object_meta(metadata), detail));
    }
    if kind == Review::Local {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let own = text(&metadata["namespace"]);
        if let Some(namespace) = resource.map(|attributes| text(&attributes["namespace"]))
            && namespace != own
        {
            let path = at("resourceAttributes.namespace");
            errors.push(FieldError::invalid(&path, &namespace.into(), "must match metadata.namespace"));
        }
        if path.is_some() {
            let path = at("nonResourceAttributes");
            errors.push(invalid(&path, shown_path(), "disallowed on this kind of request"));
        }
    }
    errors
}

fn invalid(path: &Path, shown: String, detail: &str) -> FieldError {
    FieldError { kind: ErrorKind::Invalid, field: path.to_string(), value: Some(shown), detail: detail.to_owned() }
}

fn validate_selector(
    selector: &Value,
    path: &Path,
    validate: fn(&Value, &Path, &mut ErrorList),
    errors: &mut ErrorList,
) {
    if selector.is_null() {
        return;
    }
    let raw = selector["rawSelector"].as_str().unwrap_or_default();
    let requirements = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => errors.push(FieldError::invalid(
            &path.child("rawSelector"),
            &raw.into(),
            "may not specified at the same time as requirements",
        )),
        (true, true) => {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(&path.child("requirements"), detail));
        }
        _ => {}
    }
    for (index, requirement) in requirements.iter().enumerate() {
        validate(requirement, &path.child("requirements").index(index), errors);
    }
}

fn field_requirement(requirement: &Value, path: &Path, errors: &mut ErrorList) {
    if requirement["key"].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required(&path.child("key"), "must be specified"));
    }
    validate_values(requirement, path, errors);
}

fn label_requirement(requirement: &Value, path: &Path, errors: &mut ErrorList) {
    validate_values(requirement, path, errors);
    let mut each = |path: &Path, value: &str, messages: Vec<String>| {
        errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, &value.into(), message)));
    };
    let key = requirement["key"].as_str().unwrap_or_default();
    each(&path.child("key"), key, names::is_qualified_name(key));
    for (index, value) in requirement["values"].as_array().into_iter().flatten().enumerate() {
        let value = value.as_str().unwrap_or_default();
        each(&path.child("values").index(index), value, names::is_valid_label_value(value));
    }
}

/// Operators that are not known are left to the authorizer.
fn validate_values(requirement: &Value, path: &Path, errors: &mut ErrorList) {
    let path = path.child("values");
    let has_values = requirement["values"].as_array().is_some_and(|values| !values.is_empty());
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" if !has_values => {
            errors.push(FieldError::required(&path, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if has_values => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&path, detail));
        }
        _ => {}
    }
}

/// Formats the attributes of a path as Go does, whose type has no names for JSON.
fn non_resource_attributes(attributes: &Value) -> String {
    let text = |field: &str| Value::from(attributes[field].as_str().unwrap_or_default());
    go_struct(&[("Path", &text("path")), ("Verb", &text("verb"))])
}

/// Formats metadata as Go does: its fields in the order of their declaration.
fn object_meta(metadata: &Value) -> String {
    let fields = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
    ];
    let mut shown = ordered(metadata, &fields);
    let manager = ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
    let managers: Vec<String> = metadata["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| format!("{{{}}}", ordered(entry, &manager).join(",")))
        .collect();
    if !managers.is_empty() {
        shown.push(format!("\"managedFields\":[{}]", managers.join(",")));
    }
    format!("{{{}}}", shown.join(","))
}

fn ordered(object: &Value, fields: &[&str]) -> Vec<String> {
    let given = fields.iter().filter_map(|field| Some((field, object.get(field).filter(|value| !value.is_null())?)));
    given.map(|(field, value)| format!("\"{field}\":{}", go_format::marshal(value))).collect()
}
