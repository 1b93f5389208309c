//! The managed fields of scales.

use expect_test::expect;
use serde_json::{Value, json};
use windlass_merge::apply::{
    path::Path,
    scale::{to_parent, to_scale},
};

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
        "fieldsV1": fields, "time": "2023-11-14T22:13:21Z"})
}

fn paths() -> Vec<(String, Option<Path>)> {
    vec![("apps/v1".to_owned(), Some(Path::fields(["spec", "replicas"]))), ("apps/v2".to_owned(), None)]
}

fn show(entries: Option<Value>) -> String {
    let object = json!({"metadata": {"managedFields": entries}});
    super::format_managed_fields(&object)
}

#[test]
fn managers_of_the_replicas_are_managers_of_the_scale() {
    let parent = [
        entry("applier", "Apply", json!({"f:spec": {"f:replicas": {}, "f:template": {}}})),
        entry("updater", "Update", json!({"f:spec": {"f:replicas": {}}})),
        entry("other", "Update", json!({"f:spec": {"f:template": {}}})),
    ];
    let scale = to_scale(&parent, &paths()).unwrap();
    assert_eq!(scale.as_ref().unwrap()[0]["apiVersion"], "autoscaling/v1");
    expect![[r#"
        Apply applier 13:21Z {"f:spec":{"f:replicas":{}}}
        Update updater 13:21Z {"f:spec":{"f:replicas":{}}}
    "#]]
    .assert_eq(&show(scale));
}

#[test]
fn a_scale_write_takes_the_replicas_from_all_other_managers() {
    let parent = [
        entry("applier", "Apply", json!({"f:spec": {"f:replicas": {}, "f:template": {}}})),
        entry("updater", "Update", json!({"f:spec": {"f:replicas": {}}})),
        entry("other", "Update", json!({"f:spec": {"f:template": {}}})),
    ];
    let mut scaler = entry("scaler", "Update", json!({"f:spec": {"f:replicas": {}}}));
    scaler["apiVersion"] = "autoscaling/v1".into();
    scaler["subresource"] = "scale".into();
    let parent = to_parent(&parent, &[scaler], "apps/v1", &paths()).unwrap();
    assert_eq!(parent.as_ref().unwrap()[1]["apiVersion"], "apps/v1");
    expect![[r#"
        Apply applier 13:21Z {"f:spec":{"f:template":{}}}
        Update scaler/scale - {"f:spec":{"f:replicas":{}}}
        Update other 13:21Z {"f:spec":{"f:template":{}}}
    "#]]
    .assert_eq(&show(parent));
}

#[test]
fn entries_of_versions_without_scale_are_kept_and_those_of_unknown_versions_dropped() {
    let mut without = entry("without", "Update", json!({"f:spec": {"f:replicas": {}}}));
    without["apiVersion"] = "apps/v2".into();
    let mut unknown = without.clone();
    unknown["apiVersion"] = "apps/v3".into();
    let parent = [without, unknown];
    assert_eq!(to_scale(&parent, &paths()), Ok(None));
    expect![[r#"
        Update without 13:21Z {"f:spec":{"f:replicas":{}}}
    "#]]
    .assert_eq(&show(to_parent(&parent, &[], "apps/v1", &paths()).unwrap()));
}
