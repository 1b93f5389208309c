//! When and how the server calls webhooks: selectors, conditions, policies, and webhooks for any kind.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use windlass_runtime::{
    cache::parse_selector,
    key::ObjectKey,
    operator::Operator,
    webhook::{
        CallOptions, Denied, FailurePolicy, Operation, RawRequest, RawWebhook, ReinvocationPolicy, Request, Rule,
        Warnings, Webhook,
    },
};
use windlass_testing::TestPlane;

/// Denies everything.
fn deny(_: &Request<ConfigMap>) -> Result<Warnings, Denied> {
    Err(Denied::new("as the test wants"))
}

fn config(name: &str, team: Option<&str>) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    config.metadata.labels = team.map(|team| [("team".to_owned(), team.to_owned())].into());
    config
}

/// Returns whether the object is denied.
async fn is_denied(client: &Client, namespace: &str, config: ConfigMap) -> bool {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    match api.create(&PostParams::default(), &config).await {
        Ok(_) => false,
        Err(error) => {
            assert!(error.to_string().contains("as the test wants"), "{error}");
            true
        }
    }
}

#[tokio::test]
async fn selectors_and_conditions_apply() {
    let plane = TestPlane::builder().await;
    if plane.server().is_none() {
        // A cluster cannot reach the test.
        return;
    }
    let mut watched = Namespace::default();
    watched.metadata.name = Some("watched".to_owned());
    watched.metadata.labels = Some([("watched".to_owned(), "yes".to_owned())].into());
    plane.create(watched).await;
    let webhook = Webhook::<ConfigMap>::new()
        .object_selector(parse_selector("team in (a, b)").unwrap())
        .namespace_selector(parse_selector("watched=yes").unwrap())
        .match_condition("not-free", "object.metadata.name != 'free'")
        .validate(deny);
    let running = plane.run(Operator::new("selective").webhook(webhook));
    running.webhooks_served().await;
    let client = plane.client();
    assert!(is_denied(&client, "watched", config("one", Some("a"))).await);
    assert!(!is_denied(&client, "watched", config("two", Some("c"))).await, "another team");
    assert!(!is_denied(&client, "watched", config("three", None)).await, "no team");
    assert!(!is_denied(&client, plane.namespace(), config("one", Some("a"))).await, "another namespace");
    assert!(!is_denied(&client, "watched", config("free", Some("a"))).await, "the condition is false");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn each_endpoint_has_its_own_failure_policy() {
    let plane = TestPlane::builder().await;
    if plane.server().is_none() {
        return;
    }
    let webhook = |plural: &str| {
        Webhook::<ConfigMap>::new()
            .timeout_seconds(2)
            .match_condition("ours", format!("object.metadata.name.startsWith('{plural}')"))
    };
    let defaults = webhook("defaulted")
        .mutate_path("/mutate-defaulted")
        .default_with(|_: &mut ConfigMap, _: &Request<ConfigMap>| ())
        .mutating(|calls: CallOptions| calls.failure_policy(FailurePolicy::Ignore));
    let rules = webhook("validated").validate_path("/validate-validated").validate(deny);
    let running = plane.run(Operator::new("failing").webhook(defaults).webhook(rules));
    running.webhooks_served().await;
    // There is no server any more.
    running.stop().await.unwrap();
    let api: Api<ConfigMap> = plane.api();
    api.create(&PostParams::default(), &config("defaulted", None)).await.unwrap();
    let error = api.create(&PostParams::default(), &config("validated", None)).await.unwrap_err().to_string();
    assert!(error.contains("failed calling webhook"), "{error}");
    api.create(&PostParams::default(), &config("other", None)).await.unwrap();
}

#[tokio::test]
async fn a_raw_webhook_handles_any_kind() {
    let plane = TestPlane::builder().await;
    if plane.server().is_none() {
        return;
    }
    let rules = [Rule::new("", "configmaps").resource("secrets"), Rule::new("garden.example.com", "*")];
    let marks = RawWebhook::new("marks", rules)
        .mutate(|object: &mut Value, request: &RawRequest| {
            let user = request.user.username.clone().unwrap_or_default();
            object["metadata"]["annotations"]["marked"] = json!(format!("{} by {user}", request.kind.kind));
        })
        .calls(|calls| calls.namespace_selector(parse_selector("kubernetes.io/metadata.name!=raw-system").unwrap()));
    let deletions = RawWebhook::new("deletions", [Rule::new("*", "*").operations([Operation::Delete])])
        .validate(|request: &RawRequest| -> Result<Warnings, Denied> {
            let kept = request.old_object.as_ref().is_some_and(|old| old["metadata"]["labels"]["kept"] == "yes");
            if kept { Err(Denied::new(format!("{} is kept", request.name))) } else { Ok(Warnings::none()) }
        })
        .validating(|calls| calls.match_condition("kept", "has(oldObject.metadata.labels)"));
    let running = plane.run(Operator::new("raw").raw_webhook(marks).raw_webhook(deletions));
    running.webhooks_served().await;

    let marked =
        |annotations: Option<std::collections::BTreeMap<String, String>>| annotations.unwrap()["marked"].clone();
    let made = plane.create(config("one", None)).await;
    let mark = marked(made.metadata.annotations);
    assert!(mark.starts_with("ConfigMap by "), "{mark}");
    let mut secret = Secret::default();
    secret.metadata.name = Some("two".to_owned());
    assert!(marked(plane.create(secret).await.metadata.annotations).starts_with("Secret by "));

    // A kind without a Rust type.
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "beds.garden.example.com"},
        "spec": {"group": "garden.example.com", "scope": "Namespaced", "names": {"plural": "beds", "kind": "Bed"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    plane.define_as(&serde_json::from_value(crd).unwrap()).await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("garden.example.com", "v1", "Bed"));
    let beds: Api<DynamicObject> = Api::namespaced_with(plane.client(), plane.namespace(), &resource);
    let bed = beds.create(&PostParams::default(), &DynamicObject::new("rose", &resource)).await.unwrap();
    assert!(marked(bed.metadata.annotations).starts_with("Bed by "));

    let kept = Patch::Merge(json!({"metadata": {"labels": {"kept": "yes"}}}));
    beds.patch("rose", &PatchParams::default(), &kept).await.unwrap();
    let error = beds.delete("rose", &DeleteParams::default()).await.unwrap_err().to_string();
    assert!(error.contains("rose is kept"), "{error}");
    plane.api::<ConfigMap>().delete("one", &DeleteParams::default()).await.unwrap();
    running.stop().await.unwrap();
}

#[tokio::test]
async fn defaulting_is_called_again_only_if_it_asks_for_it() {
    let plane = TestPlane::builder().await;
    if plane.server().is_none() {
        return;
    }
    let calls: [Arc<AtomicUsize>; 2] = Default::default();
    let counting = |name: &str, policy, count: &Arc<AtomicUsize>| {
        let count = count.clone();
        Webhook::<ConfigMap>::new()
            .mutate_path(format!("/{name}"))
            .match_condition("ours", "object.metadata.name == 'one'")
            .reinvocation_policy(policy)
            .default_with(move |_: &mut ConfigMap, _: &Request<ConfigMap>| {
                count.fetch_add(1, Ordering::SeqCst);
            })
    };
    let changing = Webhook::<ConfigMap>::new()
        .mutate_path("/z-changing")
        .match_condition("ours", "object.metadata.name == 'one'")
        .default_with(|config: &mut ConfigMap, _: &Request<ConfigMap>| {
            config.data.get_or_insert_default().insert("changed".to_owned(), "yes".to_owned());
        });
    let operator = Operator::new("again")
        .webhook(counting("a-never", ReinvocationPolicy::Never, &calls[0]))
        .webhook(counting("b-again", ReinvocationPolicy::IfNeeded, &calls[1]))
        .webhook(changing);
    let running = plane.run(operator);
    running.webhooks_served().await;
    let made = plane.create(config("one", None)).await;
    assert_eq!(made.data.unwrap()["changed"], "yes");
    assert_eq!(calls.each_ref().map(|count| count.load(Ordering::SeqCst)), [1, 2]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn the_hint_for_a_kind_that_a_webhook_does_not_read_names_the_webhook() {
    let plane = TestPlane::builder().await;
    if plane.server().is_none() {
        return;
    }
    let webhook = Webhook::<ConfigMap>::new().match_condition("ours", "object.metadata.name == 'one'").validate(
        |request: &Request<ConfigMap>| -> Result<Warnings, Denied> {
            request.context()?.get::<Secret>(&ObjectKey::namespaced("default", "any"))?;
            Ok(Warnings::none())
        },
    );
    let running = plane.run(Operator::new("forgetful").webhook(webhook));
    running.webhooks_served().await;
    let api: Api<ConfigMap> = plane.api();
    let error = api.create(&PostParams::default(), &config("one", None)).await.unwrap_err().to_string();
    assert!(error.contains("add .reads::<Secret>() to the webhook") && !error.contains(".owns"), "{error}");
    running.stop().await.unwrap();
}
