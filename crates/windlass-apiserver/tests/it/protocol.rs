//! Paths, methods, media types, discovery.

use std::sync::Arc;

use http::Method;
use serde_json::json;
use windlass_apiserver::Server;
use windlass_store::MemoryStore;

use crate::client::{CONFIG_MAPS, Client, config_map};

#[tokio::test]
async fn unknown_paths_are_answered_as_by_kube_apiserver() {
    let client = Client::new().await;
    for (path, plain) in [
        ("/nonsense", true),
        ("/apis/none.example.com/v1/things", true),
        ("/api/v2", false),
        ("/api/v1/namespaces/default/widgets", false),
        ("/api/v1/namespaces/default/configmaps/x/nonsense", false),
        ("/api/v1/configmaps/x", false),
        // A namespace in a namespace, to which the roles of the latter would apply.
        ("/api/v1/namespaces/default/namespaces/kube-system", false),
        ("/api/v1/namespaces/default/namespaces/default", false),
        ("/api/v1/namespaces/default/namespaces", false),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.code, 404, "{path}");
        assert_eq!(answer.raw == "404 page not found\n", plain, "{path}");
    }
    for (method, path) in [(Method::PUT, CONFIG_MAPS), (Method::POST, "/api/v1/namespaces/default/configmaps/x")] {
        assert_eq!(client.ask(method, path, &[], "{}").await.code, 405);
    }
}

#[tokio::test]
async fn paths_without_resources_are_served_for_the_methods_of_kube_apiserver() {
    let client = Client::new().await;
    for (method, path, code) in [
        (Method::POST, "/", 200),
        (Method::GET, "/index.html", 200),
        (Method::OPTIONS, "/apis", 200),
        (Method::POST, "/apis/apps/", 200),
        (Method::POST, "/apis/none.example.com", 404),
        (Method::POST, "/apis/apps/v2", 404),
        (Method::POST, "/apis/apps/v1", 405),
        (Method::HEAD, "/api/v1", 405),
        (Method::HEAD, "/apis", 200),
        (Method::PUT, "/version", 405),
        (Method::HEAD, "/version", 405),
        (Method::GET, "/healthz/", 404),
        (Method::GET, "/metrics/", 404),
        (Method::GET, "/openapi/v2/", 404),
    ] {
        assert_eq!(client.ask(method.clone(), path, &[], "").await.code, code, "{method} {path}");
    }
    let chart = [("accept", "application/json;as=Chart;v=v1;g=meta.k8s.io")];
    for path in ["/apis/apps", "/apis/apps/v1"] {
        assert_eq!(client.ask(Method::GET, path, &chart, "").await.code, 406, "{path}");
    }
    assert_eq!(client.ask(Method::GET, "/version", &[("accept", "application/yaml")], "").await.code, 406);
    let answer = client.get(&format!("{CONFIG_MAPS}/..")).await;
    assert_eq!(answer.expect(400)["message"], "Name parameter invalid: \"..\": may not be '..'");
}

