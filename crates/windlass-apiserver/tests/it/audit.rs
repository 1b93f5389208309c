//! Audit events of requests.

mod backends;
mod responses;
mod webhook;

use std::{fs, path::PathBuf, sync::Arc};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;
use windlass_apiserver::{
    Server, ServerBuilder,
    admission::{Admission, Attributes},
    audit::{AuditOptions, LogOptions, Policy},
    authorization::{self, Action, Authorization, Authorizer, Decision},
    body::Body,
    status::Result,
    user::User,
};
use windlass_store::memory::MemoryStore;

use crate::{
    client::{CONFIG_MAPS, Client, config_map},
    webhook_server::{WebhookServer, admission, patched},
};

/// Returns a policy with some rules, in YAML.
fn policy(rest: &str) -> Policy {
    Policy::parse(format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rest}").as_bytes()).unwrap()
}

/// A server whose requests are logged.
pub(crate) struct Audited {
    pub(crate) client: Client,
    log: PathBuf,
    _folder: TempDir,
}

impl Audited {
    pub(crate) async fn new(rest: &str) -> Self {
        Self::with(rest, |builder| builder).await
    }

    pub(crate) async fn with(rest: &str, more: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let options = AuditOptions { policy: policy(rest), log: Some(LogOptions::new(&log)), webhook: None };
        let builder = Server::builder(Arc::new(MemoryStore::new())).audit(options);
        let client = Client::of(more(builder).build().await.unwrap());
        Self { client, log, _folder: folder }
    }

    /// Sends a request as a user; `None` sends no credentials.
    pub(crate) async fn send(
        &self,
        user: Option<User>,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Response<Body> {
        let mut request = request.body(Full::new(body.into())).unwrap();
        if let Some(user) = user {
            request.extensions_mut().insert(Arc::new(user));
        }
        self.client.server.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request as the administrator, and returns its events once the response is read.
    pub(crate) async fn events_of(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Vec<Value> {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type);
        let response = self.send(Some(User::admin()), request, body).await;
        let id = response.headers()["audit-id"].to_str().unwrap().to_owned();
        response.into_body().collect().await.unwrap();
        self.events(&id).await
    }

    /// Returns the events of an audit ID.
    pub(crate) async fn events(&self, id: &str) -> Vec<Value> {
        self.client.server.flush_audit().await;
        let text = fs::read_to_string(&self.log).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|event: &Value| event["auditID"] == id)
            .collect()
    }
}

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["stage"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_level_decides_which_objects_are_recorded() {
    for (level, recorded) in [
        ("None", None),
        ("Metadata", Some((false, false))),
        ("Request", Some((true, false))),
        ("RequestResponse", Some((true, true))),
    ] {
        let audited = Audited::new(&format!("rules: [{{level: {level}}}]")).await;
        let json = "application/json";
        let events = audited.events_of(Method::POST, CONFIG_MAPS, json, config_map("a").to_string()).await;
        let Some((request, response)) = recorded else {
            assert!(events.is_empty());
            continue;
        };
        assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"], "{level}");
        let [first, last] = &events[..] else { panic!("two events") };
        assert_eq!((&first["responseStatus"], &first["requestObject"]), (&Value::Null, &Value::Null));
        assert_eq!(first["stageTimestamp"], first["requestReceivedTimestamp"]);
        assert_eq!(first["objectRef"], json!({"resource": "configmaps", "namespace": "default", "apiVersion": "v1"}));
        assert_eq!((&last["kind"], &last["apiVersion"]), (&json!("Event"), &json!("audit.k8s.io/v1")));
        assert_eq!((&last["level"], &last["verb"]), (&json!(level), &json!("create")));
        assert_eq!((&last["requestURI"], &last["objectRef"]["name"]), (&json!(CONFIG_MAPS), &json!("a")));
        let user = json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]});
        assert_eq!(last["user"], user);
        assert_eq!(last["responseStatus"], json!({"metadata": {}, "code": 201}));
        let annotations = json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""});
        assert_eq!(last["annotations"], annotations);
        assert_eq!(last["requestObject"]["data"] == json!({"a": "1"}), request, "{level}");
        assert_eq!(last["responseObject"]["metadata"]["uid"].is_string(), response, "{level}");
    }
}

