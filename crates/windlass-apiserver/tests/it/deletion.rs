//! Deletion: finalizers, grace periods, preconditions, propagation policies, collections.

use http::Method;
use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Client, config_map, labelled, names};

async fn delete_with(client: &Client, path: &str, options: Value) -> crate::client::Answer {
    client.ask(Method::DELETE, path, &[("content-type", "application/json")], options.to_string()).await
}

#[tokio::test]
async fn an_object_with_finalizers_stays_until_they_are_removed() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    client.post(CONFIG_MAPS, &object).await.expect(201);
    let marked = client.delete(&path).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let again = client.delete(&path).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], marked["metadata"]["resourceVersion"]);
    client.merge(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(client.get(&path).await.code, 404);
}

#[tokio::test]
async fn preconditions_are_checked() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let object = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert_eq!(delete_with(&client, &path, json!({"preconditions": {"uid": "other"}})).await.code, 409);
    assert_eq!(delete_with(&client, &path, json!({"preconditions": {"resourceVersion": "1"}})).await.code, 409);
    let uid = &object["metadata"]["uid"];
    delete_with(&client, &path, json!({"preconditions": {"uid": uid}})).await.expect(200);
}

#[tokio::test]
async fn options_of_wrong_types_delete_nothing() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    for (options, why) in [
        (
            json!({"dryRun": "All"}),
            "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
        ),
        (
            json!({"gracePeriodSeconds": "x"}),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            json!([]),
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct \
             { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        ),
    ] {
        assert_eq!(delete_with(&client, &path, options).await.expect(400)["message"], why);
    }
    client.get(&path).await.expect(200);
}

#[tokio::test]
async fn the_propagation_policy_becomes_a_finalizer_for_the_garbage_collector() {
    let client = Client::new().await;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let name = policy.to_lowercase();
        client.post(CONFIG_MAPS, &config_map(&name)).await.expect(201);
        let marked = delete_with(&client, &format!("{CONFIG_MAPS}/{name}"), json!({"propagationPolicy": policy})).await;
        assert_eq!(marked.expect(200)["metadata"]["finalizers"], json!([finalizer]));
    }
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    let gone = delete_with(&client, &format!("{CONFIG_MAPS}/b"), json!({"propagationPolicy": "Background"})).await;
    assert_eq!(gone.expect(200)["status"], "Success");
}

#[tokio::test]
async fn jobs_orphan_their_pods_unless_a_policy_is_stated() {
    let client = Client::new().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    for name in ["a", "b"] {
        let job = json!({"metadata": {"name": name}, "spec": {"template": template}});
        client.post(jobs, &job).await.expect(201);
    }
    let marked = client.delete(&format!("{jobs}/a")).await;
    let warning = marked.headers.get("warning").and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert!(warning.contains("child pods are preserved by default when jobs are deleted"), "{warning}");
    assert_eq!(marked.expect(200)["metadata"]["finalizers"], json!(["orphan"]));
    let gone = client.delete(&format!("{jobs}/b?propagationPolicy=Background")).await;
    assert!(gone.headers.get("warning").is_none());
    assert_eq!(gone.expect(200)["status"], "Success");
}

