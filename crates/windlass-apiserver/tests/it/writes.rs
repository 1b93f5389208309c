//! Create, update and patch.

use http::Method;
use serde_json::json;

use crate::client::{CONFIG_MAPS, Client, config_map};

#[tokio::test]
async fn a_created_object_can_be_read_back() {
    let client = Client::new().await;
    let created = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert_eq!(created["metadata"]["namespace"], "default");
    assert!(created["metadata"]["uid"].is_string() && created["metadata"]["creationTimestamp"].is_string());
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.expect(200), created);
    let again = client.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!((again.code, again.json()["reason"].as_str()), (409, Some("AlreadyExists")));
}

#[tokio::test]
async fn generated_names_differ_and_begin_alike() {
    let client = Client::new().await;
    let object = json!({"metadata": {"generateName": "job-"}});
    let first = client.post(CONFIG_MAPS, &object).await.expect(201);
    let second = client.post(CONFIG_MAPS, &object).await.expect(201);
    let name = |object: &serde_json::Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    assert_ne!(name(&first), name(&second));
    assert!(name(&first).starts_with("job-") && name(&first).len() == 9);
}

#[tokio::test]
async fn a_name_that_is_taken_although_it_could_be_generated_may_be_tried_again() {
    let client = Client::new().await;
    let mut object = config_map("a");
    object["metadata"]["generateName"] = "a-".into();
    client.post(CONFIG_MAPS, &object).await.expect(201);
    let taken = client.post(CONFIG_MAPS, &object).await;
    assert_eq!(taken.headers["retry-after"], "1");
    let why = "configmaps \"a\" already exists, the server was not able to generate a unique name for the object";
    assert_eq!(taken.expect(409)["message"], why);
}

#[tokio::test]
async fn an_update_from_an_old_copy_is_a_conflict() {
    let client = Client::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut old = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    client.merge(&path, &json!({"data": {"a": "2"}})).await.expect(200);
    old["data"]["b"] = "3".into();
    let rejected = client.put(&path, &old).await;
    assert_eq!((rejected.code, rejected.json()["reason"].as_str()), (409, Some("Conflict")));
    old["metadata"]["resourceVersion"] = "".into();
    assert_eq!(client.put(&path, &old).await.expect(200)["data"], json!({"a": "1", "b": "3"}));
}

#[tokio::test]
async fn concurrent_patches_are_all_applied() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let patches = (0..20).map(|index| {
        let (client, path) = (&client, &path);
        async move { client.merge(path, &json!({"data": {format!("k{index}"): "x"}})).await.expect(200) }
    });
    futures_util::future::join_all(patches).await;
    let data = client.get(&path).await.expect(200)["data"].as_object().unwrap().len();
    assert_eq!(data, 21);
}

#[tokio::test]
async fn an_update_that_changes_nothing_keeps_the_resource_version() {
    let client = Client::new().await;
    let created = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let same = client.put(&format!("{CONFIG_MAPS}/a"), &created).await.expect(200);
    assert_eq!(same, created);
}

#[tokio::test]
async fn every_kind_of_patch_is_applied() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    for (media, patch, want) in [
        (
            "application/json-patch+json",
            json!([{"op": "add", "path": "/data/b", "value": "2"}]),
            json!({"a": "1", "b": "2"}),
        ),
        ("application/merge-patch+json", json!({"data": {"a": null}}), json!({"b": "2"})),
        ("application/strategic-merge-patch+json", json!({"data": {"c": "3"}}), json!({"b": "2", "c": "3"})),
    ] {
        let answer = client.ask(Method::PATCH, &path, &[("content-type", media)], patch.to_string()).await;
        assert_eq!(answer.expect(200)["data"], want, "{media}");
    }
    let apply = [("content-type", "application/apply-patch+yaml")];
    let body = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {d: '4'}}";
    let nobody = client.ask(Method::PATCH, &path, &apply, body).await;
    assert_eq!((nobody.code, nobody.json()["details"]["causes"][0]["field"].clone()), (422, json!("fieldManager")));
    let applied = client.ask(Method::PATCH, &format!("{path}?fieldManager=it"), &apply, body).await;
    assert_eq!(applied.expect(200)["data"], json!({"b": "2", "c": "3", "d": "4"}));
}

