use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{NEW, OLD, UpgradeError, Upgraded, apply_legacy_fields, downgrade, is_old, upgrade};

fn old(spec: Value) -> Value {
    json!({
        "apiVersion": OLD, "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"}, "spec": spec,
    })
}

/// A CustomResourceDefinition with the required fields and these.
fn with(more: Value) -> Value {
    let mut spec = json!({
        "group": "stable.example.com", "version": "v1", "scope": "Namespaced",
        "names": {"plural": "crontabs", "kind": "CronTab"},
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    old(spec)
}

fn upgraded(definition: &Value) -> Upgraded {
    let upgraded = upgrade(definition).expect("the CRD must be upgradable");
    assert_eq!(upgraded.definition["apiVersion"], NEW);
    assert!(!is_old(&upgraded.definition));
    for field in
        ["version", "validation", "subresources", "additionalPrinterColumns", "preserveUnknownFields", "shortNames"]
    {
        assert!(upgraded.definition["spec"].get(field).is_none(), "{field} must not stay");
    }
    upgraded
}

fn notes(upgraded: &Upgraded) -> String {
    upgraded.notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Checks the conversion of a schema that already pruned unknown fields, and its notes.
fn check_schema(schema: Value, expected: Expect) {
    let definition = with(json!({"preserveUnknownFields": false, "validation": {"openAPIV3Schema": schema}}));
    let text = match upgrade(&definition) {
        Ok(upgraded) => {
            let schema = &upgraded.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let notes = upgraded.notes.iter().skip(2).map(|note| format!("\n{note}"));
            format!("{schema}{}", notes.collect::<String>())
        }
        Err(error) => format!("error: {error}\nhint: {}", error.hint()),
    };
    expected.assert_eq(&text.replace("spec.versions[0].schema.openAPIV3Schema", "ROOT"));
}

#[test]
fn a_minimal_definition_gets_a_schema_that_allows_everything() {
    let upgraded = upgraded(&with(json!({})));
    expect![[r#"{"group":"stable.example.com","names":{"kind":"CronTab","plural":"crontabs"},"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"served":true,"storage":true}]}"#]].assert_eq(&upgraded.definition["spec"].to_string());
    expect![[r#"
        spec.version v1 is now the only entry of spec.versions, served and stored
        version v1 had no schema: it now has one that allows any field"#]]
    .assert_eq(&notes(&upgraded));
}

#[test]
fn misplaced_names_are_moved_with_a_note() {
    let upgraded = upgraded(&with(json!({"shortNames": ["ct"], "kind": "Other", "plural": "crontabs"})));
    let names = json!({"kind": "CronTab", "plural": "crontabs", "shortNames": ["ct"]});
    assert_eq!(upgraded.definition["spec"]["names"], names);
    expect![[r#"
        spec.plural repeats spec.names.plural and was dropped
        spec.shortNames was moved to spec.names.shortNames
        spec.kind was dropped: spec.names.kind has another value
        spec.version v1 is now the only entry of spec.versions, served and stored
        version v1 had no schema: it now has one that allows any field"#]]
    .assert_eq(&notes(&upgraded));
}

#[test]
fn shared_fields_are_copied_into_each_version() {
    let upgraded = upgraded(&with(json!({
        "version": null,
        "versions": [
            {"name": "v1", "served": true, "storage": true},
            {"name": "v2", "served": true, "storage": false, "subresources": {"status": {}}},
        ],
        "subresources": {"scale": {}},
        "additionalPrinterColumns": [{"name": "Spec", "type": "string", "JSONPath": ".spec.cronSpec"}],
        "preserveUnknownFields": false,
        "validation": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "string"}}}},
    })));
    let versions = &upgraded.definition["spec"]["versions"];
    assert_eq!(versions[0]["subresources"], json!({"scale": {}}));
    assert_eq!(versions[1]["subresources"], json!({"status": {}}));
    for version in [&versions[0], &versions[1]] {
        assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".spec.cronSpec");
        assert!(version["additionalPrinterColumns"][0].get("JSONPath").is_none());
        let schema = json!({"type": "object", "properties": {"spec": {"type": "string"}}});
        assert_eq!(version["schema"]["openAPIV3Schema"], schema);
    }
    expect![[r#"
        spec.versions[1] keeps its own subresources: spec.subresources does not apply to it
        spec.validation, spec.subresources and spec.additionalPrinterColumns moved into the entries of spec.versions"#]]
    .assert_eq(&notes(&upgraded));
}

#[test]
fn unknown_fields_are_preserved_at_every_depth() {
    let schema = json!({"properties": {
        "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {
            "cidr": {"type": "string"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "object"}},
        }},
    }});
    let upgraded = upgraded(&with(json!({"validation": {"openAPIV3Schema": schema}})));
    expect![[r#"{"properties":{"metadata":{"type":"object"},"spec":{"properties":{"cidr":{"type":"string"},"labels":{"additionalProperties":{"type":"string"},"type":"object"},"list":{"items":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"type":"array"}},"type":"object","x-kubernetes-preserve-unknown-fields":true}},"type":"object","x-kubernetes-preserve-unknown-fields":true}"#]]
        .assert_eq(&upgraded.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].to_string());
    assert!(
        notes(&upgraded)
            .contains("unknown fields were kept: the schema now declares x-kubernetes-preserve-unknown-fields")
    );
}

#[test]
fn a_webhook_keeps_its_settings_in_one_place() {
    let client = json!({"service": {"name": "a", "namespace": "b"}});
    let upgraded = upgraded(&with(json!({"conversion": {"strategy": "Webhook", "webhookClientConfig": client}})));
    let expected = json!({
        "strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1beta1"]},
    });
    assert_eq!(upgraded.definition["spec"]["conversion"], expected);
    assert!(notes(&upgraded).contains("conversionReviewVersions is now [v1beta1], the former default"));
    let none = with(json!({"conversion": {"strategy": "None", "conversionReviewVersions": ["v1"]}}));
    let none = upgrade(&none).expect("a definition");
    assert_eq!(none.definition["spec"]["conversion"], json!({"strategy": "None"}));
    assert!(notes(&none).contains("were dropped: the strategy is not Webhook"));
}

#[test]
fn a_protected_group_gets_the_annotation_it_needs() {
    let mut definition = with(json!({"group": "samplecrd.k8s.io"}));
    let annotation =
        |upgraded: &Upgraded| upgraded.definition["metadata"]["annotations"]["api-approved.kubernetes.io"].clone();
    assert_eq!(annotation(&upgraded(&definition)), "unapproved, legacy upgrade");
    assert!(notes(&upgraded(&definition)).contains("the group samplecrd.k8s.io is reserved for Kubernetes"));
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "https://example.com/1"});
    assert_eq!(annotation(&upgraded(&definition)), "https://example.com/1");
    for group in ["notk8s.io", "k8s.io.example.com"] {
        assert_eq!(annotation(&upgraded(&with(json!({"group": group})))), Value::Null);
    }
}

