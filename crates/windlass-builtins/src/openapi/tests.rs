use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{
    Descriptions, Dialect, Sources, Subject, group_version_path, hash, schemas_with_references, v2_document,
    v2_protobuf, v2_text, v2_to_protobuf, v3_document, v3_index, v3_paths, v3_text,
};
use crate::resource::{Resource, Subresource};
use crate::table;
use crate::verb::Verb;

fn documents() -> Vec<(String, Value)> {
    let groups =
        table().groups.iter().flat_map(|group| group.versions.iter().map(|version| (&*group.name, &**version)));
    groups
        .map(|(group, version)| {
            let document =
                v3_document(group, version, Sources::plain(table())).expect("every group version must have a document");
            (group_version_path(group, version), document)
        })
        .collect()
}

pub(super) fn references<'a>(value: &'a Value, into: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(object) => {
            into.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|value| references(value, into));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

/// Checks that every reference points to something in the document.
fn check_references(document: &Value) {
    let mut all = BTreeSet::new();
    references(document, &mut all);
    assert!(!all.is_empty());
    for reference in all {
        let pointer = reference.strip_prefix('#').expect("references must be within the document");
        assert!(document.pointer(pointer).is_some(), "{reference} must be there");
    }
}

fn check_property(schema: &str, property: &str, dialect: Dialect, expected: Expect) {
    let schemas = schemas_with_references([schema.to_owned()], &[], dialect, Sources::plain(table()));
    expected.assert_eq(&schemas[schema]["properties"][property].to_string());
}

#[test]
fn all_references_are_resolved() {
    for (_, document) in documents() {
        check_references(&document);
    }
    check_references(&v2_document(Sources::plain(table())));
}

