//! API Priority and Fairness: default objects, classification, limits, and fairness between users.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;
use windlass_apiserver::{
    Limits, Server,
    admission::{Admission, Attributes},
    authorization::{self, Authorization, Authorizer, Decision},
    body::{Body, BodyError},
    status::Result,
    user::User,
};
use windlass_store::memory::MemoryStore;

use crate::client::{CONFIG_MAPS, Client, names};

const API: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
pub(crate) const SCHEMA_UID: &str = "x-kubernetes-pf-flowschema-uid";
const LEVEL_UID: &str = "x-kubernetes-pf-prioritylevel-uid";

fn schemas() -> String {
    format!("{API}/flowschemas")
}

fn levels() -> String {
    format!("{API}/prioritylevelconfigurations")
}

async fn uid(client: &Client, path: &str) -> String {
    client.get(path).await.expect(200)["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// A level whose requests are all rejected.
fn closed_level(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"},
    }}})
}

/// A schema for all requests of a user.
fn schema_for(user: &str, level: &str) -> Value {
    json!({"metadata": {"name": user}, "spec": {
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": 200,
        "rules": [{
            "subjects": [{"kind": "User", "user": {"name": user}}],
            "resourceRules": [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true},
            ],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    }})
}

#[tokio::test]
async fn the_default_objects_are_those_of_kubernetes() {
    let client = Client::new().await;
    let list = client.get(&levels()).await.expect(200);
    let expected = [
        "catch-all",
        "exempt",
        "global-default",
        "leader-election",
        "node-high",
        "system",
        "workload-high",
        "workload-low",
    ];
    assert_eq!(names(&list), expected);
    let list = client.get(&schemas()).await.expect(200);
    let shown: Vec<String> = list["items"].as_array().unwrap().iter().map(brief).collect();
    let expected = [
        "catch-all 10000 catch-all ByUser",
        "exempt 1 exempt -",
        "global-default 9900 global-default ByUser",
        "kube-controller-manager 800 workload-high ByNamespace",
        "kube-scheduler 800 workload-high ByNamespace",
        "kube-system-service-accounts 900 workload-high ByNamespace",
        "probes 2 exempt -",
        "service-accounts 9000 workload-low ByUser",
        "system-leader-election 100 leader-election ByUser",
        "system-node-high 400 node-high ByUser",
        "system-nodes 500 system ByUser",
    ];
    assert_eq!(shown, expected);
    for schema in list["items"].as_array().unwrap() {
        let condition = &schema["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Dangling"), &json!("False")), "{schema}");
        let managers: Vec<&str> = schema["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["manager"].as_str().unwrap())
            .collect();
        let expected = ["api-priority-and-fairness-config-consumer-v1", "api-priority-and-fairness-config-producer-v1"];
        assert_eq!(managers, expected);
    }
    // A second start finds them and writes nothing.
    let again = client.restarted().await.get(&schemas()).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], list["metadata"]["resourceVersion"]);
    assert_eq!(again["items"], list["items"]);
}

/// Returns the stored forms of the default objects with their keys, in the order of their names.
async fn stored_defaults(client: &Client) -> Vec<String> {
    let mut lines = Vec::new();
    for plural in ["flowschemas", "prioritylevelconfigurations"] {
        for name in names(&client.get(&format!("{API}/{plural}")).await.expect(200)) {
            let answer = client.get(&format!("{API}/{plural}/{name}")).await;
            let mut text = String::from_utf8(answer.raw.to_vec()).unwrap();
            let object = answer.json();
            let metadata = &object["metadata"];
            let version = format!("\"resourceVersion\":{},", metadata["resourceVersion"]);
            text = text.replacen(&version, "", 1).replace(metadata["uid"].as_str().unwrap(), "$UID");
            let managers = metadata["managedFields"].as_array().unwrap().iter().map(|entry| &entry["time"]);
            let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            let times = managers.chain(conditions.map(|condition| &condition["lastTransitionTime"]));
            for time in times.chain([&metadata["creationTimestamp"]]) {
                text = text.replace(time.as_str().unwrap(), "$TIME");
            }
            lines.push(format!("{plural}/{name} {}", text.trim_end()));
        }
    }
    lines
}

#[tokio::test(start_paused = true)]
async fn default_objects_are_stored_exactly_as_requests_would_store_them() {
    let client = Client::new().await;
    let at_start = stored_defaults(&client).await;
    assert_eq!(at_start.len(), 19);
    for collection in [schemas(), levels()] {
        client.delete(&collection).await.expect(200);
        assert_eq!(names(&client.get(&collection).await.expect(200)), [""; 0]);
    }
    tokio::time::sleep(Duration::from_secs(61)).await;
    for schema in names(&client.get(&schemas()).await.expect(200)) {
        dangling(&client, &schema, "False").await;
    }
    let created = stored_defaults(&client).await;
    expect_test::expect_file!["../../src/flow_control/defaults.jsonl"].assert_eq(&(created.join("\n") + "\n"));
    assert_eq!(at_start, created);
}

