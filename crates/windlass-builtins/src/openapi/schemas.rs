//! Schemas of structs.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use windlass_schema::sorting::Gather as _;
use windlass_schema::types::{Field, Scalar, Struct, StructId, Topology, Type};

use super::Sources;
use crate::resource::Table;

/// A version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `/openapi/v2`: no defaults, and a reference stands alone.
    V2,
    /// `/openapi/v3`.
    V3,
}

impl Dialect {
    /// Returns a reference to a schema.
    pub(super) fn reference(self, name: &str) -> Value {
        let folder = if self == Self::V2 { "definitions" } else { "components/schemas" };
        json!({"$ref": format!("#/{folder}/{name}")})
    }
}

/// Name of the schema of patches.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// Returns these names and those of all schemas they refer to.
pub(super) fn closure(names: impl IntoIterator<Item = String>, table: &Table) -> BTreeSet<String> {
    let mut waiting: Vec<String> = names.into_iter().collect();
    let mut seen: BTreeSet<String> = waiting.iter().cloned().gather();
    while let Some(name) = waiting.pop() {
        let structure = table.types.structs.iter().find(|structure| structure.name == name);
        for field in structure.into_iter().flat_map(|structure| &structure.fields) {
            if let Some(reference) = referenced(field, table)
                && seen.insert(reference.clone())
            {
                waiting.push(reference);
            }
        }
    }
    seen
}

/// Returns the schema with this name; `None` if it is not in the table. Kinds that belong to every group version are
/// declared for the given ones.
pub(super) fn schema(
    name: &str,
    group_versions: &[(&str, &str)],
    dialect: Dialect,
    sources: Sources<'_>,
) -> Option<Value> {
    let structs = &sources.table.types.structs;
    let mut schema = match structs.iter().position(|structure| structure.name == name) {
        Some(position) => {
            structure(&structs[position], StructId(position as u32), group_versions, dialect, sources.table)
        }
        None => special(name, dialect)?,
    };
    add_enums(&mut schema, name);
    describe(&mut schema, name, dialect, sources);
    Some(schema)
}

/// The values of enumerated properties: a schema, a property with `[]` or `{}` after it if its items are meant, and the
/// values, separated by tabs and vertical bars.
const ENUMS: &str = include_str!("../../data/enums.txt");

/// Adds the values of enumerated properties, which `kubectl explain` shows.
fn add_enums(schema: &mut Value, name: &str) {
    let lines = ENUMS.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('\t')?.split_once('\t'));
    for (property, values) in lines {
        let (property, below) = match (property.strip_suffix("[]"), property.strip_suffix("{}")) {
            (Some(property), _) => (property, "/items"),
            (_, Some(property)) => (property, "/additionalProperties"),
            _ => (property, ""),
        };
        if let Some(schema) = schema.pointer_mut(&format!("/properties/{property}{below}")) {
            schema["enum"] = values.split('|').collect();
        }
    }
}

/// Adds the descriptions of a schema and its properties. Those of lists are not known, except for the properties that
/// they share with their items.
fn describe(schema: &mut Value, name: &str, dialect: Dialect, sources: Sources<'_>) {
    if let Some(description) = sources.descriptions.schema(name) {
        schema["description"] = json!(description);
    }
    let item = name.strip_suffix("List").unwrap_or(name);
    for (property, schema) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        let is_shared = matches!(property.as_str(), "apiVersion" | "kind");
        let own = sources.descriptions.property(name, property);
        let shared = || sources.descriptions.property(item, property).filter(|_| is_shared);
        let (Some(schema), Some(description)) = (schema.as_object_mut(), own.or_else(shared)) else { continue };
        insert(schema, "description", json!(description), dialect);
    }
}

