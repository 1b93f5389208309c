//! What is written through one server takes effect on the others.

use super::*;

pub(super) fn definition(plural: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural.trim_end_matches('s'), "kind": plural.to_uppercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[tokio::test]
async fn a_definition_is_in_force_on_other_servers_in_a_moment() {
    let store = Arc::new(MemoryStore::new());
    let (a, b) = (replica(&store).await, replica(&store).await);
    let start = std::time::Instant::now();
    for number in 0..20 {
        let plural = format!("things{number}s");
        let (writer, other) = if number % 2 == 0 { (&a, &b) } else { (&b, &a) };
        writer.post(DEFINITIONS, &definition(&plural)).await.expect(201);
        let path = format!("/apis/example.com/v1/namespaces/default/{plural}");
        let object = json!({"apiVersion": "example.com/v1", "kind": plural.to_uppercase(), "metadata": {"name": "x"}});
        writer.post(&path, &object).await.expect(201);
        eventually("the other server must serve it", async || (other.get(&path).await.code == 200).then_some(())).await;
        other.get(&format!("{path}/x")).await.expect(200);
        for server in [&a, &b] {
            let shown = server.get(&format!("{DEFINITIONS}/{plural}.example.com")).await.expect(200);
            let conditions = shown["status"]["conditions"].as_array().unwrap();
            assert_eq!(conditions.len(), 2, "written once: {conditions:?}");
        }
    }
    assert!(start.elapsed() < BOUND);
    let services = a.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com").await.expect(200);
    assert_eq!(services["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "true");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_behind_rejects_writes_after_the_bound() {
    let store = Arc::new(MemoryStore::new());
    let connection = Shared::new(&store);
    let stalled = connection.stalled.clone();
    let (a, b) = (replica(&store).await, Client::of(Server::builder(Arc::new(connection)).build().await.unwrap()));
    let maps = "/api/v1/namespaces/default/configmaps";
    b.post(maps, &config_map("before")).await.expect(201);
    stalled.store(true, Ordering::SeqCst);
    a.post(maps, &config_map("unknown")).await.expect(201);
    tokio::time::sleep(BOUND + Duration::from_secs(1)).await;
    let rejected = b.merge(&format!("{maps}/before"), &json!({"data": {"a": "behind"}})).await;
    assert_eq!(rejected.code, 503, "{}", rejected.message());
    assert!(rejected.message().contains("behind the store"), "{}", rejected.message());
    assert_eq!(b.delete(&format!("{maps}/before?gracePeriodSeconds=0")).await.code / 100, 5);
    // Reads of what it has go on.
    b.get(&format!("{maps}?resourceVersion=0")).await.expect(200);
    stalled.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(3)).await;
    b.post(maps, &config_map("behind")).await.expect(201);
}

#[tokio::test]
async fn objects_that_another_server_writes_by_an_older_definition_are_read_through_the_current_one() {
    let store = Arc::new(MemoryStore::new());
    let connection = Shared::new(&store);
    let (stop, go_on) = connection.delay();
    let (a, b) = (replica(&store).await, Client::of(Server::builder(Arc::new(connection)).build().await.unwrap()));
    a.post(DEFINITIONS, &definition("things")).await.expect(201);
    let path = "/apis/example.com/v1/namespaces/default/things";
    eventually("the other server must serve it", async || (b.get(path).await.code == 200).then_some(())).await;
    stop().await;
    // The new schema has a default, which B does not know.
    let name = format!("{DEFINITIONS}/things.example.com");
    let mut changed = a.get(&name).await.expect(200);
    let size = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size";
    changed.pointer_mut(size).unwrap()["default"] = 7.into();
    a.put(&name, &changed).await.expect(200);
    let object = json!({"apiVersion": "example.com/v1", "kind": "THINGS", "metadata": {"name": "x"}, "spec": {}});
    let server = b.server.clone();
    let creating = tokio::spawn(async move { Client::of(server).post(path, &object).await });
    eventually("the object must be stored", async || store.get("/example.com/things/default/x").await.unwrap()).await;
    assert_eq!(a.get(&format!("{path}/x")).await.expect(200)["spec"], json!({"size": 7}));
    assert_eq!(a.get(path).await.expect(200)["items"][0]["spec"], json!({"size": 7}));
    go_on();
    assert_eq!(creating.await.unwrap().expect(201)["spec"], json!({}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_quota_is_never_exceeded_by_writes_to_several_servers() {
    let store = Arc::new(MemoryStore::new());
    let servers = Arc::new(join_all((0..3).map(|_| replica(&store))).await);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "10"}}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    servers[0].post(quotas, &quota).await.expect(201);
    let counted = json!({"status": {"hard": {"count/configmaps": "10"}, "used": {"count/configmaps": "0"}}});
    servers[0].merge(&format!("{quotas}/q/status"), &counted).await.expect(200);
    let creations = (0..30).map(|number| {
        let servers = servers.clone();
        tokio::spawn(async move {
            let name = format!("m{number}");
            servers[number % 3].post("/api/v1/namespaces/default/configmaps", &config_map(&name)).await.code
        })
    });
    let codes: Vec<_> = join_all(creations).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 10, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 201 | 403)), "{codes:?}");
}

#[tokio::test]
async fn roles_and_policies_written_through_one_server_are_in_force_on_the_other() {
    let store = Arc::new(MemoryStore::new());
    let (a, b) = (replica(&store).await, replica(&store).await);
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(b.ask_as("jane", maps).await.code, 403);
    let binding = json!({
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    a.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await.expect(201);
    let start = std::time::Instant::now();
    eventually("the binding must be in effect", async || (b.ask_as("jane", maps).await.code == 200).then_some(()))
        .await;
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "object.metadata.name != 'bad'"}],
        },
    });
    a.post(&format!("{policies}/validatingadmissionpolicies"), &policy).await.expect(201);
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    a.post(&format!("{policies}/validatingadmissionpolicybindings"), &binding).await.expect(201);
    eventually("the policy must be in effect", async || {
        (b.post(&format!("{maps}?dryRun=All"), &config_map("bad")).await.code == 422).then_some(())
    })
    .await;
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
}
