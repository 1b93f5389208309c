//! The fields around the schemas.

use expect_test::expect;
use serde_json::json;

use super::*;

fn plain() -> Value {
    definition(json!({"type": "object"}))
}

#[test]
fn a_new_definition_gets_names_a_conversion_and_an_empty_status() {
    let object = created(plain());
    let names = json!({"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"});
    assert_eq!(object["spec"]["names"], names);
    assert_eq!(object["spec"]["conversion"], json!({"strategy": "None"}));
    let status = json!({
        "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"],
    });
    assert_eq!(object["status"], status);
    assert_eq!(object["metadata"]["generation"], 1);
    assert_eq!(shown(&CustomResourceDefinition.validate(&object)), "");
    let mut again = object.clone();
    CustomResourceDefinition.default(&mut again);
    assert_eq!(again, object, "defaulting must be idempotent");
}

#[test]
fn the_schema_is_normalized_as_in_kube_apiserver() {
    let mut object = definition(json!({"type": "object", "properties": {"a": {
        "type": "array", "default": [1.0, 2.5],
        "items": {"type": "string", "ghost": 1, "maxLength": 3.0, "nullable": false, "enum": [], "title": ""},
    }}}));
    CustomResourceDefinition.default(&mut object);
    let expected = json!({"type": "array", "default": [1, 2.5], "items": {"type": "string", "maxLength": 3}});
    assert_eq!(object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"], expected);
    let webhook = json!({"/spec/conversion": {"strategy": "Webhook", "webhook": {}}});
    let mut object = changed(&plain(), webhook);
    CustomResourceDefinition.default(&mut object);
    assert_eq!(object["spec"]["conversion"], json!({"strategy": "Webhook"}));
}

#[test]
fn names_group_scope_and_versions_are_validated() {
    check(
        changed(
            &plain(),
            json!({
                "/metadata/name": "boats.example", "/metadata/generateName": "b-",
                "/spec/group": "Harbour", "/spec/scope": "Galaxy",
                "/spec/names": {"plural": "boats", "singular": "the-boat-", "kind": "Boat", "listKind": "Boat",
                    "shortNames": ["b", "B"], "categories": ["a b"]},
            }),
        ),
        expect![[r#"
            metadata.generateName: Invalid value: "b-": must be spec.names.plural+"."+spec.group
            metadata.name: Invalid value: "boats.example": must be spec.names.plural+"."+spec.group
            spec.group: Invalid value: "Harbour": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"
            spec.names.singular: Invalid value: "the-boat-": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.names.shortNames[1]: Invalid value: "B": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            spec.names.listKind: Invalid value: "Boat": kind and listKind may not be the same
            spec.names.categories[0]: Invalid value: "a b": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
        "#]],
    );
    let versions = json!([
        {"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
        {"name": "v2", "served": true, "storage": true, "deprecationWarning": "<old>"},
    ]);
    check(
        changed(&plain(), json!({"/spec/versions": versions})),
        expect![[r#"
            spec.versions[1].schema.openAPIV3Schema: Required value
            spec.versions[1].deprecationWarning: Invalid value: "\u003cold\u003e": can only be set for deprecated versions
            spec.versions: Invalid value: [{"Name":"v2","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":{"OpenAPIV3Schema":{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,"Format":"","Title":"","Default":null,"Maximum":null,"ExclusiveMaximum":false,"Minimum":null,"ExclusiveMinimum":false,"MaxLength":null,"MinLength":null,"Pattern":"","MaxItems":null,"MinItems":null,"UniqueItems":false,"MultipleOf":null,"Enum":null,"MaxProperties":null,"MinProperties":null,"Required":null,"Items":null,"AllOf":null,"OneOf":null,"AnyOf":null,"Not":null,"Properties":null,"AdditionalProperties":null,"PatternProperties":null,"Dependencies":null,"AdditionalItems":null,"Definitions":null,"ExternalDocs":null,"Example":null,"XPreserveUnknownFields":null,"XEmbeddedResource":false,"XIntOrString":false,"XListMapKeys":null,"XListType":null,"XMapType":null,"XValidations":null}},"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"v2","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":"\u003cold\u003e","Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must contain unique version names
            spec.versions: Invalid value: [{"Name":"v2","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":{"OpenAPIV3Schema":{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,"Format":"","Title":"","Default":null,"Maximum":null,"ExclusiveMaximum":false,"Minimum":null,"ExclusiveMinimum":false,"MaxLength":null,"MinLength":null,"Pattern":"","MaxItems":null,"MinItems":null,"UniqueItems":false,"MultipleOf":null,"Enum":null,"MaxProperties":null,"MinProperties":null,"Required":null,"Items":null,"AllOf":null,"OneOf":null,"AnyOf":null,"Not":null,"Properties":null,"AdditionalProperties":null,"PatternProperties":null,"Dependencies":null,"AdditionalItems":null,"Definitions":null,"ExternalDocs":null,"Example":null,"XPreserveUnknownFields":null,"XEmbeddedResource":false,"XIntOrString":false,"XListMapKeys":null,"XListType":null,"XMapType":null,"XValidations":null}},"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"v2","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":"\u003cold\u003e","Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must have exactly one version marked as storage version
            status.storedVersions: Invalid value: ["v2"]: must have the storage version v2
        "#]],
    );
}

#[test]
fn columns_subresources_and_selectable_fields_point_into_objects() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "hull": {"type": "string"}, "crew": {"type": "array", "items": {"type": "string"}},
            "cargo": {"type": "object", "additionalProperties": {"type": "integer"}},
        }},
    }});
    let fields: Vec<_> =
        [".spec.hull", ".spec.crew", ".spec.cargo.tons", ".spec.hull", ".hull", ".spec[0]", ".", "spec"]
            .map(|path| json!({"jsonPath": path}))
            .into();
    let columns = json!([
        {"name": "Hull", "type": "string", "jsonPath": ".spec.hull"},
        {"type": "text", "format": "long", "jsonPath": "spec"},
        {"name": "Last", "type": "", "jsonPath": ""},
    ]);
    let scale = json!({"specReplicasPath": ".status.boats", "statusReplicasPath": "", "labelSelectorPath": ".other"});
    check(
        changed(
            &definition(schema),
            json!({
                "/spec/versions/0/selectableFields": fields,
                "/spec/versions/0/additionalPrinterColumns": columns,
                "/spec/versions/0/subresources": {"scale": scale},
            }),
        ),
        expect![[r#"
            spec.subresources.scale.specReplicasPath: Invalid value: ".status.boats": should be a json path under .spec
            spec.subresources.scale.statusReplicasPath: Required value
            spec.subresources.scale.labelSelectorPath: Invalid value: ".other": should be a json path under either .spec or .status
            spec.additionalPrinterColumns[1].name: Required value
            spec.additionalPrinterColumns[1].type: Invalid value: "text": must be one of boolean,date,integer,number,string
            spec.additionalPrinterColumns[1].format: Invalid value: "long": must be one of byte,date,date-time,double,float,int32,int64,password
            spec.additionalPrinterColumns[1].JSONPath: Invalid value: "spec": must be a simple json path starting with .
            spec.additionalPrinterColumns[2].type: Required value: must be one of boolean,date,integer,number,string
            spec.additionalPrinterColumns[2].JSONPath: Required value
            spec.selectableFields[1].jsonPath: Invalid value: ".spec.crew": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.
            spec.selectableFields[3].jsonPath: Duplicate value: ".spec.hull"
            spec.selectableFields[4].jsonPath: Invalid value: ".hull": is an invalid path: does not refer to a valid field
            spec.selectableFields[5].jsonPath: Invalid value: ".spec[0]": is an invalid path: array notation is not allowed
            spec.selectableFields[6].jsonPath: Invalid value: ".": is an invalid path: unexpected end of JSON path
            spec.selectableFields[7].jsonPath: Invalid value: "spec": is an invalid path: expected [ or . but got: spec
        "#]],
    );
}

#[test]
fn a_conversion_webhook_has_one_address_and_a_known_review_version() {
    let webhook = |config: Value, versions: Value| {
        let webhook = json!({"clientConfig": config, "conversionReviewVersions": versions});
        changed(&plain(), json!({"/spec/conversion": {"strategy": "Webhook", "webhook": webhook}}))
    };
    check(
        webhook(json!({"url": "http://me@host/?a=b#c"}), json!(["v9", "v9"])),
        expect![[r#"
            spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]
            spec.conversion.webhookClientConfig.url: Invalid value: "me": user information is not permitted in the URL
            spec.conversion.webhookClientConfig.url: Invalid value: "c": fragments are not permitted in the URL
            spec.conversion.webhookClientConfig.url: Invalid value: "a=b": query parameters are not permitted in the URL
            spec.conversion.conversionReviewVersions[1]: Invalid value: "v9": duplicate version
            spec.conversion.conversionReviewVersions: Invalid value: ["v9","v9"]: must include at least one of v1, v1beta1
        "#]],
    );
    check(
        webhook(json!({"url": "https://host:x/", "caBundle": "bm90IGEgYnVuZGxl"}), json!(["v1"])),
        expect![[r#"
            spec.conversion.webhookClientConfig.url: Required value: url must be a valid URL: parse "https://host:x/": invalid port ":x" after host; desired format: https://host[/path]
        "#]],
    );
    check(
        webhook(json!({"service": {"name": "", "namespace": "ns", "path": "a//B/", "port": 0}}), json!(["v1"])),
        expect![[r#"
            spec.conversion.webhookClientConfig.service.namespace: Required value
            spec.conversion.webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive
            spec.conversion.webhookClientConfig.service.path: Invalid value: "a//B/": must start with a '/'
            spec.conversion.webhookClientConfig.service.path: Invalid value: "a//B/": segment[0] may not be empty
            spec.conversion.webhookClientConfig.service.path: Invalid value: "a//B/": segment[1] may not be empty
            spec.conversion.webhookClientConfig.service.path: Invalid value: "a//B/": segment[2]: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        "#]],
    );
    let both = json!({"url": "https://h", "service": {"name": "n", "namespace": "ns"}});
    check(
        webhook(both, json!([])),
        expect![[r#"
            spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required
            spec.conversion.conversionReviewVersions: Required value
        "#]],
    );
}

#[test]
fn new_unknown_formats_cause_warnings() {
    let format = |format| json!({"type": "object", "properties": {"a": {"type": "string", "format": format}}});
    let (old, new) = (created(definition(format("knots"))), created(definition(format("fathoms"))));
    assert_eq!(CustomResourceDefinition.warnings(&old, None), ["unrecognized format \"knots\""]);
    assert_eq!(CustomResourceDefinition.warnings(&new, Some(&old)), ["unrecognized format \"fathoms\""]);
    assert!(CustomResourceDefinition.warnings(&old, Some(&old)).is_empty());
    assert!(CustomResourceDefinition.warnings(&created(definition(format("date-time"))), None).is_empty());
}
