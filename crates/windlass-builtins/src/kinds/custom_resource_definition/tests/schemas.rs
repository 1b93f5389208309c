//! Schemas: whether they are structural, and the constraints among their keywords.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn every_value_has_a_type_and_restrictions_have_none() {
    check_schema(
        json!({"type": "object", "properties": {
            "a": {"anyOf": [{"type": "string", "title": "x"}, {"nullable": true, "additionalProperties": true}]},
            "b": {"type": "array"},
            "c": {"type": "object", "x-kubernetes-embedded-resource": true, "additionalProperties": {"items": {}}},
            "d": {"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}], "allOf": [{"pattern": "["}]},
            "metadata": {"type": "object", "properties": {"labels": {"type": "object"}}},
            "kind": {"type": "number"},
        }, "oneOf": [{"properties": {"e": {"minimum": 1}}}, {"properties": {"b": {"items": {"minLength": 1}}}}]}),
        expect![[r#"
            spec.validation.openAPIV3Schema.properties[a].anyOf[0].title: Forbidden: must be empty to be structural
            spec.validation.openAPIV3Schema.properties[a].anyOf[0].type: Forbidden: must be empty to be structural
            spec.validation.openAPIV3Schema.properties[a].anyOf[1].additionalProperties: Forbidden: must be undefined to be structural
            spec.validation.openAPIV3Schema.properties[a].anyOf[1].nullable: Forbidden: must be false to be structural
            spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields
            spec.validation.openAPIV3Schema.properties[b].items: Required value: because it is defined in spec.validation.openAPIV3Schema.oneOf[1].properties[b].items
            spec.validation.openAPIV3Schema.properties[b].items: Required value: must be specified
            spec.validation.openAPIV3Schema.properties[c].additionalProperties.items.type: Required value: must not be empty for specified array items
            spec.validation.openAPIV3Schema.properties[c].additionalProperties.type: Required value: must not be empty for specified object fields
            spec.validation.openAPIV3Schema.properties[c].additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set
            spec.validation.openAPIV3Schema.properties[c].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields
            spec.validation.openAPIV3Schema.properties[d].allOf[0].pattern: Invalid value: "[": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`
            spec.validation.openAPIV3Schema.properties[d].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true
            spec.validation.openAPIV3Schema.properties[e]: Required value: because it is defined in spec.validation.openAPIV3Schema.oneOf[0].properties[e]
            spec.validation.openAPIV3Schema.properties[kind].type: Invalid value: "number": must be string
            spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified
        "#]],
    );
}

#[test]
fn unsupported_keywords_are_rejected() {
    check_schema(
        json!({"type": "object", "nullable": true, "properties": {
            "a": {"type": "array", "items": [{"type": "blob"}], "uniqueItems": true},
            "b": {"type": "object", "additionalProperties": {"type": "string"}, "properties": {"c": {"type": "string"}}},
            "d": {"type": "object", "x-kubernetes-preserve-unknown-fields": false, "definitions": {"e": {"$ref": "#"}}},
        }}),
        expect![[r##"
            spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root
            spec.validation.openAPIV3Schema.properties[a].items: Forbidden: items must be a schema object and not an array
            spec.validation.openAPIV3Schema.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic
            spec.validation.openAPIV3Schema.properties[a].items[0].type: Unsupported value: "blob": supported values: "array", "boolean", "integer", "number", "object", "string"
            spec.validation.openAPIV3Schema.properties[b].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive
            spec.validation.openAPIV3Schema.properties[d].definitions: Forbidden: definitions is not supported
            spec.validation.openAPIV3Schema.properties[d].definitions[e].$ref: Forbidden: $ref is not supported
            spec.validation.openAPIV3Schema.properties[d].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined
        "##]],
    );
    // Only the structural form reveals the error here.
    check_schema(
        json!({"type": "object", "$schema": "http://json-schema.org/schema"}),
        expect![[r#"
            spec.validation.openAPIV3Schema: Invalid value: "": OpenAPIV3Schema 'schema' is not supported
        "#]],
    );
}

#[test]
fn list_and_map_types_are_validated() {
    let list = |keys: Value, item: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": item});
    let item = json!({"type": "object", "nullable": true, "required": ["a"], "properties": {
        "a": {"type": "object"}, "b": {"type": "string", "nullable": true}, "c": {"type": "string", "default": "x"},
    }});
    check_schema(
        json!({"type": "object", "properties": {
            "keys": list(json!(["a", "b", "b", "c", "z"]), item),
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items":
                {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}},
            "text": {"type": "string", "x-kubernetes-map-type": "loose", "x-kubernetes-list-map-keys": ["a"]},
        }}),
        expect![[r#"
            spec.validation.openAPIV3Schema.properties[keys].items.properties[a].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map
            spec.validation.openAPIV3Schema.properties[keys].x-kubernetes-list-map-keys: Invalid value: ["a","b","b","c","z"]: must not contain duplicate entries
            spec.validation.openAPIV3Schema.properties[keys].x-kubernetes-list-map-keys: Invalid value: ["a","b","b","c","z"]: entries must all be names of item properties
            spec.validation.openAPIV3Schema.properties[keys].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map
            spec.validation.openAPIV3Schema.properties[keys].items.properties[b].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property
            spec.validation.openAPIV3Schema.properties[keys].items.properties[b].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable
            spec.validation.openAPIV3Schema.properties[keys].items.properties[b].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property
            spec.validation.openAPIV3Schema.properties[keys].items.properties[b].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable
            spec.validation.openAPIV3Schema.properties[set].items.x-kubernetes-list-type: Invalid value: "set": must be atomic as item of a list with x-kubernetes-list-type=set
            spec.validation.openAPIV3Schema.properties[text].type: Invalid value: "string": must be object if x-kubernetes-map-type is specified
            spec.validation.openAPIV3Schema.properties[text].x-kubernetes-map-type: Unsupported value: "loose": supported values: "atomic", "granular"
            spec.validation.openAPIV3Schema.properties[text].x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty
        "#]],
    );
}

#[test]
fn rules_have_messages_and_expressions_that_compile() {
    check_schema(
        json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}},
        "x-kubernetes-validations": [
            {"rule": " "},
            {"rule": "true\n&& true", "message": "", "messageExpression": " "},
            {"rule": "true", "message": "one\ntwo", "reason": "Because", "fieldPath": ".c"},
            {"rule": "true", "message": " ", "fieldPath": " "},
        ]}}}),
        expect![[r#"
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[1].message: Required value: message must be specified if rule contains line breaks
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[1].messageExpression: Required value: messageExpression must be non-empty if specified
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[2].message: Invalid value: "one\ntwo": must not contain line breaks
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[2].reason: Unsupported value: "Because": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[2].fieldPath: Invalid value: ".c": must be a valid path
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[3].message: Invalid value: " ": must be non-empty if specified
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[3].fieldPath: Invalid value: " ": must be non-empty if specified
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[3].fieldPath: Invalid value: " ": must be a valid path
        "#]],
    );
    check_schema(
        json!({"type": "object", "properties": {"a": {"type": "integer", "x-kubernetes-validations": [
            {"rule": "self + 1"}]}}}),
        expect![[r#"
            spec.validation.openAPIV3Schema.properties[a].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self + 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool
        "#]],
    );
}

#[test]
fn defaults_match_their_schema_and_are_forbidden_in_metadata() {
    check_schema(
        json!({"type": "object", "properties": {
            "knots": {"type": "integer", "minimum": 3, "default": 2},
            "sails": {"type": "object", "properties": {"main": {"type": "string"}}, "default": {"main": "x", "jib": "y"}},
        }}),
        expect![[r#"
            spec.validation.openAPIV3Schema.properties[knots].default: Invalid value: 2:  in body should be greater than or equal to 3
            spec.validation.openAPIV3Schema.properties[sails].default: Invalid value: {"jib":"y","main":"x"}: must not have unknown fields
        "#]],
    );
    check_schema(
        json!({"type": "object", "properties": {"kind": {"type": "string", "default": "Boat"}}}),
        expect![[r#"
            spec.validation.openAPIV3Schema.properties[kind].default: Forbidden: must not be set in top-level kind
        "#]],
    );
}

#[test]
fn the_root_of_a_schema_with_status_subresource_is_restricted() {
    let status = json!({"/spec/versions/0/subresources": {"status": {}}});
    let errors = |schema: Value| {
        let object = created(changed(&definition(schema), status.clone()));
        shown(&CustomResourceDefinition.validate(&object))
    };
    assert_eq!(errors(json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "string"}}})), "");
    let found = errors(json!({"type": "object", "minProperties": 1}));
    let start = "spec.validation.openAPIV3Schema: Invalid value: {\"ID\":\"\",";
    let end = "\"XValidations\":null}: only [Description Type Format Title Maximum ExclusiveMaximum Minimum \
               ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items \
               Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of \
               the schema if the status subresource is enabled\n";
    assert!(found.starts_with(start) && found.ends_with(end), "{found}");
    expect![[r#"
        spec.validation.openAPIV3Schema.type: Invalid value: "array": only "object" is allowed as the type at the root of the schema if the status subresource is enabled
        spec.validation.openAPIV3Schema.type: Invalid value: "array": must be object at the root
    "#]]
    .assert_eq(&errors(json!({"type": "array", "items": {"type": "string"}})));
}

#[test]
fn hostile_schemas_are_rejected_without_traversal() {
    let mut deep = json!({"type": "object"});
    for _ in 0..400 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let errors = shown(&CustomResourceDefinition.validate(&created(definition(deep))));
    let expected = "spec.validation.openAPIV3Schema: Forbidden: schemas must not be nested more than ";
    assert!(errors.starts_with(expected), "{errors}");
    let huge =
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "((\\pL{1000})|(\\pN{999})){1}"}}});
    let errors = shown(&CustomResourceDefinition.validate(&created(definition(huge))));
    assert!(errors.contains("expression too large"), "{errors}");
}
