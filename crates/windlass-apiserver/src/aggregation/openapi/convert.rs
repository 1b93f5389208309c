//! Documents of version 3 from documents of version 2, for servers that have no other.

use serde_json::{Map, Value, json};
use windlass_schema::sorting::Gather as _;

const DEFINITIONS: &str = "#/definitions/";
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// Converts a document.
pub(super) fn to_v3(document: &Value) -> Value {
    let parameters = &document["parameters"];
    let mut components = Map::new();
    components.insert("schemas".to_owned(), values(&document["definitions"], schema));
    if document["securityDefinitions"].is_object() {
        let scheme = |scheme: &Value| pick(scheme, &["type", "description", "name", "in"]).into();
        components.insert("securitySchemes".to_owned(), values(&document["securityDefinitions"], scheme));
    }
    json!({
        "openapi": "3.0.0", "info": document["info"], "components": components,
        "paths": values(&document["paths"], |item| path_item(item, parameters)),
    })
}

/// Converts the values of an object.
fn values(object: &Value, convert: impl Fn(&Value) -> Value) -> Value {
    object
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), convert(value)))
        .gather::<Map<_, _>>()
        .into()
}

/// Returns these fields of an object, and its extensions.
fn pick(object: &Value, names: &[&str]) -> Map<String, Value> {
    let fields = object.as_object().into_iter().flatten();
    let wanted = fields.filter(|(name, _)| names.contains(&name.as_str()) || name.starts_with("x-"));
    wanted.map(|(name, value)| (name.clone(), value.clone())).gather()
}

fn schema(from: &Value) -> Value {
    let Value::Object(fields) = from else {
        // The boolean of additionalProperties, or the schemas of a tuple.
        return from.as_array().map_or_else(|| from.clone(), |all| all.iter().map(schema).collect());
    };
    let convert = |(name, value): (&String, &Value)| {
        let value = match name.as_str() {
            "properties" => values(value, schema),
            "items" | "additionalProperties" | "additionalItems" => schema(value),
            _ => value.clone(),
        };
        (name.clone(), value)
    };
    let mut into: Map<String, Value> = fields.iter().map(convert).gather();
    let reference = into.remove("$ref");
    let name = reference.as_ref().and_then(Value::as_str).and_then(|text| text.strip_prefix(DEFINITIONS));
    if let Some(name) = name {
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        // In version 3, a reference has no siblings.
        if into.is_empty() {
            return reference;
        }
        into.insert("allOf".to_owned(), json!([reference]));
    }
    into.into()
}

fn path_item(item: &Value, shared: &Value) -> Value {
    let mut into = pick(item, &[]);
    for method in METHODS {
        if let Some(from) = item.get(method) {
            into.insert(method.to_owned(), operation(from, shared));
        }
    }
    let parameters: Vec<Value> = parameters(item, shared).map(parameter).collect();
    if !parameters.is_empty() {
        into.insert("parameters".to_owned(), parameters.into());
    }
    into.into()
}

fn operation(from: &Value, shared: &Value) -> Value {
    let mut into = pick(from, &["description", "externalDocs", "tags", "summary", "deprecated", "operationId"]);
    let (bodies, others): (Vec<&Value>, Vec<&Value>) =
        parameters(from, shared).partition(|parameter| parameter["in"] == "body");
    if !others.is_empty() {
        into.insert("parameters".to_owned(), others.into_iter().map(parameter).collect());
    }
    if let Some(body) = bodies.first() {
        into.insert("requestBody".to_owned(), json!({"content": content(&from["consumes"], &body["schema"])}));
    }
    let response = |response: &Value| {
        let mut into = pick(response, &["description"]);
        if response["schema"].is_object() {
            into.insert("content".to_owned(), content(&from["produces"], &response["schema"]));
        }
        into.into()
    };
    into.insert("responses".to_owned(), values(&from["responses"], response));
    into.into()
}

