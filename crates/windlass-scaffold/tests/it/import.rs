//! Imported types. `UPDATE=1` rewrites the golden files.

use std::{env, fs, path::PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};
use windlass_scaffold::Definition;

#[rustfmt::skip]
#[path = "../../testdata/import/certificate_v1.rs"]
mod certificate_v1;
#[rustfmt::skip]
#[path = "../../testdata/import/cron_tab_v1.rs"]
mod cron_tab_v1;
#[rustfmt::skip]
#[path = "../../testdata/import/cron_tab_v1beta1.rs"]
mod cron_tab_v1beta1;
#[rustfmt::skip]
#[path = "../../testdata/import/cron_workflow_v1alpha1.rs"]
mod cron_workflow_v1alpha1;
#[rustfmt::skip]
#[path = "../../testdata/import/heap_v1.rs"]
mod heap_v1;
#[rustfmt::skip]
#[path = "../../testdata/import/heap_v2.rs"]
mod heap_v2;
#[rustfmt::skip]
#[path = "../../testdata/import/heap_v3.rs"]
mod heap_v3;
#[rustfmt::skip]
#[path = "../../testdata/import/operator_v1api20200601.rs"]
mod operator_v1api20200601;
#[rustfmt::skip]
#[path = "../../testdata/import/price_list_v1.rs"]
mod price_list_v1;
#[rustfmt::skip]
#[path = "../../testdata/import/service_monitor_v1.rs"]
mod service_monitor_v1;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/import")
}

fn manifest(name: &str) -> Value {
    let text = fs::read_to_string(folder().join(format!("{name}.yaml"))).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// Compares the types with the golden file, and their CRD with the imported one.
#[track_caller]
fn check<K: CustomResourceExt>(name: &str, version: &str) {
    let imported = manifest(name);
    let types = Definition::read(&imported).unwrap().types(version).unwrap();
    assert_eq!(types.notes, Vec::<String>::new(), "no schema keyword may be dropped");
    update(name, version, &types.text);

    // Both as parsed by Kubernetes types.
    let imported: CustomResourceDefinition = serde_json::from_value(imported).unwrap();
    let mut imported = serde_json::to_value(imported).unwrap();
    let mut derived = serde_json::to_value(K::crd()).unwrap();
    imported["spec"]["versions"].as_array_mut().unwrap().retain(|one| one["name"] == version);
    for definition in [&mut imported, &mut derived] {
        let names = definition["spec"]["names"].as_object_mut().unwrap();
        names.remove("listKind");
        let kind = names["kind"].as_str().unwrap().to_lowercase();
        names.entry("singular").or_insert_with(|| kind.into());
        let version = &mut definition["spec"]["versions"][0];
        let root = &mut version["schema"]["openAPIV3Schema"];
        // The API server handles these. kube-derive makes the status an `Option`, which is nullable.
        for name in ["apiVersion", "kind", "metadata"] {
            root.get_mut("properties").and_then(Value::as_object_mut).map(|properties| properties.remove(name));
        }
        if let Some(required) = root.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| name != "metadata");
        }
        if let Some(status) = root.pointer_mut("/properties/status") {
            status.as_object_mut().unwrap().remove("nullable");
        }
        normalize(root);
    }
    let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    assert_eq!(text(&derived["spec"]), text(&imported["spec"]));
    assert_eq!(derived["metadata"]["name"], imported["metadata"]["name"]);
}

/// Compares types with the golden file, or rewrites it.
#[track_caller]
fn update(name: &str, version: &str, text: &str) {
    let file = folder().join(format!("{name}_{version}.rs"));
    if env::var_os("UPDATE").is_some_and(|value| !value.is_empty()) {
        fs::write(&file, text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&file).unwrap(), "{} is out of date: rewrite it with UPDATE=1", file.display());
}

/// Removes differences that do not matter to clients.
fn normalize(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("description");
    object.remove("title");
    let implied = [("integer", "int64"), ("number", "double")];
    if implied
        .iter()
        .any(|(of, format)| object.get("type") == Some(&json!(of)) && object.get("format") == Some(&json!(format)))
    {
        object.remove("format");
    }
    if object.get("nullable") == Some(&json!(false)) {
        object.remove("nullable");
    }
    if object.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        object.remove("anyOf");
    }
    if let Some(required) = object.get_mut("required").and_then(Value::as_array_mut) {
        required.sort_by_key(Value::to_string);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(keyword) {
            normalize(inner);
        }
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(normalize);
    }
}

