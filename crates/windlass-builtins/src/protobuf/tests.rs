use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_schema::types::{Scalar, StructId, Type};

use super::{PREFIX, ProtobufError, decode, duration, encode_object, envelope, watch_event, zero};
use crate::table;

/// Checks both directions; the bytes are given as hexadecimal text, without the prefix.
fn check(value: Value, hexadecimal: &str) {
    let bytes = encode_object(&value, table()).expect("the object must fit its kind");
    let text: String = bytes[4..].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, hexadecimal.replace([' ', '\n'], ""));
    let decoded = decode(&bytes, table()).expect("encoded data must be decodable");
    assert_eq!(decoded.value, value);
    assert_eq!(value["kind"], decoded.kind);
}

#[test]
fn delete_options_are_encoded_and_decoded() {
    check(
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Orphan"}),
        "0a13 0a027631 120d44656c6574654f7074696f6e73  120a 0800 22064f727068616e  1a00 2200",
    );
}

#[test]
fn delete_options_belong_to_every_group_version() {
    let bytes = envelope("apps/v1", "DeleteOptions", b"");
    let decoded = decode(&bytes, table()).expect("a body of apps/v1");
    assert_eq!(decoded.value, json!({"apiVersion": "apps/v1", "kind": "DeleteOptions"}));
}

#[test]
fn map_keys_are_sorted_and_bytes_are_base64() {
    check(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "AQ==", "b": ""}}),
        "0a0c 0a027631 1206536563726574
         1224 0a11 0a0173 1200 1a00 2200 2a00 3200 3800 4200
              1206 0a0161 120101  1205 0a0162 1200  1a00
         1a00 2200",
    );
}

#[test]
fn embedded_structs_are_messages_and_zero_values_are_written() {
    let probe = json!({"httpGet": {"port": "web"}, "periodSeconds": 5});
    let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "status": {}, "spec": {"containers": [
        {"name": "c", "resources": {}, "livenessProbe": probe}
    ]}});
    let bytes = encode_object(&value, table()).expect("a pod");
    // The probe's handler is field 1 of the probe, its HTTP request is field 2 of the handler.
    let request = b"\x0a\x00\x12\x09\x08\x01\x10\x00\x1a\x03web\x1a\x00\x22\x00".as_slice();
    let probe = [b"\x0a\x13\x12\x11", request, b"\x10\x00\x18\x00\x20\x05\x28\x00\x30\x00"].concat();
    assert!(bytes.windows(probe.len()).any(|window| window == probe));
    let decoded = decode(&bytes, table()).expect("a pod");
    assert_eq!(decoded.value, value);
}

#[test]
fn decoding_adds_the_zero_values_that_go_writes() {
    let decoded = decode(&envelope("v1", "Event", b""), table()).expect("an empty event");
    assert_eq!(
        decoded.value,
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {}, "involvedObject": {}, "source": {},
            "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
            "reportingComponent": "", "reportingInstance": "",
        })
    );
}

#[test]
fn unknown_fields_are_skipped_and_later_values_win() {
    let message = b"\xfa\x07\x01x\x0a\x03\x0a\x01a\xf0\x07\x05\x0a\x03\x0a\x01b";
    let decoded = decode(&envelope("v1", "Namespace", message), table()).expect("a namespace");
    assert_eq!(decoded.value["metadata"]["name"], "b");
}

#[test]
fn invalid_bodies_have_distinct_errors() {
    let error = |bytes: &[u8]| decode(bytes, table()).expect_err("a bad body").to_string();
    assert!(matches!(decode(b"{}", table()), Err(ProtobufError::Prefix)));
    assert!(matches!(decode(PREFIX, table()), Err(ProtobufError::MissingKind)));
    assert!(matches!(decode(&envelope("", "Pod", b""), table()), Err(ProtobufError::MissingVersion)));
    assert_eq!(error(&envelope("v9", "Pod", b"")), r#"no kind "Pod" is registered for version "v9""#);
    assert_eq!(error(&envelope("v1", "Pod", b"\x08\x01")), "proto: wrong wireType = 0 for field metadata");
    assert_eq!(error(&envelope("v1", "Pod", b"\x0a\x7f")), "unexpected EOF");
    let unfit = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": "none"}});
    assert_eq!(
        encode_object(&unfit, table()).expect_err("a bad pod").to_string(),
        "field containers does not fit its type"
    );
}

#[test]
fn schemas_may_be_nested_up_to_the_limit() {
    let nested = |levels: usize| {
        let schema = (0..levels).fold(json!({"type": "string"}), |inner, _| json!({"not": inner}));
        encode_object(
            &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {
                "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]
            }}),
            table(),
        )
        .expect("a definition")
    };
    assert!(decode(&nested(80), table()).is_ok());
    assert!(matches!(decode(&nested(200), table()), Err(ProtobufError::TooDeep)));
}

#[test]
fn union_types_in_schemas_are_preserved() {
    let schema = json!({
        "additionalProperties": false,
        "items": [{"type": "string"}, {"items": {"default": [1, null]}}],
        "dependencies": {"a": ["b", "c"], "d": {"additionalItems": {"maximum": 1.5}}},
        "enum": ["x", 2, null],
    });
    let value = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {},
        "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}
        ]},
        "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null},
    });
    let bytes = encode_object(&value, table()).expect("a definition");
    assert_eq!(decode(&bytes, table()).expect("a definition").value, value);
}