/// Returns the parameters of an operation or a path; some are references to those of the document.
fn parameters<'a>(of: &'a Value, shared: &'a Value) -> impl Iterator<Item = &'a Value> {
    let all = of["parameters"].as_array().into_iter().flatten();
    all.filter_map(|parameter| match parameter["$ref"].as_str() {
        Some(reference) => shared.get(reference.strip_prefix("#/parameters/")?),
        None => Some(parameter),
    })
}

fn parameter(from: &Value) -> Value {
    let mut into = pick(from, &["name", "description", "in", "required", "allowEmptyValue"]);
    let schema = match &from["schema"] {
        Value::Null => pick(from, &["type", "format", "uniqueItems"]).into(),
        given => schema(given),
    };
    into.insert("schema".to_owned(), schema);
    into.into()
}

/// Returns a schema for each of the media types.
fn content(media_types: &Value, of: &Value) -> Value {
    let media_types = media_types.as_array().into_iter().flatten().filter_map(Value::as_str);
    media_types.map(|media_type| (media_type.to_owned(), json!({"schema": schema(of)}))).gather::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_get_bodies_and_content_per_media_type() {
        let thing = json!({"$ref": "#/definitions/Thing"});
        let document = json!({
            "swagger": "2.0", "info": {"title": "t"},
            "paths": {"/things": {
                "parameters": [{"$ref": "#/parameters/pretty"}],
                "post": {
                    "operationId": "create", "consumes": ["*/*"], "produces": ["application/json", "application/yaml"],
                    "parameters": [
                        {"name": "body", "in": "body", "required": true, "schema": thing},
                        {"name": "limit", "in": "query", "type": "integer", "uniqueItems": true},
                    ],
                    "responses": {"200": {"description": "OK", "schema": thing}, "401": {"description": "Unauthorized"}},
                    "x-kubernetes-action": "post",
                },
            }},
            "parameters": {"pretty": {"name": "pretty", "in": "query", "type": "string", "description": "p"}},
            "securityDefinitions": {"Token": {"type": "apiKey", "name": "authorization", "in": "header", "flow": ""}},
        });
        let schema = json!({"schema": {"$ref": "#/components/schemas/Thing"}});
        let expected = json!({
            "openapi": "3.0.0", "info": {"title": "t"},
            "paths": {"/things": {
                "parameters": [{"name": "pretty", "in": "query", "description": "p", "schema": {"type": "string"}}],
                "post": {
                    "operationId": "create",
                    "parameters": [
                        {"name": "limit", "in": "query", "schema": {"type": "integer", "uniqueItems": true}},
                    ],
                    "requestBody": {"content": {"*/*": schema}},
                    "responses": {
                        "200": {"description": "OK",
                            "content": {"application/json": schema, "application/yaml": schema}},
                        "401": {"description": "Unauthorized"},
                    },
                    "x-kubernetes-action": "post",
                },
            }},
            "components": {
                "schemas": {},
                "securitySchemes": {"Token": {"type": "apiKey", "name": "authorization", "in": "header"}},
            },
        });
        assert_eq!(to_v3(&document), expected);
    }

    #[test]
    fn references_move_and_stand_alone() {
        let part = json!({"$ref": "#/definitions/Part"});
        let document = json!({"definitions": {"Thing": {
            "type": "object", "description": "A thing.",
            "properties": {
                "part": part, "parts": {"type": "array", "items": part}, "by": {"additionalProperties": part},
                "any": {"additionalProperties": true}, "default": {"$ref": "#/definitions/Part", "description": "d"},
            },
            "x-kubernetes-group-version-kind": [{"kind": "Thing"}],
        }}});
        let part = json!({"$ref": "#/components/schemas/Part"});
        let expected = json!({"Thing": {
            "type": "object", "description": "A thing.",
            "properties": {
                "part": part, "parts": {"type": "array", "items": part}, "by": {"additionalProperties": part},
                "any": {"additionalProperties": true}, "default": {"allOf": [part], "description": "d"},
            },
            "x-kubernetes-group-version-kind": [{"kind": "Thing"}],
        }});
        assert_eq!(to_v3(&document)["components"]["schemas"], expected);
    }
}