#[tokio::test]
async fn responses_are_recorded_in_the_form_that_the_client_gets_but_as_json() {
    let audited = Audited::new("rules: [{level: RequestResponse}]").await;
    audited.client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let path = &format!("{CONFIG_MAPS}/a");
    for (path, accept, kind) in [
        (path.as_str(), "application/json", "ConfigMap"),
        (path, "application/yaml", "ConfigMap"),
        (path, "application/vnd.kubernetes.protobuf", "ConfigMap"),
        (path, "application/json;as=Table;v=v1;g=meta.k8s.io", "Table"),
        (path, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "PartialObjectMetadata"),
        (CONFIG_MAPS, "application/json", "ConfigMapList"),
        (CONFIG_MAPS, "application/json;as=Table;v=v1;g=meta.k8s.io", "Table"),
        ("/api", "application/json", "APIVersions"),
        ("/apis/apps/v1", "application/yaml", "APIResourceList"),
        ("/version", "application/json", ""),
        ("/readyz", "application/json", ""),
    ] {
        let request = Request::get(path).header(header::ACCEPT, accept).header("audit-id", "mine");
        let response = audited.send(Some(User::admin()), request, "").await;
        assert_eq!(response.status(), 200, "{path} {accept}");
        drop(response);
        let events = audited.events("mine").await;
        let object = &events.last().unwrap()["responseObject"];
        assert_eq!(object["kind"].as_str().unwrap_or_default(), kind, "{path} {accept}");
    }
}

#[tokio::test]
async fn a_long_list_is_recorded_completely_each_time() {
    let audited = Audited::new("rules: [{level: RequestResponse, verbs: [list]}]").await;
    let mut large = config_map("large");
    large["data"]["a"] = "x".repeat(300 << 10).into();
    audited.client.post(CONFIG_MAPS, &large).await.expect(201);
    for _ in 0..3 {
        let events = audited.events_of(Method::GET, CONFIG_MAPS, "", "").await;
        assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
        let names = crate::client::names(&events[1]["responseObject"]);
        assert_eq!(names.last().map(String::as_str), Some("large"));
    }
}

#[tokio::test]
async fn patches_and_delete_options_are_request_objects() {
    let audited = Audited::new("rules: [{level: Request}]").await;
    audited.client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let path = &format!("{CONFIG_MAPS}/a");
    let apply = format!("{path}?fieldManager=me&force=true");
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {b: '2'}\n";
    let options = json!({"propagationPolicy": "Background"}).to_string();
    for (method, path, content_type, body, object) in [
        (Method::PATCH, path, "application/merge-patch+json", "{\"data\":\n{}}", json!({"data": {}})),
        (
            Method::PATCH,
            &apply,
            "application/apply-patch+yaml",
            yaml,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "2"}}),
        ),
        (
            Method::DELETE,
            path,
            "application/json",
            &options,
            json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", "propagationPolicy": "Background"}),
        ),
    ] {
        let events = audited.events_of(method, path, content_type, body.to_owned()).await;
        let last = events.last().unwrap();
        assert_eq!(last["requestObject"], object);
        assert_eq!(last["responseStatus"]["code"], 200, "{last}");
        assert!(last["responseObject"].is_null());
    }
}

