//! APIServices, and requests that are forwarded to other servers.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use http::{Method, Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::ServiceExt as _;
use windlass_apiserver::{Server, user::User};
use windlass_store::memory::MemoryStore;

use crate::{
    aggregated_server::{AggregatedServer, FrontProxy, GROUP, PATH},
    client::{Client, names},
};

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const NAME: &str = "v1alpha1.wardle.example.com";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns an APIService of the service `wardle/api`.
fn api_service(ca_bundle: &str) -> Value {
    json!({"metadata": {"name": NAME}, "spec": {
        "group": GROUP, "version": "v1alpha1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "service": {"namespace": "wardle", "name": "api"}, "caBundle": ca_bundle,
    }})
}

fn definition() -> Value {
    json!({"metadata": {"name": format!("flunders.{GROUP}")}, "spec": {
        "group": GROUP, "scope": "Namespaced", "names": {"plural": "flunders", "singular": "flunder", "kind": "Flunder"},
        "versions": [{"name": "v1alpha1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
    }})
}

/// Waits until the APIService has a condition, and returns its reason and message.
async fn condition(client: &Client, holds: impl Fn(&Value) -> bool) -> String {
    let mut events = client.watch(&format!("{API_SERVICES}?watch=true&fieldSelector=metadata.name={NAME}")).await;
    loop {
        let event = events.next().await.unwrap();
        let found = event["object"]["status"]["conditions"][0].clone();
        if event["type"] != "DELETED" && holds(&found) {
            let text = |field: &str| found[field].as_str().unwrap().to_owned();
            return format!("{} {}: {}", text("status"), text("reason"), text("message"));
        }
    }
}

async fn has_reason(client: &Client, reason: &str) -> String {
    condition(client, |found| found["reason"] == reason).await
}

/// Waits until aggregated discovery has an entry for the group that `holds`.
async fn discovered(client: &Client, holds: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..2000 {
        let groups = client.ask(Method::GET, "/apis", &[("accept", AGGREGATED)], "").await.expect(200);
        let group = groups["items"].as_array().unwrap().iter().find(|group| group["metadata"]["name"] == GROUP);
        if let Some(version) = group.map(|group| group["versions"][0].clone()).filter(&holds) {
            return version;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the group is not in discovery as expected");
}

/// A server that forwards requests to another one.
async fn aggregating(aggregated: bool) -> (Client, AggregatedServer) {
    let proxy = FrontProxy::new();
    let remote = AggregatedServer::start(&proxy, aggregated).await;
    registered(proxy, remote).await
}

/// Registers a server at a new one.
async fn registered(proxy: FrontProxy, remote: AggregatedServer) -> (Client, AggregatedServer) {
    let builder = Server::builder(Arc::new(MemoryStore::new())).front_proxy(proxy.certificate, proxy.key);
    let client = Client::of(builder.build().await.unwrap());
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "wardle"}})).await.expect(201);
    let service = json!({"metadata": {"name": "api"}, "spec": {
        "type": "ExternalName", "externalName": "localhost",
        "ports": [{"port": 443, "targetPort": remote.address.port()}],
    }});
    client.post("/api/v1/namespaces/wardle/services", &service).await.expect(201);
    client.post(API_SERVICES, &api_service(&remote.ca_bundle)).await.expect(201);
    assert_eq!(has_reason(&client, "Passed").await, "True Passed: all checks passed");
    (client, remote)
}

