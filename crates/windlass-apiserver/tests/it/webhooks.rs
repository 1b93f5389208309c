//! Admission webhooks, called over HTTPS.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::{
    client::{Answer, CONFIG_MAPS, Client, config_map, labelled},
    webhook_server::{WebhookServer, admission, denied, patched},
};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Returns a webhook for ConfigMaps.
fn webhook(name: &str, config: Value, more: &Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.example.com"), "clientConfig": config, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        webhook[field] = value.clone();
    }
    webhook
}

/// Repeats the request until the response is as expected.
async fn eventually(ask: impl AsyncFn() -> Answer, holds: impl Fn(&Answer) -> bool) {
    while !holds(&ask().await) {
        tokio::task::yield_now().await;
    }
}

async fn configure(client: &Client, path: &str, name: &str, webhooks: &[Value]) {
    client.post(path, &json!({"metadata": {"name": name}, "webhooks": webhooks})).await.expect(201);
}

/// Appends a letter to `data.a` for `/x`.
fn append(path: &str, review: &Value) -> (u16, Value) {
    let had = review["request"]["object"]["data"]["a"].as_str().unwrap_or_default();
    patched(review, &json!([{"op": "add", "path": "/data/a", "value": format!("{had}{}", &path[1..])}]))
}

#[tokio::test]
async fn a_mutating_webhook_changes_what_is_stored() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], |_, review| {
        patched(review, &json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]))
    });
    let server = server.await;
    configure(&client, MUTATING, "m", &[webhook("a", server.at("/label"), &json!({}))]).await;
    let made = client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
    assert_eq!(made["metadata"]["labels"], json!({"seen": "yes"}));
    let stored = client.get(&format!("{CONFIG_MAPS}/one")).await.expect(200);
    assert_eq!(stored["metadata"]["labels"], json!({"seen": "yes"}));
    // Fields that webhooks add have no manager.
    assert_eq!(stored["metadata"]["managedFields"][0]["fieldsV1"].get("f:metadata"), None);

    let seen = server.take_seen();
    let (path, review) = &seen[0];
    assert_eq!((seen.len(), path.as_str()), (1, "/label?timeout=10s"));
    assert_eq!((&review["kind"], &review["apiVersion"]), (&json!("AdmissionReview"), &json!("admission.k8s.io/v1")));
    let request = &review["request"];
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(request["requestResource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&request["name"], &request["namespace"]), (&json!("one"), &json!("default")));
    assert_eq!(request["userInfo"]["username"], "admin");
    assert_eq!((&request["oldObject"], &request["dryRun"]), (&Value::Null, &json!(false)));
    assert_eq!(request["object"]["data"], json!({"a": "1"}));

    client.merge(&format!("{CONFIG_MAPS}/one"), &json!({"data": {"a": "2"}})).await.expect(200);
    client.delete(&format!("{CONFIG_MAPS}/one")).await.expect(500);
    // One connection serves them all.
    assert_eq!((server.take_seen().len(), server.connections()), (2, 1));
}

#[tokio::test]
async fn a_validating_webhook_rejects_every_kind_of_write() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &labelled("kept", "keep", "yes")).await.expect(201);
    let server = WebhookServer::start(&[], |_, review| denied(review, "keep it")).await;
    let only = json!({"objectSelector": {"matchLabels": {"keep": "yes"}}});
    configure(&client, VALIDATING, "v", &[webhook("a", server.at("/deny"), &only)]).await;
    let kept = format!("{CONFIG_MAPS}/kept");
    let message = "admission webhook \"a.example.com\" denied the request: keep it";
    for answer in [
        client.post(CONFIG_MAPS, &labelled("other", "keep", "yes")).await,
        client.merge(&kept, &json!({"data": {"a": "2"}})).await,
        // The labels before the update count as well.
        client.merge(&kept, &json!({"metadata": {"labels": {"keep": "no"}}})).await,
        client.put(&kept, &labelled("kept", "keep", "no")).await,
        client.delete(&kept).await,
        client.delete(CONFIG_MAPS).await,
    ] {
        assert_eq!((answer.code, answer.message()), (403, message.to_owned()));
    }
    let seen = server.take_seen();
    let operations: Vec<&str> =
        seen.iter().map(|(_, review)| review["request"]["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE", "DELETE"]);
    client.post(CONFIG_MAPS, &config_map("free")).await.expect(201);
    client.delete(&format!("{VALIDATING}/v")).await.expect(200);
    client.delete(&kept).await.expect(200);
}

