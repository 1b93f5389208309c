//! Reads the output of the Go program in `xtask/builtins-go`; its `table.go` has the same shape.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;
use windlass_builtins::{
    resource::{Group, Kind, Resource, Subresource, Table},
    verb::Verb,
};
use windlass_schema::types::{Field, Inline, PatchStrategy, Scalar, Str, Struct, StructId, Topology, Type, TypeTable};

/// Converts the output of the Go program to a table.
pub(super) fn table(json: &[u8]) -> anyhow::Result<Table> {
    let read: ReadTable = serde_json::from_slice(json).context("failed to read the output of the Go program")?;
    let structs = read.structs.into_iter().map(structure).collect::<anyhow::Result<_>>()?;
    Ok(Table {
        types: TypeTable { structs },
        groups: read.groups.into_iter().map(|group| Group { name: group.name, versions: group.versions }).collect(),
        resources: read.resources.into_iter().map(resource).collect::<anyhow::Result<_>>()?,
        kinds: read
            .kinds
            .into_iter()
            .map(|kind| Kind {
                group: kind.group,
                version: kind.version,
                kind: kind.kind,
                ty: StructId(kind.structure),
            })
            .collect(),
    })
}

fn structure(read: ReadStruct) -> anyhow::Result<Struct> {
    let inlines = read.inlines.into_iter();
    let name = read.name.clone();
    Ok(Struct {
        name: read.name,
        go_name: read.go_name,
        atomic: read.atomic,
        inlines: inlines.map(|inline| Inline { proto: inline.proto, start: inline.start, end: inline.end }).collect(),
        fields: read
            .fields
            .into_iter()
            .map(field)
            .collect::<anyhow::Result<_>>()
            .with_context(|| format!("struct {name}"))?,
    })
}

fn field(read: ReadField) -> anyhow::Result<Field> {
    let topology = match (&*read.list_type, &*read.map_type) {
        ("map", "") => Topology::Map(read.map_keys),
        ("set", "") => Topology::Set,
        ("atomic", "") | ("", "atomic") => Topology::Atomic,
        ("", "granular") => Topology::Granular,
        ("", "") => Topology::Default,
        (list, map) => bail!("field {}: list type {list:?} with map type {map:?}", read.name),
    };
    Ok(Field {
        name: read.name,
        ty: ty(read.ty)?,
        go_type: read.go_type,
        proto: read.proto,
        omit_empty: read.omit_empty,
        pointer: read.pointer,
        required: read.required,
        default: read.default,
        topology,
        patch: PatchStrategy {
            merge: read.merge,
            retain_keys: read.retain_keys,
            replace: read.replace,
            merge_key: read.merge_key,
        },
        format: read.format,
    })
}

fn ty(read: ReadType) -> anyhow::Result<Type> {
    Ok(match read {
        ReadType::Struct(id) => Type::Struct(StructId(id)),
        ReadType::List(element) => Type::List(Box::new(ty(*element)?)),
        ReadType::Map(value) => Type::Map(Box::new(ty(*value)?)),
        ReadType::Scalar(name) => Type::Scalar(match &*name {
            "string" => Scalar::String,
            "bool" => Scalar::Bool,
            "int32" => Scalar::Int32,
            "int64" => Scalar::Int64,
            "float64" => Scalar::Float64,
            "bytes" => Scalar::Bytes,
            "quantity" => Scalar::Quantity,
            "intOrString" => Scalar::IntOrString,
            "time" => Scalar::Time,
            "microTime" => Scalar::MicroTime,
            "duration" => Scalar::Duration,
            "rawExtension" => Scalar::RawExtension,
            "fieldsV1" => Scalar::FieldsV1,
            "json" => Scalar::Json,
            other => bail!("unknown scalar {other}"),
        }),
    })
}

fn resource(read: ReadResource) -> anyhow::Result<Resource> {
    Ok(Resource {
        group: read.group,
        version: read.version,
        plural: read.plural,
        singular: read.singular,
        kind: read.kind,
        short_names: read.short_names,
        categories: read.categories,
        namespaced: read.namespaced,
        verbs: verbs(&read.verbs)?,
        storage_version_hash: read.storage_version_hash,
        deletion_returns_object: read.deletion_returns_object,
        ty: StructId(read.structure),
        subresources: read
            .subresources
            .into_iter()
            .map(|sub| {
                Ok(Subresource {
                    name: sub.name,
                    group: sub.group,
                    version: sub.version,
                    kind: sub.kind,
                    verbs: verbs(&sub.verbs)?,
                    ty: sub.structure.map(StructId),
                })
            })
            .collect::<anyhow::Result<_>>()?,
    })
}

fn verbs(names: &[Str]) -> anyhow::Result<Vec<Verb>> {
    names.iter().map(|name| Verb::from_name(name).with_context(|| format!("unknown verb {name}"))).collect()
}

#[derive(Deserialize)]
struct ReadTable {
    structs: Vec<ReadStruct>,
    kinds: Vec<ReadKind>,
    groups: Vec<ReadGroup>,
    resources: Vec<ReadResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadStruct {
    name: Str,
    go_name: Str,
    #[serde(default)]
    atomic: bool,
    #[serde(default)]
    inlines: Vec<ReadInline>,
    fields: Vec<ReadField>,
}

#[derive(Deserialize)]
struct ReadInline {
    proto: u32,
    start: u32,
    end: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadField {
    name: Str,
    #[serde(rename = "type")]
    ty: ReadType,
    go_type: Str,
    #[serde(default)]
    proto: u32,
    #[serde(default)]
    omit_empty: bool,
    #[serde(default)]
    pointer: bool,
    #[serde(default)]
    required: bool,
    default: Option<Value>,
    #[serde(default)]
    list_type: String,
    #[serde(default)]
    map_keys: Vec<Str>,
    #[serde(default)]
    map_type: String,
    #[serde(default)]
    merge: bool,
    #[serde(default)]
    retain_keys: bool,
    #[serde(default)]
    replace: bool,
    merge_key: Option<Str>,
    format: Option<Str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum ReadType {
    Struct(u32),
    List(Box<ReadType>),
    Map(Box<ReadType>),
    Scalar(String),
}

#[derive(Deserialize)]
struct ReadKind {
    group: Str,
    version: Str,
    kind: Str,
    #[serde(rename = "struct")]
    structure: u32,
}

#[derive(Deserialize)]
struct ReadGroup {
    name: Str,
    versions: Vec<Str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadResource {
    group: Str,
    version: Str,
    plural: Str,
    singular: Str,
    kind: Str,
    #[serde(default)]
    short_names: Vec<Str>,
    #[serde(default)]
    categories: Vec<Str>,
    #[serde(default)]
    namespaced: bool,
    verbs: Vec<Str>,
    #[serde(default)]
    storage_version_hash: Str,
    #[serde(default)]
    deletion_returns_object: bool,
    #[serde(rename = "struct")]
    structure: u32,
    #[serde(default)]
    subresources: Vec<ReadSubresource>,
}

#[derive(Deserialize)]
struct ReadSubresource {
    name: Str,
    #[serde(default)]
    group: Str,
    #[serde(default)]
    version: Str,
    kind: Str,
    verbs: Vec<Str>,
    #[serde(rename = "struct")]
    structure: Option<u32>,
}
