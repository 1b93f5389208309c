//! Objects that could not be read again are not stored, and stored objects that cannot be read can be deleted.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use windlass_store::{Store, memory::MemoryStore};

use crate::{
    client::{CONFIG_MAPS, Client, config_map, names},
    test_store::TestStore,
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn widgets() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {
                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            }}}],
        },
    })
}

/// Returns a Widget whose JSON nests this deep.
fn nested(name: &str, levels: usize) -> String {
    let (open, close) = (r#"{"a":"#.repeat(levels - 2), "}".repeat(levels - 2));
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":{{"a":{open}1{close}}}}}"#
    )
}

#[tokio::test]
async fn no_object_is_stored_that_nests_too_deep_to_be_read() {
    let client = Client::new().await;
    client.post(DEFINITIONS, &widgets()).await.expect(201);
    let (mut stored, mut rejected) = (Vec::new(), 0);
    for levels in (985..=1002).chain([20, 200]) {
        let name = format!("w{levels}");
        let content = [("content-type", "application/json")];
        let answer = client.ask(Method::POST, WIDGETS, &content, nested(&name, levels)).await;
        let applied = client
            .ask(
                Method::PATCH,
                &format!("{WIDGETS}/{name}?fieldManager=m&force=true"),
                &[("content-type", "application/apply-patch+yaml")],
                nested(&name, levels),
            )
            .await;
        match answer.code {
            201 => {
                assert!(matches!(applied.code, 200 | 400), "{levels}: {}", applied.message());
                stored.push(name);
            }
            400 => {
                assert_eq!(applied.code, 400, "{levels}: {}", applied.message());
                rejected += 1;
            }
            code => panic!("{levels}: {code} {}", answer.message()),
        }
    }
    assert!(stored.len() > 2 && rejected > 2, "{stored:?}");
    let message = client.ask(Method::POST, WIDGETS, &[], nested("w", 999)).await.message();
    assert_eq!(
        message,
        "widgets.example.com \"w\" cannot be stored: with its managed fields and defaults, it nests deeper than 1000 \
         levels"
    );
    for client in [&client, &client.restarted().await] {
        for name in &stored {
            let found = client.get(&format!("{WIDGETS}/{name}")).await;
            assert_eq!(found.code, 200, "{name}");
            assert!(String::from_utf8_lossy(&found.raw).contains(&format!("\"name\":\"{name}\"")), "{name}");
        }
        for accept in ["application/json", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/yaml"] {
            let list = client.ask(Method::GET, WIDGETS, &[("accept", accept)], "").await;
            assert_eq!(list.code, 200, "{accept}");
        }
    }
    client.delete(&format!("{WIDGETS}/{}", stored[0])).await.expect(200);
    client.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    client.gone(&format!("{DEFINITIONS}/widgets.example.com")).await;
}

/// Maximum size of a request that etcd accepts.
const LIMIT: usize = 3 << 19;

/// A Widget with a string of this length.
fn large(name: &str, length: usize) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"a": "x".repeat(length)}})
}

#[tokio::test]
async fn objects_larger_than_etcd_accepts_are_rejected_with_its_error() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let client = Client::over(store.clone()).await;
    client.post(DEFINITIONS, &widgets()).await.expect(201);
    let stored =
        async |name: &str| store.get(&format!("/example.com/widgets/default/{name}")).await.unwrap().unwrap().value;
    client.post(WIDGETS, &large("w", 1000)).await.expect(201);
    let overhead = stored("w").await.len() - 1000;
    client.post(WIDGETS, &large("x", LIMIT - overhead)).await.expect(201);
    assert_eq!(stored("x").await.len(), LIMIT);
    // Managed fields are dropped before an object is rejected.
    let made = client.post(WIDGETS, &large("y", LIMIT - overhead + 1)).await.expect(201);
    assert_eq!(made["metadata"]["managedFields"], Value::Null);
    let overhead = stored("y").await.len() - (LIMIT - overhead + 1);
    client.post(WIDGETS, &large("z", LIMIT - overhead)).await.expect(201);
    assert_eq!(stored("z").await.len(), LIMIT);
    let rejected = client.post(WIDGETS, &large("z", LIMIT - overhead + 1)).await;
    assert_eq!((rejected.code, rejected.message().as_str()), (500, "etcdserver: request is too large"));
    assert_eq!(rejected.json()["reason"], Value::Null);
    let longer = json!({"metadata": {"finalizers": ["example.com/f"]}});
    let rejected = client.merge(&format!("{WIDGETS}/z"), &longer).await;
    assert_eq!((rejected.code, rejected.message().as_str()), (500, "etcdserver: request is too large"));
    let too_long = client.post(WIDGETS, &large("z", 3 << 20)).await;
    assert_eq!((too_long.code, too_long.message().as_str()), (413, "Request entity too large: limit is 3145728"));
    client.delete(&format!("{WIDGETS}/z")).await.expect(200);
}

