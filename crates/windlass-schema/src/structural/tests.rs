use serde_json::{Value, json};

use super::defaults::{self, DefaultOptions};
use super::prune_and_default::{PruneOptions, Steps};
use super::{CoerceOptions, CompileError, Kind, MAX_DEPTH, NormalizeOptions, ObjectMetaType, Structural};
use crate::field::Path;
use crate::types::{Field, Scalar, Struct, StructId, Type, TypeTable};

mod normal;
mod properties;

fn compile(schema: Value) -> Structural {
    Structural::compile(&schema).expect("the schema must compile")
}

fn field(name: &'static str, ty: Type, go_type: &'static str) -> Field {
    Field { go_type: go_type.into(), ..Field::new(name, ty) }
}

/// Metadata with a name, a namespace, labels and a time.
fn types() -> TypeTable {
    let text = || Type::Scalar(Scalar::String);
    let fields = vec![
        field("name", text(), "string"),
        field("namespace", text(), "string"),
        field("labels", Type::Map(Box::new(text())), "map[string]string"),
        field("creationTimestamp", Type::Scalar(Scalar::Time), "v1.Time"),
    ];
    let meta = Struct {
        name: "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta".into(),
        go_name: "ObjectMeta".into(),
        fields,
        atomic: false,
        inlines: Vec::new(),
    };
    TypeTable { structs: vec![meta] }
}

fn meta(table: &TypeTable) -> ObjectMetaType<'_> {
    ObjectMetaType { table, id: StructId(0) }
}

const ROOT: PruneOptions = PruneOptions { resource_root: true, unknown_fields: true };

fn prune(schema: Value, mut object: Value) -> (Value, Vec<String>) {
    let unknown = compile(schema).prune(&mut object, ROOT);
    (object, unknown)
}

#[test]
fn all_keywords_of_a_schema_are_parsed() {
    let schema = compile(json!({
        "type": "array", "nullable": true, "default": [], "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "additionalProperties": {"type": "string"}},
        "maxItems": 5, "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": true}],
    }));
    assert_eq!(schema.kind, Some(Kind::Array));
    assert_eq!(schema.default, Some(json!([])));
    assert_eq!(schema.list_type, super::ListType::Map(vec!["k".to_owned()]));
    assert_eq!(schema.validation.max_items, Some(5));
    assert_eq!(schema.rules[0].optional_old_self, Some(true));
    assert_eq!(compile(json!({"default": null})).default, None);
}

#[test]
fn schemas_that_are_not_structural_are_rejected() {
    let error = |schema| Structural::compile(&schema).expect_err("the schema must be rejected").to_string();
    assert_eq!(error(json!({"$ref": "x"})), "OpenAPIV3Schema '$ref' is not supported");
    assert_eq!(error(json!({"items": [{}]})), "OpenAPIV3Schema 'items' must be a schema, but is an array");
    assert_eq!(error(json!({"pattern": "("})), "error parsing regexp: missing closing ): `(`");
}

/// Returns schemas that nest in each possible way, with values of the same depth.
fn deep(depth: usize) -> [(Value, Value); 3] {
    let mut out = [(json!({}), json!(1)), (json!({}), json!(1)), (json!({}), json!(1))];
    for _ in 1..depth {
        let [(items, list), (properties, map), (all, _)] = &mut out;
        *items = json!({"type": "array", "items": items.take()});
        *list = json!([list.take()]);
        *properties = json!({"type": "object", "properties": {"a": properties.take()}});
        *map = json!({"a": map.take()});
        *all = json!({"allOf": [all.take()]});
    }
    out
}

#[test]
fn the_deepest_schema_is_accepted_and_a_deeper_one_rejected() {
    for (schema, mut value) in deep(MAX_DEPTH) {
        let schema = compile(schema);
        assert_eq!(schema.validate(&value), vec![]);
        assert_eq!(schema.validate_update(&value, &value), vec![]);
        schema.prune_and_default(&mut value, Steps::ALL, ROOT);
    }
    for (schema, _) in deep(MAX_DEPTH + 1) {
        assert_eq!(Structural::compile(&schema), Err(CompileError::TooDeep));
    }
}

