//! OpenAPI version 3.

use serde_json::{Map, Value, json};
use windlass_schema::sorting::{self, Gather as _};

use super::operations::{self, Answer, Body, Operation, PathItem};
use super::parameters::Parameter;
use super::schemas::{self, Dialect, PATCH};
use super::{Descriptions, Sources, subjects, write_object, write_value};

const MEDIA: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// The document of a group version, not yet written.
pub(super) struct Document<'a> {
    group_version: (&'a str, &'a str),
    items: Vec<PathItem<'a>>,
    sources: Sources<'a>,
}

impl<'a> Document<'a> {
    pub(super) fn new(group: &'a str, version: &'a str, sources: Sources<'a>) -> Option<Self> {
        let table = sources.table;
        let subjects = subjects(table, Some((group, version)));
        if subjects.is_empty() {
            return None;
        }
        let mut items = vec![operations::discovery(group, version)];
        items.extend(subjects.iter().flat_map(|subject| operations::of(subject, table)));
        sorting::sort_by(&mut items, |a, b| a.path.cmp(&b.path));
        Some(Self { group_version: (group, version), items, sources })
    }

    fn head() -> [(&'static str, Value); 2] {
        [("info", json!({"title": "Kubernetes", "version": "unversioned"})), ("openapi", json!("3.0.0"))]
    }

    fn security() -> Value {
        let description = "Bearer Token authentication";
        json!({"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header", "description": description}})
    }

    fn schemas(&self) -> impl Iterator<Item = (String, Value)> {
        schemas::closure(schema_names(&self.items), self.sources.table).into_iter().filter_map(|name| {
            let schema = schemas::schema(&name, &[self.group_version], Dialect::V3, self.sources)?;
            Some((name, schema))
        })
    }

    pub(super) fn value(&self) -> Value {
        let mut document: Map<_, _> = Self::head().map(|(name, value)| (name.to_owned(), value)).into_iter().gather();
        let paths: Map<_, _> = paths(&self.items, false, self.sources.descriptions).gather();
        document.insert("paths".to_owned(), paths.into());
        let schemas: Map<_, _> = self.schemas().gather();
        document.insert("components".to_owned(), json!({"schemas": schemas, "securitySchemes": Self::security()}));
        Value::Object(document)
    }

    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = br#"{"components":{"schemas":"#.to_vec();
        write_object(&mut text, self.schemas());
        text.extend_from_slice(br#","securitySchemes":"#);
        write_value(&mut text, &Self::security());
        text.push(b'}');
        for (name, value) in Self::head() {
            text.extend_from_slice(format!(r#","{name}":"#).as_bytes());
            write_value(&mut text, &value);
        }
        text.extend_from_slice(br#","paths":"#);
        write_object(&mut text, paths(&self.items, false, self.sources.descriptions));
        text.push(b'}');
        text
    }
}

/// Returns the names of the schemas that operations refer to.
pub(super) fn schema_names(items: &[PathItem<'_>]) -> Vec<String> {
    let mut names = Vec::new();
    for operation in items.iter().flat_map(|item| &item.operations) {
        match &operation.body {
            Some(Body::Object(name) | Body::Options(name)) => names.push(name.clone()),
            Some(Body::Patch) => names.push(PATCH.to_owned()),
            None => {}
        }
        if let Answer::Object(name) | Answer::Stream(name) = &operation.answer {
            names.push(name.clone());
        }
    }
    names.sort();
    names.dedup();
    names
}

pub(super) fn paths(
    items: &[PathItem<'_>],
    custom: bool,
    descriptions: &dyn Descriptions,
) -> impl Iterator<Item = (String, Value)> {
    items.iter().map(move |item| {
        let mut written = Map::new();
        if !item.parameters.is_empty() {
            let parameters = item.parameters.iter().map(|one| parameter(one, descriptions));
            written.insert("parameters".to_owned(), parameters.collect());
        }
        for one in &item.operations {
            written.insert(one.method.to_owned(), operation(one, custom, descriptions));
        }
        (item.path.clone(), Value::Object(written))
    })
}

fn parameter(parameter: &Parameter<'_>, descriptions: &dyn Descriptions) -> Value {
    let mut written = json!({
        "name": parameter.name, "in": parameter.place, "schema": {"type": parameter.ty, "uniqueItems": true},
    });
    if parameter.place == "path" {
        written["required"] = json!(true);
    }
    if let Some(description) = parameter.description(descriptions) {
        written["description"] = json!(description);
    }
    written
}

fn operation(operation: &Operation<'_>, custom: bool, descriptions: &dyn Descriptions) -> Value {
    let mut written = json!({"tags": [&operation.tag], "operationId": &operation.id});
    if !operation.parameters.is_empty() {
        written["parameters"] = operation.parameters.iter().map(|one| parameter(one, descriptions)).collect();
    }
    if let Some(body) = &operation.body {
        let types = if custom { &MEDIA[..2] } else { &["*/*"] };
        written["requestBody"] = match body {
            Body::Object(name) => json!({"required": true, "content": content(types, name)}),
            Body::Options(name) => json!({"content": content(types, name)}),
            Body::Patch => {
                let types = if custom { &PATCHES[..3] } else { &PATCHES };
                json!({"required": true, "content": content(types, PATCH)})
            }
        };
    }
    let media = if custom { &MEDIA[..2] } else { &MEDIA };
    let answer = match &operation.answer {
        Answer::Object(name) => content(media, name),
        Answer::Stream(name) if custom => content(media, name),
        Answer::Stream(name) => content(&[&MEDIA[..], &STREAMS].concat(), name),
        Answer::Text => media_types(&[&["text/plain"], media].concat(), &json!({"type": "string"})),
        Answer::Connection => media_types(&["*/*"], &json!({"type": "string"})),
    };
    let mut responses = Map::new();
    for code in operation.codes {
        responses.insert(code.to_string(), json!({"description": reason(*code), "content": answer}));
    }
    responses.insert("401".to_owned(), json!({"description": reason(401)}));
    written["responses"] = Value::Object(responses);
    extensions(operation, &mut written);
    written
}

/// Adds the Kubernetes extensions of an operation, which are the same in both versions.
pub(super) fn extensions(operation: &Operation<'_>, written: &mut Value) {
    if !operation.description.is_empty() {
        written["description"] = json!(operation.description);
    }
    if !operation.action.is_empty() {
        written["x-kubernetes-action"] = json!(operation.action);
    }
    if let Some([group, version, kind]) = operation.kind {
        written["x-kubernetes-group-version-kind"] = json!({"group": group, "version": version, "kind": kind});
    }
}

/// Returns the description that OpenAPI requires of every response.
pub(super) fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        _ => "Unauthorized",
    }
}

fn content(types: &[&str], schema: &str) -> Value {
    media_types(types, &Dialect::V3.reference(schema))
}

fn media_types(types: &[&str], schema: &Value) -> Value {
    types.iter().map(|media| ((*media).to_owned(), json!({"schema": schema}))).gather::<Map<_, _>>().into()
}
