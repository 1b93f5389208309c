//! Objects of built-in kinds, whose structs are always present.

use expect_test::expect;
use serde_json::json;
use windlass_merge::apply::{
    field_manager::{FieldManager, SingleVersion, empty_object},
    reset_fields::ResetFields,
    schema::TypeRef,
};
use windlass_schema::{
    time::Time,
    types::{Field, Scalar, Struct, StructId, Topology, Type, TypeTable},
};

const WORKLOAD: StructId = StructId(0);
const META: StructId = StructId(1);
const SPEC: StructId = StructId(2);
const CONTAINER: StructId = StructId(3);
const STATUS: StructId = StructId(4);

fn table() -> TypeTable {
    let string = || Type::Scalar(Scalar::String);
    let int = || Type::Scalar(Scalar::Int32);
    let written = |field: Field| Field { omit_empty: false, ..field };
    let containers = Field {
        topology: Topology::Map(vec!["name".into()]),
        ..written(field("containers", Type::List(Box::new(Type::Struct(CONTAINER)))))
    };
    TypeTable {
        structs: vec![
            shape(vec![
                field("apiVersion", string()),
                field("kind", string()),
                written(field("metadata", Type::Struct(META))),
                written(field("spec", Type::Struct(SPEC))),
                written(field("status", Type::Struct(STATUS))),
            ]),
            shape(vec![
                field("name", string()),
                field("uid", string()),
                field("labels", Type::Map(Box::new(string()))),
                field("managedFields", Type::List(Box::new(Type::Scalar(Scalar::Json)))),
            ]),
            shape(vec![
                Field { pointer: true, ..field("replicas", int()) },
                Field { pointer: true, ..written(field("selector", Type::Map(Box::new(string())))) },
                containers,
            ]),
            shape(vec![written(field("name", string())), field("image", string())]),
            shape(vec![written(field("ready", int()))]),
        ],
    }
}

fn shape(fields: Vec<Field>) -> Struct {
    Struct { name: "".into(), go_name: "".into(), fields, atomic: false, inlines: Vec::new() }
}

fn field(name: &'static str, ty: Type) -> Field {
    Field::new(name, ty)
}

#[test]
fn structs_that_are_always_present_have_no_manager() {
    let table = table();
    let empty = empty_object(&table, WORKLOAD, "apps/v1", "Workload");
    assert_eq!(
        empty,
        json!({"apiVersion": "apps/v1", "kind": "Workload", "metadata": {},
            "spec": {"containers": null, "selector": null}, "status": {"ready": 0}})
    );
    let manager = FieldManager {
        types: TypeRef::built_in(&table, WORKLOAD),
        api_version: "apps/v1",
        kind: "Workload",
        subresource: "",
        reset_fields: ResetFields::of_builtin("apps", "deployments", ""),
        empty: &empty,
        versions: &SingleVersion,
    };
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Workload", "metadata": {"name": "x", "labels": {"l": "1"}},
        "spec": {"replicas": 1, "selector": {"l": "1"}, "containers": [{"name": "c", "image": "i"}]},
        "status": {"ready": 5}});
    manager.update(None, &mut object, "creator", Time::from_unix(1_700_000_000, 0));
    expect![[r#"
        Update creator 13:20Z {"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}},"f:replicas":{},"f:selector":{"f:l":{}}}}
    "#]]
    .assert_eq(&super::format_managed_fields(&object));
    // Only the entry of a version that the built-in kind no longer has is dropped.
    let mut old = object["metadata"]["managedFields"][0].clone();
    old["apiVersion"] = "apps/v1beta1".into();
    object["metadata"]["uid"] = "some-uid".into();
    let mut new = object.clone();
    new["metadata"]["managedFields"].as_array_mut().unwrap().push(old);
    manager.update(Some(&object), &mut new, "writer", Time::from_unix(1_700_000_001, 0));
    assert_eq!(super::format_managed_fields(&new), super::format_managed_fields(&object));
}

#[test]
fn endpoints_do_not_own_fields_that_their_strategies_reset() {
    let shown = |group: &str, plural: &str, subresource: &str| {
        format!("{:?}", ResetFields::of_builtin(group, plural, subresource))
    };
    assert_eq!(shown("", "configmaps", ""), format!("{:?}", ResetFields::none()));
    assert!(shown("apps", "deployments", "status").contains("labels"));
    assert!(!shown("apps", "statefulsets", "status").contains("labels"));
    assert_eq!(shown("", "pods", "resize"), format!("{:?}", ResetFields::none()));
    assert!(shown("certificates.k8s.io", "certificatesigningrequests", "").contains("spec"));
}