#[test]
fn unknown_fields_are_pruned_and_reported() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"type": "object"}}},
            "true": {"type": "object", "additionalProperties": true},
        }}
    }});
    let body = json!({
        "apiVersion": "v1", "kind": "K", "metadata": {"anything": 1}, "more": 1,
        "spec": {"b": 1, "a": "x", "list": [{"x": 1}, {"y": 1}], "any": {"p": {"q": 1}, "known": {"r": 1}},
                 "true": {"k": {"v": 1}}},
    });
    let (object, unknown) = prune(schema, body);
    let spec = json!({"a": "x", "list": [{"x": 1}, {}], "any": {"p": {"q": 1}, "known": {}}, "true": {"k": {}}});
    assert_eq!(object, json!({"apiVersion": "v1", "kind": "K", "metadata": {"anything": 1}, "spec": spec}));
    assert_eq!(unknown, ["more", "spec.any.known.r", "spec.b", "spec.list[1].y", "spec.true.k.v"]);
}

#[test]
fn elements_of_a_list_that_preserves_unknown_fields_are_kept() {
    let schema = json!({"properties": {"l": {"type": "array", "x-kubernetes-preserve-unknown-fields": true,
        "items": {"type": "object", "properties": {"a": {"type": "object"}}}}}});
    let (object, _) = prune(schema, json!({"l": [{"b": 1, "a": {"c": 1}}]}));
    assert_eq!(object, json!({"l": [{"b": 1, "a": {}}]}));
}

fn defaulted(schema: Value, mut object: Value) -> Value {
    compile(schema).prune_and_default(&mut object, Steps::ALL, ROOT);
    object
}

#[test]
fn defaults_replace_absent_fields_and_disallowed_nulls() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "x"},
        "nullable": {"type": "string", "nullable": true, "default": "x"},
        "plain": {"type": "string"},
        "nested": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "integer", "default": 2}}}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }});
    let body = json!({"a": null, "nullable": null, "plain": null, "list": [{}, null], "map": {"k": null, "l": "m"}});
    let want = json!({"a": "x", "nullable": null, "nested": {"b": 1}, "list": [{"c": 2}, null], "map": {"l": "m"}});
    assert_eq!(defaulted(schema.clone(), body), want);
    let sparse = json!({"a": "x", "nullable": "x", "nested": {"b": 1}});
    assert_eq!(defaulted(schema, json!({})), sparse);
}