#[test]
fn a_watch_event_carries_a_whole_body() {
    let object = envelope("v1", "Namespace", b"");
    let event = watch_event("ADDED", &object);
    let decoded = decode(&envelope("v1", "WatchEvent", &event), table()).expect("a watch event");
    assert_eq!(decoded.value["type"], "ADDED");
    assert_eq!(decoded.value["object"]["kind"], "Namespace");
}

#[test]
fn durations_are_written_as_go_writes_them() {
    for (nanoseconds, text) in [
        (0, "0s"),
        (1, "1ns"),
        (-1_500, "-1.5µs"),
        (250_000_000, "250ms"),
        (90_000_000_000, "1m30s"),
        (5_400_500_000_000, "1h30m0.5s"),
    ] {
        assert_eq!(duration::format(nanoseconds), text);
        assert_eq!(duration::parse(text), Some(nanoseconds));
    }
    assert_eq!(duration::parse("1.5m"), Some(90_000_000_000));
    for text in ["", "5", "-", "1x", "1.2.3s", "s", "99999999999h"] {
        assert_eq!(duration::parse(text), None, "{text}");
    }
}

/// Generates values of a type, in the form that decoding yields.
struct Maker {
    state: u64,
    depth: usize,
}

impl Maker {
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 33) % bound
    }

    fn structure(&mut self, id: StructId) -> Value {
        self.depth += 1;
        let structure = table().types.get(id);
        let mut object = Map::new();
        for field in structure.fields.iter().filter(|field| field.proto > 0) {
            let embedded = !field.pointer && matches!(field.ty, Type::Struct(_));
            if embedded || (self.depth < 7 && self.below(3) == 0) {
                object.insert(field.name.to_string(), self.value(&field.ty, &field.go_type));
            }
        }
        zero::fill(&mut object, structure, table());
        self.depth -= 1;
        Value::Object(object)
    }

    fn value(&mut self, ty: &Type, go_type: &str) -> Value {
        match ty {
            Type::Struct(id) => self.structure(*id),
            Type::List(element) => (0..=self.below(2)).map(|_| self.value(element, go_type)).collect(),
            Type::Map(element) => {
                let mut map = Map::new();
                for _ in 0..=self.below(3) {
                    map.insert(format!("k{}", self.below(9)), self.value(element, go_type));
                }
                Value::Object(map)
            }
            Type::Scalar(scalar) => self.scalar(*scalar, go_type),
        }
    }

    fn scalar(&mut self, scalar: Scalar, go_type: &str) -> Value {
        let number = self.below(1 << 20) as i64 + 1;
        match scalar {
            Scalar::String => json!(format!("s{number}é")),
            Scalar::Bool => json!(true),
            Scalar::Int32 => json!(-number),
            Scalar::Int64 => json!(number << 40),
            Scalar::Float64 => json!(number as f64 + 0.5),
            Scalar::Bytes => json!("AAEC"),
            Scalar::Quantity => json!(format!("{number}m")),
            Scalar::IntOrString => [json!(number), json!("50%")][self.below(2) as usize].clone(),
            Scalar::Time => json!("2026-02-03T04:05:06Z"),
            Scalar::MicroTime => json!("1969-02-03T04:05:06.000789Z"),
            Scalar::Duration => json!("1m0s"),
            Scalar::RawExtension | Scalar::FieldsV1 => json!({"f:x": {}, "n": [number]}),
            Scalar::Json => match go_type {
                "v1.JSONSchemaPropsOrBool" => json!(true),
                "v1.JSONSchemaPropsOrArray" => json!([{"type": "string"}]),
                "v1.JSONSchemaDependencies" => json!(["a", "b"]),
                _ => json!({"any": number}),
            },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_encoded_decodes_to_the_same(seed: u64, kind in 0..table().kinds.len()) {
        let kind = &table().kinds[kind];
        let mut value = Maker { state: seed, depth: 0 }.structure(kind.ty);
        let api_version = if kind.group.is_empty() { kind.version.to_string() } else { format!("{}/{}", kind.group, kind.version) };
        value["apiVersion"] = json!(api_version);
        value["kind"] = json!(&*kind.kind);
        let bytes = encode_object(&value, table()).expect("a generated object must fit");
        let decoded = decode(&bytes, table()).expect("encoded data must be decodable");
        prop_assert_eq!(&decoded.value, &value);
        prop_assert_eq!(encode_object(&decoded.value, table()).expect("a decoded object must fit"), bytes);
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(message in prop::collection::vec(any::<u8>(), 0..200), kind in 0..table().kinds.len()) {
        let kind = &table().kinds[kind];
        let _ = decode(&message, table());
        let api_version = format!("{}/{}", kind.group, kind.version);
        let _ = decode(&envelope(api_version.trim_start_matches('/'), &kind.kind, &message), table());
    }

    #[test]
    fn a_damaged_body_is_a_value_or_an_error(seed: u64, kind in 0..table().kinds.len(), at: prop::sample::Index, byte: u8) {
        let kind = &table().kinds[kind];
        let mut value = Maker { state: seed, depth: 2 }.structure(kind.ty);
        value["apiVersion"] = json!(format!("{}/{}", kind.group, kind.version).trim_start_matches('/'));
        value["kind"] = json!(&*kind.kind);
        let mut bytes = encode_object(&value, table()).expect("a generated object must fit");
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = decode(&bytes, table());
    }
}
