mod properties;
mod restore;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::json;

fn field(name: &'static str, ty: Type, go_type: &'static str) -> Field {
    Field { go_type: go_type.into(), ..Field::new(name, ty) }
}

fn written(field: Field) -> Field {
    Field { omit_empty: false, ..field }
}

fn pointer(field: Field) -> Field {
    Field { pointer: true, ..field }
}

fn list(ty: Type) -> Type {
    Type::List(Box::new(ty))
}

fn map(ty: Type) -> Type {
    Type::Map(Box::new(ty))
}

fn structure(name: &'static str, fields: Vec<Field>) -> Struct {
    Struct { name: name.into(), go_name: name.into(), fields, atomic: false, inlines: Vec::new() }
}

const ROOT: StructId = StructId(0);

/// A toy kind with a field of every type.
fn table() -> TypeTable {
    use Scalar::*;
    let scalar = |s| Type::Scalar(s);
    let root = structure(
        "Toy",
        vec![
            field("kind", scalar(String), "string"),
            field("apiVersion", scalar(String), "string"),
            written(field("metadata", Type::Struct(StructId(1)), "v1.ObjectMeta")),
            written(field("spec", Type::Struct(StructId(2)), "v1.ToySpec")),
            field("data", map(scalar(String)), "map[string]string"),
            field("binaryData", map(scalar(Bytes)), "map[string][]uint8"),
            pointer(field("immutable", scalar(Bool), "bool")),
        ],
    );
    let meta = structure(
        "ObjectMeta",
        vec![
            field("name", scalar(String), "string"),
            field("labels", map(scalar(String)), "map[string]string"),
            field("creationTimestamp", scalar(Time), "v1.Time"),
        ],
    );
    let spec = structure(
        "ToySpec",
        vec![
            pointer(field("replicas", scalar(Int32), "int32")),
            field("minReadySeconds", scalar(Int32), "int32"),
            field("big", scalar(Int64), "int64"),
            field("ratio", scalar(Float64), "float64"),
            written(field("parts", list(Type::Struct(StructId(3))), "[]v1.Part")),
            field("volumes", list(Type::Struct(StructId(4))), "[]v1.Volume"),
            field("limits", map(scalar(Quantity)), "v1.ResourceList"),
            written(field("port", scalar(IntOrString), "intstr.IntOrString")),
            pointer(field("wait", scalar(Duration), "v1.Duration")),
            pointer(field("renewTime", scalar(MicroTime), "v1.MicroTime")),
            pointer(field("raw", scalar(RawExtension), "runtime.RawExtension")),
            field("args", list(scalar(String)), "[]string"),
            field("secret", scalar(Bytes), "[]uint8"),
            pointer(field("inner", Type::Struct(StructId(3)), "v1.Part")),
        ],
    );
    let part = structure(
        "Part",
        vec![
            written(field("name", scalar(String), "string")),
            field("policy", scalar(String), "v1.PullPolicy"),
            written(field("resources", Type::Struct(StructId(5)), "v1.Resources")),
        ],
    );
    let volume = structure(
        "Volume",
        vec![
            written(field("name", scalar(String), "string")),
            pointer(field("emptyDir", Type::Struct(StructId(5)), "v1.Resources")),
        ],
    );
    let resources = structure("Resources", vec![field("limits", map(scalar(Quantity)), "v1.ResourceList")]);
    TypeTable { structs: vec![root, meta, spec, part, volume, resources] }
}

fn decoded(text: &str) -> Decoded {
    let document = json::parse(text.as_bytes()).expect("the text must be JSON");
    decode(document, ROOT, &table(), Storage::Protobuf)
}

fn check(text: &str, expected: Expect) {
    let Decoded { value, strict, error } = decoded(text);
    let report = match error {
        Some(error) => error,
        None => strict.into_iter().fold(value.to_string(), |all, one| format!("{all}\n{one}")),
    };
    expected.assert_eq(&report);
}

