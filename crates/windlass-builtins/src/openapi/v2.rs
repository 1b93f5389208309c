//! OpenAPI version 2.

use serde_json::{Map, Value, json};
use windlass_schema::sorting::{self, Gather as _};

use super::custom::Parts;
use super::operations::{self, Answer, Body, Operation, PathItem};
use super::parameters::Parameter;
use super::schemas::{self, Dialect, PATCH};
use super::{Descriptions, Sources, gnostic, subjects, v3, write_object, write_value};

const MEDIA: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAMS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
];

/// The document of the whole table, not yet written.
pub(super) struct Document<'a> {
    group_versions: Vec<(&'a str, &'a str)>,
    items: Vec<PathItem<'a>>,
    /// Paths and definitions of custom resources.
    custom: Parts,
    sources: Sources<'a>,
}

impl<'a> Document<'a> {
    pub(super) fn new(sources: Sources<'a>, custom: Parts) -> Self {
        let table = sources.table;
        let groups = table.groups.iter();
        let group_versions: Vec<(&str, &str)> =
            groups.flat_map(|group| group.versions.iter().map(|version| (&*group.name, &**version))).collect();
        let mut items: Vec<_> =
            group_versions.iter().map(|(group, version)| operations::discovery(group, version)).collect();
        items.extend(subjects(table, None).iter().flat_map(|subject| operations::of(subject, table)));
        sorting::sort_by(&mut items, |a, b| a.path.cmp(&b.path));
        Self { group_versions, items, custom, sources }
    }

    /// Returns everything but the paths and definitions.
    fn head(&self) -> Map<String, Value> {
        let operations = self.items.iter().flat_map(|item| &item.operations);
        let of_paths = self.items.iter().flat_map(|item| &item.parameters);
        let mut shared = Map::new();
        for one in of_paths.chain(operations.flat_map(|operation| &operation.parameters)) {
            shared.entry(shared_name(one)).or_insert_with(|| parameter(one, self.sources.descriptions));
        }
        let head = [
            ("swagger".to_owned(), json!("2.0")),
            ("info".to_owned(), json!({"title": "Kubernetes", "version": "unversioned"})),
            ("parameters".to_owned(), Value::Object(shared)),
            ("security".to_owned(), json!([{"BearerToken": []}])),
            (
                "securityDefinitions".to_owned(),
                json!({"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}),
            ),
        ];
        head.into_iter().gather()
    }

    /// Returns the definitions; those of the table take precedence.
    fn definitions(&self) -> impl Iterator<Item = (String, Value)> {
        let names = schemas::closure(v3::schema_names(&self.items), self.sources.table);
        let custom: Vec<_> = self.custom.definitions.iter().filter(|(name, _)| !names.contains(*name)).collect();
        let of_table = names.into_iter().filter_map(|name| {
            let schema = schemas::schema(&name, &self.group_versions, Dialect::V2, self.sources)?;
            Some((name, schema))
        });
        of_table.chain(custom.into_iter().map(|(name, schema)| (name.clone(), schema.clone())))
    }

    fn paths(&self) -> impl Iterator<Item = (String, Value)> {
        let of_table = |path: &str| self.items.binary_search_by(|item| item.path.as_str().cmp(path)).is_ok();
        let custom = self.custom.paths.iter().filter(move |(path, _)| !of_table(path));
        paths(&self.items, false).chain(custom.map(|(path, item)| (path.clone(), item.clone())))
    }

    pub(super) fn value(&self) -> Value {
        let mut document = self.head();
        document.insert("paths".to_owned(), self.paths().gather::<Map<_, _>>().into());
        document.insert("definitions".to_owned(), self.definitions().gather::<Map<_, _>>().into());
        Value::Object(document)
    }

    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = br#"{"definitions":"#.to_vec();
        write_object(&mut text, self.definitions());
        for (name, value) in self.head() {
            text.extend_from_slice(format!(r#","{name}":"#).as_bytes());
            write_value(&mut text, &value);
        }
        text.extend_from_slice(br#","paths":"#);
        write_object(&mut text, self.paths());
        text.push(b'}');
        text
    }

    pub(super) fn protobuf(&self) -> Vec<u8> {
        gnostic::encode_pieces(&Value::Object(self.head()), self.paths(), self.definitions())
    }
}

pub(super) fn paths(items: &[PathItem<'_>], custom: bool) -> impl Iterator<Item = (String, Value)> {
    items.iter().map(move |item| {
        let mut written = Map::new();
        if !item.parameters.is_empty() {
            written.insert("parameters".to_owned(), item.parameters.iter().map(reference).collect());
        }
        for one in &item.operations {
            written.insert(one.method.to_owned(), operation(one, custom));
        }
        (item.path.clone(), Value::Object(written))
    })
}

/// Returns the name of a shared parameter in the document.
fn shared_name(parameter: &Parameter<'_>) -> String {
    format!("{}-{}-{}", parameter.name, parameter.place, parameter.ty)
}

fn reference(parameter: &Parameter<'_>) -> Value {
    json!({"$ref": format!("#/parameters/{}", shared_name(parameter))})
}

fn parameter(parameter: &Parameter<'_>, descriptions: &dyn Descriptions) -> Value {
    let mut written = json!({
        "name": parameter.name, "in": parameter.place, "type": parameter.ty, "uniqueItems": true,
    });
    if parameter.place == "path" {
        written["required"] = json!(true);
    }
    if let Some(description) = parameter.description(descriptions) {
        written["description"] = json!(description);
    }
    written
}

fn operation(operation: &Operation<'_>, custom: bool) -> Value {
    let media = if custom { &MEDIA[..2] } else { &MEDIA };
    let mut consumes = if custom { media.to_vec() } else { vec!["*/*"] };
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
