//! The authorizers of a configuration: webhooks, files, and `authorizer` in expressions.

use std::{fs, path::Path, sync::Arc, time::Duration};

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::{
    Server,
    authorization::{
        Action, Attributes, Authorization, AuthorizationOptions, Authorizer, AuthorizerOptions, Decision,
        WebhookOptions,
    },
    user::User,
};
use windlass_store::memory::MemoryStore;

use crate::{
    access::anonymous,
    client::{CONFIG_MAPS, Client, config_map},
    webhook_server::{WebhookServer, denied},
};

async fn start(authorizers: Vec<AuthorizerOptions>) -> Client {
    let options = AuthorizationOptions { authorizers, file: None };
    let builder = Server::builder(Arc::new(MemoryStore::new())).authorization(options);
    Client::of(builder.build().await.unwrap())
}

fn eve() -> User {
    User { name: "eve".to_owned(), groups: vec!["system:authenticated".to_owned()], ..User::default() }
}

/// Writes a kubeconfig with the address of a server.
fn kubeconfig(directory: &Path, server: &WebhookServer) -> std::path::PathBuf {
    let path = directory.join("webhook.kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "s", "user": "u"}}],
        "clusters": [{"name": "s", "cluster": {
            "server": format!("https://{}/authorize", server.address), "certificate-authority-data": server.ca_bundle,
        }}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    });
    fs::write(&path, config.to_string()).unwrap();
    path
}

fn webhook(directory: &Path, server: &WebhookServer) -> WebhookOptions {
    WebhookOptions {
        name: "hook".to_owned(),
        kubeconfig: kubeconfig(directory, server),
        version: "v1".to_owned(),
        timeout: Duration::from_secs(10),
        authorized_ttl: Duration::from_secs(300),
        unauthorized_ttl: Duration::ZERO,
        denies_on_failure: false,
        conditions: Vec::new(),
    }
}

/// Answers a SubjectAccessReview: `eve` may list config maps, and is denied secrets.
fn decide(_: &str, review: &Value) -> (u16, Value) {
    let resource = &review["spec"]["resourceAttributes"]["resource"];
    let status = match resource.as_str().unwrap_or_default() {
        "configmaps" => json!({"allowed": true, "reason": "she may"}),
        "secrets" => json!({"allowed": false, "denied": true, "reason": "never"}),
        "pods" => return (500, json!({})),
        _ => json!({"allowed": false, "reason": "who knows"}),
    };
    (200, json!({"apiVersion": review["apiVersion"], "kind": "SubjectAccessReview", "status": status}))
}

#[tokio::test]
async fn modes_are_tried_in_order() {
    let allowing = start(vec![AuthorizerOptions::AlwaysAllow]).await;
    allowing.ask_for(&eve(), Method::GET, CONFIG_MAPS, &Value::Null).await.expect(200);
    let denying = start(vec![AuthorizerOptions::AlwaysDeny]).await;
    let answer = denying.ask_for(&eve(), Method::GET, CONFIG_MAPS, &Value::Null).await;
    let expected = "configmaps is forbidden: User \"eve\" cannot list resource \"configmaps\" in API group \"\" in the \
                    namespace \"default\": Everything is forbidden.";
    assert_eq!((answer.code, answer.message().as_str()), (403, expected));
    denying.get(CONFIG_MAPS).await.expect(200);
    let both = start(vec![AuthorizerOptions::AlwaysDeny, AuthorizerOptions::AlwaysAllow]).await;
    both.ask_for(&eve(), Method::GET, CONFIG_MAPS, &Value::Null).await.expect(200);
}

#[tokio::test]
async fn requests_without_credentials_are_rejected_if_everything_is_allowed() {
    let client = start(vec![AuthorizerOptions::AlwaysAllow]).await;
    for path in [CONFIG_MAPS, "/version"] {
        assert_eq!(anonymous(&client, path, &[]).await.code, 401, "{path}");
    }
}

