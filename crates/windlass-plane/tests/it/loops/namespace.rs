//! Deletion of namespaces.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_plane::{LoopOptions, Loops, Selection};
use windlass_testing::{TestPlane, eventually};

use super::garbage_collector::{custom, custom_object, definition, foreground, map, of_map, set_finalizers};

async fn plane() -> TestPlane {
    TestPlane::builder().controllers("namespace-controller".parse().unwrap()).await
}

fn namespaces(plane: &TestPlane) -> Api<Namespace> {
    Api::all(plane.client())
}

async fn delete(plane: &TestPlane) {
    namespaces(plane).delete(plane.namespace(), &DeleteParams::default()).await.unwrap();
}

async fn gone(plane: &TestPlane) {
    let namespaces = namespaces(plane);
    eventually("the namespace is deleted", async || {
        namespaces.get_opt(plane.namespace()).await.unwrap().is_none().then_some(())
    })
    .await;
}

/// The conditions that explain what blocks the deletion, once there are any.
async fn hindrances(plane: &TestPlane) -> Vec<(String, String)> {
    let namespaces = namespaces(plane);
    eventually("there are conditions", async || {
        let conditions = namespaces.get(plane.namespace()).await.unwrap().status?.conditions?;
        assert_eq!(conditions.len(), 5);
        let holds = conditions.into_iter().filter(|condition| condition.status == "True");
        Some(holds.map(|condition| (condition.type_, condition.message.unwrap_or_default())).collect())
    })
    .await
}

/// A pod bound to a node, so that it must be terminated before it is removed.
async fn bound_pod(plane: &TestPlane, name: &str, more: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": "somewhere", "containers": [{"name": "c", "image": "i"}]},
    });
    json_merge(&mut pod, more);
    let pods: Api<Pod> = plane.api();
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
}

fn json_merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| json_merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

async fn kill(pods: &Api<Pod>, name: &str) {
    pods.delete(name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
}

#[tokio::test]
async fn a_namespace_is_deleted_with_everything_in_it() {
    let plane = plane().await;
    plane.define_as(&definition("foos", "Foo", "Namespaced")).await;
    let (maps, secrets, foos) = (plane.api::<ConfigMap>(), plane.api::<Secret>(), custom(&plane, "foos", "Foo"));
    map(&maps, "map", vec![]).await;
    let mut secret = Secret::default();
    secret.metadata.name = Some("secret".into());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    custom_object(&foos, "Foo", "foo", vec![]).await;
    delete(&plane).await;
    gone(&plane).await;
    for path in ["/api/v1/configmaps", "/api/v1/secrets", "/apis/example.com/v1/foos"] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let list: Value = plane.client().request(request).await.unwrap();
        let left = list["items"].as_array().unwrap().iter();
        assert_eq!(left.filter(|item| item["metadata"]["namespace"] == plane.namespace()).count(), 0, "{path}");
    }
}

#[tokio::test]
async fn a_namespace_with_a_deeply_nested_object_is_deleted() {
    let plane = plane().await;
    plane.define_as(&definition("foos", "Foo", "Namespaced")).await;
    let spec = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
    let body = format!(r#"{{"apiVersion":"example.com/v1","kind":"Foo","metadata":{{"name":"deep"}},"spec":{spec}}}"#);
    let path = format!("/apis/example.com/v1/namespaces/{}/foos", plane.namespace());
    let request = http::Request::post(path).header("content-type", "application/json").body(body.into_bytes());
    plane.client().request_text(request.unwrap()).await.unwrap();
    delete(&plane).await;
    gone(&plane).await;
}

#[tokio::test]
async fn a_recreated_namespace_is_empty_and_stays() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    map(&maps, "map", vec![]).await;
    delete(&plane).await;
    gone(&plane).await;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(plane.namespace().into());
    namespaces(&plane).create(&PostParams::default(), &namespace).await.unwrap();
    assert!(maps.get_opt("map").await.unwrap().is_none());
    map(&maps, "new", vec![]).await;
    delete(&plane).await;
    gone(&plane).await;
}

