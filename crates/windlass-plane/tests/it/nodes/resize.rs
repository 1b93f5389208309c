//! In-place resizes of simulated pods.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually};

use super::simulated::{create, is_ready, pod, until};

fn with_cpu(name: &str, cpu: &str) -> Pod {
    let container = json!({
        "name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
        "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
    });
    pod(name, json!({"containers": [container]}))
}

async fn resize(plane: &TestPlane, name: &str, requests: Value) {
    let patch = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}});
    let params = PatchParams::default();
    plane.api::<Pod>().patch_subresource("resize", name, &params, &Patch::Strategic(patch)).await.unwrap();
}

/// Returns whether the newest resize of a pod is finished.
fn is_resized(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let resizing = conditions.iter().any(|one| one["type"].as_str().unwrap().starts_with("PodResize"));
    pod["status"]["observedGeneration"] == pod["metadata"]["generation"] && !resizing
}

#[tokio::test]
async fn a_resize_changes_the_resources_of_a_container_and_restarts_it_if_its_policy_says_so() {
    let plane = TestPlane::builder().nodes(1).await;
    create(&plane, &with_cpu("web", "1")).await;
    let pods = plane.api::<Pod>();
    eventually("it is ready", async || pods.get("web").await.ok().filter(is_ready)).await;
    resize(&plane, "web", json!({"cpu": "2"})).await;
    let pod = until(&plane, "web", "it is resized", is_resized).await;
    let status = &pod["status"]["containerStatuses"][0];
    let requests = json!({"cpu": "2", "memory": "1Gi"});
    assert_eq!(status["resources"], json!({"requests": requests}));
    assert_eq!((&status["allocatedResources"], &status["restartCount"]), (&requests, &json!(0)));
    assert_eq!(pod["status"]["allocatedResources"], requests);

    resize(&plane, "web", json!({"memory": "2Gi"})).await;
    let pod = until(&plane, "web", "it is resized", is_resized).await;
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(status["resources"]["requests"]["memory"], "2Gi");
    assert_eq!((&status["restartCount"], &status["ready"]), (&json!(1), &json!(true)));
    let events = plane.api::<Event>();
    eventually("there are events", async || {
        let events = events.list(&ListParams::default()).await.ok()?.items;
        let has = |reason: &str| events.iter().any(|event| event.reason.as_deref() == Some(reason));
        (has("ResizeStarted") && has("ResizeCompleted")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_resize_waits_until_its_node_has_room() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    create(&plane, &with_cpu("large", "20")).await;
    create(&plane, &with_cpu("web", "10")).await;
    let pods = plane.api::<Pod>();
    for name in ["large", "web"] {
        eventually("it is ready", async || pods.get(name).await.ok().filter(is_ready)).await;
    }
    resize(&plane, "web", json!({"cpu": "15"})).await;
    let pod = until(&plane, "web", "its resize is deferred", |pod| {
        pod["status"]["observedGeneration"] == pod["metadata"]["generation"] && !is_resized(pod)
    })
    .await;
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let pending = conditions.iter().find(|one| one["type"] == "PodResizePending").unwrap();
    assert_eq!(pending["reason"], "Deferred");
    let message = "Node didn't have enough resource: cpu, requested: 15000, used: 20000, capacity: 32000";
    assert_eq!(pending["message"], message);
    assert_eq!(pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"], "10");

    pods.delete("large", &DeleteParams::default()).await.unwrap();
    let pod = until(&plane, "web", "it is resized", is_resized).await;
    assert_eq!(pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"], "15");
}