#[tokio::test]
async fn a_status_is_recorded_at_any_level() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let path = &format!("{CONFIG_MAPS}/a");
    let events = audited.events_of(Method::GET, path, "", "").await;
    let details = json!({"name": "a", "kind": "configmaps"});
    let message = "configmaps \"a\" not found";
    assert_eq!(
        events[1]["responseStatus"],
        json!({
            "metadata": {}, "status": "Failure", "message": message, "reason": "NotFound", "details": details,
            "code": 404,
        })
    );
    audited.client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let events = audited.events_of(Method::DELETE, path, "", "").await;
    let status = &events[1]["responseStatus"];
    assert_eq!(
        (&status["status"], &status["code"], &status["details"]["name"]),
        (&json!("Success"), &json!(200), &json!("a"))
    );
    let events = audited.events_of(Method::GET, "/nothing", "", "").await;
    assert_eq!(events[1]["responseStatus"], json!({"metadata": {}, "code": 404}), "plain text has no status");
}

#[tokio::test]
async fn a_watch_has_an_event_when_it_starts_and_one_when_it_ends() {
    let audited = Audited::new("rules: [{level: RequestResponse}]").await;
    let request = Request::get(format!("{CONFIG_MAPS}?watch=1")).header("audit-id", "w");
    let response = audited.send(Some(User::admin()), request, "").await;
    assert_eq!(stages(&audited.events("w").await), ["RequestReceived", "ResponseStarted"]);
    let mut body = response.into_body();
    audited.client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    body.frame().await.unwrap().unwrap();
    assert_eq!(audited.events("w").await.len(), 2);
    drop(body);
    let events = audited.events("w").await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    assert_eq!(events[2]["responseStatus"], json!({"metadata": {}, "code": 200}));
    assert!(events[2]["responseObject"].is_null());
}

#[tokio::test]
async fn a_request_that_fails_to_authenticate_has_one_event() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let request = Request::get(CONFIG_MAPS).header("audit-id", "x").header(header::AUTHORIZATION, "Bearer wrong");
    assert_eq!(audited.send(None, request, "").await.status(), 401);
    let events = audited.events("x").await;
    assert_eq!(stages(&events), ["ResponseStarted"]);
    assert_eq!((&events[0]["user"], &events[0]["verb"]), (&json!({}), &json!("list")));
    let status =
        json!({"metadata": {}, "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
    assert_eq!(events[0]["responseStatus"], status);
    assert!(events[0]["annotations"].is_null());
}

#[tokio::test]
async fn a_forbidden_request_is_recorded_with_the_decision() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let eve = User { name: "eve".to_owned(), ..User::default() };
    let request = Request::get(CONFIG_MAPS).header("audit-id", "x");
    assert_eq!(audited.send(Some(eve), request, "").await.status(), 403);
    let events = audited.events("x").await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    assert_eq!(events[1]["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(events[1]["responseStatus"]["reason"], "Forbidden");
}

#[tokio::test]
async fn a_request_whose_client_disconnects_is_complete() {
    let audited = Audited::new("rules: [{level: Request}]").await;
    let body =
        StreamBody::new(stream::pending::<std::result::Result<http_body::Frame<Bytes>, std::io::Error>>().boxed());
    let mut request = Request::post(CONFIG_MAPS).header("audit-id", "x").body(body).unwrap();
    request.extensions_mut().insert(Arc::new(User::admin()));
    let response = audited.client.server.clone().oneshot(request).now_or_never();
    assert!(response.is_none(), "the body never ends");
    let events = audited.events("x").await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    let message = "Connection closed early";
    assert_eq!(
        events[1]["responseStatus"],
        json!({"metadata": {}, "status": "Success", "message": message, "code": 200})
    );
}

/// A plugin that panics.
struct Panics;

#[async_trait::async_trait]
impl Admission for Panics {
    async fn validate(&self, _write: &Attributes<'_>, object: &Value) -> Result<()> {
        assert!(object["metadata"]["name"] != "bad", "a defect");
        Ok(())
    }
}

#[tokio::test]
async fn a_panic_is_recorded() {
    let audited = Audited::with("rules: [{level: Metadata}]", |builder| builder.admission(Panics)).await;
    let request = Request::post(CONFIG_MAPS).header("audit-id", "x").header(header::CONTENT_TYPE, "application/json");
    let response = audited.send(Some(User::admin()), request, config_map("bad").to_string()).await;
    assert_eq!((response.status().as_u16(), &response.headers()["audit-id"]), (500, &"x".parse().unwrap()));
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "This request caused apiserver to panic. Look in the logs for details.\n");
    let events = audited.events("x").await;
    assert_eq!(stages(&events), ["RequestReceived", "Panic"]);
    assert_eq!((&events[1]["responseStatus"]["code"], &events[1]["objectRef"]["name"]), (&json!(500), &json!("bad")));
}

#[tokio::test]
async fn stages_and_managed_fields_are_omitted_if_the_policy_says_so() {
    let rest = "omitStages: [RequestReceived]\nomitManagedFields: true\nrules: [{level: RequestResponse}]";
    let audited = Audited::new(rest).await;
    audited.client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let table = format!("{CONFIG_MAPS}?includeObject=Object");
    for (path, accept, pointer) in [
        (format!("{CONFIG_MAPS}/a"), "application/json", "/metadata"),
        (CONFIG_MAPS.to_owned(), "application/json", "/items/0/metadata"),
        (table, "application/json;as=Table;v=v1;g=meta.k8s.io", "/rows/0/object/metadata"),
    ] {
        let request = Request::get(&path).header(header::ACCEPT, accept).header("audit-id", path.clone());
        drop(audited.send(Some(User::admin()), request, "").await);
        let events = audited.events(&path).await;
        assert_eq!(stages(&events), ["ResponseComplete"]);
        let metadata = events[0]["responseObject"].pointer(pointer).unwrap();
        assert!(metadata["name"].is_string() && metadata["managedFields"].is_null(), "{path}: {metadata}");
    }
}

#[tokio::test]
async fn addresses_of_proxies_and_a_bounded_user_agent_are_recorded() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let agent = "a".repeat(1025);
    let request = Request::get("/api")
        .header("audit-id", "x")
        .header("x-forwarded-for", "1.2.3.4, nothing, 2001:db8::1")
        .header("x-real-ip", "5.6.7.8")
        .header(header::USER_AGENT, &agent);
    drop(audited.send(Some(User::admin()), request, "").await);
    let event = &audited.events("x").await[0];
    assert_eq!(event["sourceIPs"], json!(["1.2.3.4", "2001:db8::1", "5.6.7.8"]));
    assert_eq!(event["userAgent"], format!("{}...TRUNCATED", &agent[..1024]));
}

