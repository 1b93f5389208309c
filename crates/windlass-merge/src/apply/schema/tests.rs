use serde_json::json;
use windlass_schema::structural::{Additional, Kind, ListType as Listed};
use windlass_schema::types::{PatchStrategy, Scalar, Topology};

use super::*;

fn field(name: &'static str, ty: Type) -> Field {
    Field::new(name, ty)
}

fn shape(name: &'static str, fields: Vec<Field>, atomic: bool) -> Struct {
    Struct { name: name.into(), go_name: name.into(), fields, atomic, inlines: Vec::new() }
}

const META: StructId = StructId(1);

fn table() -> TypeTable {
    let string = || Type::Scalar(Scalar::String);
    let ports = || Type::List(Box::new(Type::Struct(StructId(2))));
    let merging = PatchStrategy { merge: true, merge_key: Some("port".into()), ..PatchStrategy::default() };
    let selector = || Type::Struct(StructId(3));
    let object = vec![
        field("metadata", Type::Struct(META)),
        Field { topology: Topology::Map(vec!["port".into(), "protocol".into()]), ..field("ports", ports()) },
        Field { patch: merging, ..field("patched", ports()) },
        Field { topology: Topology::Set, ..field("set", Type::List(Box::new(string()))) },
        field("list", ports()),
        field("selector", selector()),
        Field { topology: Topology::Granular, ..field("granular", selector()) },
        Field { topology: Topology::Atomic, ..field("map", Type::Map(Box::new(string()))) },
        field("quantities", Type::Map(Box::new(Type::Scalar(Scalar::Quantity)))),
        field("raw", Type::Scalar(Scalar::RawExtension)),
        field("json", Type::Scalar(Scalar::Json)),
        field("empty", Type::Struct(StructId(4))),
        Field { format: Some("date-time".into()), ..field("formatted", string()) },
    ];
    let protocol = Field { default: Some(json!("TCP")), ..field("protocol", string()) };
    TypeTable {
        structs: vec![
            shape("Object", object, false),
            shape("ObjectMeta", vec![field("name", string())], false),
            shape("Port", vec![field("port", Type::Scalar(Scalar::Int32)), protocol], false),
            shape("Selector", vec![field("key", string())], true),
            shape("Empty", Vec::new(), false),
        ],
    }
}