#[tokio::test]
async fn a_webhook_decides_and_its_permissions_are_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let server = WebhookServer::start(&[], decide).await;
    let hook = AuthorizerOptions::Webhook(webhook(directory.path(), &server));
    let client = start(vec![hook, AuthorizerOptions::AlwaysDeny]).await;
    for _ in 0..3 {
        client.ask_for(&eve(), Method::GET, CONFIG_MAPS, &Value::Null).await.expect(200);
    }
    let seen = server.take_seen();
    assert_eq!(seen.len(), 1);
    let (path, review) = &seen[0];
    assert_eq!(path, "/authorize?timeout=10s");
    let attributes = json!({"namespace": "default", "verb": "list", "version": "v1", "resource": "configmaps"});
    assert_eq!(review["spec"]["resourceAttributes"], attributes);
    assert_eq!(review["spec"]["user"], "eve");
    let message = |resource: &str| format!("/api/v1/namespaces/default/{resource}");
    for (resource, reason) in [("secrets", "never"), ("services", "who knows\nEverything is forbidden.")] {
        for _ in 0..2 {
            let answer = client.ask_for(&eve(), Method::GET, &message(resource), &Value::Null).await;
            assert_eq!(answer.code, 403);
            assert!(
                answer.message().ends_with(&format!("in the namespace \"default\": {reason}")),
                "{}",
                answer.message()
            );
        }
    }
    // Denials are not cached, as configured.
    assert_eq!(server.take_seen().len(), 4);
    // The webhook is not called for administrators.
    client.get("/api/v1/namespaces/default/secrets").await.expect(200);
    assert_eq!(server.take_seen().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failing_webhook_has_no_opinion_or_denies() {
    let _time = windlass_clock::virtual_time();
    let directory = tempfile::tempdir().unwrap();
    let server = WebhookServer::start(&[], decide).await;
    let failing = webhook(directory.path(), &server);
    let pods = "/api/v1/namespaces/default/pods";
    let client = start(vec![AuthorizerOptions::Webhook(failing.clone()), AuthorizerOptions::AlwaysAllow]).await;
    client.ask_for(&eve(), Method::GET, pods, &Value::Null).await.expect(200);
    assert_eq!(server.take_seen().len(), 5);
    let client = start(vec![AuthorizerOptions::Webhook(failing.clone()), AuthorizerOptions::AlwaysDeny]).await;
    let answer = client.ask_for(&eve(), Method::GET, pods, &Value::Null).await;
    let expected = "Internal Server Error: \"/api/v1/namespaces/default/pods\": an error on the server (\"unknown\") has \
                    prevented the request from succeeding\n";
    assert_eq!((answer.code, String::from_utf8_lossy(&answer.raw).as_ref()), (500, expected));
    let denying = AuthorizerOptions::Webhook(WebhookOptions { denies_on_failure: true, ..failing });
    let client = start(vec![denying, AuthorizerOptions::AlwaysAllow]).await;
    assert_eq!(client.ask_for(&eve(), Method::GET, pods, &Value::Null).await.code, 500);
}

#[tokio::test]
async fn conditions_decide_whether_a_webhook_is_called() {
    let directory = tempfile::tempdir().unwrap();
    let server = WebhookServer::start(&[], decide).await;
    let conditions = vec![
        "has(request.resourceAttributes)".to_owned(),
        "request.resourceAttributes.namespace != 'kube-system'".to_owned(),
        "!('system:masters' in request.groups)".to_owned(),
    ];
    let hook = WebhookOptions { conditions, ..webhook(directory.path(), &server) };
    let client = start(vec![AuthorizerOptions::Webhook(hook), AuthorizerOptions::AlwaysAllow]).await;
    for (path, calls) in
        [("/version", 0), ("/api/v1/namespaces/kube-system/secrets", 0), ("/api/v1/namespaces/default/secrets", 1)]
    {
        let answer = client.ask_for(&eve(), Method::GET, path, &Value::Null).await;
        assert_eq!(answer.code, if calls == 0 { 200 } else { 403 }, "{path}");
        assert_eq!(server.take_seen().len(), calls, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_takes_effect_without_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("authorization.yaml");
    let write = |authorizers: &str| {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: ";
        fs::write(&path, format!("{head}{authorizers}")).unwrap();
    };
    write("[{type: RBAC, name: rbac}]");
    let options = AuthorizationOptions::from_file(&path).unwrap();
    let server = Server::builder(Arc::new(MemoryStore::new())).authorization(options).build().await.unwrap();
    let client = Client::of(server);
    let code = async || client.ask_for(&eve(), Method::GET, CONFIG_MAPS, &Value::Null).await.code;
    assert_eq!(code().await, 403);
    // A file without a type that the first one had, or with an error, changes nothing.
    for rejected in ["[{type: AlwaysAllow, name: alwaysallow}]", "[{type: Magic, name: x}]"] {
        write(rejected);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(code().await, 403, "{rejected}");
    }
    write("[{type: RBAC, name: rbac}, {type: AlwaysAllow, name: alwaysallow}]");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(code().await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_being_replaced_changes_nothing_and_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("authorization.yaml");
    let whole = |authorizers: Value| {
        let (version, kind) = ("apiserver.config.k8s.io/v1", "AuthorizationConfiguration");
        json!({"apiVersion": version, "kind": kind, "authorizers": authorizers}).to_string()
    };
    let rbac = json!({"type": "RBAC", "name": "rbac"});
    let strict = whole(json!([rbac]));
    let open = whole(json!([rbac, {"type": "AlwaysAllow", "name": "alwaysallow"}]));
    fs::write(&path, &strict).unwrap();
    let options = AuthorizationOptions::from_file(&path).unwrap();
    let server = Server::builder(Arc::new(MemoryStore::new())).authorization(options).build().await.unwrap();
    let client = Client::of(server);
    let code = async || client.ask_for(&eve(), Method::GET, CONFIG_MAPS, &Value::Null).await.code;
    let reloads = async |status: &str| {
        let text = String::from_utf8(client.get("/metrics").await.raw.to_vec()).unwrap();
        let name = "apiserver_authorization_config_controller_automatic_reloads_total";
        let prefix = format!("{name}{{status=\"{status}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(code().await, 403);
    let interruptions: [&dyn Fn(); 5] = [
        &|| fs::write(&path, &open[..open.len() / 2]).unwrap(),
        &|| fs::write(&path, "").unwrap(),
        &|| fs::remove_file(&path).unwrap(),
        &|| fs::create_dir(&path).unwrap(),
        &|| {
            fs::remove_dir(&path).unwrap();
            std::os::unix::fs::symlink(directory.path().join("missing"), &path).unwrap();
        },
    ];
    for (number, interrupt) in interruptions.into_iter().enumerate() {
        interrupt();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(code().await, 403, "{number}");
        // The last one fails like the removed file, after another failure.
        assert_eq!(reloads("failure").await, number as u64 + 1, "{number}");
    }
    assert_eq!(reloads("success").await, 0);
    // The file is replaced as by `ln -sfn` or an editor.
    fs::write(directory.path().join("new"), &open).unwrap();
    fs::rename(directory.path().join("new"), &path).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((code().await, reloads("success").await), (200, 1));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_while_the_server_starts_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("authorization.yaml");
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: ";
    fs::write(&path, format!("{head}[{{type: RBAC, name: rbac}}, {{type: AlwaysAllow, name: alwaysallow}}]")).unwrap();
    let options = AuthorizationOptions::from_file(&path).unwrap();
    fs::write(&path, format!("{head}[{{type: AlwaysAllow, name: alwaysallow}}, {{type: RBAC, name: rbac}}]")).unwrap();
    let server = Server::builder(Arc::new(MemoryStore::new())).authorization(options).build().await.unwrap();
    let client = Client::of(server);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let metrics = String::from_utf8(client.get("/metrics").await.raw.to_vec()).unwrap();
    let reloaded = "apiserver_authorization_config_controller_automatic_reloads_total{status=\"success\"} 1\n";
    assert!(metrics.contains(reloaded), "{metrics}");
}

#[tokio::test]
async fn conditions_of_webhooks_can_ask_the_authorizer() {
    let directory = tempfile::tempdir().unwrap();
    let authorizers = WebhookServer::start(&[], decide).await;
    let hook = AuthorizerOptions::Webhook(webhook(directory.path(), &authorizers));
    let client = start(vec![hook, AuthorizerOptions::AlwaysAllow]).await;
    let admission = WebhookServer::start(&[], |_, review| denied(review, "no")).await;
    for (index, (condition, code)) in [
        // Decided by the webhook, which is called while the request waits.
        ("authorizer.group('').resource('secrets').namespace('x').check('get').allowed()", 201),
        ("authorizer.group('').resource('configmaps').check('get').reason() == 'she may'", 403),
        ("authorizer.requestResource.check('create').allowed()", 403),
        ("authorizer.serviceAccount('a', 'b').group('').resource('secrets').check('get').reason() == 'never'", 403),
        ("authorizer.path('/x').check('get').allowed()", 403),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("m{index}");
        let configuration = json!({"metadata": {"name": name}, "webhooks": [{
            "name": "a.example.com", "clientConfig": admission.at("/"), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "matchConditions": [{"name": "c", "expression": condition}],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        }]});
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        client.post(path, &configuration).await.expect(201);
        let answer = client.ask_for(&eve(), Method::POST, CONFIG_MAPS, &config_map(&name)).await;
        assert_eq!(answer.code, code, "{condition}: {}", answer.message());
        client.delete(&format!("{path}/{name}")).await.expect(200);
    }
}

/// Allows everything except creating connections.
struct NoCreate;

impl Authorizer for NoCreate {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        match &request.action {
            Action::Resource(action) if action.verb == "create" && !action.subresource.is_empty() => {
                Decision::no_opinion("no connections").into()
            }
            _ => Decision::allow("").into(),
        }
    }
}

#[tokio::test]
async fn connections_by_get_need_the_verb_create() {
    let client = Client::of(Server::builder(Arc::new(MemoryStore::new())).authorizer(NoCreate).build().await.unwrap());
    for path in ["exec?command=ls&stdout=true", "attach?stdout=true", "portforward"] {
        let answer = client.get(&format!("/api/v1/namespaces/default/pods/p/{path}")).await;
        assert_eq!(
            (answer.code, answer.message().as_str()),
            (403, "pods \"p\" is forbidden: no connections"),
            "{path}"
        );
    }
    // Logs and proxies are not connections that were once POSTs.
    let log = client.get("/api/v1/namespaces/default/pods/p/log").await;
    assert_eq!(log.code, 404);
    let proxy = client.get("/api/v1/namespaces/default/pods/p/proxy").await;
    assert_eq!(proxy.code, 404);
}
