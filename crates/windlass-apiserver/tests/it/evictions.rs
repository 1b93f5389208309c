//! Evictions and PodDisruptionBudgets. The tests set the status of budgets, as no control loop runs.

use serde_json::{Value, json};

use crate::client::{Answer, Client};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn pod(client: &Client, name: &str, ready: &str) {
    let pod = json!({"metadata": {"name": name, "labels": {"app": "e"}}, "spec": {"containers": [
        {"name": "c", "image": "i"}]}});
    client.post(PODS, &pod).await.expect(201);
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    client.merge(&format!("{PODS}/{name}/status"), &status).await.expect(200);
}

async fn budget(client: &Client, name: &str, spec: Value, status: Value) {
    let mut budget = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "e"}}}});
    budget["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    client.post(BUDGETS, &budget).await.expect(201);
    client.merge(&format!("{BUDGETS}/{name}/status"), &json!({"status": status})).await.expect(200);
}

async fn evict(client: &Client, name: &str, options: Value) -> Answer {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name},
        "deleteOptions": options});
    client.post(&format!("{PODS}/{name}/eviction"), &eviction).await
}

fn allowing(disruptions: i64) -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": disruptions, "currentHealthy": 1, "desiredHealthy": 1,
        "expectedPods": 1})
}

#[tokio::test]
async fn a_budget_allows_as_many_disruptions_as_it_has() {
    let client = Client::new().await;
    pod(&client, "a", "True").await;
    pod(&client, "b", "True").await;
    budget(&client, "guard", json!({}), allowing(1)).await;
    evict(&client, "a", json!({"dryRun": ["All"]})).await.expect(201);
    let status = client.get(&format!("{BUDGETS}/guard")).await.expect(200)["status"].clone();
    assert_eq!((&status["disruptionsAllowed"], &status["disruptedPods"]), (&json!(1), &Value::Null));
    evict(&client, "a", json!({})).await.expect(201);
    assert_eq!(client.get(&format!("{PODS}/a")).await.code, 404);
    let status = client.get(&format!("{BUDGETS}/guard")).await.expect(200)["status"].clone();
    assert_eq!(status["disruptionsAllowed"], 0);
    assert!(status["disruptedPods"]["a"].is_string());
    let rejected = evict(&client, "b", json!({})).await.expect(429);
    assert_eq!(
        rejected["details"],
        json!({"causes": [{"reason": "DisruptionBudget",
            "message": "The disruption budget guard needs 1 healthy pods and has 1 currently"}]})
    );
    client.get(&format!("{PODS}/b")).await.expect(200);
}

#[tokio::test]
async fn an_eviction_is_retried_while_its_budget_is_not_up_to_date() {
    let client = Client::new().await;
    pod(&client, "a", "True").await;
    budget(
        &client,
        "guard",
        json!({}),
        json!({"disruptionsAllowed": 5, "currentHealthy": 0, "desiredHealthy": 0,
        "expectedPods": 0}),
    )
    .await;
    let rejected = evict(&client, "a", json!({})).await;
    assert_eq!(rejected.headers["retry-after"], "10");
    let rejected = rejected.expect(429);
    assert_eq!(rejected["details"]["retryAfterSeconds"], 10);
    assert_eq!(
        rejected["details"]["causes"][0]["message"],
        "The disruption budget guard is still being processed by the server."
    );
}

#[tokio::test]
async fn pods_that_do_not_count_are_evicted_without_a_budget() {
    let client = Client::new().await;
    budget(&client, "guard", json!({}), allowing(0)).await;
    // It is not running yet.
    client
        .post(
            PODS,
            &json!({"metadata": {"name": "new", "labels": {"app": "e"}}, "spec": {"containers": [
            {"name": "c", "image": "i"}]}}),
        )
        .await
        .expect(201);
    evict(&client, "new", json!({})).await.expect(201);
    // It is not ready, and enough others are.
    pod(&client, "sick", "False").await;
    evict(&client, "sick", json!({})).await.expect(201);
    for name in ["new", "sick"] {
        assert_eq!(client.get(&format!("{PODS}/{name}")).await.code, 404, "{name}");
    }
}

#[tokio::test]
async fn a_pod_under_two_budgets_cannot_be_evicted() {
    let client = Client::new().await;
    pod(&client, "a", "True").await;
    budget(&client, "one", json!({}), allowing(1)).await;
    budget(&client, "two", json!({}), allowing(1)).await;
    let rejected = evict(&client, "a", json!({})).await;
    assert_eq!(rejected.code, 500);
    assert_eq!(
        rejected.message(),
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
}

#[tokio::test]
async fn an_eviction_with_preconditions_deletes_only_the_pod_that_was_meant() {
    let client = Client::new().await;
    pod(&client, "a", "True").await;
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        assert_eq!(evict(&client, "a", json!({"preconditions": preconditions})).await.code, 409, "{preconditions}");
    }
    let version = client.get(&format!("{PODS}/a")).await.expect(200)["metadata"]["resourceVersion"].clone();
    evict(&client, "a", json!({"preconditions": {"resourceVersion": version}})).await.expect(201);
    assert_eq!(evict(&client, "a", json!({})).await.code, 404);
}

#[tokio::test]
async fn an_evicted_pod_with_a_grace_period_has_a_condition_with_the_reason() {
    let client = Client::new().await;
    pod(&client, "a", "True").await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    client.post(&format!("{PODS}/a/binding"), &binding).await.expect(201);
    evict(&client, "a", json!({})).await.expect(201);
    let pod = client.get(&format!("{PODS}/a")).await.expect(200);
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!(
        (&target["status"], &target["reason"], &target["message"]),
        (&json!("True"), &json!("EvictionByEvictionAPI"), &json!("Eviction API: evicting"))
    );
}

#[tokio::test]
async fn options_of_an_eviction_must_agree_with_those_of_its_request() {
    let client = Client::new().await;
    pod(&client, "a", "True").await;
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    assert_eq!(
        evict(&client, "a", json!({option: true})).await.expect(422)["message"],
        "Eviction.policy \"a\" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid \
         value: true: can not be set for pod eviction, try after removing the option"
    );
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"},
        "deleteOptions": {"dryRun": ["Bogus"]}});
    let path = format!("{PODS}/a/eviction");
    assert_eq!(
        client.post(&format!("{path}?dryRun=All"), &eviction).await.expect(500)["message"],
        "Non-matching dry-run options in request and content: [All] and [Bogus]"
    );
    assert_eq!(
        client.post(&path, &eviction).await.expect(422)["message"],
        "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Bogus\"]: supported values: \"All\""
    );
    let invalid = json!({"propagationPolicy": "Never"});
    let message = evict(&client, "a", invalid.clone()).await.expect(422)["message"].clone();
    assert!(message.as_str().unwrap().contains("propagationPolicy: Unsupported value: \"Never\""), "{message}");
    assert_eq!(evict(&client, "none", invalid).await.code, 404);
    client.get(&format!("{PODS}/a")).await.expect(200);
    evict(&client, "a", json!({option: false})).await.expect(201);
    assert_eq!(client.get(&format!("{PODS}/a")).await.code, 404);
}
