//! Pod disruption budgets: their status, and evictions.

use std::time::Duration;

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment},
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource,
    api::{DynamicObject, EvictParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually};

fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

async fn budget(plane: &TestPlane, spec: Value) {
    let mut full = json!({"selector": {"matchLabels": {"app": "web"}}});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let budget = from(json!({"metadata": {"name": "guard"}, "spec": full}));
    plane.api::<PodDisruptionBudget>().create(&PostParams::default(), &budget).await.unwrap();
}

/// Waits for the numbers of healthy, desired and expected pods and of allowed disruptions.
async fn until(plane: &TestPlane, numbers: [i32; 4]) -> PodDisruptionBudgetStatus {
    eventually(&format!("the budget is at {numbers:?}"), async || {
        let status = plane.api::<PodDisruptionBudget>().get("guard").await.unwrap().status?;
        let have = [status.current_healthy, status.desired_healthy, status.expected_pods, status.disruptions_allowed];
        (have == numbers.map(Some) && status.observed_generation.is_some()).then_some(status)
    })
    .await
}

fn reason(status: &PodDisruptionBudgetStatus) -> (&str, &str, &str) {
    let condition = &status.conditions.as_ref().unwrap()[0];
    (&condition.status, &condition.reason, &condition.message)
}

/// Creates a ready pod with an owner.
async fn pod(plane: &TestPlane, name: &str, owner: Option<Value>) {
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [
        {"name": "c", "image": "i"}]}});
    if let Some(owner) = owner {
        pod["metadata"]["ownerReferences"] = json!([owner]);
    }
    let pods: Api<Pod> = plane.api();
    pods.create(&PostParams::default(), &from(pod)).await.unwrap();
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

async fn alone() -> TestPlane {
    TestPlane::builder().controllers("disruption-controller".parse().unwrap()).await
}

#[tokio::test]
async fn evictions_use_up_the_allowed_disruptions_of_a_budget() {
    let plane = alone().await;
    budget(&plane, json!({"minAvailable": 1})).await;
    assert_eq!(reason(&until(&plane, [0, 1, 0, 0]).await), ("False", "InsufficientPods", ""));
    pod(&plane, "a", None).await;
    pod(&plane, "b", None).await;
    assert_eq!(reason(&until(&plane, [2, 1, 2, 1]).await), ("True", "SufficientPods", ""));
    let pods: Api<Pod> = plane.api();
    pods.evict("a", &EvictParams::default()).await.unwrap();
    let rejected = pods.evict("b", &EvictParams::default()).await.unwrap_err();
    assert!(matches!(&rejected, kube::Error::Api(status) if status.code == 429), "{rejected}");
    let status = until(&plane, [1, 1, 1, 0]).await;
    assert_eq!(status.disrupted_pods, None, "it has seen the deletion");
}

#[tokio::test]
async fn the_expected_count_comes_from_the_controllers_of_the_pods() {
    let plane = TestPlane::builder().nodes(1).await;
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = from(json!({"metadata": {"name": "web"}, "spec": {"replicas": 5,
        "selector": {"matchLabels": {"app": "web"}}, "template": template}}));
    plane.api::<Deployment>().create(&PostParams::default(), &deployment).await.unwrap();
    budget(&plane, json!({"maxUnavailable": "30%"})).await;
    until(&plane, [5, 3, 5, 2]).await;
}

#[tokio::test]
async fn the_expected_count_of_custom_resources_comes_from_their_scale() {
    let plane = alone().await;
    let definition: CustomResourceDefinition = from(json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    }));
    plane.define_as(&definition).await;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Foo"), "foos");
    let foos: Api<DynamicObject> = Api::namespaced_with(plane.client(), plane.namespace(), &resource);
    let foo = DynamicObject::new("f", &resource).data(json!({"spec": {"replicas": 4}}));
    let uid = foos.create(&PostParams::default(), &foo).await.unwrap().metadata.uid.unwrap();
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Foo", "name": "f", "uid": uid, "controller": true});
    pod(&plane, "a", Some(owner)).await;
    budget(&plane, json!({"minAvailable": "50%"})).await;
    until(&plane, [1, 2, 4, 0]).await;
}

#[tokio::test]
async fn without_a_scale_no_disruption_is_allowed() {
    let plane = alone().await;
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set: DaemonSet = from(json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "web"}},
        "template": template}}));
    let set = plane.api::<DaemonSet>().create(&PostParams::default(), &set).await.unwrap();
    pod(&plane, "a", Some(serde_json::to_value(set.controller_owner_ref(&()).unwrap()).unwrap())).await;
    budget(&plane, json!({"maxUnavailable": 1})).await;
    let failed = eventually("the budget has failed", async || {
        let status = plane.api::<PodDisruptionBudget>().get("guard").await.unwrap().status?;
        status.conditions.is_some().then_some(status)
    });
    let failed = failed.await;
    let expected = "daemonsets.apps does not implement the scale subresource";
    assert_eq!(reason(&failed), ("False", "SyncFailed", expected));
}

#[tokio::test]
async fn a_pod_that_was_evicted_and_stays_counts_again() {
    let plane = TestPlane::builder().controllers("disruption-controller".parse().unwrap()).virtual_time().await;
    budget(&plane, json!({"minAvailable": 0})).await;
    pod(&plane, "a", None).await;
    until(&plane, [1, 0, 1, 1]).await;
    let evicted = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": {"a": now()}}});
    let budgets: Api<PodDisruptionBudget> = plane.api();
    budgets.patch_status("guard", &PatchParams::default(), &Patch::Merge(evicted)).await.unwrap();
    until(&plane, [0, 0, 1, 0]).await;
    plane.advance(Duration::from_secs(150)).await;
    until(&plane, [1, 0, 1, 1]).await;
}

fn now() -> String {
    windlass_clock::now_in_seconds().to_string()
}

#[tokio::test]
async fn a_stale_disruption_target_condition_is_reset() {
    let plane = TestPlane::builder().controllers("disruption-controller".parse().unwrap()).virtual_time().await;
    pod(&plane, "a", None).await;
    let target = json!({"type": "DisruptionTarget", "status": "True", "lastTransitionTime": now()});
    let status = Patch::Strategic(json!({"status": {"conditions": [target]}}));
    let pods: Api<Pod> = plane.api();
    pods.patch_status("a", &PatchParams::default(), &status).await.unwrap();
    let state = async || {
        let conditions = pods.get("a").await.unwrap().status.unwrap().conditions.unwrap();
        conditions.into_iter().find(|condition| condition.type_ == "DisruptionTarget").unwrap().status
    };
    plane.advance(Duration::from_secs(60)).await;
    assert_eq!(state().await, "True");
    plane.advance(Duration::from_secs(70)).await;
    eventually("it is reset", async || (state().await == "False").then_some(())).await;
}