#[test]
fn metadata_is_decoded_by_its_own_type() {
    let table = types();
    let schema = compile(json!({"type": "object", "properties": {
        "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                     "properties": {"spec": {"type": "object"}}}}}));
    let mut object = json!({
        "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "foo": 1, "creationTimestamp": null},
        "template": {"apiVersion": "v1", "kind": "P", "metadata": {"bar": 1, "labels": {"a": "b"}}, "x": 1},
    });
    let options = NormalizeOptions { unknown_fields: true, default: true, ..NormalizeOptions::default() };
    let unknown = schema.normalize(&mut object, meta(&table), options).expect("the body must be valid");
    assert_eq!(unknown, ["metadata.foo", "template.x", "template.metadata.bar"]);
    assert_eq!(
        object,
        json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"},
               "template": {"apiVersion": "v1", "kind": "P", "metadata": {"labels": {"a": "b"}}}})
    );
}

#[test]
fn metadata_of_a_wrong_type_is_an_error_or_dropped() {
    let table = types();
    let schema = compile(json!({"type": "object"}));
    let body = json!({"kind": "K", "metadata": {"name": 5, "labels": {"a": "b"}}});
    let error = schema.normalize(&mut body.clone(), meta(&table), NormalizeOptions::default());
    let message = "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string";
    assert_eq!(error, Err(message.to_owned()));
    let mut object = body;
    let options = NormalizeOptions { drop_invalid_metadata: true, ..NormalizeOptions::default() };
    schema.normalize(&mut object, meta(&table), options).expect("invalid metadata must be dropped");
    assert_eq!(object, json!({"kind": "K", "metadata": {"labels": {"a": "b"}}}));
}

#[test]
fn an_embedded_type_that_is_not_a_string_is_an_error_with_its_path() {
    let table = types();
    let schema = compile(json!({"properties": {"list": {"type": "array", "items": {
        "type": "object", "x-kubernetes-embedded-resource": true}}}}));
    let mut object = json!({"list": [{"kind": 5}]});
    let error = schema.coerce(&Path::root(), &mut object, false, meta(&table), CoerceOptions::default());
    assert_eq!(error.expect_err("5 is no kind").to_string(), "list[0].kind: Invalid value: 5: must be a string");
}

fn validate_defaults(schema: Value) -> Vec<String> {
    let table = types();
    let options = DefaultOptions { resource_root: true, require_pruned: true };
    let errors = defaults::validate(&Path::new("x"), &compile(schema), meta(&table), options, &mut |_| Vec::new());
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_must_match_their_schema() {
    let errors = validate_defaults(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "integer", "default": "x"},
        "b": {"type": "object", "default": {"unknown": 1}},
        "c": {"type": "string", "format": "int32", "default": "x"},
        "d": {"x-kubernetes-int-or-string": true, "default": true},
    }}}}));
    assert_eq!(
        errors,
        [
            "x.properties[spec].properties[a].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
            "x.properties[spec].properties[b].default: Invalid value: {\"unknown\":1}: must not have unknown fields",
        ]
    );
}

#[test]
fn defaults_inside_metadata_must_give_valid_metadata() {
    let errors = validate_defaults(json!({"type": "object", "properties": {"t": {"type": "object",
        "x-kubernetes-embedded-resource": true, "properties": {"metadata": {"type": "object", "properties": {
            "labels": {"type": "object", "default": {"?": "x"}}, "name": {"type": "string", "default": "fine"}}}}}}}));
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with(
            "x.properties[t].properties[metadata].properties[labels].default: Invalid value: {\"?\":\"x\"}: \
             must result in valid metadata: metadata.labels: Invalid value: \"?\": name part must"
        ),
        "{}",
        errors[0]
    );
}

#[test]
fn rules_receive_the_defaults_that_are_valid_so_far() {
    let table = types();
    let schema = compile(json!({"type": "object", "properties": {
        "a": {"type": "integer", "default": 1}, "b": {"type": "integer", "default": "x"}}}));
    let mut seen = Vec::new();
    defaults::validate(&Path::new("x"), &schema, meta(&table), DefaultOptions::default(), &mut |candidate| {
        seen.push((candidate.path.to_string(), candidate.value.clone(), candidate.resource_root));
        Vec::new()
    });
    assert_eq!(seen, [("x.properties[a].default".to_owned(), json!(1), false)]);
}

#[test]
fn unknown_fields_are_pruned_from_defaults() {
    let table = types();
    let mut schema = compile(json!({"type": "object", "properties": {
        "a": {"type": "object", "properties": {"b": {"type": "integer"}}, "default": {"b": 1, "c": 2}}}}));
    schema.prune_defaults(meta(&table)).expect("the defaults must be prunable");
    assert_eq!(schema.properties["a"].default, Some(json!({"b": 1})));
}

#[test]
fn int_or_string_is_expanded_to_plain_openapi() {
    let mut schema = compile(json!({"properties": {"a": {"x-kubernetes-int-or-string": true}}}));
    schema.unfold();
    let kinds: Vec<_> = schema.properties["a"].validation.any_of.iter().map(|s| s.kind).collect();
    assert_eq!(kinds, [Some(Kind::Integer), Some(Kind::String)]);
    let once = schema.clone();
    schema.unfold();
    assert_eq!(schema, once);
}