#[test]
fn a_group_version_has_the_paths_of_its_resources() {
    let document = v3_document("coordination.k8s.io", "v1", Sources::plain(table())).expect("leases");
    let paths: Vec<_> = document["paths"].as_object().expect("paths").keys().cloned().collect();
    expect![[r#"
        /apis/coordination.k8s.io/v1/
        /apis/coordination.k8s.io/v1/leases
        /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases
        /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}
        /apis/coordination.k8s.io/v1/watch/leases
        /apis/coordination.k8s.io/v1/watch/namespaces/{namespace}/leases
        /apis/coordination.k8s.io/v1/watch/namespaces/{namespace}/leases/{name}"#]]
    .assert_eq(&paths.join("\n"));
    assert_eq!(document["info"]["title"], "Kubernetes");
    assert!(v3_document("coordination.k8s.io", "v9", Sources::plain(table())).is_none());
}

#[test]
fn kubectl_finds_field_validation_on_every_patch() {
    let mut kinds = BTreeSet::new();
    for (_, document) in documents() {
        for item in document["paths"].as_object().expect("paths").values() {
            let Some(patch) = item.get("patch").filter(|patch| patch["x-kubernetes-action"] == "patch") else {
                continue;
            };
            // If patch is the only operation, its parameters belong to the path.
            let parameters = [&patch["parameters"], &item["parameters"]];
            let mut parameters = parameters.into_iter().filter_map(Value::as_array).flatten();
            assert!(parameters.any(|one| one["name"] == "fieldValidation" && one["in"] == "query"));
            kinds.insert(patch["x-kubernetes-group-version-kind"].to_string());
        }
    }
    for resource in table().resources.iter().filter(|resource| resource.has_verb(Verb::Patch)) {
        let (group, version, kind) = (&*resource.group, &*resource.version, &*resource.kind);
        assert!(kinds.contains(&json!({"group": group, "version": version, "kind": kind}).to_string()));
    }
}

#[test]
fn operation_ids_are_unique() {
    let document = v2_document(Sources::plain(table()));
    let mut names = BTreeSet::new();
    for item in document["paths"].as_object().expect("paths").values() {
        for (method, operation) in item.as_object().expect("an item").iter().filter(|(name, _)| *name != "parameters") {
            let name = operation["operationId"].as_str().expect("a name");
            assert!(names.insert(name), "{name} must stand once ({method})");
        }
    }
    for name in [
        "listCoreV1PodForAllNamespaces",
        "deleteAppsV1CollectionNamespacedDeployment",
        "connectCoreV1PutNodeProxyWithPath",
        "watchRbacAuthorizationV1ClusterRoleList",
        "replaceCertificatesV1CertificateSigningRequestApproval",
        "createCoreV1NamespacedServiceAccountToken",
    ] {
        assert!(names.contains(name), "{name} must be there");
    }
}

#[test]
fn properties_have_the_extensions_for_patches_and_apply() {
    check_property(
        "io.k8s.api.core.v1.PodSpec",
        "containers",
        Dialect::V3,
        expect![[
            r##"{"items":{"allOf":[{"$ref":"#/components/schemas/io.k8s.api.core.v1.Container"}],"default":{}},"type":"array","x-kubernetes-list-map-keys":["name"],"x-kubernetes-list-type":"map","x-kubernetes-patch-merge-key":"name","x-kubernetes-patch-strategy":"merge"}"##
        ]],
    );
    check_property(
        "io.k8s.api.core.v1.PodSpec",
        "containers",
        Dialect::V2,
        expect![[
            r##"{"items":{"$ref":"#/definitions/io.k8s.api.core.v1.Container"},"type":"array","x-kubernetes-list-map-keys":["name"],"x-kubernetes-list-type":"map","x-kubernetes-patch-merge-key":"name","x-kubernetes-patch-strategy":"merge"}"##
        ]],
    );
    check_property(
        "io.k8s.api.core.v1.ContainerPort",
        "protocol",
        Dialect::V3,
        expect![[r#"{"default":"TCP","enum":["SCTP","TCP","UDP"],"type":"string"}"#]],
    );
    check_property(
        "io.k8s.api.core.v1.PersistentVolumeSpec",
        "claimRef",
        Dialect::V3,
        expect![[
            r##"{"allOf":[{"$ref":"#/components/schemas/io.k8s.api.core.v1.ObjectReference"}],"x-kubernetes-map-type":"granular"}"##
        ]],
    );
    check_property(
        "io.k8s.api.policy.v1.PodDisruptionBudgetSpec",
        "selector",
        Dialect::V2,
        expect![[
            r##"{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector","x-kubernetes-patch-strategy":"replace"}"##
        ]],
    );
}

#[test]
fn the_text_written_piece_by_piece_equals_the_document() {
    let read = |text: &[u8]| serde_json::from_slice::<Value>(text).expect("the text must be JSON");
    let v3 = v3_text("apps", "v1", Sources::plain(table())).expect("apps/v1");
    assert_eq!(read(&v3), v3_document("apps", "v1", Sources::plain(table())).expect("apps/v1"));
    assert!(v3_text("apps", "v9", Sources::plain(table())).is_none());
    let v2 = v2_document(Sources::plain(table()));
    assert_eq!(read(&v2_text(Sources::plain(table()))), v2);
    assert!(v2_protobuf(Sources::plain(table())) == v2_to_protobuf(&v2));
}

/// Descriptions that name what they describe.
pub(super) struct Named;

impl Descriptions for Named {
    fn schema(&self, name: &str) -> Option<&str> {
        name.ends_with(".Lease").then_some("A Lease.")
    }

    fn property(&self, schema: &str, property: &str) -> Option<&str> {
        match (schema.rsplit('.').next()?, property) {
            ("Lease" | "Pod", "apiVersion") => Some("A version."),
            ("Lease" | "Pod", "metadata") => Some("Its metadata."),
            ("LeaseSpec", "renewTime") => Some("A time."),
            ("DeleteOptions", "dryRun") => Some("A dry run."),
            _ => None,
        }
    }
}

#[test]
fn schemas_properties_and_parameters_have_descriptions() {
    let sources = Sources { table: table(), descriptions: &Named };
    let v3 = v3_document("coordination.k8s.io", "v1", sources).expect("leases");
    let v2 = v2_document(sources);
    let lease = "io.k8s.api.coordination.v1.Lease";
    for schemas in [&v3["components"]["schemas"], &v2["definitions"]] {
        assert_eq!(schemas[lease]["description"], "A Lease.");
        assert_eq!(schemas[lease]["properties"]["apiVersion"]["description"], "A version.");
        assert_eq!(schemas[lease]["properties"]["metadata"]["description"], "Its metadata.");
        let list = &schemas[format!("{lease}List")];
        assert_eq!(list["properties"]["apiVersion"]["description"], "A version.");
        assert_eq!(list["properties"]["metadata"]["description"], Value::Null);
    }
    let spec = format!("{lease}Spec");
    let time = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
    assert_eq!(
        v3["components"]["schemas"][&spec]["properties"]["renewTime"],
        json!({"description": "A time.", "allOf": [{"$ref": format!("#/components/schemas/{time}")}]})
    );
    assert_eq!(
        v2["definitions"][&spec]["properties"]["renewTime"],
        json!({"description": "A time.", "$ref": format!("#/definitions/{time}")})
    );
    assert_eq!(v2["parameters"]["dryRun-query-string"]["description"], "A dry run.");
    let create = &v3["paths"]["/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"]["post"];
    let parameters = create["parameters"].as_array().expect("parameters");
    let dry_run = parameters.iter().find(|one| one["name"] == "dryRun").expect("dryRun");
    assert_eq!(dry_run["description"], "A dry run.");
}

#[test]
fn operations_are_described_as_in_kubernetes() {
    let document = v2_document(Sources::plain(table()));
    let paths = &document["paths"];
    let pods = "/api/v1/namespaces/{namespace}/pods";
    let described = [
        ("/apis/apps/v1/", "get"),
        ("/apis/apps/v1/deployments", "get"),
        ("/api/v1/componentstatuses", "get"),
        (pods, "post"),
        (pods, "delete"),
        ("/api/v1/namespaces/{namespace}/endpoints/{name}", "delete"),
        ("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale", "patch"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/eviction", "post"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}", "options"),
        ("/api/v1/watch/pods", "get"),
        ("/api/v1/watch/namespaces/{namespace}/pods/{name}", "get"),
    ];
    let described = described.map(|(path, method)| paths[path][method]["description"].as_str().unwrap_or_default());
    expect![[r#"
        get available resources
        list or watch objects of kind Deployment
        list objects of kind ComponentStatus
        create a Pod
        delete collection of Pod
        delete Endpoints
        partially update scale of the specified Deployment
        create eviction of a Pod
        connect OPTIONS requests to proxy of Pod
        watch individual changes to a list of Pod. deprecated: use the 'watch' parameter with a list operation instead.
        watch changes to an object of kind Pod. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."#]]
    .assert_eq(&described.join("\n"));
}

#[test]
fn the_index_names_documents_by_their_hash() {
    assert_eq!(
        v3_index([("api/v1", "A"), ("apis/apps/v1", "B")]),
        json!({"paths": {
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A"},
            "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=B"},
        }})
    );
    assert_eq!(hash(b""), "6C62272E07BB014262B821756295C58D");
    assert_eq!(hash(b"a"), "D228CB696F1A8CAF78912B704E4A8964");
}

#[test]
fn a_custom_resource_has_paths_without_protobuf_and_old_watches() {
    let resource = Resource {
        group: "parity.example.com".into(),
        version: "v1".into(),
        plural: "boats".into(),
        singular: "boat".into(),
        kind: "Boat".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Verb::ALL.to_vec(),
        storage_version_hash: "".into(),
        deletion_returns_object: false,
        ty: windlass_schema::types::StructId(0),
        subresources: vec![Subresource {
            name: "status".into(),
            group: "".into(),
            version: "".into(),
            kind: "Boat".into(),
            verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
            ty: None,
        }],
    };
    let (object, list) = ("com.example.parity.v1.Boat", Some("com.example.parity.v1.BoatList"));
    let paths = v3_paths(&Subject { resource: &resource, object, list, custom: true }, Sources::plain(table()));
    let names: Vec<_> = paths.keys().cloned().collect();
    expect![[r#"
        /apis/parity.example.com/v1/boats
        /apis/parity.example.com/v1/namespaces/{namespace}/boats
        /apis/parity.example.com/v1/namespaces/{namespace}/boats/{name}
        /apis/parity.example.com/v1/namespaces/{namespace}/boats/{name}/status"#]]
    .assert_eq(&names.join("\n"));
    let patch = &paths["/apis/parity.example.com/v1/namespaces/{namespace}/boats/{name}/status"]["patch"];
    assert_eq!(patch["operationId"], "patchParityExampleComV1NamespacedBoatStatus");
    assert_eq!(patch["tags"], json!(["parityExampleCom_v1"]));
    let types: Vec<_> = patch["requestBody"]["content"].as_object().expect("content").keys().cloned().collect();
    let expected = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    assert_eq!(types, expected);
    let answer = &patch["responses"]["200"]["content"];
    assert_eq!(answer["application/yaml"]["schema"]["$ref"], "#/components/schemas/com.example.parity.v1.Boat");
    assert!(answer.get("application/vnd.kubernetes.protobuf").is_none());
}

#[test]
fn a_document_is_written_in_gnostics_messages() {
    let document = json!({
        "swagger": "2.0",
        "paths": {"/x": {"get": {"parameters": [{"$ref": "#/p"}], "responses": {"401": {"description": "no"}}}}},
        "definitions": {"A": {"type": "object", "required": ["b"], "x-y": [1]}},
    });
    // Document: swagger 1, paths 8, definitions 9, parameters 10, security definitions 13.
    expect![[r#"\n\x032.0B$\x12\"\n\x02/x\x12\x1c\x12\x1aB\x07\x12\x05\n\x03#/pJ\x0f\n\r\n\x03401\x12\x06\n\x04\n\x02noJ%\n#\n\x01A\x12\x1e\x9a\x01\x01b\xb2\x01\x08\n\x06object\xfa\x01\x0c\n\x03x-y\x12\x05\x12\x03[1]R\x00j\x00"#]].assert_eq(&v2_to_protobuf(&document).escape_ascii().to_string());
}
