//! A custom resource with every kind of field, in two versions, as seen by endpoints.

use serde_json::{Value, json};
use windlass_merge::apply::{
    field_manager::{FieldManager, VersionConverter},
    reset_fields::ResetFields,
    schema::TypeRef,
};
use windlass_schema::{
    structural::{Additional, Kind, ListType, Structural},
    types::{Field, Scalar, Struct, StructId, Topology, Type, TypeTable},
};

/// The group of the custom resource.
pub(crate) const GROUP: &str = "test.example.com";
/// The kind of the custom resource.
pub(crate) const KIND: &str = "Thing";

const OBJECT_META: StructId = StructId(0);

/// A CustomResourceDefinition: the versions with their schemas, and the metadata type common to all objects.
pub(crate) struct Definition {
    versions: Vec<(String, Structural)>,
    empty: Vec<Value>,
    reset: Vec<ResetFields>,
    reset_status: ResetFields,
    table: TypeTable,
}

impl Definition {
    /// Returns a CRD with the versions `v1` and `v1beta1`; fields that are granular in the newer version are atomic in
    /// the older one and vice versa.
    pub(crate) fn new() -> Self {
        Self::of([("v1", schema("granular", "atomic", "set")), ("v1beta1", schema("atomic", "set", "atomic"))])
    }

    /// Returns a CRD with these versions.
    pub(crate) fn of<'v>(schemas: impl IntoIterator<Item = (&'v str, Value)>) -> Self {
        let versions: Vec<_> =
            schemas.into_iter().map(|(name, schema)| (format!("{GROUP}/{name}"), structural(&schema))).collect();
        let empty = versions.iter().map(|(version, _)| json!({"apiVersion": version, "kind": KIND})).collect();
        let reset = versions.iter().map(|(version, _)| ResetFields::of_custom_resource(version, true)).collect();
        let reset_status = ResetFields::of_custom_resource_status(versions.iter().map(|(version, _)| &**version));
        Self { versions, empty, reset, reset_status, table: object_meta() }
    }

    /// Returns the field manager of an endpoint.
    pub(crate) fn manager<'d>(&'d self, version: &str, subresource: &'d str) -> FieldManager<'d> {
        let position = self.position(&format!("{GROUP}/{version}")).expect("the version must be known");
        FieldManager {
            types: self.types(position),
            api_version: &self.versions[position].0,
            kind: KIND,
            subresource,
            reset_fields: if subresource == "status" { &self.reset_status } else { &self.reset[position] },
            empty: &self.empty[position],
            versions: self,
        }
    }

    fn types(&self, position: usize) -> TypeRef<'_> {
        TypeRef::custom(&self.versions[position].1, &self.table, OBJECT_META)
    }

    fn position(&self, api_version: &str) -> Option<usize> {
        self.versions.iter().position(|(known, _)| known == api_version)
    }
}

impl VersionConverter for Definition {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Option<(Value, TypeRef<'_>)>, String> {
        let Some(position) = self.position(api_version) else {
            return Err(format!("request to convert CR to an invalid group/version: {api_version}"));
        };
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        Ok(Some((object, self.types(position))))
    }
}

/// Returns a schema in which three fields merge as given.
pub(crate) fn schema(structure: &str, strings: &str, others: &str) -> Value {
    let string = json!({"type": "string"});
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "proto"],
        "items": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "integer"}, "proto": {"type": "string", "default": "TCP"}, "name": string,
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": string},
            "opts": {"type": "object", "properties": {"u": string, "v": string}}}}
    });
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": string, "b": string, "n": {"type": "integer"}, "f": {"type": "number"}, "on": {"type": "boolean"},
            "obj": {"type": "object", "x-kubernetes-map-type": structure, "properties": {
                "x": string, "y": string, "deep": {"type": "object", "properties": {"z": string}}}},
            "m": {"type": "object", "additionalProperties": string},
            "mm": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": string, "y": string}}},
            "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"p": string, "q": string}},
            "strings": {"type": "array", "x-kubernetes-list-type": strings, "items": string},
            "others": {"type": "array", "x-kubernetes-list-type": others, "items": string},
            "ports": ports,
            "list": {"type": "array", "items": {"type": "object", "properties": {"k": string}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "port": {"x-kubernetes-int-or-string": true}}},
        "status": {"type": "object", "properties": {
            "s": string, "count": {"type": "integer"},
            "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {"type": "object", "required": ["type"], "properties": {"type": string, "status": string}}}}},
        "extra": string}})
}