#[tokio::test]
async fn webhooks_are_called_in_the_order_of_their_names_and_again_if_needed() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], append).await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    configure(&client, MUTATING, "b", &[webhook("a", server.at("/3"), &json!({}))]).await;
    let first = [webhook("z", server.at("/1"), &again), webhook("a", server.at("/2"), &json!({}))];
    configure(&client, MUTATING, "a", &first).await;
    let made = client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
    assert_eq!(made["data"]["a"], "11231");
}

#[tokio::test]
async fn a_failed_call_fails_the_request_unless_the_policy_ignores_it() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], |_, _| (500, json!({}))).await;
    configure(&client, VALIDATING, "v", &[webhook("a", server.at("/x"), &json!({}))]).await;
    let answer = client.post(CONFIG_MAPS, &config_map("one")).await;
    assert_eq!(
        (answer.code, answer.message().as_str()),
        (
            500,
            "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: an error on the \
             server (\"unknown\") has prevented the request from succeeding"
        )
    );
    client.delete(&format!("{VALIDATING}/v")).await.expect(200);
    configure(&client, VALIDATING, "v", &[webhook("a", server.at("/x"), &json!({"failurePolicy": "Ignore"}))]).await;
    client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
}

#[tokio::test]
async fn a_webhook_that_the_ca_bundle_does_not_vouch_for_is_not_called() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], |_, review| admission(review, json!({"allowed": true}))).await;
    let other = WebhookServer::start(&[], |_, review| admission(review, json!({"allowed": true}))).await;
    let mut config = server.at("/x");
    config["caBundle"] = other.ca_bundle.clone().into();
    configure(&client, VALIDATING, "v", &[webhook("a", config, &json!({}))]).await;
    let message = client.post(CONFIG_MAPS, &config_map("one")).await.message();
    let why = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(message.ends_with(&format!("/x?timeout=10s\": {why}")), "{message}");
    assert_eq!(server.take_seen(), []);
}

#[tokio::test]
async fn services_are_reached_by_their_pods_or_their_external_name() {
    let client = Client::new().await;
    let server = WebhookServer::start(&["hooks.default.svc"], |_, review| denied(review, "no")).await;
    let config = json!({
        "service": {"name": "hooks", "namespace": "default", "path": "/p", "port": 8443}, "caBundle": server.ca_bundle,
    });
    configure(&client, VALIDATING, "v", &[webhook("a", config.clone(), &json!({}))]).await;
    let failed = |why: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: Post \
             \"https://hooks.default.svc:8443/p?timeout=10s\": {why}"
        )
    };
    let ask = || async { client.post(CONFIG_MAPS, &config_map("one")).await.message() };
    assert_eq!(ask().await, failed("service \"hooks\" not found"));
    let services = "/api/v1/namespaces/default/services";
    let port = server.address.port();
    let service = json!({"metadata": {"name": "hooks"}, "spec": {"selector": {"app": "hooks"}, "ports": [
        {"port": 8443, "targetPort": "https"}]}});
    client.post(services, &service).await.expect(201);
    assert_eq!(ask().await, failed("no endpoints available for service \"hooks\""));

    let pods = "/api/v1/namespaces/default/pods";
    let container = json!({"name": "c", "image": "i", "ports": [{"name": "https", "containerPort": port}]});
    let pod = json!({"metadata": {"name": "hooks", "labels": {"app": "hooks"}}, "spec": {"containers": [container]}});
    client.post(pods, &pod).await.expect(201);
    let status = json!({"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "conditions": [
        {"type": "Ready", "status": "True"}]}});
    client.merge(&format!("{pods}/hooks/status"), &status).await.expect(200);
    let denied = "admission webhook \"a.example.com\" denied the request: no";
    assert_eq!(ask().await, denied);

    // A service may also resolve to a local process.
    client.delete(&format!("{services}/hooks")).await.expect(200);
    client.delete(&format!("{VALIDATING}/v")).await.expect(200);
    client.delete(&format!("{pods}/hooks?gracePeriodSeconds=0")).await.expect(200);
    let local = json!({"metadata": {"name": "hooks"}, "spec": {"type": "ExternalName", "externalName": "localhost",
        "ports": [{"port": 8443, "targetPort": port}]}});
    client.post(services, &local).await.expect(201);
    configure(&client, VALIDATING, "v", &[webhook("a", config, &json!({}))]).await;
    assert_eq!(ask().await, denied);
}