#[tokio::test]
async fn bodies_without_a_kind_are_rejected_with_the_message_of_kube_apiserver() {
    let client = Client::new().await;
    for (body, why) in [
        (
            "[]",
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct",
        ),
        (r#"{"apiVersion": 1}"#, "json: cannot unmarshal number into Go struct field .apiVersion of type string"),
        (r#"{"apiVersion": "a/b/c", "kind": "Foo"}"#, "unexpected GroupVersion string: a/b/c"),
        (r#"{"apiVersion": "v1", "kind": "List"}"#, "converting (v1.List) to (core.ConfigMap): unknown conversion"),
        (
            r#"{"apiVersion": "v1", "kind": "ConfigMapList"}"#,
            "converting (v1.ConfigMapList) to (core.ConfigMap): unknown conversion",
        ),
    ] {
        let answer = client.ask(Method::POST, CONFIG_MAPS, &[("content-type", "application/json")], body).await;
        let rejected = answer.expect(400);
        let message = rejected["message"].as_str().unwrap();
        assert!(message.contains(why), "{body}: {message}");
    }
}

#[tokio::test]
async fn bodies_come_as_yaml_and_protobuf_too() {
    let client = Client::new().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-yaml}\ndata:\n  a: |\n    two\n    lines\n";
    let created = client.ask(Method::POST, CONFIG_MAPS, &[("content-type", "application/yaml")], yaml).await;
    assert_eq!(created.expect(201)["data"]["a"], "two\nlines\n");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p"}, "data": {"a": "1"}});
    let bytes = windlass_builtins::protobuf::encode_object(&object, windlass_builtins::table()).unwrap();
    let media = [("content-type", "application/vnd.kubernetes.protobuf")];
    assert_eq!(client.ask(Method::POST, CONFIG_MAPS, &media, bytes).await.expect(201)["data"]["a"], "1");
    let path = format!("{CONFIG_MAPS}/p");
    let accept = [("accept", "application/vnd.kubernetes.protobuf")];
    let answer = client.ask(Method::GET, &path, &accept, "").await;
    assert_eq!(answer.headers["content-type"], "application/vnd.kubernetes.protobuf");
    let decoded = windlass_builtins::protobuf::decode(&answer.raw, windlass_builtins::table()).unwrap();
    assert_eq!(decoded.value["data"]["a"], "1");
    let answer = client.ask(Method::GET, &path, &[("accept", "application/yaml")], "").await;
    assert!(answer.raw.starts_with(b"apiVersion: v1\n"), "{:?}", answer.raw);
    let xml = client.ask(Method::POST, CONFIG_MAPS, &[("content-type", "application/xml")], "<a/>").await;
    assert_eq!(xml.code, 415);
    assert_eq!(client.ask(Method::GET, &path, &[("accept", "text/html")], "").await.code, 406);
}

#[tokio::test]
async fn tables_and_metadata_are_made_of_lists() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let accept = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let table = client.ask(Method::GET, CONFIG_MAPS, &accept, "").await.expect(200);
    let columns: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    let created = client.ask(Method::POST, &path, &accept, config_map("b").to_string()).await.expect(201);
    assert_eq!(created["metadata"], json!({}));
    let accept = [("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    let empty = client.ask(Method::GET, &format!("{CONFIG_MAPS}?labelSelector=none"), &accept, "").await.expect(200);
    assert_eq!(empty.get("items"), Some(&json!(null)));
    let list = client.ask(Method::GET, CONFIG_MAPS, &accept, "").await.expect(200);
    assert_eq!((list["kind"].as_str(), &list["items"][0]["data"]), (Some("PartialObjectMetadataList"), &json!(null)));
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn items_have_no_kind_for_clients_that_prefer_protobuf() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    // As client-go's metadata client does: in protobuf, items have no kind, and objects of their own have one.
    let accept = |form: &str| {
        let form = format!("as={form};g=meta.k8s.io;v=v1");
        format!("application/vnd.kubernetes.protobuf;{form},application/json;{form},application/json")
    };
    let get = async |path: &str, form: &str| {
        client.ask(Method::GET, path, &[("accept", &accept(form))], "").await.expect(200)
    };
    let list = get(CONFIG_MAPS, "PartialObjectMetadataList").await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    let object = get(&format!("{CONFIG_MAPS}/a"), "PartialObjectMetadata").await;
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!(list["items"][0], json!({"metadata": object["metadata"]}));
}

#[tokio::test]
async fn large_responses_are_compressed_for_clients_that_accept_it() {
    let client = Client::new().await;
    let mut object = config_map("a");
    object["data"]["a"] = "x".repeat(200_000).into();
    client.post(CONFIG_MAPS, &object).await.expect(201);
    let zipped = client.ask(Method::GET, CONFIG_MAPS, &[("accept-encoding", "gzip")], "").await;
    assert_eq!(zipped.headers["content-encoding"], "gzip");
    let one = client.ask(Method::GET, &format!("{CONFIG_MAPS}/a"), &[("accept-encoding", "gzip")], "").await;
    assert_eq!(one.headers["content-encoding"], "gzip");
    assert!(zipped.raw.len() < 10_000);
    let plain = client.get(CONFIG_MAPS).await;
    assert!(!plain.headers.contains_key("content-encoding") && plain.raw.len() > 200_000);
}

#[tokio::test]
async fn discovery_names_every_group_and_resource() {
    let client = Client::new().await;
    let groups = client.get("/apis").await.expect(200);
    assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "apps"));
    let apps = client.get("/apis/apps/v1").await.expect(200);
    let names: Vec<_> =
        apps["resources"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"deployments") && names.contains(&"deployments/scale"), "{names:?}");
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let aggregated = client.ask(Method::GET, "/apis", &accept, "").await.expect(200);
    assert_eq!(aggregated["kind"], "APIGroupDiscoveryList");
    assert_eq!(aggregated["items"].as_array().unwrap().len(), groups["groups"].as_array().unwrap().len());
}