/// Returns the part of a structural schema that is relevant for merging.
fn structural(schema: &Value) -> Structural {
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    let mut out = Structural {
        kind: text("type").map(|kind| match kind {
            "object" => Kind::Object,
            "array" => Kind::Array,
            "string" => Kind::String,
            "integer" => Kind::Integer,
            "number" => Kind::Number,
            _ => Kind::Boolean,
        }),
        default: schema.get("default").cloned(),
        preserve_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
        int_or_string: flag("x-kubernetes-int-or-string"),
        atomic_map: text("x-kubernetes-map-type") == Some("atomic"),
        items: schema.get("items").map(|items| Box::new(structural(items))),
        ..Structural::default()
    };
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        out.properties = properties.iter().map(|(name, schema)| (name.clone(), structural(schema))).collect();
    }
    if let Some(additional) = schema.get("additionalProperties") {
        out.additional = Additional::Schema(Box::new(structural(additional)));
    }
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let keys = || keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    out.list_type = match text("x-kubernetes-list-type") {
        Some("map") => ListType::Map(keys()),
        Some("set") => ListType::Set,
        Some(_) => ListType::Atomic,
        None => ListType::Absent,
    };
    out
}

/// The metadata type of every object.
fn object_meta() -> TypeTable {
    let string = || Type::Scalar(Scalar::String);
    let list = |ty: Type| Type::List(Box::new(ty));
    let reference = StructId(1);
    let entry = StructId(2);
    let fields = vec![
        field("name", string()),
        field("generateName", string()),
        field("namespace", string()),
        field("selfLink", string()),
        field("uid", string()),
        field("resourceVersion", string()),
        field("generation", Type::Scalar(Scalar::Int64)),
        field("creationTimestamp", Type::Scalar(Scalar::Time)),
        field("deletionTimestamp", Type::Scalar(Scalar::Time)),
        field("deletionGracePeriodSeconds", Type::Scalar(Scalar::Int64)),
        field("labels", Type::Map(Box::new(string()))),
        field("annotations", Type::Map(Box::new(string()))),
        Field {
            topology: Topology::Map(vec!["uid".into()]),
            ..field("ownerReferences", list(Type::Struct(reference)))
        },
        Field { topology: Topology::Set, ..field("finalizers", list(string())) },
        Field { topology: Topology::Atomic, ..field("managedFields", list(Type::Struct(entry))) },
    ];
    let names = ["apiVersion", "kind", "name", "uid"];
    let references = names.map(|name| field(name, string())).to_vec();
    let mut entries: Vec<_> = ["manager", "operation", "apiVersion", "fieldsType", "subresource"]
        .into_iter()
        .map(|name| field(name, string()))
        .collect();
    entries.push(field("time", Type::Scalar(Scalar::Time)));
    entries.push(field("fieldsV1", Type::Scalar(Scalar::FieldsV1)));
    TypeTable {
        structs: vec![
            shape("ObjectMeta", fields, false),
            shape("OwnerReference", references, true),
            shape("ManagedFieldsEntry", entries, false),
        ],
    }
}

fn shape(name: &'static str, fields: Vec<Field>, atomic: bool) -> Struct {
    Struct { name: name.into(), go_name: name.into(), fields, atomic, inlines: Vec::new() }
}

fn field(name: &'static str, ty: Type) -> Field {
    Field::new(name, ty)
}