#[tokio::test]
async fn every_built_in_group_version_has_an_api_service() {
    let client = Client::new().await;
    let list = client.get(API_SERVICES).await.expect(200);
    let names = names(&list);
    for name in ["v1.", "v1.apps", "v1.autoscaling", "v2.autoscaling", "v1.resource.k8s.io"] {
        assert!(names.iter().any(|have| have == name), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("apiregistration")), "{names:?}");
    for object in list["items"].as_array().unwrap() {
        assert_eq!(object["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}));
        assert_eq!(object["status"]["conditions"][0]["reason"], "Local");
        // What was stored is what a request would have stored.
        let name = object["metadata"]["name"].as_str().unwrap();
        client.delete(&format!("{API_SERVICES}/{name}")).await.expect(200);
        let mut fresh = json!({"metadata": {"name": name, "labels": object["metadata"]["labels"]}});
        fresh["spec"] = object["spec"].clone();
        let body = fresh.to_string();
        let headers = [("content-type", "application/json"), ("user-agent", "kube-apiserver")];
        let mut created = client.ask(Method::POST, API_SERVICES, &headers, body).await.expect(201);
        let mut stored = object.clone();
        stored["apiVersion"] = created["apiVersion"].clone();
        stored["kind"] = created["kind"].clone();
        for object in [&mut created, &mut stored] {
            for field in ["uid", "resourceVersion", "creationTimestamp"] {
                object["metadata"][field] = Value::Null;
            }
            object["metadata"]["managedFields"][0]["time"] = Value::Null;
            object["status"]["conditions"][0]["lastTransitionTime"] = Value::Null;
        }
        assert_eq!(created, stored);
    }
}

#[tokio::test]
async fn a_built_in_group_without_its_api_service_is_hidden_until_the_next_start() {
    let client = Client::new().await;
    client.delete(&format!("{API_SERVICES}/v1.batch")).await.expect(200);
    let groups = |list: Value| {
        let groups = list["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap().to_owned());
        groups.collect::<Vec<_>>()
    };
    let hidden = groups(client.get("/apis").await.expect(200));
    assert!(!hidden.contains(&"batch".to_owned()), "{hidden:?}");
    client.get("/apis/batch/v1/jobs").await.expect(200);
    let restarted = client.restarted().await;
    let listed = groups(restarted.get("/apis").await.expect(200));
    assert_eq!(listed[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert!(listed.contains(&"batch".to_owned()), "{listed:?}");
}

#[tokio::test]
async fn custom_groups_are_registered_while_they_exist() {
    let client = Client::new().await;
    let mut events = client
        .watch(&format!(
            "{API_SERVICES}?watch=true&resourceVersion=0&labelSelector=kube-aggregator.kubernetes.io/automanaged=true"
        ))
        .await;
    client.post(DEFINITIONS, &definition()).await.expect(201);
    let added = events.next().await.unwrap();
    assert_eq!((&added["type"], &added["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(NAME)));
    let spec = json!({"group": GROUP, "version": "v1alpha1", "groupPriorityMinimum": 1000, "versionPriority": 100});
    assert_eq!(added["object"]["spec"], spec);
    // It is restored when it is changed or deleted.
    client.merge(&format!("{API_SERVICES}/{NAME}"), &json!({"spec": {"versionPriority": 5}})).await.expect(200);
    assert_eq!(events.next().await.unwrap()["object"]["spec"]["versionPriority"], 5);
    assert_eq!(events.next().await.unwrap()["object"]["spec"], spec);
    client.delete(&format!("{API_SERVICES}/{NAME}")).await.expect(200);
    assert_eq!(events.brief().await, format!("DELETED {NAME}"));
    assert_eq!(events.brief().await, format!("ADDED {NAME}"));
    client.delete(&format!("{DEFINITIONS}/flunders.{GROUP}")).await.expect(200);
    assert_eq!(events.brief().await, format!("DELETED {NAME}"));
}

#[tokio::test]
async fn requests_are_forwarded_with_the_user_and_without_credentials() {
    let (client, remote) = aggregating(true).await;
    remote.take_seen();
    let user = User {
        name: "eve".to_owned(),
        uid: "u1".to_owned(),
        groups: vec!["system:masters".to_owned(), "devs".to_owned()],
        extra: BTreeMap::from([("acme.com/scope".to_owned(), vec!["view".to_owned()])]),
    };
    let path = format!("{PATH}/namespaces/a/flunders/x?fieldManager=m");
    let answer = client.ask_for(&user, Method::PUT, &path, &json!({"spec": 1})).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.expect(200), json!({"kind": "Flunder", "metadata": {"name": "a"}}));
    let seen = remote.take_seen().pop().unwrap();
    assert_eq!((&*seen.method, seen.path, seen.body), ("PUT", path, json!({"spec": 1})));
    assert_eq!(seen.client.as_deref(), Some("front-proxy-client"));
    let values = |name: &str| -> Vec<_> { seen.headers.get_all(name).iter().map(|v| v.to_str().unwrap()).collect() };
    assert_eq!(values("x-remote-user"), ["eve"]);
    assert_eq!(values("x-remote-uid"), ["u1"]);
    assert_eq!(values("x-remote-group"), ["system:masters", "devs"]);
    assert_eq!(values("x-remote-extra-acme.com%2fscope"), ["view"]);

    // Headers of the client do not get through, and impersonation takes place here.
    let headers = [("x-remote-user", "root"), ("x-remote-group", "g"), ("impersonate-user", "bob")];
    client.ask(Method::GET, &format!("{PATH}/flunders"), &headers, "").await.expect(403);
    assert!(remote.take_seen().is_empty(), "bob may not list flunders");
    client.ask(Method::GET, &format!("{PATH}/flunders"), &headers[..2], "").await.expect(200);
    let seen = remote.take_seen().pop().unwrap();
    assert_eq!(seen.headers.get_all("x-remote-user").iter().collect::<Vec<_>>(), ["admin"]);
    assert!(!seen.headers.get_all("x-remote-group").iter().any(|group| group == "g"));

    client.ask_as("nobody", &format!("{PATH}/flunders")).await.expect(403);
    assert!(remote.take_seen().is_empty(), "authorization comes first");
    let redirected = client.get(&format!("{PATH}/redirect")).await;
    let message = "the backend attempted to redirect this request, which is not permitted";
    assert_eq!((redirected.code, &*redirected.raw), (502, message.as_bytes()));
}

#[tokio::test]
async fn a_watch_is_passed_on_line_by_line_and_cancelled_with_its_client() {
    let (client, mut remote) = aggregating(true).await;
    let mut events = client.watch(&format!("{PATH}/flunders?watch=true")).await;
    for name in ["a", "b"] {
        let line = json!({"type": "ADDED", "object": {"metadata": {"name": name}}});
        remote.lines.send(format!("{line}\n")).unwrap();
        assert_eq!(events.brief().await, format!("ADDED {name}"));
    }
    drop(events);
    tokio::time::timeout(Duration::from_secs(10), remote.dropped.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_without_http_2_is_as_good() {
    // Without ALPN, too: the protocol is not negotiated at all then.
    for protocols in [&[&b"http/1.1"[..]][..], &[]] {
        let proxy = FrontProxy::new();
        let remote = AggregatedServer::with_protocols(&proxy, true, protocols).await;
        let (client, mut remote) = registered(proxy, remote).await;
        remote.take_seen();
        let path = format!("{PATH}/namespaces/a/flunders/x");
        for (method, body) in [(Method::GET, ""), (Method::PUT, "{\"spec\":1}"), (Method::DELETE, "")] {
            let headers = [("connection", "keep-alive"), ("proxy-connection", "keep-alive")];
            let answer = client.ask(method.clone(), &path, &headers, body).await;
            assert_eq!(answer.expect(200), json!({"kind": "Flunder", "metadata": {"name": "a"}}));
            let seen = remote.take_seen().pop().unwrap();
            assert_eq!((&*seen.method, &seen.path, seen.version), (method.as_str(), &path, Version::HTTP_11));
            assert_eq!(seen.headers["x-remote-user"], "admin");
            assert_eq!(seen.headers.get("proxy-connection"), None);
        }
        let mut events = client.watch(&format!("{PATH}/flunders?watch=true")).await;
        for name in ["a", "b"] {
            let line = json!({"type": "ADDED", "object": {"metadata": {"name": name}}});
            remote.lines.send(format!("{line}\n")).unwrap();
            assert_eq!(events.brief().await, format!("ADDED {name}"));
        }
        // Other requests do not wait for the watch.
        client.get(&path).await.expect(200);
        drop(events);
        tokio::time::timeout(Duration::from_secs(10), remote.dropped.recv()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_does_not_look_complete() {
    let (client, remote) = aggregating(true).await;
    let request = Request::get(format!("{PATH}/namespaces/a/flunders/broken")).body(Full::default()).unwrap();
    let response = client.send(request).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let half = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(half, &b"{\"kind\": "[..]);
    remote.shared.breaks.notify_one();
    let failure = body.collect().await.map(|body| body.to_bytes());
    assert_eq!(failure.unwrap_err().to_string(), "the forwarded response broke off");
}

#[tokio::test]
async fn a_new_certificate_is_used_for_new_connections() {
    let (client, _remote) = aggregating(true).await;
    let path = format!("{PATH}/namespaces/a/flunders/b");
    client.get(&path).await.expect(200);
    // The other server knows only the first one.
    let other = FrontProxy::new();
    client.server.set_front_proxy(other.certificate, other.key);
    assert_eq!(client.get(&path).await.code, 503);
}

#[tokio::test]
async fn a_watch_ends_when_the_server_stops() {
    let (client, remote) = aggregating(true).await;
    let mut events = client.watch(&format!("{PATH}/flunders?watch=true")).await;
    client.server.stop();
    assert_eq!(events.brief().await, "end");
    drop(remote);
}

#[tokio::test]
async fn an_upgraded_connection_carries_bytes_in_both_directions() {
    let (client, remote) = aggregating(true).await;
    remote.take_seen();
    for protocol in ["websocket", "SPDY/3.1"] {
        let (mut stream, serving) = tokio::io::duplex(1024);
        let server = client.server.clone();
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Arc::new(User::admin()));
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.oneshot(request).await.unwrap()) }
        });
        tokio::spawn(async move {
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(serving), service);
            connection.with_upgrades().await.unwrap();
        });
        let head = format!(
            "GET {PATH}/namespaces/a/flunders/x/exec HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        let answer = String::from_utf8(answer).unwrap().to_lowercase();
        assert!(answer.starts_with("http/1.1 101"), "{answer}");
        assert!(answer.contains(&format!("upgrade: {}", protocol.to_lowercase())), "{answer}");
        for text in ["hello", "again"] {
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut echo = [0; 5];
            stream.read_exact(&mut echo).await.unwrap();
            assert_eq!(echo, text.to_uppercase().as_bytes());
        }
        let seen = remote.take_seen().pop().unwrap();
        assert_eq!(seen.path, format!("{PATH}/namespaces/a/flunders/x/exec"));
        assert_eq!(seen.headers["x-remote-user"], "admin");
    }
}

#[tokio::test]
async fn discovery_has_the_resources_of_other_servers() {
    for aggregated in [true, false] {
        let (client, _remote) = aggregating(aggregated).await;
        let version = discovered(&client, |version| version["freshness"] == "Current").await;
        assert_eq!(version["resources"][0]["resource"], "flunders");
        assert_eq!(version["resources"][0]["responseKind"]["kind"], "Flunder");
        let group = client.get(&format!("/apis/{GROUP}")).await.expect(200);
        assert_eq!(group["preferredVersion"]["groupVersion"], format!("{GROUP}/v1alpha1"));
        let groups = client.get("/apis").await.expect(200);
        assert_eq!(groups["groups"].as_array().unwrap().last().unwrap()["name"], GROUP);
        assert_eq!(client.get(PATH).await.expect(200)["resources"][0]["name"], "flunders");
        let index = client.get("/openapi/v3").await.expect(200);
        let address = index["paths"][&PATH[1..]]["serverRelativeURL"].as_str().unwrap().to_owned();
        let document = client.get(&address).await.expect(200);
        match aggregated {
            true => {
                assert_eq!(address, format!("/openapi/v3{PATH}?hash=ABC"));
                assert_eq!(document["info"]["title"], "wardle");
            }
            // The server has a document of version 2 only.
            false => {
                assert!(address.starts_with(&format!("/openapi/v3{PATH}?hash=")), "{address}");
                assert_eq!(document["openapi"], "3.0.0");
                assert_eq!(document["paths"][PATH], json!({"get": {"responses": {}}}));
                assert_eq!(document["components"]["schemas"]["wardle"], json!({"type": "object"}));
            }
        }
        let whole = client.get("/openapi/v2").await.expect(200);
        assert!(whole["paths"].get(PATH).is_some() && whole["paths"].get("/api/v1/pods").is_some());
    }
}

#[tokio::test]
async fn a_server_that_fails_is_unavailable_and_stale() {
    let (client, remote) = aggregating(true).await;
    discovered(&client, |version| version["freshness"] == "Current").await;
    *remote.shared.broken.lock() = true;
    // A changed APIService is checked at once.
    let path = format!("{API_SERVICES}/{NAME}");
    client.merge(&path, &json!({"spec": {"service": {"port": 444}}})).await.expect(200);
    let failed = has_reason(&client, "FailedDiscoveryCheck").await;
    let url = format!("https://localhost:444{PATH}");
    let expected = format!("False FailedDiscoveryCheck: failing or missing response from {url}: ");
    assert!(failed.starts_with(&expected), "{failed}");
    let answer = client.get(&format!("{PATH}/flunders")).await;
    assert_eq!((answer.code, &*answer.raw), (503, &b"service unavailable\n"[..]));
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    let version = discovered(&client, |version| version["freshness"] == "Stale").await;
    assert_eq!(version, json!({"version": "v1alpha1", "freshness": "Stale"}));
    client.merge(&path, &json!({"spec": {"service": {"port": 443}}})).await.expect(200);
    let failed =
        condition(&client, |found| found["message"].as_str().is_some_and(|text| text.contains("bad status"))).await;
    let url = format!("https://localhost:443{PATH}");
    assert_eq!(
        failed,
        format!("False FailedDiscoveryCheck: failing or missing response from {url}: bad status from {url}: 500")
    );
    // It is checked again by itself.
    *remote.shared.broken.lock() = false;
    assert_eq!(has_reason(&client, "Passed").await, "True Passed: all checks passed");
    client.get(&format!("{PATH}/flunders")).await.expect(200);
    discovered(&client, |version| version["freshness"] == "Current").await;
}

#[tokio::test]
async fn an_api_service_says_what_its_service_lacks() {
    let client = Client::new().await;
    client.post(API_SERVICES, &api_service("")).await.expect(201);
    assert_eq!(
        has_reason(&client, "ServiceNotFound").await,
        "False ServiceNotFound: service/api in \"wardle\" is not present"
    );
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "wardle"}})).await.expect(201);
    let service = json!({"metadata": {"name": "api"}, "spec": {"ports": [{"name": "http", "port": 80}]}});
    client.post("/api/v1/namespaces/wardle/services", &service).await.expect(201);
    assert_eq!(
        has_reason(&client, "ServicePortError").await,
        "False ServicePortError: service/api in \"wardle\" is not listening on port 443"
    );
    let ports = json!({"spec": {"ports": [{"name": "https", "port": 443}]}});
    client.merge("/api/v1/namespaces/wardle/services/api", &ports).await.expect(200);
    assert_eq!(
        has_reason(&client, "EndpointsNotFound").await,
        "False EndpointsNotFound: cannot find endpointslices for service/api in \"wardle\""
    );
    let slice = json!({"metadata": {"name": "api-1", "labels": {"kubernetes.io/service-name": "api"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"], "conditions": {"ready": false}}],
        "ports": [{"name": "https", "port": 8443}]});
    client.post("/apis/discovery.k8s.io/v1/namespaces/wardle/endpointslices", &slice).await.expect(201);
    assert_eq!(
        has_reason(&client, "MissingEndpoints").await,
        "False MissingEndpoints: endpointslices for service/api in \"wardle\" have no addresses with port name \"https\""
    );
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let table = client.ask(Method::GET, &format!("{API_SERVICES}/{NAME}"), &[("accept", table)], "").await.expect(200);
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..3], [NAME, "wardle/api", "False (MissingEndpoints)"]);
}

#[tokio::test]
async fn a_group_is_taken_over_from_custom_resources_and_back() {
    let (client, remote) = aggregating(true).await;
    // The CustomResourceDefinition is served as soon as the APIService of the other server is gone.
    client.post(DEFINITIONS, &definition()).await.expect(201);
    let flunders = format!("{PATH}/namespaces/default/flunders");
    assert_eq!(client.get(&flunders).await.expect(200)["kind"], "Flunder");
    let path = format!("{API_SERVICES}/{NAME}");
    client.delete(&path).await.expect(200);
    client
        .post(
            &flunders,
            &json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Flunder",
        "metadata": {"name": "own"}}),
        )
        .await
        .expect(201);
    assert_eq!(names(&client.get(&flunders).await.expect(200)), ["own"]);
    discovered(&client, |version| version["resources"][0]["subresources"].is_null()).await;
    // The server registers the group version for its custom resources.
    let managed = format!("{API_SERVICES}?watch=true&fieldSelector=metadata.name={NAME}");
    let mut events = client.watch(&managed).await;
    assert_eq!(events.brief().await, format!("ADDED {NAME}"));
    // An APIService without the label is not the server's to restore.
    let mut other = api_service(&remote.ca_bundle);
    let current = client.get(&path).await.expect(200);
    other["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
    client.put(&path, &other).await.expect(200);
    has_reason(&client, "Passed").await;
    assert_eq!(client.get(&flunders).await.expect(200)["kind"], "Flunder");
}