#[tokio::test]
async fn webhook_configurations_bypass_webhooks() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], |_, review| denied(review, "no")).await;
    let rules =
        json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]});
    configure(&client, VALIDATING, "v", &[webhook("a", server.at("/x"), &rules)]).await;
    client.post(CONFIG_MAPS, &config_map("one")).await.expect(403);
    client.delete(&format!("{VALIDATING}/v")).await.expect(200);
    client.post(CONFIG_MAPS, &config_map("one")).await.expect(201);
}

#[tokio::test]
async fn warnings_and_conditions() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], |_, review| {
        admission(review, json!({"allowed": true, "warnings": ["mind the gap"]}))
    });
    let server = server.await;
    let condition = json!({"matchConditions": [{"name": "c", "expression": "object.data.a == 'b'"}]});
    configure(&client, VALIDATING, "v", &[webhook("a", server.at("/x"), &condition)]).await;
    let answer = client.post(CONFIG_MAPS, &config_map("one")).await;
    assert_eq!((answer.code, answer.headers.get("warning")), (201, None));
    let answer = client.merge(&format!("{CONFIG_MAPS}/one"), &json!({"data": {"a": "b"}})).await;
    assert_eq!(answer.headers["warning"], "299 - \"mind the gap\"");
}

#[tokio::test]
async fn webhooks_are_still_called_after_a_restart() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], |_, review| denied(review, "no")).await;
    configure(&client, VALIDATING, "v", &[webhook("a", server.at("/x"), &json!({}))]).await;
    client.restarted().await.post(CONFIG_MAPS, &config_map("one")).await.expect(403);
}

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A rule for a subresource.
fn creates_of(resource: &str) -> Value {
    json!({"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]})
}

/// Configures a mutating webhook at `/mutate` and a validating one at `/validate`.
async fn configure_both(client: &Client, server: &WebhookServer, resource: &str) {
    let rules = creates_of(resource);
    configure(client, MUTATING, "m", &[webhook("a", server.at("/mutate"), &rules)]).await;
    configure(client, VALIDATING, "v", &[webhook("b", server.at("/validate"), &rules)]).await;
}

#[tokio::test]
async fn a_token_request_is_validated_after_mutating_webhooks() {
    let client = Client::new().await;
    let account = client.post(ACCOUNTS, &json!({"metadata": {"name": "bot"}})).await.expect(201);
    let secret = json!({"metadata": {"name": "s"}});
    let secret = client.post("/api/v1/namespaces/default/secrets", &secret).await.expect(201);
    let server = WebhookServer::start(&[], |path, review| match path {
        // The patch is in the request.
        "/mutate" => {
            let text = review["request"]["object"]["metadata"]["annotations"]["patch"].as_str().unwrap();
            patched(review, &serde_json::from_str(text).unwrap())
        }
        _ => admission(review, json!({"allowed": true})),
    });
    let server = server.await;
    configure_both(&client, &server, "serviceaccounts/token").await;
    let ask = async |patch: Value| {
        let request = json!({"metadata": {"annotations": {"patch": json!([patch]).to_string()}}, "spec": {}});
        client.post(&format!("{ACCOUNTS}/bot/token"), &request).await
    };
    let replace = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let invalid = "TokenRequest.authentication.k8s.io";
    for (patch, code, message) in [
        (
            replace("/metadata/name", json!("other")),
            422,
            format!(
                "{invalid} \"bot\" is invalid: metadata.name: Invalid value: \"other\": must match the service \
                     account name if specified"
            ),
        ),
        (
            replace("/metadata/namespace", json!("other")),
            422,
            format!(
                "{invalid} \"bot\" is invalid: metadata.namespace: Invalid value: \"other\": must match the service \
                     account namespace if specified"
            ),
        ),
        (
            replace("/spec/expirationSeconds", json!(60)),
            422,
            format!(
                "{invalid} \"\" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration \
                     less than 10 minutes"
            ),
        ),
        (
            replace("/metadata/uid", json!("u")),
            409,
            format!(
                "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"bot\": the UID in the token \
                     request (u) does not match the UID of the service account ({})",
                account["metadata"]["uid"].as_str().unwrap()
            ),
        ),
    ] {
        server.take_seen();
        let answer = ask(patch.clone()).await;
        assert_eq!((answer.code, answer.message()), (code, message), "{patch}");
        let seen: Vec<String> = server.take_seen().into_iter().map(|(path, _)| path).collect();
        assert_eq!(seen, ["/mutate?timeout=10s"], "{patch}: validating webhooks see valid requests only");
    }
    let missing = json!({"apiVersion": "v1", "kind": "Secret", "name": "none"});
    assert_eq!(ask(replace("/spec/boundObjectRef", missing)).await.message(), "secrets \"none\" not found");
    let bound = json!({"apiVersion": "v1", "kind": "Secret", "name": "s"});
    server.take_seen();
    let made = ask(replace("/spec/boundObjectRef", bound.clone())).await.expect(201);
    assert_eq!(made["spec"]["boundObjectRef"]["name"], "s");
    let token = made["status"]["token"].as_str().unwrap();
    let claims = token.split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    let in_token = &claims["kubernetes.io"]["secret"];
    assert_eq!(*in_token, json!({"name": "s", "uid": secret["metadata"]["uid"]}));
    let seen = server.take_seen();
    assert_eq!(seen.len(), 2);
    let validated = &seen[1].1["request"]["object"];
    assert_eq!(validated["spec"]["boundObjectRef"]["name"], "s");
    assert_eq!(validated["metadata"]["uid"], account["metadata"]["uid"]);
    assert_eq!(validated["status"]["token"].as_str().unwrap_or_default(), "", "there is no token yet");
    // A default that a webhook removes is set again.
    let removed = ask(json!({"op": "remove", "path": "/spec/expirationSeconds"})).await.expect(201);
    assert_eq!(removed["spec"]["expirationSeconds"], 3600);
}

#[tokio::test]
async fn an_eviction_that_a_webhook_turns_to_another_pod_is_rejected() {
    let client = Client::new().await;
    for name in ["p", "q"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        client.post(PODS, &pod).await.expect(201);
    }
    let server = WebhookServer::start(&[], |path, review| match path {
        "/mutate" => patched(review, &json!([{"op": "replace", "path": "/metadata/name", "value": "q"}])),
        _ => admission(review, json!({"allowed": true})),
    });
    let server = server.await;
    configure_both(&client, &server, "pods/eviction").await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let answer = client.post(&format!("{PODS}/p/eviction"), &eviction).await;
    assert_eq!((answer.code, &*answer.message()), (400, "name in URL does not match name in Eviction object"));
    for name in ["p", "q"] {
        client.get(&format!("{PODS}/{name}")).await.expect(200);
    }
}

/// A rule for reviews.
fn reviews() -> Value {
    json!({"rules": [{
        "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["*"],
    }]})
}

const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io/v1", "tokenreviews"),
    ("authentication.k8s.io/v1", "selfsubjectreviews"),
    ("authorization.k8s.io/v1", "subjectaccessreviews"),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews"),
    ("authorization.k8s.io/v1", "selfsubjectrulesreviews"),
    ("authorization.k8s.io/v1/namespaces/missing", "localsubjectaccessreviews"),
];

/// Returns a valid review of a resource.
fn review(resource: &str) -> Value {
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "missing"});
    let spec = match resource {
        "tokenreviews" => return json!({"metadata": {"name": "n"}, "spec": {"token": "t"}}),
        "selfsubjectreviews" => return json!({"metadata": {"name": "n"}}),
        "selfsubjectrulesreviews" => json!({"namespace": "default"}),
        "selfsubjectaccessreviews" => json!({"resourceAttributes": attributes}),
        _ => json!({"user": "eve", "resourceAttributes": attributes}),
    };
    json!({"spec": spec})
}