#[test]
fn scope_is_defaulted_and_status_is_dropped() {
    let mut definition = with(json!({"scope": null}));
    definition["status"] = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": []});
    let quiet = upgraded(&definition);
    assert_eq!(quiet.definition["spec"]["scope"], "Namespaced");
    assert!(quiet.definition.get("status").is_none());
    assert!(notes(&quiet).contains("spec.scope was not set") && !notes(&quiet).contains("status"));
    definition["status"]["storedVersions"] = json!(["v1"]);
    assert!(notes(&upgraded(&definition)).contains("status was dropped: only the server sets it"));
}

#[test]
fn missing_types_are_added() {
    check_schema(
        json!({"properties": {
            "apiVersion": {"description": "x"}, "spec": {"required": ["a"], "properties": {
                "a": {"enum": ["x", "y"]}, "b": {"minimum": 1}, "c": {"format": "int32"}, "d": {"items": {"pattern": "x"}},
                "e": {}, "f": {"type": "array"}, "g": {"default": 1.5, "enum": [1]},
            }},
        }}),
        expect![[r#"
            {"properties":{"apiVersion":{"description":"x","type":"string"},"spec":{"properties":{"a":{"enum":["x","y"],"type":"string"},"b":{"minimum":1,"type":"number"},"c":{"format":"int32","type":"integer"},"d":{"items":{"pattern":"x","type":"string"},"type":"array"},"e":{"x-kubernetes-preserve-unknown-fields":true},"f":{"items":{"x-kubernetes-preserve-unknown-fields":true},"type":"array"},"g":{"default":1.5,"enum":[1],"type":"number"}},"required":["a"],"type":"object"}},"type":"object"}
            the missing type was inferred from the other keywords at ROOT.properties[apiVersion], ROOT.properties[spec], ROOT.properties[spec].properties[a] and 5 more places
            no type is declared at ROOT.properties[spec].properties[e]: any value is allowed
            the items of the list are not declared at ROOT.properties[spec].properties[f]: any value is allowed"#]],
    );
}

#[test]
fn types_move_out_of_alternatives() {
    check_schema(
        json!({"properties": {
            "a": {"anyOf": [{"type": "string", "description": "x"}, {"type": "string", "minLength": 1}]},
            "b": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "c": {"type": "object", "oneOf": [{"required": ["x"], "properties": {"x": {"type": "string"}}}, {"required": ["y"]}]},
            "d": {"type": ["string", "null"]},
        }}),
        expect![[r#"
            {"properties":{"a":{"anyOf":[{},{"minLength":1}],"type":"string"},"b":{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true},"c":{"oneOf":[{"properties":{"x":{}},"required":["x"]},{"required":["y"]}],"properties":{"x":{"type":"string"}},"type":"object"},"d":{"nullable":true,"type":"string"}},"type":"object"}
            the type was moved out of allOf, anyOf or oneOf at ROOT.properties[a].anyOf[0], ROOT.properties[a].anyOf[1] and ROOT.properties[c].oneOf[0].properties[x]
            fields declared only in allOf, anyOf, oneOf or not were also declared outside of it at ROOT.properties[c].oneOf[0].properties[x]
            title and description were dropped at ROOT.properties[a].anyOf[0], where they are not allowed
            x-kubernetes-int-or-string was added at ROOT.properties[b]
            the type null was replaced by nullable at ROOT.properties[d]"#]],
    );
}

#[test]
fn only_names_may_be_restricted_in_metadata() {
    check_schema(
        json!({"properties": {"metadata": {
            "description": "x", "properties": {"name": {"maxLength": 9}, "labels": {"type": "object"}},
        }}, "additionalProperties": true}),
        expect![[r#"
            {"properties":{"metadata":{"properties":{"name":{"maxLength":9,"type":"string"}},"type":"object"}},"type":"object","x-kubernetes-preserve-unknown-fields":true}
            the missing type was inferred from the other keywords at ROOT.properties[metadata].properties[name]
            the metadata may only restrict name and generateName: the rest was dropped at ROOT.properties[metadata]
            additionalProperties is not allowed at the root and was dropped at ROOT"#]],
    );
}

#[test]
fn schemas_that_cannot_be_repaired_are_rejected_with_a_hint() {
    check_schema(
        json!({"properties": {"a": {"$ref": "#/definitions/a"}}}),
        expect![[r#"
            error: ROOT.properties[a]: $ref is not supported
            hint: replace the reference with the schema it refers to"#]],
    );
    check_schema(
        json!({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}}}),
        expect![[r#"
            error: ROOT.properties[a].anyOf[0]: the type "string" is not allowed here
            hint: declare the field outside of allOf, anyOf, oneOf and not, and only restrict its values inside"#]],
    );
    let deep = (0..200).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}));
    let error = upgrade(&with(json!({"validation": {"openAPIV3Schema": {"properties": {"a": deep}}}})));
    assert!(error.expect_err("too deep").to_string().ends_with(": the schema is nested too deeply"));
}

#[test]
fn definitions_that_no_server_accepted_are_rejected() {
    let check = |definition: Value, expected: &str| {
        let error = upgrade(&definition).expect_err("it must be rejected");
        assert_eq!(error.to_string(), expected);
        assert!(!error.hint().is_empty());
    };
    check(json!({"kind": "Pod"}), "not a CustomResourceDefinition of apiextensions.k8s.io/v1beta1");
    check(json!({"apiVersion": OLD, "kind": "CustomResourceDefinition", "metadata": {}}), "spec is missing");
    check(with(json!({"version": null})), "spec.versions is missing");
    check(with(json!({"names": null})), "spec.names is missing");
    check(with(json!({"group": null})), "spec.group is missing");
    check(with(json!({"versions": "v1"})), "spec.versions must be a list");
    check(
        with(json!({"versions": [{"name": "v2"}]})),
        "spec.version is \"v1\", but the first entry of spec.versions is \"v2\"",
    );
    assert_eq!(upgrade(&Value::Null), Err(UpgradeError::NotOld));
}

/// Returns whether everything in `part` is also in `whole`; lists must be equal.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|have| is_part(value, have)))
        }
        _ => part == whole,
    }
}

#[test]
fn the_downgraded_form_contains_what_was_written() {
    let column = json!([{"name": "Spec", "type": "string", "JSONPath": ".spec.cronSpec"}]);
    let schema = json!({"openAPIV3Schema": {"properties": {"spec": {"properties": {"cronSpec": {"type": "string"}}}}}});
    // Lists are compared as a whole, so their items must not need a repair.
    let typed = json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let client = json!({"url": "https://example.com"});
    for more in [
        json!({}),
        json!({"validation": schema, "subresources": {"status": {}}, "additionalPrinterColumns": column}),
        json!({"validation": schema, "preserveUnknownFields": false}),
        json!({"versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v2", "served": true, "storage": false}],
            "validation": schema}),
        json!({"versions": [{"name": "v1", "served": true, "storage": true, "schema": typed},
            {"name": "v2", "served": true, "storage": false, "additionalPrinterColumns": column}]}),
        json!({"conversion": {"strategy": "Webhook", "webhookClientConfig": client, "conversionReviewVersions": ["v1"]}}),
    ] {
        let written = with(more);
        let stored = upgraded(&written).definition;
        let back = downgrade(stored.clone());
        assert!(is_part(&written, &back), "{written}\n{back}");
        assert_eq!(upgraded(&back).definition, stored);
    }
}