#[tokio::test]
async fn calls_of_admission_webhooks_are_annotations() {
    let webhook = WebhookServer::start(&[], |path, review| match path {
        "/patch" => patched(review, &json!([{"op": "add", "path": "/data/b", "value": "2"}])),
        "/note" => admission(review, json!({"allowed": true, "auditAnnotations": {"ticket": "7"}})),
        _ => (500, json!({})),
    });
    let webhook = webhook.await;
    for (level, patch) in [("Metadata", false), ("Request", true)] {
        let audited = Audited::new(&format!("rules: [{{level: {level}}}]")).await;
        let hook = |name: &str| {
            json!({
                "name": format!("{name}.example.com"), "clientConfig": webhook.at(&format!("/{name}")),
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
            })
        };
        for (kind, hooks) in [("mutating", ["patch", "broken"]), ("validating", ["note", "broken"])] {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
            let configuration = json!({"metadata": {"name": "c"}, "webhooks": hooks.map(hook)});
            audited.client.post(&path, &configuration).await.expect(201);
        }
        let json = "application/json";
        let events = audited.events_of(Method::POST, CONFIG_MAPS, json, config_map("a").to_string()).await;
        let mut annotations = events[1]["annotations"].as_object().unwrap().clone();
        let patch_key = "patch.webhook.admission.k8s.io/round_0_index_0";
        let recorded = annotations.remove(patch_key).map(|patch| patch.as_str().unwrap().to_owned());
        let expected = "{\"configuration\":\"c\",\"webhook\":\"patch.example.com\",\
                        \"patch\":[{\"op\":\"add\",\"path\":\"/data/b\",\"value\":\"2\"}],\"patchType\":\"JSONPatch\"}";
        assert_eq!(recorded.as_deref(), patch.then_some(expected));
        let mutation = |name: &str, mutated: bool| {
            json!(format!("{{\"configuration\":\"c\",\"webhook\":\"{name}.example.com\",\"mutated\":{mutated}}}"))
        };
        assert_eq!(
            Value::Object(annotations),
            json!({
                "authorization.k8s.io/decision": "allow",
                "authorization.k8s.io/reason": "",
                "mutation.webhook.admission.k8s.io/round_0_index_0": mutation("patch", true),
                "mutation.webhook.admission.k8s.io/round_0_index_1": mutation("broken", false),
                "failed-open.mutation.webhook.admission.k8s.io/round_0_index_1": "broken.example.com",
                "failed-open.validating.webhook.admission.k8s.io/round_0_index_1": "broken.example.com",
                "note.example.com/ticket": "7",
            })
        );
    }
}