#[tokio::test]
async fn reviews_are_creates_for_webhooks() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], |path, review| match path {
        "/mutate" => admission(review, json!({"allowed": true})),
        _ => denied(review, "no questions"),
    });
    let server = server.await;
    configure(&client, MUTATING, "m", &[webhook("a", server.at("/mutate"), &reviews())]).await;
    configure(&client, VALIDATING, "v", &[webhook("b", server.at("/validate"), &reviews())]).await;
    for (prefix, resource) in REVIEWS {
        let answer = client.post(&format!("/apis/{prefix}/{resource}"), &review(resource)).await;
        let message = "admission webhook \"b.example.com\" denied the request: no questions";
        assert_eq!((answer.code, &*answer.message()), (403, message), "{resource}");
        let seen = server.take_seen();
        assert_eq!(seen.len(), 2, "{resource}");
        for (_, asked) in seen {
            let request = &asked["request"];
            assert_eq!(request["operation"], "CREATE", "{resource}");
            assert_eq!(request["name"], review(resource)["metadata"]["name"], "{resource}");
            assert_eq!(request["resource"]["resource"], resource);
            assert!(!request["object"]["status"]["allowed"].as_bool().unwrap_or_default(), "{resource}");
        }
    }
    // Validating webhooks see valid reviews only.
    let answer = client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &json!({"spec": {}})).await;
    let seen: Vec<String> = server.take_seen().into_iter().map(|(path, _)| path).collect();
    assert_eq!((answer.code, seen), (422, vec!["/mutate?timeout=10s".to_owned()]));
}