#[test]
fn a_patch_may_set_legacy_fields() {
    let stored = upgraded(&with(json!({"shortNames": ["ct"]}))).definition;
    let before = downgrade(stored);
    let mut patched = before.clone();
    patched["spec"]["shortNames"] = json!(["cron"]);
    patched["spec"]["version"] = json!("v2");
    apply_legacy_fields(&mut patched, &before);
    let spec = &upgraded(&patched).definition["spec"];
    assert_eq!(spec["names"]["shortNames"], json!(["cron"]));
    assert_eq!(spec["versions"][0]["name"], "v2");
    for odd in [json!(null), json!({"spec": 1}), json!({"spec": {"shortNames": [], "names": 1, "version": 1}})] {
        apply_legacy_fields(&mut odd.clone(), &before);
        downgrade(odd);
    }
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(null)),
        Just(json!("object")),
        Just(json!("a\n")),
        Just(json!(7)),
        Just(json!(["x"])),
    ];
    let key = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "additionalProperties",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "enum",
        "default",
        "metadata",
        "schema",
        "openAPIV3Schema",
        "name",
        "nullable",
        "x-kubernetes-int-or-string",
        "JSONPath",
        "strategy",
        "names",
        "group",
        "version",
        "versions",
        "validation",
        "conversion",
        "preserveUnknownFields",
        "shortNames",
        "annotations",
        "spec",
    ]);
    leaf.prop_recursive(7, 80, 6, move |inner| {
        prop_oneof![
            prop::collection::btree_map(key.clone(), inner.clone(), 0..6)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
        ]
    })
}

proptest! {
    #[test]
    fn no_definition_panics(spec in json_values(), metadata in json_values()) {
        let definition = json!({"apiVersion": OLD, "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec});
        let _ = upgrade(&definition);
    }

    #[test]
    fn no_schema_panics_and_a_structural_one_stays(schema in json_values(), preserve in any::<bool>()) {
        let version = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
        let definition = with(json!({"versions": version, "preserveUnknownFields": preserve}));
        if let Ok(once) = upgrade(&definition) {
            prop_assert!(once.notes.iter().all(|note| !note.0.contains('\n')));
            // The result needs no further repair.
            let mut again = once.definition.clone();
            again["apiVersion"] = OLD.into();
            again["spec"]["preserveUnknownFields"] = false.into();
            let again = upgrade(&again).expect("the upgrade must be idempotent");
            prop_assert_eq!(&again.definition, &once.definition);
            prop_assert!(again.notes.is_empty(), "{:?}", again.notes);
            let back = upgrade(&downgrade(once.definition.clone())).expect("the way back must be upgradable");
            prop_assert_eq!(&back.definition, &once.definition);
        }
    }
}