#[tokio::test]
async fn an_object_of_the_largest_size_can_be_marked_as_deleted() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let client = Client::over(store.clone()).await;
    client.post(DEFINITIONS, &widgets()).await.expect(201);
    let finalized = |length: usize| {
        let mut widget = large("w", length);
        widget["metadata"]["finalizers"] = json!(["example.com/f"]);
        widget
    };
    client.post(WIDGETS, &finalized(1000)).await.expect(201);
    let key = "/example.com/widgets/default/w";
    let overhead = store.get(key).await.unwrap().unwrap().value.len() - 1000;
    let longest = json!({"spec": {"a": "x".repeat(LIMIT - overhead)}});
    client.merge(&format!("{WIDGETS}/w"), &longest).await.expect(200);
    client.delete(&format!("{WIDGETS}/w")).await.expect(200);
    assert!(store.get(key).await.unwrap().unwrap().value.len() > LIMIT);
    client.merge(&format!("{WIDGETS}/w"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    client.get(&format!("{WIDGETS}/w")).await.expect(404);
}

#[tokio::test]
async fn the_size_of_built_in_kinds_is_that_of_their_protobuf() {
    let client = Client::new().await;
    let mut object = config_map("quotes");
    // Each is one byte in protobuf and two in JSON.
    object["data"]["a"] = json!("\"".repeat(1_000_000));
    client.post(CONFIG_MAPS, &object).await.expect(201);
    let annotations = json!({"metadata": {"annotations": {"a": "x".repeat(200_000)}}});
    client.merge(&format!("{CONFIG_MAPS}/quotes"), &annotations).await.expect(200);
}

/// Values that are not objects, for a key that ends in `x`.
fn damaged_values() -> Vec<Vec<u8>> {
    let deep = format!(r#"{{"metadata":{{"name":"x"}},"spec":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
    let cut = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default"},"data":{"a":"#;
    vec![
        Vec::new(),
        b"\0\0\0\0".to_vec(),
        b"null".to_vec(),
        b"{\"metadata\":{}}".to_vec(),
        b"{\"metadata\":{\"name\":\"other\"}}".to_vec(),
        b"{\"metadata\":{\"name\":\"x\"},\"spec\":\"\xff\"}".to_vec(),
        cut.as_bytes().to_vec(),
        deep.into_bytes(),
    ]
}

async fn over(damaged: &[(&str, &[u8])]) -> Client {
    let store = MemoryStore::new();
    for (key, value) in damaged {
        store.create(key, value.to_vec().into()).await.unwrap();
    }
    Client::over(Arc::new(store)).await
}

#[tokio::test]
async fn a_damaged_object_is_reported_by_name_and_can_be_deleted() {
    for value in damaged_values() {
        let shown = String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned();
        let client = over(&[("/core/configmaps/default/x", &value)]).await;
        client.post(CONFIG_MAPS, &config_map("good")).await.expect(201);
        let path = format!("{CONFIG_MAPS}/x");
        let found = client.ask(Method::GET, &path, &[("accept", "application/yaml")], "").await;
        assert_eq!(found.code, 500, "{shown}");
        let text = String::from_utf8_lossy(&found.raw).into_owned();
        assert!(text.contains("StorageReadError") && text.contains("default/x"), "{shown}: {text}");
        assert_eq!(client.put(&path, &config_map("x")).await.code, 500, "{shown}");
        assert_eq!(client.merge(&path, &json!({"data": {"b": "2"}})).await.code, 500, "{shown}");
        assert_eq!(client.post(CONFIG_MAPS, &config_map("x")).await.code, 409, "{shown}");
        for accept in ["application/json", "application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1"] {
            let list = client.ask(Method::GET, CONFIG_MAPS, &[("accept", accept)], "").await;
            assert_eq!(list.code, 200, "{shown}: {accept}");
        }
        let precondition = json!({"preconditions": {"uid": "u"}});
        let content = [("content-type", "application/json")];
        let conflict = client.ask(Method::DELETE, &path, &content, precondition.to_string()).await;
        assert_eq!(conflict.code, 409, "{shown}");
        assert_eq!(client.delete(&format!("{path}?dryRun=All")).await.code, 200, "{shown}");
        assert_eq!(client.get(&path).await.code, 500, "{shown}");
        let deleted = client.delete(&path).await.expect(200);
        assert_eq!((deleted["kind"].as_str(), deleted["details"]["name"].as_str()), (Some("Status"), Some("x")));
        client.get(&path).await.expect(404);
        client.post(CONFIG_MAPS, &config_map("x")).await.expect(201);
        client.restarted().await.get(&path).await.expect(200);
    }
}

#[tokio::test]
async fn an_object_with_a_number_that_does_not_fit_can_be_deleted() {
    let value = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":1e999}"#;
    let client = over(&[("/core/configmaps/default/x", value)]).await;
    let path = format!("{CONFIG_MAPS}/x");
    let rejected = client.merge(&path, &json!({"data": {"b": "2"}})).await;
    assert_eq!((rejected.code, rejected.json()["reason"].as_str()), (500, Some("StorageReadError")));
    client.delete(&path).await.expect(200);
    client.get(&path).await.expect(404);
}

#[tokio::test]
async fn lists_omit_a_damaged_object_and_warn_about_it() {
    let client = over(&[("/core/configmaps/default/x", b"?"), ("/core/configmaps/other/y", b"?")]).await;
    client.post(CONFIG_MAPS, &config_map("good")).await.expect(201);
    let list = client.get(CONFIG_MAPS).await;
    let warnings: Vec<_> = list.headers.get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
    assert_eq!(names(&list.json()), ["good"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("omitted from the list: configmaps \\\"default/x\\\" is damaged"), "{warnings:?}");
    let deleted = client.delete(CONFIG_MAPS).await.expect(200);
    assert_eq!(names(&deleted), ["good"]);
    client.get(&format!("{CONFIG_MAPS}/x")).await.expect(404);
    assert_eq!(client.get("/api/v1/namespaces/other/configmaps/y").await.code, 500);
}

#[tokio::test]
async fn a_server_starts_over_a_damaged_object_of_every_kind() {
    for value in damaged_values() {
        let keys = [
            "/core/namespaces/x",
            "/core/services/default/x",
            "/core/resourcequotas/default/x",
            "/core/limitranges/default/x",
            "/core/serviceaccounts/default/x",
            "/core/nodes/x",
            "/apiextensions.k8s.io/customresourcedefinitions/x",
            "/admissionregistration.k8s.io/validatingwebhookconfigurations/x",
            "/admissionregistration.k8s.io/mutatingwebhookconfigurations/x",
            "/scheduling.k8s.io/priorityclasses/x",
            "/storage.k8s.io/storageclasses/x",
            "/networking.k8s.io/ingressclasses/x",
            "/unknown.example.com/things/default/x",
            "/short",
        ];
        let client = over(&keys.map(|key| (key, value.as_slice()))).await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        client.post("/api/v1/namespaces/default/pods", &pod).await.expect(201);
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
        client.post("/api/v1/namespaces/default/services", &service).await.expect(201);
        client.post(DEFINITIONS, &widgets()).await.expect(201);
        client.get("/openapi/v2").await.expect(200);
    }
}

#[tokio::test]
async fn a_definition_with_damaged_objects_can_be_deleted() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let client = Client::over(store.clone()).await;
    client.post(DEFINITIONS, &widgets()).await.expect(201);
    store.create("/example.com/widgets/default/x", b"?".to_vec().into()).await.unwrap();
    let client = client.restarted().await;
    assert_eq!(client.get(&format!("{WIDGETS}/x")).await.code, 500);
    client.delete(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    client.gone(&format!("{DEFINITIONS}/widgets.example.com")).await;
    client.post(DEFINITIONS, &widgets()).await.expect(201);
    client.get(&format!("{WIDGETS}/x")).await.expect(404);
}

#[tokio::test]
async fn a_removed_namespace_takes_its_damaged_objects_along() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let keys = ["/core/configmaps/gone/x", "/unknown.example.com/things/gone/x", "/core/configmaps/gone2/x"];
    for key in keys {
        store.create(key, b"?".to_vec().into()).await.unwrap();
    }
    let client = Client::over(store.clone()).await;
    for name in ["gone", "gone2"] {
        client.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.expect(201);
    }
    let namespace = client.delete("/api/v1/namespaces/gone").await.expect(200);
    // As long as the namespace exists, its objects do.
    assert!(store.get(keys[0]).await.unwrap().is_some());
    let mut finalized = namespace;
    finalized["spec"]["finalizers"] = json!([]);
    client.put("/api/v1/namespaces/gone/finalize", &finalized).await.expect(200);
    client.get("/api/v1/namespaces/gone").await.expect(404);
    let mut left = Vec::new();
    for key in keys {
        left.push(store.get(key).await.unwrap().is_some());
    }
    assert_eq!(left, [false, false, true]);
}

#[tokio::test]
async fn a_namespace_whose_deletion_fails_keeps_its_damaged_objects() {
    let store = Arc::new(TestStore::default());
    let key = "/core/configmaps/kept/x";
    store.create(key, b"?".to_vec().into()).await.unwrap();
    let client = Client::over(store.clone()).await;
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "kept"}})).await.expect(201);
    let mut finalized = client.delete("/api/v1/namespaces/kept").await.expect(200);
    finalized["spec"]["finalizers"] = json!([]);
    store.reject(|key| key == "/core/namespaces/kept");
    assert_eq!(client.put("/api/v1/namespaces/kept/finalize", &finalized).await.code, 500);
    assert_eq!(store.rejected(), 1);
    assert!(store.get(key).await.unwrap().is_some(), "the damaged object is gone, but its namespace is not");
    // A damaged object that cannot be deleted does not keep its namespace.
    store.reject(|key| key == "/core/configmaps/kept/x");
    client.put("/api/v1/namespaces/kept/finalize", &finalized).await.expect(200);
    assert_eq!(store.rejected(), 2);
    client.get("/api/v1/namespaces/kept").await.expect(404);
    store.accept();
    client.delete("/api/v1/namespaces/kept/configmaps/x").await.expect(200);
    assert!(store.get(key).await.unwrap().is_none());
}

#[tokio::test]
async fn a_metric_counts_damaged_objects_by_resource() {
    let client = over(&[
        ("/core/configmaps/default/x", b"?"),
        ("/core/configmaps/default/y", b"?"),
        ("/example.com/widgets/default/x", b"?"),
        ("/short", b"?"),
    ])
    .await;
    let series = async || {
        // A consistent read waits for the caches, which the metric counts.
        client.get(CONFIG_MAPS).await.expect(200);
        let metrics = client.get("/metrics").await;
        let text = String::from_utf8_lossy(&metrics.raw).into_owned();
        text.lines().filter(|line| line.starts_with("windlass_damaged_objects{")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        series().await,
        [
            "windlass_damaged_objects{group=\"\",resource=\"configmaps\"} 2",
            "windlass_damaged_objects{group=\"example.com\",resource=\"widgets\"} 1",
        ]
    );
    client.delete(&format!("{CONFIG_MAPS}/x")).await.expect(200);
    assert_eq!(series().await[0], "windlass_damaged_objects{group=\"\",resource=\"configmaps\"} 1");
    client.delete(CONFIG_MAPS).await.expect(200);
    assert_eq!(series().await.len(), 1);
}
