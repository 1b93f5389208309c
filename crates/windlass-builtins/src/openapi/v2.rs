//! Version 2.

use serde_json::{Map, Value, json};

use super::operations::{self, Answer, Body, Operation, PathItem};
use super::parameters::Parameter;
use super::schemas::{self, Dialect, PATCH};
use super::{subjects, v3};
use crate::resource::Table;

const MEDIA: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
];

pub(super) fn document(table: &Table) -> Value {
    let group_versions: Vec<(&str, &str)> =
        table.groups.iter().flat_map(|group| group.versions.iter().map(|version| (&*group.name, &**version))).collect();
    let mut items: Vec<_> =
        group_versions.iter().map(|(group, version)| operations::discovery(group, version)).collect();
    let subjects = subjects(table, None);
    items.extend(subjects.iter().flat_map(|subject| operations::of(subject, table)));
    let names = v3::schema_names(&items);
    let mut shared = Map::new();
    for item in &items {
        for one in item.parameters.iter().chain(item.operations.iter().flat_map(|operation| &operation.parameters)) {
            shared.entry(shared_name(one)).or_insert_with(|| parameter(one));
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths(&items, false),
        "definitions": schemas::closure(names, &group_versions, Dialect::V2, table),
        "parameters": shared,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}

pub(super) fn paths(items: &[PathItem<'_>], custom: bool) -> Map<String, Value> {
    let path = |item: &PathItem<'_>| {
        let mut written = Map::new();
        if !item.parameters.is_empty() {
            written.insert("parameters".to_owned(), item.parameters.iter().map(reference).collect());
        }
        for one in &item.operations {
            written.insert(one.method.to_owned(), operation(one, custom));
        }
        (item.path.clone(), Value::Object(written))
    };
    items.iter().map(path).collect()
}

/// The name under which the document holds a parameter.
fn shared_name(parameter: &Parameter<'_>) -> String {
    format!("{}-{}-{}", parameter.name, parameter.place, parameter.ty)
}

fn reference(parameter: &Parameter<'_>) -> Value {
    json!({"$ref": format!("#/parameters/{}", shared_name(parameter))})
}

fn parameter(parameter: &Parameter<'_>) -> Value {
    let mut written = json!({
        "name": parameter.name, "in": parameter.place, "type": parameter.ty, "uniqueItems": true,
    });
    if parameter.place == "path" {
        written["required"] = json!(true);
    }
    written
}

fn operation(operation: &Operation<'_>, custom: bool) -> Value {
    let media = if custom { &MEDIA[..2] } else { &MEDIA };
    let mut consumes = vec!["*/*"];
    let mut parameters = Vec::new();
    let body = |required: bool, name: &str| {
        let mut body = json!({"name": "body", "in": "body", "schema": Dialect::V2.reference(name)});
        if required {
            body["required"] = json!(true);
        }
        body
    };
    match &operation.body {
        Some(Body::Object(name)) => parameters.push(body(true, name)),
        Some(Body::Options(name)) => parameters.push(body(false, name)),
        Some(Body::Patch) => {
            consumes = if custom { PATCHES[..3].to_vec() } else { PATCHES.to_vec() };
            parameters.push(body(true, PATCH));
        }
        None if operation.action.is_empty() => consumes = media.to_vec(),
        None => {}
    }
    parameters.extend(operation.parameters.iter().map(reference));
    let text = json!({"type": "string"});
    let (produces, schema) = match &operation.answer {
        Answer::Object(name) => (media.to_vec(), Dialect::V2.reference(name)),
        Answer::Stream(name) if custom => (media.to_vec(), Dialect::V2.reference(name)),
        Answer::Stream(name) => ([&MEDIA[..], &STREAMS].concat(), Dialect::V2.reference(name)),
        Answer::Text => ([&["text/plain"], media].concat(), text),
        Answer::Connection => (vec!["*/*"], text),
    };
    let mut responses = Map::new();
    for code in operation.codes {
        responses.insert(code.to_string(), json!({"description": v3::reason(*code), "schema": schema}));
    }
    responses.insert("401".to_owned(), json!({"description": v3::reason(401)}));
    let mut written = json!({
        "tags": [&operation.tag],
        "operationId": &operation.id,
        "schemes": ["https"],
        "consumes": consumes,
        "produces": produces,
        "responses": responses,
    });
    if !parameters.is_empty() {
        written["parameters"] = Value::Array(parameters);
    }
    v3::extensions(operation, &mut written);
    written
}