#[tokio::test]
async fn the_impersonated_user_is_recorded_with_the_authenticated_one() {
    let audited = Audited::new("rules: [{level: Metadata, users: [admin]}]").await;
    let request = Request::get(CONFIG_MAPS).header("audit-id", "x").header("impersonate-user", "eve");
    assert_eq!(audited.send(Some(User::admin()), request, "").await.status(), 403);
    let events = audited.events("x").await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    assert!(events[0]["impersonatedUser"].is_null());
    assert_eq!(
        (&events[1]["user"]["username"], &events[1]["impersonatedUser"]["username"]),
        (&json!("admin"), &json!("eve"))
    );
    assert_eq!(events[1]["annotations"]["authorization.k8s.io/decision"], "forbid");
}

/// An authorizer that fails for one path.
struct Fails;

impl Authorizer for Fails {
    fn authorize<'a>(&'a self, request: &'a authorization::Attributes<'a>) -> Authorization<'a> {
        match request.action {
            Action::Path { path: "/version", .. } => {
                Decision { error: Some("defect".to_owned()), ..Decision::no_opinion("") }.into()
            }
            _ => Decision::allow("").into(),
        }
    }
}

#[tokio::test]
async fn an_authorizer_that_fails_is_a_reason() {
    let audited = Audited::with("rules: [{level: Metadata}]", |builder| builder.authorizer(Fails)).await;
    let events = audited.events_of(Method::GET, "/version", "", "").await;
    assert_eq!(events[1]["annotations"], json!({"authorization.k8s.io/reason": "internal error"}));
    assert_eq!(events[1]["responseStatus"]["code"], 500);
}

#[tokio::test]
async fn violations_of_pod_security_standards_are_annotations() {
    let audited = Audited::new("rules: [{level: Metadata}]").await;
    let annotations = async |spec: Value| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": spec});
        let path = "/api/v1/namespaces/default/pods";
        let events = audited.events_of(Method::POST, path, "application/json", pod.to_string()).await;
        let all = events.last().unwrap()["annotations"].as_object().unwrap().clone();
        let own = all
            .into_iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("pod-security.kubernetes.io/")?.to_owned(), value)));
        own.collect::<Value>()
    };
    let spec = json!({"hostPID": true, "containers": [{"name": "c", "image": "i"}]});
    assert_eq!(annotations(spec.clone()).await, json!({"enforce-policy": "privileged:latest"}));
    let labels = json!({"pod-security.kubernetes.io/audit": "baseline", "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/enforce-version": "v1.30"});
    let namespace = json!({"metadata": {"labels": labels}});
    audited.client.merge("/api/v1/namespaces/default", &namespace).await.expect(200);
    let expected = json!({
        "enforce-policy": "baseline:v1.30",
        "audit-violations": "would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)",
    });
    assert_eq!(annotations(spec).await, expected);
}