#[tokio::test]
async fn reviews_are_answered_as_mutating_webhooks_leave_them() {
    let client = Client::new().await;
    let server = WebhookServer::start(&[], |_, review| {
        patched(review, &json!([{"op": "add", "path": "/spec/groups", "value": ["system:masters"]}]))
    });
    let server = server.await;
    configure(&client, MUTATING, "m", &[webhook("a", server.at("/mutate"), &reviews())]).await;
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = client.post(path, &review("subjectaccessreviews")).await.expect(201);
    assert_eq!((&answer["status"]["allowed"], &answer["spec"]["groups"]), (&json!(true), &json!(["system:masters"])));
}

#[tokio::test]
async fn webhooks_behind_the_service_of_the_server_itself_are_its_own_requests() {
    let client = Client::new().await;
    let remote = WebhookServer::start(&["hooks.default.svc"], |_, review| match review {
        Value::Null => (
            200,
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "h.example.com/v1", "resources": []}),
        ),
        review => denied(review, "said the aggregated server"),
    });
    let remote = remote.await;
    let service = json!({"metadata": {"name": "hooks"}, "spec": {"type": "ExternalName", "externalName": "localhost",
        "ports": [{"port": 443, "targetPort": remote.address.port()}]}});
    client.post("/api/v1/namespaces/default/services", &service).await.expect(201);
    let aggregated = json!({"metadata": {"name": "v1.h.example.com"}, "spec": {
        "group": "h.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "caBundle": remote.ca_bundle, "service": {"name": "hooks", "namespace": "default"},
    }});
    client.post("/apis/apiregistration.k8s.io/v1/apiservices", &aggregated).await.expect(201);
    let is_available = |answer: &Answer| answer.json()["status"]["conditions"][0]["status"] == "True";
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.h.example.com";
    eventually(async || client.get(path).await, is_available).await;
    remote.take_seen();
    // There are no endpoints, and no certificate is trusted.
    let own = |path: &str| json!({"service": {"name": "kubernetes", "namespace": "default", "path": path}});
    configure(&client, VALIDATING, "v", &[webhook("a", own("/apis/h.example.com/v1/reviews"), &json!({}))]).await;
    let answer = client.post(CONFIG_MAPS, &config_map("one")).await;
    let message = "admission webhook \"a.example.com\" denied the request: said the aggregated server";
    assert_eq!((answer.code, &*answer.message()), (403, message));
    let seen = remote.take_seen();
    assert!(seen.iter().any(|(path, _)| path == "/apis/h.example.com/v1/reviews?timeout=10s"), "{seen:?}");
    client.delete(&format!("{VALIDATING}/v")).await.expect(200);
    configure(&client, VALIDATING, "v", &[webhook("a", own("/none"), &json!({}))]).await;
    let message = client.post(CONFIG_MAPS, &config_map("one")).await.message();
    let failed = "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: the server \
                  could not find the requested resource";
    assert_eq!(message, failed);
}