fn map(ty: TypeRef<'_>) -> MapType<'_> {
    ty.map().expect("the type allows maps")
}

fn list(ty: TypeRef<'_>) -> ListType<'_> {
    ty.list().expect("the type allows lists")
}

fn keys(ty: ListType<'_>) -> Option<Vec<&str>> {
    match ty.topology() {
        ListTopology::Map(keys) => Some(keys.iter().collect()),
        _ => None,
    }
}

#[test]
fn built_in_lists_merge_by_list_type_or_patch_strategy() {
    let table = table();
    let object = map(TypeRef::built_in(&table, StructId(0)));
    let ports = list(object.any_field("ports"));
    assert_eq!(keys(ports), Some(vec!["port", "protocol"]));
    assert_eq!(ports.key_default("protocol"), Some(&json!("TCP")));
    assert_eq!(ports.key_default("port"), None);
    assert_eq!(keys(list(object.any_field("patched"))), Some(vec!["port"]));
    assert!(matches!(list(object.any_field("set")).topology(), ListTopology::Set));
    assert!(list(object.any_field("list")).is_atomic());
}

#[test]
fn a_field_may_override_its_struct() {
    let table = table();
    let object = map(TypeRef::built_in(&table, StructId(0)));
    assert!(map(object.any_field("selector")).is_atomic());
    assert!(!map(object.any_field("granular")).is_atomic());
    assert!(map(object.any_field("granular")).field("key").is_some());
    assert!(map(object.any_field("map")).is_atomic());
    assert!(!map(object.any_field("quantities")).is_atomic());
}

#[test]
fn built_in_types_without_a_fixed_form_accept_any_value() {
    let table = table();
    let object = map(TypeRef::built_in(&table, StructId(0)));
    for (name, atomic) in [("raw", true), ("json", false)] {
        let ty = object.any_field(name);
        assert!(matches!(ty.form(Some(&json!(1))), Form::Scalar(ScalarType::Untyped)), "{name}");
        assert!(matches!(ty.form(Some(&json!([]))), Form::List(list) if list.is_atomic()), "{name}");
        assert!(matches!(ty.form(Some(&json!({}))), Form::Map(map) if map.is_atomic() == atomic), "{name}");
    }
    assert!(matches!(object.any_field("formatted").form(None), Form::Scalar(ScalarType::Untyped)));
}

#[test]
fn only_structs_without_fields_accept_undeclared_ones() {
    let table = table();
    let object = map(TypeRef::built_in(&table, StructId(0)));
    assert!(object.any_field("absent").is_nothing());
    assert!(!map(object.any_field("empty")).any_field("absent").is_nothing());
}

fn schema(kind: Kind) -> Structural {
    Structural { kind: Some(kind), ..Structural::default() }
}

fn object(properties: impl IntoIterator<Item = (&'static str, Structural)>) -> Structural {
    let properties = properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    Structural { properties, ..schema(Kind::Object) }
}

#[test]
fn a_custom_resource_has_the_built_in_metadata() {
    let table = table();
    let schema = object([("metadata", schema(Kind::String)), ("spec", object([]))]);
    let root = map(TypeRef::custom(&schema, &table, META));
    assert!(map(root.any_field("metadata")).field("name").is_some());
    assert!(map(root.any_field("metadata")).any_field("absent").is_nothing());
    assert!(matches!(root.any_field("kind").form(None), Form::Scalar(ScalarType::String)));
    assert!(root.any_field("absent").is_nothing());
}

#[test]
fn unknown_fields_are_deduced_below_a_schema_that_preserves_them() {
    let table = table();
    let open =
        Structural { preserve_unknown_fields: true, ..object([("inner", object([("a", schema(Kind::String))]))]) };
    let schema = object([("spec", open), ("closed", object([("a", schema(Kind::String))]))]);
    let root = map(TypeRef::custom(&schema, &table, META));
    let spec = map(root.any_field("spec"));
    assert!(!spec.any_field("absent").is_nothing());
    assert!(!map(spec.any_field("inner")).any_field("absent").is_nothing());
    assert!(map(root.any_field("closed")).any_field("absent").is_nothing());
}

#[test]
fn custom_lists_and_maps_merge_as_declared() {
    let table = table();
    let protocol = Structural { default: Some(json!("TCP")), ..schema(Kind::String) };
    let items = object([("port", schema(Kind::Integer)), ("protocol", protocol)]);
    let ports = Structural {
        items: Some(Box::new(items)),
        list_type: Listed::Map(vec!["port".to_owned(), "protocol".to_owned()]),
        ..schema(Kind::Array)
    };
    let atomic = Structural {
        atomic_map: true,
        additional: Additional::Schema(Box::new(schema(Kind::String))),
        ..schema(Kind::Object)
    };
    let embedded = Structural { embedded_resource: true, ..object([]) };
    let any = Structural { int_or_string: true, ..Structural::default() };
    let schema = object([("ports", ports), ("atomic", atomic), ("embedded", embedded), ("any", any)]);
    let root = map(TypeRef::custom(&schema, &table, META));
    let ports = list(root.any_field("ports"));
    assert_eq!(keys(ports), Some(vec!["port", "protocol"]));
    assert_eq!(ports.key_default("protocol"), Some(&json!("TCP")));
    assert!(map(root.any_field("atomic")).is_atomic());
    let embedded = map(root.any_field("embedded"));
    assert!(map(embedded.any_field("metadata")).field("name").is_some());
    assert!(matches!(root.any_field("any").form(Some(&json!("x"))), Form::Scalar(ScalarType::Untyped)));
}