fn brief(schema: &Value) -> String {
    let spec = &schema["spec"];
    format!(
        "{} {} {} {}",
        schema["metadata"]["name"].as_str().unwrap(),
        spec["matchingPrecedence"],
        spec["priorityLevelConfiguration"]["name"].as_str().unwrap(),
        spec["distinguisherMethod"]["type"].as_str().unwrap_or("-")
    )
}

#[tokio::test]
async fn responses_name_the_schema_and_level_of_the_request() {
    let client = Client::new().await;
    let exempt =
        (uid(&client, &format!("{}/exempt", schemas())).await, uid(&client, &format!("{}/exempt", levels())).await);
    let answer = client.get(CONFIG_MAPS).await;
    assert_eq!(answer.headers[SCHEMA_UID], *exempt.0);
    assert_eq!(answer.headers[LEVEL_UID], *exempt.1);
    let global = uid(&client, &format!("{}/global-default", schemas())).await;
    for (path, code) in [(CONFIG_MAPS, 403), ("/version", 200)] {
        let answer = client.ask_as("eve", path).await;
        assert_eq!(answer.code, code, "{path}");
        assert_eq!(answer.headers[SCHEMA_UID], *global, "{path}");
    }
    let anonymous = Request::get(CONFIG_MAPS).body(Full::new(Bytes::new())).unwrap();
    let answer = client.server.clone().oneshot(anonymous).await.unwrap();
    assert_eq!(answer.status(), 403);
    assert_eq!(answer.headers()[SCHEMA_UID], *global);
    let rejected = client.ask(http::Method::GET, CONFIG_MAPS, &[("authorization", "Bearer x")], "").await;
    assert_eq!((rejected.code, rejected.headers.get(SCHEMA_UID)), (401, None));
}

#[tokio::test]
async fn a_configured_schema_has_taken_effect_when_its_write_is_acknowledged() {
    let client = Client::new().await;
    client.post(&levels(), &closed_level("closed")).await.expect(201);
    assert_eq!(client.ask_as("eve", "/version").await.code, 200);
    let schema = client.post(&schemas(), &schema_for("eve", "closed")).await.expect(201);
    let answer = client.ask_as("eve", "/version").await;
    assert_eq!((answer.code, &*answer.raw), (429, &b"Too many requests, please try again later.\n"[..]));
    assert_eq!(answer.headers[header::RETRY_AFTER], "1");
    assert_eq!(answer.headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    assert_eq!(answer.headers[SCHEMA_UID], schema["metadata"]["uid"].as_str().unwrap());
    assert_eq!(client.ask_as("bob", "/version").await.code, 200);
    // Health checks get a response in any case.
    assert_eq!(client.ask_as("eve", "/readyz").await.code, 200);
    let metrics = client.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.raw).into_owned();
    let rejected = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"eve\",priority_level=\"closed\",\
                    reason=\"concurrency-limit\"} 1\n";
    assert!(metrics.contains(rejected), "{metrics}");
    assert!(metrics.contains("apiserver_flowcontrol_nominal_limit_seats{priority_level=\"workload-low\"} 245\n"));
    client.delete(&format!("{}/eve", schemas())).await.expect(200);
    assert_eq!(client.ask_as("eve", "/version").await.code, 200);
}

#[tokio::test]
async fn histograms_have_the_names_labels_and_buckets_of_kube_apiserver() {
    let client = Client::new().await;
    assert_eq!(client.ask_as("eve", "/version").await.code, 200);
    let _watch = client.watch("/api/v1/configmaps?watch=1").await;
    let metrics = client.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.raw).into_owned();
    let flow = "flow_schema=\"global-default\",priority_level=\"global-default\"";
    let exempt = "flow_schema=\"exempt\",priority_level=\"exempt\"";
    for line in [
        format!("request_wait_duration_seconds_bucket{{execute=\"true\",{flow},le=\"0\"}} 1"),
        format!("request_execution_seconds_bucket{{type=\"regular\",{flow},le=\"30\"}} 1"),
        format!("request_execution_seconds_count{{type=\"watch\",{exempt}}} 1"),
        format!("request_queue_length_after_enqueue_bucket{{{flow},le=\"0\"}} 0"),
        format!("request_queue_length_after_enqueue_bucket{{{flow},le=\"10\"}} 1"),
        format!("work_estimated_seats_bucket{{{flow},le=\"1\"}} 1"),
        format!("work_estimated_seats_sum{{{flow}}} 1"),
    ] {
        assert!(metrics.contains(&format!("apiserver_flowcontrol_{line}\n")), "{line} is missing from {metrics}");
    }
}