#[test]
fn an_empty_body_gets_the_fields_that_are_always_written() {
    check("{}", expect![[r#"{"metadata":{},"spec":{"parts":null,"port":0}}"#]]);
    check(
        r#"{"metadata":null,"spec":null,"data":null,"immutable":null,"kind":null}"#,
        expect![[r#"{"metadata":{},"spec":{"parts":null,"port":0}}"#]],
    );
}

#[test]
fn zero_values_are_omitted_unless_they_are_pointers() {
    check(
        r#"{"kind":"","data":{},"immutable":false,"spec":{"replicas":0,"minReadySeconds":0,"parts":[],"args":[],
           "volumes":[{"name":"v","emptyDir":{}}],"inner":{},"raw":null,"wait":null,"secret":""}}"#,
        expect![[
            r#"{"immutable":false,"metadata":{},"spec":{"inner":{"name":"","resources":{}},"parts":null,"port":0,"replicas":0,"volumes":[{"emptyDir":{},"name":"v"}]}}"#
        ]],
    );
}

#[test]
fn nulls_in_lists_and_maps_are_zero_values() {
    check(
        r#"{"data":{"a":null},"binaryData":{"b":null},"spec":{"args":[null],"parts":[null],"limits":{"cpu":null}}}"#,
        expect![[
            r#"{"binaryData":{"b":""},"data":{"a":""},"metadata":{},"spec":{"args":[""],"limits":{"cpu":"0"},"parts":[{"name":"","resources":{}}],"port":0}}"#
        ]],
    );
}

#[test]
fn quantities_times_and_durations_become_canonical() {
    check(
        r#"{"metadata":{"creationTimestamp":"2024-01-01T01:00:00.5+01:00"},
           "spec":{"limits":{"cpu":"1000m","memory":1,"x":0.5,"y":1e3,"z":" 1Gi "},"port":"http","wait":"90m",
           "renewTime":"2024-01-01T00:00:00.000001+00:00","raw":{"any":[1,{"thing":null}]},"secret":"YQ==\n"}}"#,
        expect![[
            r#"{"metadata":{"creationTimestamp":"2024-01-01T00:00:00Z"},"spec":{"limits":{"cpu":"1","memory":"1","x":"500m","y":"1e3","z":"1Gi"},"parts":null,"port":"http","raw":{"any":[1,{"thing":null}]},"renewTime":"2024-01-01T00:00:00.000001Z","secret":"YQ==","wait":"1h30m0s"}}"#
        ]],
    );
}

#[test]
fn unknown_and_duplicate_fields_are_reported_in_the_order_of_the_text() {
    check(
        r#"{"metadata":{"name":"fv","colour":"red"},"dato":{"a":"1"}}"#,
        expect![[r#"
        {"metadata":{"name":"fv"},"spec":{"parts":null,"port":0}}
        unknown field "metadata.colour"
        unknown field "dato""#]],
    );
    check(
        r#"{"data":{"a":"1","a":"2"},"data":{"b":"1"}}"#,
        expect![[r#"
        {"data":{"a":"2","b":"1"},"metadata":{},"spec":{"parts":null,"port":0}}
        duplicate field "data.a"
        duplicate field "data""#]],
    );
    check(
        r#"{"zz":1,"zz":2,"spec":{"raw":{"d":1,"d":2},"parts":[{"name":"a","imag":1},{"nam":1,"name":"b"}],"replica":1},"aa":{"x":1,"x":1}}"#,
        expect![[r#"
            {"metadata":{},"spec":{"parts":[{"name":"a","resources":{}},{"name":"b","resources":{}}],"port":0,"raw":{"d":2}}}
            unknown field "zz"
            unknown field "spec.parts[0].imag"
            unknown field "spec.parts[1].nam"
            unknown field "spec.replica"
            unknown field "aa""#]],
    );
    check(
        r#"{"metadata":{"name":"a"},"metadata":{"labels":{"b":"c"}}}"#,
        expect![[r#"
        {"metadata":{"labels":{"b":"c"},"name":"a"},"spec":{"parts":null,"port":0}}
        duplicate field "metadata""#]],
    );
    check(
        r#"{"Kind":"x"}"#,
        expect![[r#"
        {"metadata":{},"spec":{"parts":null,"port":0}}
        unknown field "Kind""#]],
    );
    check(
        r#"{"metadata":{"name":"a","name":null},"metadata":null}"#,
        expect![[r#"
        {"metadata":{"name":"a"},"spec":{"parts":null,"port":0}}
        duplicate field "metadata.name"
        duplicate field "metadata""#]],
    );
}

#[test]
fn at_most_a_hundred_strict_errors_are_kept() {
    let many: Vec<_> = (0..200).map(|n| format!("\"f{n}\":1")).collect();
    assert_eq!(decoded(&format!("{{{}}}", many.join(","))).strict.len(), 100);
}

#[test]
fn type_errors_match_go() {
    check(
        r#"{"spec":{"replicas":"3"}}"#,
        expect!["json: cannot unmarshal string into Go struct field ToySpec.spec.replicas of type int32"],
    );
    check(
        r#"{"spec":{"replicas":1.5}}"#,
        expect!["json: cannot unmarshal number 1.5 into Go struct field ToySpec.spec.replicas of type int32"],
    );
    check(
        r#"{"spec":{"replicas":1e3}}"#,
        expect!["json: cannot unmarshal number 1e3 into Go struct field ToySpec.spec.replicas of type int32"],
    );
    check(
        r#"{"spec":{"replicas":3000000000}}"#,
        expect!["json: cannot unmarshal number 3000000000 into Go struct field ToySpec.spec.replicas of type int32"],
    );
    check(
        r#"{"spec":{"big":9223372036854775808}}"#,
        expect![
            "json: cannot unmarshal number 9223372036854775808 into Go struct field ToySpec.spec.big of type int64"
        ],
    );
    check(
        r#"{"spec":{"ratio":"1"}}"#,
        expect!["json: cannot unmarshal string into Go struct field ToySpec.spec.ratio of type float64"],
    );
    check(r#"{"spec":[]}"#, expect!["json: cannot unmarshal array into Go struct field Toy.spec of type v1.ToySpec"]);
    check(
        r#"{"metadata":{"name":true}}"#,
        expect!["json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string"],
    );
    check(
        r#"{"metadata":{"labels":{"a":1}}}"#,
        expect!["json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"],
    );
    check(
        r#"{"metadata":{"labels":[]}}"#,
        expect![
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string"
        ],
    );
    check(
        r#"{"spec":{"parts":[{"policy":{}}]}}"#,
        expect!["json: cannot unmarshal object into Go struct field Part.spec.parts.policy of type v1.PullPolicy"],
    );
    check(
        r#"{"spec":{"parts":["a"]}}"#,
        expect!["json: cannot unmarshal string into Go struct field ToySpec.spec.parts of type v1.Part"],
    );
    check(
        r#"{"spec":{"parts":{}}}"#,
        expect!["json: cannot unmarshal object into Go struct field ToySpec.spec.parts of type []v1.Part"],
    );
    check(
        r#"{"spec":{"args":[1]}}"#,
        expect!["json: cannot unmarshal number into Go struct field ToySpec.spec.args of type string"],
    );
    check(
        r#"{"spec":{"volumes":[{"emptyDir":[]}]}}"#,
        expect![
            "json: cannot unmarshal array into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.Resources"
        ],
    );
    check(
        r#"{"spec":{"port":1.5}}"#,
        expect!["json: cannot unmarshal number 1.5 into Go struct field ToySpec.spec.port of type int32"],
    );
    check(
        r#"{"spec":{"port":true}}"#,
        expect!["json: cannot unmarshal bool into Go struct field ToySpec.spec.port of type int32"],
    );
    check(
        r#"{"metadata":{"creationTimestamp":5}}"#,
        expect![
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"
        ],
    );
    check(
        r#"{"metadata":{"creationTimestamp":"now"}}"#,
        expect![[r#"parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006""#]],
    );
    check(
        r#"{"spec":{"limits":{"cpu":"lots"}}}"#,
        expect!["quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"],
    );
    check(
        r#"{"spec":{"limits":{"cpu":[]}}}"#,
        expect!["quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"],
    );
    check(r#"{"spec":{"wait":"1"}}"#, expect![[r#"time: missing unit in duration "1""#]]);
    check(r#"{"binaryData":{"a":"YWJj!"}}"#, expect!["illegal base64 data at input byte 4"]);
    check(
        r#"{"binaryData":{"a":5}}"#,
        expect!["json: cannot unmarshal number into Go struct field Toy.binaryData of type []uint8"],
    );
    check(r#"[]"#, expect!["json: cannot unmarshal array into Go value of type v1.Toy"]);
}

#[test]
fn the_first_error_wins_unless_a_custom_decoder_fails() {
    check(
        r#"{"spec":{"replicas":"x"},"metadata":{"name":1}}"#,
        expect!["json: cannot unmarshal string into Go struct field ToySpec.spec.replicas of type int32"],
    );
    check(
        r#"{"spec":{"replicas":"x","limits":{"cpu":"lots"}}}"#,
        expect!["quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"],
    );
}

#[test]
fn json_storage_keeps_empty_lists() {
    let value = decode(json!({"spec": {"parts": []}}), ROOT, &table(), Storage::Json).value;
    assert_eq!(value["spec"]["parts"], json!([]));
}

#[test]
fn sorted_documents_report_in_key_order() {
    let decoded = decode(json!({"metadata": {"x": 1}, "dato": 1}), ROOT, &table(), Storage::Protobuf);
    assert_eq!(decoded.strict, ["unknown field \"dato\"", "unknown field \"metadata.x\""]);
}

#[test]
fn base64_is_validated_as_in_go() {
    let mut out = String::new();
    for text in BASE64 {
        let outcome = match decoded(&json!({"binaryData": {"a": text}}).to_string()) {
            Decoded { error: Some(error), .. } => error,
            Decoded { value, .. } => value["binaryData"]["a"].to_string(),
        };
        out.push_str(&format!("{} | {outcome}\n", text.escape_default()));
    }
    expect![[r#"
         | ""
        YQ== | "YQ=="
        YWI= | "YWI="
        YWJj | "YWJj"
        YWJjZA== | "YWJjZA=="
        YQ | illegal base64 data at input byte 0
        YQ= | illegal base64 data at input byte 3
        Y | illegal base64 data at input byte 0
        Y=== | illegal base64 data at input byte 1
        = | illegal base64 data at input byte 0
        YQ==x | illegal base64 data at input byte 4
        YQ=x | illegal base64 data at input byte 2
        YQ==\n | "YQ=="
        Y\nQ=\r\n= | "YQ=="
        YW Jj | illegal base64 data at input byte 2
        YWJj\n\n | "YWJj"
        YWJj\nY | illegal base64 data at input byte 5
        YR== | "YQ=="
        YWJ= | "YWI="
        YQ=\n | illegal base64 data at input byte 4
        YQ\n | illegal base64 data at input byte 1
        YWJj\u{e9} | illegal base64 data at input byte 4
        YWJ- | illegal base64 data at input byte 3
    "#]]
    .assert_eq(&out);
}

const BASE64: &[&str] = &[
    "",
    "YQ==",
    "YWI=",
    "YWJj",
    "YWJjZA==",
    "YQ",
    "YQ=",
    "Y",
    "Y===",
    "=",
    "YQ==x",
    "YQ=x",
    "YQ==\n",
    "Y\nQ=\r\n=",
    "YW Jj",
    "YWJj\n\n",
    "YWJj\nY",
    "YR==",
    "YWJ=",
    "YQ=\n",
    "YQ\n",
    "YWJjé",
    "YWJ-",
];

#[test]
fn kind_and_version_are_read_first() {
    assert_eq!(
        type_meta(&json!({"apiVersion": "v1", "kind": "Pod"})),
        Ok(TypeMeta { api_version: "v1".to_owned(), kind: "Pod".to_owned() })
    );
    assert_eq!(type_meta(&Value::Null), Ok(TypeMeta::default()));
    expect!["json: cannot unmarshal number into Go struct field .kind of type string"]
        .assert_eq(&type_meta(&json!({"kind": 1})).expect_err("a number must not be accepted as a kind"));
    expect![[r#"json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#]]
        .assert_eq(&type_meta(&json!([])).expect_err("a list must not be accepted as an object"));
}

#[test]
fn a_float_without_a_fraction_is_an_integer_unless_the_text_has_one() {
    let value = serde_json::json!({"spec": {"replicas": 2.0}});
    let decoded = decode(value, ROOT, &table(), Storage::Protobuf);
    assert_eq!((decoded.error, &decoded.value["spec"]["replicas"]), (None, &serde_json::json!(2)));
    let document = json::parse(br#"{"spec": {"replicas": 2.0}}"#).expect("valid JSON must parse");
    let error = decode(document, ROOT, &table(), Storage::Protobuf).error;
    assert!(error.is_some_and(|error| error.contains("cannot unmarshal number 2.0")));
}