#[tokio::test]
async fn health_checks_have_the_names_and_the_order_of_kube_apiserver() {
    let client = Client::new().await;
    let text = async |path: &str| {
        let answer = client.get(path).await;
        (answer.code, String::from_utf8(answer.raw.to_vec()).unwrap())
    };
    // Recorded from kube-apiserver v1.36.4.
    let (live, ready) = (include_str!("protocol/livez.txt"), include_str!("protocol/readyz.txt"));
    assert_eq!(text("/livez?verbose").await, (200, live.to_owned()));
    assert_eq!(text("/healthz?verbose").await, (200, live.replace("livez check", "healthz check")));
    assert_eq!(text("/readyz?verbose").await, (200, ready.to_owned()));

    let excluded = ready.replace("[+]log ok", "[+]log excluded: ok").replace(
        "readyz check",
        "warn: some health checks cannot be excluded: no matches for \"bar\",\"foo\"\nreadyz check",
    );
    assert_eq!(text("/readyz?verbose&exclude=foo&exclude=log&exclude=bar").await, (200, excluded));
    assert_eq!(text("/readyz?exclude=foo").await, (200, "ok".to_owned()));

    let ok = (200, "ok".to_owned());
    for path in ["/readyz/etcd", "/readyz/shutdown?verbose", "/livez/poststarthook/crd-informer-synced"] {
        assert_eq!(text(path).await, ok, "{path}");
    }
    assert!(!client.get("/readyz/etcd").await.headers.contains_key("x-content-type-options"));
    for path in
        ["/livez/shutdown", "/healthz/informer-sync", "/readyz/nonsense", "/healthz/poststarthook", "/readyz/etcd/"]
    {
        assert_eq!(text(path).await, (404, "404 page not found\n".to_owned()), "{path}");
    }
    let paths = client.get("/").await.expect(200)["paths"].as_array().unwrap().clone();
    let paths: Vec<&str> = paths.iter().map(|path| path.as_str().unwrap()).collect();
    assert!(paths.is_sorted() && paths.contains(&"/readyz/poststarthook/rbac/bootstrap-roles"), "{paths:?}");
}

#[tokio::test]
async fn health_version_metrics_and_openapi_answer() {
    let client = Client::new().await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(client.get(path).await.raw, "ok", "{path}");
    }
    assert_eq!(client.get("/version").await.expect(200)["minor"], "36");
    client.get(CONFIG_MAPS).await.expect(200);
    let metrics = String::from_utf8(client.get("/metrics").await.raw.to_vec()).unwrap();
    assert!(
        metrics.contains("apiserver_request_total{verb=\"LIST\",group=\"\",version=\"v1\",resource=\"configmaps\""),
        "{metrics}"
    );
    let document = client.get("/openapi/v3/apis/apps/v1").await.expect(200);
    assert!(document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object());
    assert!(client.get("/openapi/v3").await.expect(200)["paths"]["api/v1"].is_object());
    assert_eq!(client.get("/openapi/v2").await.expect(200)["swagger"], "2.0");
}

#[tokio::test]
async fn pages_for_debugging_show_flags_and_status() {
    let flags = [("audit-log-path".to_owned(), "-".to_owned())].into();
    let client = Client::of(Server::builder(Arc::new(MemoryStore::new())).flags(flags).build().await.unwrap());
    let accepting = async |path: &str, accept: &str| {
        let headers = [("accept", accept)];
        client.ask(Method::GET, path, &headers, "").await
    };
    let status = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
    let page = accepting("/statusz", status).await;
    assert_eq!(page.headers["content-type"], "application/json;g=config.k8s.io;v=v1beta1;as=Statusz");
    let page = page.expect(200);
    assert_eq!((&page["kind"], &page["apiVersion"]), (&json!("Statusz"), &json!("config.k8s.io/v1beta1")));
    assert_eq!((&page["binaryVersion"], &page["emulationVersion"]), (&json!("1.36.4"), &json!("1.36")));
    let paths = json!(["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"]);
    assert_eq!(page["paths"], paths);
    let old = accepting("/flagz", "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz").await;
    let warning = "299 - \"This version of the flagz endpoint is deprecated. Please use a newer version.\"";
    assert_eq!(old.headers["warning"], warning);
    assert_eq!(old.expect(200)["flags"], json!({"audit-log-path": "-"}));
    for text in ["", "*/*", "text/plain"] {
        let page = accepting("/flagz", text).await;
        assert_eq!(page.headers["content-type"], "text/plain; charset=utf-8");
        let page = String::from_utf8(page.raw.to_vec()).unwrap();
        assert!(page.starts_with("\napiserver flagz\nWarning: ") && page.ends_with("\naudit-log-path=-\n"), "{page}");
    }
    for wrong in ["application/json", "application/json;v=v1;g=config.k8s.io;as=Statusz", "image/png"] {
        let rejected = accepting("/statusz", wrong).await.expect(406);
        let expected = "only the following media types are accepted: application/json, application/yaml, text/plain";
        assert_eq!(rejected["message"], expected);
    }
    client.ask_as("jane", "/statusz").await.expect(403);
    assert_eq!(client.get("/statusz/").await.code, 404);
}