/// Waits until a FlowSchema has a condition with this status and reason.
async fn dangling(client: &Client, name: &str, status: &str) -> Value {
    for _ in 0..2000 {
        let schema = client.get(&format!("{}/{name}", schemas())).await.expect(200);
        let condition = schema["status"]["conditions"][0].clone();
        if condition["status"] == status {
            return condition;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the condition of {name} is not {status}");
}

#[tokio::test(start_paused = true)]
async fn a_schema_whose_level_is_missing_is_dangling_and_has_no_effect() {
    let client = Client::new().await;
    client.post(&schemas(), &schema_for("eve", "closed")).await.expect(201);
    let condition = dangling(&client, "eve", "True").await;
    assert_eq!(condition["reason"], "NotFound");
    assert_eq!(
        condition["message"],
        "This FlowSchema references the PriorityLevelConfiguration object named \"closed\" but there is no such object"
    );
    assert_eq!(client.ask_as("eve", "/version").await.code, 200);
    client.post(&levels(), &closed_level("closed")).await.expect(201);
    assert_eq!(client.ask_as("eve", "/version").await.code, 429);
    assert_eq!(dangling(&client, "eve", "False").await["reason"], "Found");
}

#[tokio::test(start_paused = true)]
async fn default_objects_are_restored_after_a_minute() {
    let client = Client::new().await;
    client.delete(&format!("{}/global-default", schemas())).await.expect(200);
    let spec = json!({"spec": {"limited": {"nominalConcurrencyShares": 77}}});
    let fixed = client.merge(&format!("{}/catch-all", levels()), &spec).await;
    assert!(fixed.message().ends_with("spec of 'catch-all' must equal the fixed value"), "{}", fixed.message());
    client.delete(&format!("{}/catch-all", levels())).await.expect(200);
    client.merge(&format!("{}/system", levels()), &spec).await.expect(200);
    let own = json!({"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}});
    client.merge(&format!("{}/node-high", levels()), &own).await.expect(200);
    client.merge(&format!("{}/node-high", levels()), &spec).await.expect(200);
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(client.get(&format!("{}/global-default", schemas())).await.code, 404);
    tokio::time::sleep(Duration::from_secs(3)).await;
    client.get(&format!("{}/global-default", schemas())).await.expect(200);
    for (name, shares) in [("catch-all", 5), ("system", 30), ("node-high", 77)] {
        let level = client.get(&format!("{}/{name}", levels())).await.expect(200);
        assert_eq!(level["spec"]["limited"]["nominalConcurrencyShares"], shares, "{name}");
    }
}

/// Allows everything.
struct Everything;

impl Authorizer for Everything {
    fn authorize<'a>(&'a self, _: &'a authorization::Attributes<'a>) -> Authorization<'a> {
        Decision::allow("").into()
    }
}

/// Holds back writes until the test permits them.
struct Held(Arc<Semaphore>);

#[async_trait]
impl Admission for Held {
    async fn validate(&self, write: &Attributes<'_>, _: &Value) -> Result<()> {
        if &*write.resource.plural == "configmaps" {
            self.0.acquire().await.unwrap().forget();
        }
        Ok(())
    }
}

/// A server with one seat per level, where writes of ConfigMaps wait for a permit.
async fn narrow_server() -> (Server, Arc<Semaphore>) {
    let limits = Limits { max_requests_inflight: 1, max_mutating_requests_inflight: 0, ..Limits::default() };
    limited_server(limits).await
}

/// A server where writes of ConfigMaps wait for a permit.
pub(crate) async fn limited_server(limits: Limits) -> (Server, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let server = Server::builder(Arc::new(MemoryStore::new()))
        .authorizer(Everything)
        .admission(Held(permits.clone()))
        .limits(limits)
        .build()
        .await
        .unwrap();
    (server, permits)
}

/// Creates a ConfigMap as a user.
pub(crate) fn create(server: &Server, user: &str, name: &str) -> impl Future<Output = Response<Body>> + use<> {
    let body = json!({"metadata": {"name": name}}).to_string();
    let mut request = Request::builder().method(Method::POST).uri(CONFIG_MAPS);
    request = request.header(header::CONTENT_TYPE, "application/json");
    let mut request = request.body(Full::new(Bytes::from(body))).unwrap();
    request.extensions_mut().insert(Arc::new(User { name: user.to_owned(), ..User::default() }));
    let server = server.clone();
    async move {
        match server.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_with_many_requests_does_not_starve_another() {
    let (server, permits) = narrow_server().await;
    let mut eve = tokio::task::JoinSet::new();
    for n in 0..400 {
        eve.spawn(create(&server, "eve", &format!("eve-{n}")));
    }
    // One runs, and 300 wait in the six queues of the user.
    for _ in 0..99 {
        let rejected = eve.join_next().await.unwrap().unwrap();
        assert_eq!(
            (rejected.status().as_u16(), &rejected.headers()[header::RETRY_AFTER]),
            (429, &"1".parse().unwrap())
        );
    }
    let mut bob = tokio::task::JoinSet::new();
    bob.spawn(create(&server, "bob", "bob"));
    tokio::task::yield_now().await;
    // The request that runs, one of each queue of the first user, and the other user's.
    permits.add_permits(8);
    assert_eq!(bob.join_next().await.unwrap().unwrap().status(), 201);
    eve.abort_all();
    while eve.join_next().await.is_some() {}
    // Aborted requests leave their queues.
    permits.add_permits(1000);
    assert_eq!(create(&server, "eve", "last").await.status(), 201);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_too_long_is_rejected() {
    let (server, permits) = narrow_server().await;
    let mut running = tokio::task::JoinSet::new();
    running.spawn(create(&server, "eve", "first"));
    tokio::task::yield_now().await;
    let begun = tokio::time::Instant::now();
    assert_eq!(create(&server, "bob", "second").await.status(), 429);
    assert_eq!(begun.elapsed().as_secs(), 15, "a quarter of the request's timeout");
    permits.add_permits(2);
    assert_eq!(running.join_next().await.unwrap().unwrap().status(), 201);
    assert_eq!(create(&server, "bob", "second").await.status(), 201);
}

#[tokio::test(start_paused = true)]
async fn the_administrator_is_never_limited() {
    let (server, permits) = narrow_server().await;
    let admin = Client::of(server.clone());
    let mut requests = FuturesUnordered::new();
    for n in 0..50 {
        requests.push(create(&server, "eve", &format!("eve-{n}")));
    }
    assert!(tokio::time::timeout(Duration::from_secs(1), requests.next()).await.is_err(), "all wait");
    admin.get(CONFIG_MAPS).await.expect(200);
    permits.add_permits(50);
}

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Creates Secrets whose list is sent in many pieces.
async fn fill_secrets(server: &Server) {
    let admin = Client::of(server.clone());
    for number in 0..40 {
        let data = json!({"a": "c2VjcmV0".repeat(2000)});
        admin.post(SECRETS, &json!({"metadata": {"name": format!("s{number:02}")}, "data": data})).await.expect(201);
    }
}

/// Sends a GET as a user.
pub(crate) fn read(
    server: &Server,
    user: &str,
    path: &str,
    headers: &[(&'static str, &'static str)],
) -> impl Future<Output = Response<Body>> + use<> {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Full::new(Bytes::new())).unwrap();
    request.extensions_mut().insert(Arc::new(User { name: user.to_owned(), ..User::default() }));
    let server = server.clone();
    async move {
        match server.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_occupies_its_seat_until_all_of_it_is_encoded() {
    let (server, _) = narrow_server().await;
    fill_secrets(&server).await;
    for (query, headers) in [
        ("", &[][..]),
        ("", &[("accept-encoding", "gzip")]),
        ("?includeObject=Object", &[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")]),
    ] {
        let mut list = read(&server, "eve", &format!("{SECRETS}{query}"), headers).await.into_body();
        let other = read(&server, "bob", &format!("{SECRETS}/s01"), &[]);
        list.frame().await.unwrap().unwrap();
        let mut other = pin!(other);
        let waiting = tokio::time::timeout(Duration::from_secs(1), &mut other).await;
        assert!(waiting.is_err(), "{query} {headers:?}: the seat is free before the list is encoded");
        while let Some(piece) = list.frame().await {
            piece.unwrap();
        }
        assert_eq!(other.await.status(), 200, "{query} {headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_reads_occupies_its_seat_until_the_time_limit_of_its_request() {
    let (server, _) = narrow_server().await;
    fill_secrets(&server).await;
    let begun = tokio::time::Instant::now();
    let mut list = read(&server, "eve", SECRETS, &[]).await.into_body();
    list.frame().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    // It waits for a quarter of a minute at most.
    assert_eq!(read(&server, "bob", &format!("{SECRETS}/s01"), &[]).await.status(), 200);
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert_eq!(list.frame().await.unwrap().unwrap_err(), BodyError::TimedOut);
    // A reader that is dropped frees its seat at once.
    let mut list = read(&server, "eve", SECRETS, &[]).await.into_body();
    list.frame().await.unwrap().unwrap();
    drop(list);
    assert_eq!(read(&server, "bob", &format!("{SECRETS}/s01"), &[]).await.status(), 200);
    assert_eq!(begun.elapsed().as_secs(), 60);
}