/// Adds a keyword to a schema; in version 3, a reference has no sibling keywords.
fn insert(schema: &mut Map<String, Value>, keyword: &str, value: Value, dialect: Dialect) {
    if dialect == Dialect::V3
        && let Some(reference) = schema.remove("$ref")
    {
        schema.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    schema.insert(keyword.to_owned(), value);
}

fn structure(
    structure: &Struct,
    id: StructId,
    group_versions: &[(&str, &str)],
    dialect: Dialect,
    table: &Table,
) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    let properties: Map<_, _> =
        structure.fields.iter().map(|field| (field.name.to_string(), property(field, dialect, table))).gather();
    if !properties.is_empty() {
        schema.insert("properties".to_owned(), Value::Object(properties));
    }
    let required: Vec<_> = structure.fields.iter().filter(|field| field.required).map(|field| &*field.name).collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let mut kinds = Vec::new();
    for kind in table.kinds.iter().filter(|kind| kind.ty == id) {
        let named = |group: &str, version: &str| json!({"group": group, "kind": &*kind.kind, "version": version});
        kinds.push(named(&kind.group, &kind.version));
        if let "DeleteOptions" | "WatchEvent" = &*kind.kind {
            let others = group_versions.iter().filter(|(group, _)| !group.is_empty());
            kinds.extend(others.map(|(group, version)| named(group, version)));
        }
    }
    if !kinds.is_empty() {
        schema.insert("x-kubernetes-group-version-kind".to_owned(), Value::Array(kinds));
    }
    if structure.atomic {
        schema.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
    Value::Object(schema)
}

fn property(field: &Field, dialect: Dialect, table: &Table) -> Value {
    let mut schema = ty(&field.ty, field, dialect, table, true);
    let mut set = |name: &str, value: Value| insert(&mut schema, name, value, dialect);
    if let (Dialect::V3, Some(default)) = (dialect, &field.default) {
        set("default", default.clone());
    }
    let is_list = matches!(field.ty, Type::List(_) | Type::Scalar(Scalar::Bytes));
    match &field.topology {
        Topology::Default => {}
        Topology::Atomic if is_list => set("x-kubernetes-list-type", json!("atomic")),
        Topology::Atomic => set("x-kubernetes-map-type", json!("atomic")),
        Topology::Granular => set("x-kubernetes-map-type", json!("granular")),
        Topology::Set => set("x-kubernetes-list-type", json!("set")),
        Topology::Map(keys) => {
            set("x-kubernetes-list-type", json!("map"));
            set("x-kubernetes-list-map-keys", json!(keys));
        }
    }
    if let Some(key) = &field.patch.merge_key {
        set("x-kubernetes-patch-merge-key", json!(&**key));
    }
    let patch = &field.patch;
    let strategies =
        [(patch.replace, "replace"), (patch.merge, "merge"), (patch.retain_keys, "retainKeys")].into_iter();
    let strategies: Vec<_> = strategies.filter(|(has, _)| *has).map(|(_, strategy)| strategy).collect();
    if !strategies.is_empty() {
        set("x-kubernetes-patch-strategy", json!(strategies.join(",")));
    }
    Value::Object(schema)
}

/// Returns the schema of a type; in version 3, items of lists and maps default to their zero value.
fn ty(of: &Type, field: &Field, dialect: Dialect, table: &Table, whole: bool) -> Map<String, Value> {
    let element_default = |schema: Map<String, Value>, default: Value| {
        let mut schema = schema;
        if dialect == Dialect::V3 && !whole {
            if let Some(reference) = schema.remove("$ref") {
                schema.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            schema.insert("default".to_owned(), default);
        }
        schema
    };
    match of {
        Type::Struct(id) => element_default(object(dialect.reference(&table.types.get(*id).name)), json!({})),
        Type::List(element) => {
            let items = ty(element, field, dialect, table, false);
            object(json!({"type": "array", "items": items}))
        }
        Type::Map(element) => {
            let values = ty(element, field, dialect, table, false);
            object(json!({"type": "object", "additionalProperties": values}))
        }
        Type::Scalar(scalar) => match scalar {
            Scalar::String => element_default(object(json!({"type": "string"})), json!("")),
            Scalar::Bool => element_default(object(json!({"type": "boolean"})), json!(false)),
            Scalar::Int32 => element_default(object(json!({"type": "integer", "format": "int32"})), json!(0)),
            Scalar::Int64 => element_default(object(json!({"type": "integer", "format": "int64"})), json!(0)),
            Scalar::Float64 => element_default(object(json!({"type": "number", "format": "double"})), json!(0)),
            Scalar::Bytes => object(json!({"type": "string", "format": "byte"})),
            _ => object(dialect.reference(&special_name(*scalar, field))),
        },
    }
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(object) = value { object } else { Map::new() }
}

/// Returns the name of the schema that a field refers to.
fn referenced(field: &Field, table: &Table) -> Option<String> {
    let mut of = &field.ty;
    loop {
        match of {
            Type::List(element) | Type::Map(element) => of = element,
            Type::Struct(id) => return Some(table.types.get(*id).name.to_string()),
            Type::Scalar(
                Scalar::String | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::Bytes,
            ) => return None,
            Type::Scalar(scalar) => return Some(special_name(*scalar, field)),
        }
    }
}

fn special_name(scalar: Scalar, field: &Field) -> String {
    const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";
    const MACHINERY: &str = "io.k8s.apimachinery.pkg.";
    match scalar {
        Scalar::Quantity => format!("{MACHINERY}api.resource.Quantity"),
        Scalar::IntOrString => format!("{MACHINERY}util.intstr.IntOrString"),
        Scalar::RawExtension => format!("{MACHINERY}runtime.RawExtension"),
        Scalar::Time => format!("{MACHINERY}apis.meta.v1.Time"),
        Scalar::MicroTime => format!("{MACHINERY}apis.meta.v1.MicroTime"),
        Scalar::Duration => format!("{MACHINERY}apis.meta.v1.Duration"),
        Scalar::FieldsV1 => format!("{MACHINERY}apis.meta.v1.FieldsV1"),
        _ => {
            let name = field.go_type.trim_start_matches("[]").trim_start_matches("v1.");
            let name = if name == "JSONSchemaDependencies" { "JSONSchemaPropsOrStringArray" } else { name };
            format!("{JSON}{name}")
        }
    }
}

/// Returns the schema of a type that has its own JSON form.
fn special(name: &str, dialect: Dialect) -> Option<Value> {
    let (_, last) = name.rsplit_once('.')?;
    Some(match (last, dialect) {
        ("Quantity", Dialect::V2) | ("Duration", _) => json!({"type": "string"}),
        ("Quantity", Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ("IntOrString", Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
        ("IntOrString", Dialect::V3) => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        ("Time" | "MicroTime", _) => json!({"type": "string", "format": "date-time"}),
        ("RawExtension" | "FieldsV1" | "Patch", _) => json!({"type": "object"}),
        (json, _) if json.starts_with("JSON") => json!({}),
        _ => return None,
    })
}