#[test]
fn certificate_types_round_trip_the_crd() {
    check::<certificate_v1::Certificate>("certificate", "v1");
}

#[test]
fn service_monitor_types_round_trip_the_crd() {
    check::<service_monitor_v1::ServiceMonitor>("service_monitor", "v1");
}

#[test]
fn workflow_types_round_trip_the_crd() {
    check::<cron_workflow_v1alpha1::CronWorkflow>("cron_workflow", "v1alpha1");
}

#[test]
fn crontab_types_round_trip_the_crd() {
    check::<cron_tab_v1::CronTab>("cron_tab", "v1");
    check::<cron_tab_v1beta1::CronTab>("cron_tab", "v1beta1");
}

#[test]
fn types_without_a_spec_round_trip_the_crd() {
    check::<price_list_v1::PriceTable>("price_list", "v1");
}

#[test]
fn renamed_types_round_trip_the_crd() {
    check::<operator_v1api20200601::OperatorObject>("operator", "v1api20200601");
}

#[test]
fn schemaless_types_round_trip_the_crd() {
    check::<heap_v1::Heap>("heap", "v1");
    let told = Definition::read(&manifest("heap")).unwrap().types("v2").unwrap();
    assert_eq!(told.notes, ["status: becomes a subresource, unlike in the CRD"]);
    update("heap", "v2", &told.text);
    update("heap", "v3", &Definition::read(&manifest("heap")).unwrap().types("v3").unwrap().text);
    // The schema preserves all fields that the types preserve.
    let told =
        |crd: CustomResourceDefinition| serde_json::to_value(crd).unwrap()["spec"]["versions"][0]["schema"].take();
    for schema in [told(heap_v2::Heap::crd()), told(heap_v3::Heap::crd())] {
        let root = &schema["openAPIV3Schema"];
        assert_eq!(root["x-kubernetes-preserve-unknown-fields"], true, "{root}");
        assert_eq!(root["properties"]["status"]["x-kubernetes-preserve-unknown-fields"], true, "{root}");
    }
}

/// Compares text: duplicate keys would not be visible in a parsed value.
#[track_caller]
fn survives<K: serde::Serialize + serde::de::DeserializeOwned>(object: &Value) {
    let read: K = serde_json::from_str(&object.to_string()).unwrap();
    let written = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), *object);
    for name in ["apiVersion", "kind", "metadata", "spec", "status"] {
        assert_eq!(written.matches(&format!("{name:?}:")).count(), 1, "{name} in {written}");
    }
}

#[test]
fn schemaless_objects_round_trip() {
    let mut heap = json!({
        "apiVersion": "shop.example.org/v1",
        "kind": "Heap",
        "metadata": {"name": "books"},
        "spec": {"size": 3, "of": ["paper", {"ink": null}]},
        "status": {"level": 0.5, "Kind": "full"},
        "data": {"a": "b"},
        "Kind": "not that of the object",
        "rest": true,
    });
    survives::<heap_v1::Heap>(&heap);
    heap["apiVersion"] = "shop.example.org/v2".into();
    survives::<heap_v2::Heap>(&heap);
    heap["status"] = json!("fine");
    survives::<heap_v2::Heap>(&heap);
    heap["apiVersion"] = "shop.example.org/v3".into();
    heap["status"] = json!({"level": 0.5});
    survives::<heap_v3::Heap>(&heap);
}

/// Objects round-trip through the types.
#[test]
fn objects_round_trip_through_the_types() {
    let workflow = json!({
        "apiVersion": "flows.example.org/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": "nightly"},
        "spec": {
            "schedules": ["0 0 * * *"],
            "workflowSpec": {
                "entrypoint": "main",
                "unknown": {"kept": [1, 2]},
                "storage": 5,
                "resources": {"cpu": "100m", "memory": 1000},
                "volumes": [{"name": "work", "emptyDir": {}}],
            },
        },
        "status": {"phase": "Active"},
    });
    let read: cron_workflow_v1alpha1::CronWorkflow = serde_json::from_value(workflow.clone()).unwrap();
    assert_eq!(read.spec.workflow_spec.entrypoint, "main");
    assert_eq!(serde_json::to_value(read).unwrap(), workflow);
    let table = json!({
        "apiVersion": "shop.example.org/v1",
        "kind": "PriceTable",
        "metadata": {"name": "books"},
        "currency": "EUR",
        "prices": {"hardcover": {"amount": 20.5, "since": "2026-01-02T03:04:05Z"}},
    });
    let read: price_list_v1::PriceTable = serde_json::from_value(table.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), table);
}