#[tokio::test]
async fn objects_with_finalizers_block_the_namespace_and_are_reported() {
    let plane = plane().await;
    plane.define_as(&definition("foos", "Foo", "Namespaced")).await;
    let (maps, foos) = (plane.api::<ConfigMap>(), custom(&plane, "foos", "Foo"));
    for name in ["one", "two"] {
        custom_object(&foos, "Foo", name, vec![]).await;
        let patch = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
        foos.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
    map(&maps, "held", vec![]).await;
    set_finalizers(&maps, "held", &["example.com/hold", "example.com/keep"]).await;
    map(&maps, "free", vec![]).await;
    delete(&plane).await;
    let told = [
        (
            "NamespaceContentRemaining".to_owned(),
            "Some resources are remaining: configmaps. has 1 resource instances, foos.example.com has 2 resource \
             instances"
                .to_owned(),
        ),
        (
            "NamespaceFinalizersRemaining".to_owned(),
            "Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances, \
             example.com/keep in 1 resource instances"
                .to_owned(),
        ),
    ];
    assert_eq!(hindrances(&plane).await, told);
    assert!(maps.get_opt("free").await.unwrap().is_none());
    let rejected = maps.create(&PostParams::default(), &ConfigMap::default()).await;
    assert!(rejected.is_err(), "nothing is created while terminating");
    release(&foos, "one").await;
    release(&foos, "two").await;
    set_finalizers(&maps, "held", &[]).await;
    gone(&plane).await;
}

async fn release(foos: &Api<DynamicObject>, name: &str) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    foos.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn pods_are_deleted_before_the_objects_they_depend_on() {
    let plane = plane().await;
    let (maps, pods) = (plane.api::<ConfigMap>(), plane.api::<Pod>());
    map(&maps, "settings", vec![]).await;
    bound_pod(&plane, "pod", json!({})).await;
    delete(&plane).await;
    eventually("the pod is deleted", async || pods.get("pod").await.unwrap().metadata.deletion_timestamp.map(|_| ()))
        .await;
    assert_eq!(hindrances(&plane).await, []);
    maps.get("settings").await.unwrap();
    kill(&pods, "pod").await;
    gone(&plane).await;
}

#[tokio::test]
async fn a_pod_that_terminates_too_slowly_is_reported() {
    let plane = plane().await;
    let pods = plane.api::<Pod>();
    bound_pod(&plane, "pod", json!({"spec": {"terminationGracePeriodSeconds": 0}})).await;
    // It has no finalizer and its grace period is over, but nothing on its node terminates it.
    bound_pod(&plane, "late", json!({"spec": {"terminationGracePeriodSeconds": 1}})).await;
    delete(&plane).await;
    let expected = format!(
        "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: {} for gvr: \
         /v1, Resource=pods",
        plane.namespace()
    );
    let namespaces = namespaces(&plane);
    eventually("it is reported", async || {
        let conditions = namespaces.get(plane.namespace()).await.unwrap().status?.conditions?;
        let told = conditions.iter().find(|condition| condition.type_ == "NamespaceDeletionContentFailure")?;
        (told.status == "True" && told.message.as_deref() == Some(&expected)).then_some(())
    })
    .await;
    kill(&pods, "late").await;
    gone(&plane).await;
}

#[tokio::test]
async fn another_finalizer_keeps_an_empty_namespace() {
    let plane = plane().await;
    let namespaces = namespaces(&plane);
    let kept: Namespace = serde_json::from_value(json!({
        "metadata": {"name": "kept"}, "spec": {"finalizers": ["example.com/b", "kubernetes", "example.com/a"]},
    }))
    .unwrap();
    namespaces.create(&PostParams::default(), &kept).await.unwrap();
    namespaces.delete("kept", &DeleteParams::default()).await.unwrap();
    let mut left = eventually("our finalizer is removed", async || {
        let kept = namespaces.get("kept").await.unwrap();
        let finalizers = kept.spec.clone()?.finalizers?;
        (finalizers == ["example.com/a", "example.com/b"]).then_some(kept)
    })
    .await;
    left.spec = Some(Default::default());
    namespaces.replace_subresource("finalize", "kept", &PostParams::default(), &left).await.unwrap();
    eventually("it is deleted", async || namespaces.get_opt("kept").await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn a_namespace_can_own_objects_and_wait_for_dependents() {
    let plane =
        TestPlane::builder().controllers("namespace-controller,garbage-collector-controller".parse().unwrap()).await;
    let namespaces = namespaces(&plane);
    let owner = map(&plane.api(), "owner", vec![]).await;
    map(&plane.api(), "child", vec![of_map(&owner)]).await;
    namespaces.delete(plane.namespace(), &foreground()).await.unwrap();
    gone(&plane).await;
}

#[tokio::test]
async fn a_restarted_loop_finishes_the_deletion() {
    let plane = TestPlane::builder().controllers(Selection::none()).await;
    let server = plane.server().expect("a test of loops must have its own server").clone();
    let options = LoopOptions { controllers: "namespace-controller".parse().unwrap(), ..LoopOptions::default() };
    let maps = plane.api::<ConfigMap>();
    map(&maps, "held", vec![]).await;
    set_finalizers(&maps, "held", &["example.com/hold"]).await;
    let first = Loops::start(&server, &options);
    delete(&plane).await;
    assert_eq!(hindrances(&plane).await.len(), 2);
    drop(first);
    set_finalizers(&maps, "held", &[]).await;
    let _second = Loops::start(&server, &options);
    gone(&plane).await;
}

#[tokio::test]
async fn two_hundred_namespaces_are_deleted_at_once() {
    let plane = plane().await;
    let namespaces = namespaces(&plane);
    for at in 0..200 {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(format!("many-{at}"));
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        map(&Api::namespaced(plane.client(), &format!("many-{at}")), "map", vec![]).await;
        namespaces.delete(&format!("many-{at}"), &DeleteParams::default()).await.unwrap();
    }
    eventually("all are deleted", async || {
        let left = namespaces.list_metadata(&Default::default()).await.unwrap().items;
        (!left.iter().any(|namespace| namespace.metadata.name.as_ref().unwrap().starts_with("many-"))).then_some(())
    })
    .await;
}