#[tokio::test]
async fn strategic_patches_merge_containers_by_name() {
    let client = Client::new().await;
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [
        {"name": "one", "image": "a:1"}, {"name": "two", "image": "b:1"}]}});
    let deployment =
        json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}});
    client.post("/apis/apps/v1/namespaces/default/deployments", &deployment).await.expect(201);
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "b:2"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    let media = [("content-type", "application/strategic-merge-patch+json")];
    let patched = client.ask(Method::PATCH, path, &media, patch.to_string()).await.expect(200);
    let containers = &patched["spec"]["template"]["spec"]["containers"];
    assert_eq!((containers[0]["image"].as_str(), containers[1]["image"].as_str()), (Some("a:1"), Some("b:2")));
    assert_eq!(patched["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let client = Client::new().await;
    let imagined = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.expect(201);
    assert!(imagined["metadata"]["uid"].is_string());
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.code, 404);
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let patched = client.merge(&format!("{path}?dryRun=All"), &json!({"data": {"a": "9"}})).await.expect(200);
    assert_eq!(patched["data"]["a"], "9");
    client.delete(&format!("{path}?dryRun=All")).await.expect(200);
    assert_eq!(client.get(&path).await.expect(200)["data"]["a"], "1");
}

#[tokio::test]
async fn unknown_and_duplicate_fields_warn_or_fail() {
    let client = Client::new().await;
    let body = r#"{"metadata":{"name":"a"},"data":{"x":"1","x":"2"},"dato":1}"#;
    let json = [("content-type", "application/json")];
    let strict = client.ask(Method::POST, &format!("{CONFIG_MAPS}?fieldValidation=Strict"), &json, body).await;
    assert_eq!(strict.code, 400);
    assert!(strict.message().contains("strict decoding error"), "{}", strict.message());
    let warned = client.ask(Method::POST, CONFIG_MAPS, &json, body).await;
    assert_eq!(warned.code, 201);
    let warnings: Vec<_> = warned.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(warnings, [r#"299 - "duplicate field \"data.x\"""#, r#"299 - "unknown field \"dato\"""#]);
    client.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    let ignored = client.ask(Method::POST, &format!("{CONFIG_MAPS}?fieldValidation=Ignore"), &json, body).await;
    assert_eq!((ignored.code, ignored.headers.contains_key("warning")), (201, false));
}

#[tokio::test]
async fn a_wrong_type_is_a_bad_request_with_the_message_of_kube_apiserver() {
    let client = Client::new().await;
    let object = json!({"metadata": {"name": "a"}, "data": {"x": 1}});
    let rejected = client.post(CONFIG_MAPS, &object).await;
    assert_eq!(rejected.code, 400);
    assert_eq!(
        rejected.message(),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field \
         ConfigMap.data of type string"
    );
}

#[tokio::test]
async fn names_and_namespaces_must_agree_with_the_path() {
    let client = Client::new().await;
    let mut object = config_map("a");
    object["metadata"]["namespace"] = "other".into();
    assert_eq!(client.post(CONFIG_MAPS, &object).await.code, 400);
    let missing = client.post("/api/v1/namespaces/nowhere/configmaps", &config_map("a")).await;
    assert_eq!((missing.code, missing.message().as_str()), (404, "namespaces \"nowhere\" not found"));
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert_eq!(client.put(&format!("{CONFIG_MAPS}/a"), &config_map("b")).await.code, 400);
}

#[tokio::test]
async fn a_body_above_three_mebibytes_is_rejected() {
    let client = Client::new().await;
    let mut object = config_map("a");
    object["data"]["a"] = "x".repeat(3 << 20).into();
    assert_eq!(client.post(CONFIG_MAPS, &object).await.code, 413);
}

#[tokio::test]
async fn a_job_shares_the_labels_of_its_template_and_the_writer_owns_them() {
    let client = Client::new().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({"metadata": {"labels": {"app": "x"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"metadata": {"name": "shared"}, "spec": {"template": template}});
    let shared = client.post(jobs, &job).await.expect(201);
    assert_eq!(shared["metadata"]["labels"], shared["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(shared["metadata"]["labels"].as_object().unwrap().len(), 5);
    let owned = &shared["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned["f:metadata"], json!({"f:labels": {".": {}, "f:app": {}}}));
    // Labels of its own are not shared, even if they are the same.
    let job = json!({"metadata": {"name": "own", "labels": {"app": "x"}}, "spec": {"template": template}});
    let own = client.post(jobs, &job).await.expect(201);
    assert_eq!(own["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(own["spec"]["template"]["metadata"]["labels"].as_object().unwrap().len(), 5);
}
