//! Tests of the API server.

use serde_json::json;

#[test]
fn the_manifests_are_those_of_metrics_server() {
    let versions = metrics_server::extension::extension().group_versions();
    assert_eq!(json!(versions), json!([["metrics.k8s.io", "v1beta1"]]));
}