#[tokio::test]
async fn a_scheduled_pod_is_deleted_gracefully_and_an_unscheduled_one_at_once() {
    let client = Client::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, node: Option<&str>| {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        if let Some(node) = node {
            pod["spec"]["nodeName"] = node.into();
        }
        pod
    };
    client.post(pods, &pod("loose", None)).await.expect(201);
    client.delete(&format!("{pods}/loose")).await.expect(200);
    assert_eq!(client.get(&format!("{pods}/loose")).await.code, 404);
    client.post(pods, &pod("bound", Some("n1"))).await.expect(201);
    let marked = client.delete(&format!("{pods}/bound")).await.expect(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    client.delete(&format!("{pods}/bound?gracePeriodSeconds=0")).await.expect(200);
    assert_eq!(client.get(&format!("{pods}/bound")).await.code, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_its_selector() {
    let client = Client::new().await;
    for (name, team) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        client.post(CONFIG_MAPS, &labelled(name, "team", team)).await.expect(201);
    }
    let deleted = client.delete(&format!("{CONFIG_MAPS}?labelSelector=team%3Dred")).await.expect(200);
    assert_eq!(names(&deleted), ["a", "c"]);
    assert_eq!(names(&client.get(CONFIG_MAPS).await.expect(200)), ["b"]);
}

#[tokio::test]
async fn a_terminating_namespace_accepts_no_new_objects() {
    let client = Client::new().await;
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.expect(201);
    client.post("/api/v1/namespaces/n/configmaps", &config_map("left")).await.expect(201);
    let marked = client.delete("/api/v1/namespaces/n").await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    let rejected = client.post("/api/v1/namespaces/n/configmaps", &config_map("a")).await;
    assert_eq!((rejected.code, rejected.json()["reason"].as_str()), (403, Some("Forbidden")));
    let mut finalized = marked.clone();
    finalized["spec"]["finalizers"] = json!([]);
    client.put("/api/v1/namespaces/n/finalize", &finalized).await.expect(200);
    assert_eq!(client.get("/api/v1/namespaces/n").await.code, 404);
    // What is left over cannot be changed, only deleted.
    let left = "/api/v1/namespaces/n/configmaps/left";
    let rejected = client.merge(left, &json!({"data": {"a": "2"}})).await.expect(404);
    assert_eq!(rejected["message"], "namespaces \"n\" not found");
    client.delete(left).await.expect(200);
    let rejected = client.delete("/api/v1/namespaces/default").await;
    assert_eq!(rejected.code, 403);
}

#[tokio::test]
async fn preconditions_can_be_in_the_query() {
    let client = Client::new().await;
    let object = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let [uid, version] = ["uid", "resourceVersion"].map(|field| object["metadata"][field].as_str().unwrap());
    for wrong in ["uid=other", "resourceVersion=1"] {
        client.delete(&format!("{CONFIG_MAPS}/a?{wrong}")).await.expect(409);
    }
    client.delete(&format!("{CONFIG_MAPS}/a?uid={uid}&resourceVersion={version}")).await.expect(200);
}

#[tokio::test]
async fn preconditions_of_namespaces_and_definitions_have_messages_of_their_own() {
    let client = Client::new().await;
    let definition = json!({"metadata": {"name": "as.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"plural": "as", "kind": "A"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    for (path, object, resource) in [
        ("/api/v1/namespaces", json!({"metadata": {"name": "a"}}), "namespaces"),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition,
            "customresourcedefinitions.apiextensions.k8s.io",
        ),
    ] {
        client.post(path, &object).await.expect(201);
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{path}/{name}");
        let stored = client.get(&path).await.expect(200);
        for (field, label, shown) in [("uid", "UID", "uid"), ("resourceVersion", "ResourceVersion", "resourceVersion")]
        {
            let rejected = delete_with(&client, &path, json!({"preconditions": {field: "7"}})).await.expect(409);
            let actual = stored["metadata"][shown].as_str().unwrap();
            assert_eq!(
                rejected["message"],
                format!(
                    "Operation cannot be fulfilled on {resource} \"{name}\": Precondition failed: {label} in \
                     precondition: 7, {label} in object meta: {actual}"
                )
            );
        }
        delete_with(&client, &path, json!({"preconditions": {"uid": stored["metadata"]["uid"]}})).await.expect(200);
    }
}

#[tokio::test]
async fn a_collection_is_deleted_page_by_page() {
    let client = Client::new().await;
    for name in ["a", "b", "c", "d"] {
        let colour = if name == "c" { "blue" } else { "red" };
        client.post(CONFIG_MAPS, &labelled(name, "colour", colour)).await.expect(201);
    }
    let dry = client.delete(&format!("{CONFIG_MAPS}?limit=2&dryRun=All")).await.expect(200);
    assert_eq!((names(&dry), &dry["metadata"]["remainingItemCount"]), (vec!["a".into(), "b".into()], &json!(2)));
    let page = client.delete(&format!("{CONFIG_MAPS}?limit=2&labelSelector=colour%3Dred")).await.expect(200);
    assert_eq!(names(&page), ["a", "b"]);
    let token = page["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&client.get(CONFIG_MAPS).await.expect(200)), ["c", "d"]);
    for (query, why) in [
        ("resourceVersion=x", "invalid resource version: resourceVersion: Invalid value: \"x\""),
        ("continue=x", "invalid continue token"),
        (&*format!("continue={token}&resourceVersion=3"), "specifying resource version is not allowed"),
    ] {
        let rejected = client.delete(&format!("{CONFIG_MAPS}?{query}")).await.expect(400);
        assert!(rejected["message"].as_str().unwrap().starts_with(why), "{rejected}");
    }
    let rest = client.delete(&format!("{CONFIG_MAPS}?labelSelector=colour%3Dred&continue={token}")).await.expect(200);
    assert_eq!((names(&rest), rest["metadata"].get("continue")), (vec!["d".into()], None));
    assert_eq!(names(&client.get(CONFIG_MAPS).await.expect(200)), ["c"]);
}
