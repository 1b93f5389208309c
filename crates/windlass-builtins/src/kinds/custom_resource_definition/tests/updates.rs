//! Updates of CRDs.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn stored(object: Value, established: &str) -> Value {
    let conditions = json!([{"type": "Established", "status": established}]);
    changed(&created(object), json!({"/status/conditions": conditions}))
}

fn check_update(mut new: Value, old: &Value, expect: Expect) {
    CustomResourceDefinition.default(&mut new);
    CustomResourceDefinition.prepare_for_update(&mut new, old, &WriteContext::test());
    expect.assert_eq(&shown(&CustomResourceDefinition.validate_update(&new, old)));
}

#[test]
fn group_scope_and_names_never_change() {
    let plain = definition(json!({"type": "object"}));
    let changes = json!({
        "/spec/group": "port.example.com", "/spec/scope": "Cluster",
        "/spec/names": {"plural": "ships", "kind": "Ship"},
    });
    check_update(
        changed(&plain, changes.clone()),
        &stored(plain.clone(), "True"),
        expect![[r#"
            spec.scope: Invalid value: "Cluster": field is immutable
            spec.names.kind: Invalid value: "Ship": field is immutable
            spec.group: Invalid value: "port.example.com": field is immutable
            spec.names.plural: Invalid value: "ships": field is immutable
        "#]],
    );
    check_update(
        changed(&plain, changes),
        &stored(plain, "False"),
        expect![[r#"
            spec.group: Invalid value: "port.example.com": field is immutable
            spec.names.plural: Invalid value: "ships": field is immutable
        "#]],
    );
}

#[test]
fn versions_of_stored_objects_cannot_be_removed() {
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let old = stored(definition(json!({"type": "object"})), "True");
    let mut new = changed(&old, json!({"/spec/versions": [version("v1", false), version("v2", true)], "/status": {}}));
    CustomResourceDefinition.prepare_for_update(&mut new, &old, &WriteContext::test());
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(shown(&CustomResourceDefinition.validate_update(&new, &old)), "");
    check_update(
        changed(&new, json!({"/spec/versions": [version("v2", true)]})),
        &new,
        expect![[r#"
            status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions
        "#]],
    );
}

#[test]
fn values_that_were_already_invalid_may_stay() {
    let set = json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "set",
        "items": {"type": "object", "nullable": true}}}});
    let old = stored(definition(set.clone()), "True");
    assert_ne!(shown(&CustomResourceDefinition.validate(&created(definition(set.clone())))), "");
    check_update(definition(set), &old, expect![""]);
    let ghost = |knots: i64| {
        json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"knots": {"type": "integer"}}, "default": {"knots": knots, "ghost": 1}},
        }})
    };
    check_update(definition(ghost(2)), &stored(definition(ghost(1)), "True"), expect![""]);
    let preserve = json!({"/spec/preserveUnknownFields": true});
    let loose = changed(&definition(json!({"properties": {"a": {"type": "blob"}}})), preserve.clone());
    check_update(loose.clone(), &stored(loose.clone(), "True"), expect![""]);
    check_update(
        loose,
        &stored(definition(json!({"type": "object"})), "True"),
        expect![[r#"
            spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root
            spec.validation.openAPIV3Schema.properties[a].type: Unsupported value: "blob": supported values: "array", "boolean", "integer", "number", "object", "string"
            spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead
        "#]],
    );
    let fields = |count: usize| {
        let names: Vec<_> = (0..count).map(|index| format!("f{index}")).collect();
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
        let selectable: Vec<_> = names.iter().map(|name| json!({"jsonPath": format!(".{name}")})).collect();
        let schema = json!({"type": "object", "properties": properties});
        changed(&definition(schema), json!({"/spec/versions/0/selectableFields": selectable}))
    };
    check_update(fields(9), &stored(fields(9), "True"), expect![""]);
    check_update(
        fields(10),
        &stored(fields(9), "True"),
        expect![[r#"
            spec.selectableFields: Too many: 10: must have at most 8 items
        "#]],
    );
}

#[test]
fn a_served_definition_needs_a_valid_ca_bundle() {
    let webhook = |bundle: &str| {
        let config = json!({"url": "https://host/", "caBundle": bundle});
        let webhook = json!({"clientConfig": config, "conversionReviewVersions": ["v1"]});
        let conversion = json!({"strategy": "Webhook", "webhook": webhook});
        changed(&definition(json!({"type": "object"})), json!({"/spec/conversion": conversion}))
    };
    let plain = definition(json!({"type": "object"}));
    check_update(webhook("Ym9hdA=="), &stored(plain.clone(), "False"), expect![""]);
    check_update(webhook("Ym9hdA=="), &stored(webhook("c2hpcA=="), "True"), expect![""]);
    check_update(
        webhook("Ym9hdA=="),
        &stored(plain, "True"),
        expect![[r#"
            spec.conversion.webhookClientConfig.caBundle: Invalid value: "Ym9hdA==": unable to load root certificates: unable to parse bytes as PEM block
        "#]],
    );
}

#[test]
fn a_status_update_validates_names_and_keeps_the_spec() {
    let old = stored(definition(json!({"type": "object"})), "True");
    let mut new = changed(
        &old,
        json!({"/status/acceptedNames": {"plural": "Boats", "kind": "Boat"}, "/spec/group": "other.example.com"}),
    );
    CustomResourceDefinition.prepare_for_subresource_update("status", &mut new, &old, &WriteContext::test());
    assert_eq!(new["spec"], old["spec"]);
    expect![[r#"
        status.acceptedNames.plural: Invalid value: "Boats": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
    "#]]
    .assert_eq(&shown(&CustomResourceDefinition.validate_subresource_update("status", &new, &old)));
}

#[test]
fn definitions_in_groups_of_the_community_name_their_approval() {
    let protected = |approval: Value| {
        let changes = json!({
            "/metadata/name": "boats.harbour.k8s.io", "/spec/group": "harbour.k8s.io",
            "/metadata/annotations": {"api-approved.kubernetes.io": approval},
        });
        changed(&definition(json!({"type": "object"})), changes)
    };
    check(
        protected(json!("soon")),
        expect![[r#"
            metadata.annotations[api-approved.kubernetes.io]: Invalid value: "soon": protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111
        "#]],
    );
    check(protected(json!("unapproved, a toy")), expect![""]);
    check(protected(json!("https://example.com/1")), expect![""]);
    check_update(protected(json!("later")), &stored(protected(json!("soon")), "True"), expect![""]);
    check_update(
        protected(json!("")),
        &stored(protected(json!("https://example.com/1")), "True"),
        expect![[r#"
            metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111
        "#]],
    );
}
