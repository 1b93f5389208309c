//! The `#[kube(...)]` attribute: names, scope and subresources of the resource.

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::{
    Definition, Object, literal,
    model::Model,
    schema::{PRESERVE, is_set},
    text_of,
};
use crate::names;

/// Fields that every object has.
const OF_ALL: &[&str] = &["apiVersion", "kind", "metadata"];

/// Layout of an object.
pub(super) struct Shape {
    /// Whether the fields are at the top level instead of under `spec`.
    no_spec: bool,
    /// Type of the status.
    status: Option<String>,
}

/// Creates the structs of spec and status.
pub(super) fn shape(model: &mut Model, version: &Object, root: &Object) -> Shape {
    let kind = model.kind.clone();
    let (spec_name, status_name) = (model.reserve(&format!("{kind}Spec")), model.reserve(&format!("{kind}Status")));
    let empty = Object::new();
    let properties = root.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let others = properties.keys().any(|name| !OF_ALL.contains(&name.as_str()) && name != "spec" && name != "status");
    let open = is_set(root, PRESERVE);
    let spec = properties.get("spec").and_then(Value::as_object).filter(|spec| is_struct(spec) && !others);
    match spec {
        Some(spec) => {
            model.structure(&spec_name, &kind, spec);
            // Flattening the rest into the object would make every object pay for the few that have such fields.
            if open {
                let note = "the object: may have fields other than spec and status, which the types do not contain: patch \
                            such objects instead of replacing them";
                model.notes.push(note.to_owned());
            }
            let required = root.get("required").and_then(Value::as_array).into_iter().flatten();
            if !required.into_iter().any(|name| name == "spec") {
                model.notes.push("spec: optional in the CRD, but required in the types".to_owned());
            }
        }
        None => {
            let keep = |(keyword, _): &(&String, &Value)| {
                ["description", "properties", "required", PRESERVE].contains(&keyword.as_str())
            };
            let fields = root.iter().filter(keep).map(|(keyword, value)| (keyword.clone(), value.clone())).gather();
            model.top(&spec_name, &kind, &fields);
        }
    }
    let served = version.get("subresources").and_then(|all| all.get("status")).is_some_and(|status| !status.is_null());
    let status = match properties.get("status").and_then(Value::as_object) {
        Some(status) => {
            if !served {
                model.notes.push("status: becomes a subresource, unlike in the CRD".to_owned());
            }
            match is_struct(status) {
                true => model.structure(&status_name, &status_name, status),
                false => model.json(&status_name, status),
            }
            Some(status_name)
        }
        None if served => {
            let of_object = [("type".to_owned(), "object".into())].into_iter();
            let preserve = open.then(|| (PRESERVE.to_owned(), true.into()));
            model.structure(&status_name, &status_name, &of_object.chain(preserve).gather());
            Some(status_name)
        }
        None => None,
    };
    note_dropped(root, properties, &mut model.notes);
    Shape { no_spec: spec.is_none(), status }
}

/// Notes constraints of the root schema that the types cannot express.
fn note_dropped(root: &Object, properties: &Object, notes: &mut Vec<String>) {
    let said = ["type", "properties", "required", "description", "x-kubernetes-validations", PRESERVE];
    for keyword in root.keys().filter(|keyword| !said.contains(&keyword.as_str())) {
        notes.push(format!("the object: {keyword} is dropped"));
    }
    if properties.get("metadata").is_some_and(|metadata| metadata.get("properties").is_some()) {
        notes.push("metadata: its constraints are dropped".to_owned());
    }
}

/// Returns whether a schema describes an object with fields, or an object without a schema.
fn is_struct(schema: &Object) -> bool {
    text_of(schema, "type") == "object"
        && !schema.contains_key("additionalProperties")
        && !is_set(schema, "x-kubernetes-embedded-resource")
}

/// Lines of the attribute.
pub(super) fn head(
    definition: &Definition,
    version: &Object,
    root: &Object,
    shape: &Shape,
    notes: &mut Vec<String>,
) -> Vec<String> {
    let kind = &definition.kind;
    let is = |name: &str, value: &str| format!("{name} = {}", literal::text(value));
    let mut lines = vec![
        is("group", &definition.group),
        is("version", text_of(version, "name")),
        is("kind", kind),
        is("plural", &definition.plural),
    ];
    let root_type = names::type_name(kind);
    if root_type != *kind {
        lines.push(is("root", &root_type));
    }
    let description = text_of(root, "description").trim();
    if !description.is_empty() {
        lines.push(is("doc", description));
    }
    let singular = text_of(&definition.names, "singular");
    if !singular.is_empty() && singular != kind.to_ascii_lowercase() {
        lines.push(is("singular", singular));
    }
    let list_kind = text_of(&definition.names, "listKind");
    if !list_kind.is_empty() && list_kind != format!("{kind}List") {
        notes.push(format!("names: the list kind is {kind}List, not {list_kind}"));
    }
    lines.extend(texts(&definition.names, "shortNames").map(|name| is("shortname", name)));
    lines.extend(texts(&definition.names, "categories").map(|name| is("category", name)));
    if definition.namespaced {
        lines.push("namespaced".to_owned());
    }
    if shape.no_spec {
        lines.push("no_spec".to_owned());
    }
    if let Some(status) = &shape.status {
        lines.push(is("status", status));
    }
    for flag in ["served", "storage"] {
        if version.get(flag) == Some(&Value::Bool(false)) {
            lines.push(format!("{flag} = false"));
        }
    }
    match (is_set(version, "deprecated"), text_of(version, "deprecationWarning")) {
        (true, "") => lines.push("deprecated".to_owned()),
        (true, warning) => lines.push(is("deprecated", warning)),
        _ => {}
    }
    if let Some(scale) = version.get("subresources").and_then(|all| all.get("scale")).filter(|scale| !scale.is_null()) {
        lines.push(is("scale", &scale.to_string()));
    }
    let objects = |name: &str| version.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    for column in objects("additionalPrinterColumns") {
        lines.push(is("printcolumn", &column.to_string()));
    }
    for field in objects("selectableFields") {
        lines.push(is("selectable", field.get("jsonPath").and_then(Value::as_str).unwrap_or_default()));
    }
    let rules = root.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    lines.extend(rules.filter_map(Value::as_object).map(rule));
    lines
}

fn texts<'a>(object: &'a Object, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    object.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// A validation rule of the whole object.
fn rule(rule: &Object) -> String {
    let mut text = format!("validation = Rule::new({})", literal::text(text_of(rule, "rule")));
    match (text_of(rule, "message"), text_of(rule, "messageExpression")) {
        ("", "") => {}
        ("", expression) => text += &format!(".message(Message::Expression({}.to_owned()))", literal::text(expression)),
        (message, _) => text += &format!(".message({})", literal::text(message)),
    }
    let reasons = ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"];
    if let Some(reason) = reasons.into_iter().find(|reason| *reason == text_of(rule, "reason")) {
        text += &format!(".reason(Reason::{reason})");
    }
    if !text_of(rule, "fieldPath").is_empty() {
        text += &format!(".field_path({})", literal::text(text_of(rule, "fieldPath")));
    }
    if is_set(rule, "optionalOldSelf") {
        text += ".optional_old_self(true)";
    }
    text
}
