//! A small type table modeled on the built-in kinds.

use windlass_schema::types::{Field, PatchStrategy, Scalar, Struct, StructId, Type, TypeTable};

/// The struct to which patches are applied.
pub(crate) const OBJECT: StructId = StructId(0);
const META: StructId = StructId(1);
const SPEC: StructId = StructId(2);
const CONTAINER: StructId = StructId(3);
const ENTRY: StructId = StructId(4);
const PORT: StructId = StructId(5);
const VOLUME: StructId = StructId(6);
const STRATEGY: StructId = StructId(7);

/// A pod-like object: containers with environment and ports, volumes, labels, finalizers.
pub(crate) fn table() -> TypeTable {
    let string = || Type::Scalar(Scalar::String);
    let int = || Type::Scalar(Scalar::Int32);
    let list = |ty: Type| Type::List(Box::new(ty));
    let strings = || Type::Map(Box::new(string()));
    TypeTable {
        structs: vec![
            shape(
                "Pod",
                vec![
                    field("kind", string()),
                    field("apiVersion", string()),
                    field("metadata", Type::Struct(META)),
                    field("spec", Type::Struct(SPEC)),
                    field("data", strings()),
                ],
            ),
            shape(
                "ObjectMeta",
                vec![
                    field("name", string()),
                    field("labels", strings()),
                    merging(field("finalizers", list(string())), None),
                ],
            ),
            shape(
                "PodSpec",
                vec![
                    merging(field("containers", list(Type::Struct(CONTAINER))), Some("name")),
                    merging(field("volumes", list(Type::Struct(VOLUME))), Some("name")),
                    field("tolerations", list(Type::Struct(ENTRY))),
                    merging(field("keyless", list(Type::Struct(ENTRY))), None),
                    merging(field("secrets", list(Type::Struct(ENTRY))), Some("name")),
                    Field { pointer: true, ..field("strategy", Type::Struct(STRATEGY)) },
                    field("nested", Type::Map(Box::new(strings()))),
                    Field {
                        go_type: "runtime.RawExtension".into(),
                        ..field("raw", Type::Scalar(Scalar::RawExtension))
                    },
                    field("replicas", int()),
                ],
            ),
            shape(
                "Container",
                vec![
                    field("name", string()),
                    field("image", string()),
                    field("args", list(string())),
                    merging(field("env", list(Type::Struct(ENTRY))), Some("name")),
                    merging(field("ports", list(Type::Struct(PORT))), Some("containerPort")),
                ],
            ),
            shape("Entry", vec![field("name", string()), field("value", string())]),
            shape("Port", vec![field("containerPort", int()), field("name", string()), field("protocol", string())]),
            shape(
                "Volume",
                vec![
                    field("name", string()),
                    Field { pointer: true, ..field("emptyDir", strings()) },
                    Field { pointer: true, ..field("configMap", Type::Struct(ENTRY)) },
                ],
            ),
            shape("Strategy", vec![field("type", string()), field("rolling", Type::Struct(ENTRY))]),
        ],
    }
}

fn shape(name: &'static str, fields: Vec<Field>) -> Struct {
    Struct { name: format!("example.{name}").into(), go_name: name.into(), fields, atomic: false, inlines: Vec::new() }
}

fn field(name: &'static str, ty: Type) -> Field {
    Field::new(name, ty)
}

fn merging(field: Field, key: Option<&'static str>) -> Field {
    Field { patch: PatchStrategy { merge: true, merge_key: key.map(Into::into), ..Default::default() }, ..field }
}
