//! Roles and bindings: what they allow, who may grant it, and the default ones.

use http::Method;
use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Client};

const API: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

fn role(name: &str, rules: &Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    })
}

/// Returns the rule for verbs on config maps.
fn config_maps(verbs: &[&str]) -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}])
}

/// Creates a ClusterRole with these rules and binds it to a user.
async fn grant(client: &Client, name: &str, user: &str, rules: &Value) {
    client.post(&format!("{API}/clusterroles"), &role(name, rules)).await.expect(201);
    let binding = binding(name, "ClusterRole", name, user);
    client.post(&format!("{API}/clusterrolebindings"), &binding).await.expect(201);
}

#[tokio::test]
async fn a_role_applies_once_its_write_is_acknowledged() {
    let client = Client::new().await;
    let other = "/api/v1/namespaces/kube-system/configmaps";
    let denied = client.ask_as("eve", CONFIG_MAPS).await;
    assert_eq!(denied.headers["x-content-type-options"], "nosniff");
    let message = "configmaps is forbidden: User \"eve\" cannot list resource \"configmaps\" in API group \"\" in the \
                   namespace \"default\"";
    assert_eq!((denied.code, denied.message()), (403, message.to_owned()));
    client.post(BINDINGS, &binding("b", "Role", "reader", "eve")).await.expect(201);
    let missing = client.ask_as("eve", CONFIG_MAPS).await;
    assert_eq!(missing.message(), format!("{message}: RBAC: role.{GROUP} \"reader\" not found"));
    for _ in 0..20 {
        client.post(ROLES, &role("reader", &config_maps(&["list"]))).await.expect(201);
        client.ask_as("eve", CONFIG_MAPS).await.expect(200);
        client.merge(&format!("{ROLES}/reader"), &json!({"rules": config_maps(&["get"])})).await.expect(200);
        assert_eq!(client.ask_as("eve", CONFIG_MAPS).await.code, 403);
        client.merge(&format!("{ROLES}/reader"), &json!({"rules": config_maps(&["*"])})).await.expect(200);
        client.ask_as("eve", CONFIG_MAPS).await.expect(200);
        client.delete(&format!("{ROLES}/reader")).await.expect(200);
        assert_eq!(client.ask_as("eve", CONFIG_MAPS).await.code, 403);
    }
    client.post(ROLES, &role("reader", &config_maps(&["list"]))).await.expect(201);
    assert_eq!(client.ask_as("eve", other).await.code, 403);
    assert_eq!(client.ask_as("bob", CONFIG_MAPS).await.code, 403);
    client.delete(BINDINGS).await.expect(200);
    assert_eq!(client.ask_as("eve", CONFIG_MAPS).await.code, 403);
}

#[tokio::test]
async fn creating_by_apply_or_put_needs_the_permission_to_create() {
    let client = Client::new().await;
    let limits = "/api/v1/namespaces/default/limitranges";
    let rules =
        |verbs: &[&str]| json!([{"apiGroups": [""], "resources": ["configmaps", "limitranges"], "verbs": verbs}]);
    grant(&client, "eve", "eve", &rules(&["get", "update", "patch"])).await;
    let apply = async |dry_run: &str| {
        let path = format!("{CONFIG_MAPS}/a?fieldManager=eve{dry_run}");
        let headers = [("content-type", "application/apply-patch+yaml"), ("impersonate-user", "eve")];
        client
            .ask(Method::PATCH, &path, &headers, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}")
            .await
    };
    let put = async || {
        let limit = json!({"metadata": {"name": "a"}, "spec": {"limits": []}});
        client.send_as("eve", Method::PUT, &format!("{limits}/a"), &limit).await
    };
    for (answer, resource) in
        [(apply("").await, "configmaps"), (apply("&dryRun=All").await, "configmaps"), (put().await, "limitranges")]
    {
        let message = format!(
            "{resource} \"a\" is forbidden: User \"eve\" cannot create resource \"{resource}\" in API group \"\" in the \
             namespace \"default\""
        );
        assert_eq!((answer.code, answer.message()), (403, message));
    }
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.code, 404);
    assert_eq!(client.get(&format!("{limits}/a")).await.code, 404);
    let create = json!({"rules": rules(&["update", "patch", "create"])});
    client.merge(&format!("{API}/clusterroles/eve"), &create).await.expect(200);
    apply("").await.expect(201);
    put().await.expect(201);
    // Existing objects need no more than the permission to change them.
    client.merge(&format!("{API}/clusterroles/eve"), &json!({"rules": rules(&["update", "patch"])})).await.expect(200);
    apply("").await.expect(200);
    put().await.expect(200);
}

#[tokio::test]
async fn rules_match_names_subresources_paths_and_namespaces_as_in_kube_apiserver() {
    let client = Client::new().await;
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get", "list", "create"]},
        {"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics", "/readyz/*"], "verbs": ["get"]},
    ]);
    grant(&client, "eve", "eve", &rules).await;
    client.post(BINDINGS, &binding("view", "ClusterRole", "view", "bob")).await.expect(201);
    for (user, path, code) in [
        ("eve", format!("{CONFIG_MAPS}/a"), 404),
        ("eve", format!("{CONFIG_MAPS}/b"), 403),
        ("eve", CONFIG_MAPS.to_owned(), 403),
        ("eve", format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da"), 200),
        ("eve", "/apis/apps/v1/namespaces/default/deployments/d/scale".to_owned(), 404),
        ("eve", "/apis/apps/v1/namespaces/default/deployments/d".to_owned(), 403),
        ("eve", "/metrics".to_owned(), 200),
        ("eve", "/readyz/ping".to_owned(), 200),
        ("bob", "/readyz/ping".to_owned(), 403),
        ("bob", "/readyz".to_owned(), 200),
        // A binding in a namespace grants access to the namespace itself.
        ("bob", "/api/v1/namespaces/default".to_owned(), 200),
        ("bob", "/api/v1/namespaces/kube-system".to_owned(), 403),
        ("bob", "/api/v1/namespaces".to_owned(), 403),
        ("bob", CONFIG_MAPS.to_owned(), 200),
        ("bob", "/api/v1/namespaces/default/secrets".to_owned(), 403),
    ] {
        assert_eq!(client.ask_as(user, &path).await.code, code, "{user} {path}");
    }
    let created = json!({"metadata": {"name": "a"}});
    assert_eq!(client.send_as("eve", Method::POST, CONFIG_MAPS, &created).await.code, 403);
    let html = client.ask_as("eve", "/a%3Cb%3E&c").await;
    assert_eq!(html.message(), "forbidden: User \"eve\" cannot get path \"/a&lt;b&gt;&amp;c\"");
}

#[tokio::test]
async fn users_cannot_grant_more_than_they_have() {
    let client = Client::new().await;
    let writes = json!([{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["create", "update", "patch", "get"]}]);
    let rules = [writes.as_array().unwrap().clone(), config_maps(&["get", "list"]).as_array().unwrap().clone()];
    grant(&client, "granter", "eve", &rules.concat().into()).await;
    let post = async |path: &str, body: &Value| {
        let answer = client.send_as("eve", Method::POST, path, body).await;
        (answer.code, if answer.code < 300 { String::new() } else { answer.message() })
    };
    let user = "user \"eve\" (groups=[\"system:authenticated\"])";
    let grants = "is attempting to grant RBAC permissions not currently held:";
    let no = |what: &str, missing: &str| (403, format!("{what} is forbidden: {user} {grants}\n{missing}"));
    let line = |verbs: &str| format!("{{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[{verbs}]}}");

    assert_eq!(post(ROLES, &role("less", &config_maps(&["get"]))).await, (201, String::new()));
    let more = role("more", &config_maps(&["get", "watch", "delete"]));
    assert_eq!(post(ROLES, &more).await, no("roles.rbac.authorization.k8s.io \"more\"", &line("\"watch\" \"delete\"")));
    // The user's permissions are checked before the object.
    let invalid = role("inva/lid", &config_maps(&["watch"]));
    assert_eq!(post(ROLES, &invalid).await.0, 403);
    let unnamed = json!({"metadata": {"generateName": "x-"}, "rules": config_maps(&["watch"])});
    assert_eq!(post(ROLES, &unnamed).await, no("roles.rbac.authorization.k8s.io", &line("\"watch\"")));

    let merged = json!({"rules": config_maps(&["watch"])});
    let changed = client.send_as("eve", Method::PATCH, &format!("{ROLES}/less"), &merged).await;
    assert_eq!((changed.code, changed.message()), no("roles.rbac.authorization.k8s.io \"less\"", &line("\"watch\"")));
    client.post(ROLES, &more).await.expect(201);
    // The garbage collector may change its fields of any role.
    let finalizers = json!({"metadata": {"finalizers": ["example.com/x"]}});
    let path = format!("{ROLES}/more");
    client.send_as("eve", Method::PATCH, &path, &finalizers).await.expect(200);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(client.send_as("eve", Method::PATCH, &path, &labels).await.code, 403);

    assert_eq!(post(BINDINGS, &binding("less", "Role", "less", "bob")).await, (201, String::new()));
    let rejected = no("rolebindings.rbac.authorization.k8s.io \"more\"", &line("\"watch\" \"delete\""));
    assert_eq!(post(BINDINGS, &binding("more", "Role", "more", "bob")).await, rejected);
    let gone = (404, "rolebindings.rbac.authorization.k8s.io \"gone\" not found".to_owned());
    assert_eq!(post(BINDINGS, &binding("gone", "ClusterRole", "gone", "bob")).await, gone);
    let gone = (404, "rolebindings.rbac.authorization.k8s.io \"gone\" not found".to_owned());
    assert_eq!(post(BINDINGS, &binding("gone", "Role", "gone", "bob")).await, gone);
    let aggregated = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{}]}});
    let rejected = "clusterroles.rbac.authorization.k8s.io \"all\" is forbidden: must have cluster-admin privileges to \
                   use the aggregationRule";
    assert_eq!(post(&format!("{API}/clusterroles"), &aggregated).await, (403, rejected.to_owned()));

    // Missing roles of the user's own bindings are part of the message.
    client.post(BINDINGS, &binding("own", "Role", "nowhere", "eve")).await.expect(201);
    let (_, message) = post(ROLES, &role("x", &config_maps(&["watch"]))).await;
    let errors = "; resolution errors: [roles.rbac.authorization.k8s.io \"nowhere\" not found]";
    assert!(message.ends_with(&format!("Verbs:[\"watch\"]}}{errors}")), "{message}");
}

#[tokio::test]
async fn users_who_may_escalate_or_bind_can_grant_more_than_they_have() {
    let client = Client::new().await;
    let rules = json!([
        {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["create", "update", "patch"]},
        {"apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["known"], "verbs": ["escalate"]},
        {"apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["view"], "verbs": ["bind"]},
    ]);
    grant(&client, "granter", "eve", &rules).await;
    let post = async |path: &str, body: &Value| client.send_as("eve", Method::POST, path, body).await.code;
    // A name never matches a creation.
    assert_eq!(post(ROLES, &role("known", &config_maps(&["get"]))).await, 403);
    client.post(ROLES, &role("known", &json!([]))).await.expect(201);
    let path = format!("{ROLES}/known");
    let merged = json!({"rules": config_maps(&["get"])});
    client.send_as("eve", Method::PATCH, &path, &merged).await.expect(200);
    assert_eq!(post(BINDINGS, &binding("view", "ClusterRole", "view", "bob")).await, 201);
    assert_eq!(post(BINDINGS, &binding("edit", "ClusterRole", "edit", "bob")).await, 403);
    let everywhere = format!("{API}/clusterrolebindings");
    assert_eq!(post(&everywhere, &binding("view", "ClusterRole", "view", "bob")).await, 201);
}

/// Returns the roles and bindings that every cluster has, without what differs between clusters.
async fn defaults(client: &Client) -> Vec<String> {
    let mut texts = Vec::new();
    for plural in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        let list = client.get(&format!("{API}/{plural}")).await.expect(200);
        for mut object in list["items"].as_array().unwrap().iter().cloned() {
            let metadata = object["metadata"].as_object_mut().unwrap();
            for field in ["uid", "resourceVersion", "creationTimestamp"] {
                assert!(metadata.remove(field).is_some_and(|value| value != ""));
            }
            for entry in metadata["managedFields"].as_array_mut().unwrap() {
                assert!(entry.as_object_mut().unwrap().remove("time").is_some());
            }
            texts.push(format!("{plural} {object}"));
        }
    }
    texts
}

#[tokio::test]
async fn default_roles_are_stored_exactly_as_requests_would_store_them() {
    let client = Client::new().await;
    let at_start = defaults(&client).await;
    assert_eq!(at_start.len(), 133);
    // One is left, so that the others are created by requests.
    for plural in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        let list = client.get(&format!("{API}/{plural}")).await.expect(200);
        for object in list["items"].as_array().unwrap() {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap();
            let path = match metadata["namespace"].as_str() {
                Some(namespace) => format!("{API}/namespaces/{namespace}/{plural}/{name}"),
                None => format!("{API}/{plural}/{name}"),
            };
            if name != "cluster-admin" {
                client.delete(&path).await.expect(200);
            }
        }
    }
    assert_eq!(defaults(&client).await.len(), 2);
    let client = client.restarted().await;
    for name in ["view", "edit", "admin"] {
        let stored = at_start.iter().find(|text| text.contains(&format!("\"name\":\"{name}\""))).unwrap();
        let stored: Value = serde_json::from_str(stored.split_once(' ').unwrap().1).unwrap();
        let applied = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": stored["rules"],
        });
        let path = format!("{API}/clusterroles/{name}?fieldManager=clusterrole-aggregation-controller&force=true");
        let headers = [("content-type", "application/apply-patch+yaml")];
        client.ask(Method::PATCH, &path, &headers, applied.to_string()).await.expect(200);
    }
    for (stored, created) in at_start.iter().zip(defaults(&client).await) {
        assert_eq!(*stored, created);
    }
}

#[tokio::test]
async fn default_roles_are_completed_at_every_start() {
    let client = Client::new().await;
    let user = format!("{API}/clusterrolebindings/system:basic-user");
    let discovery = format!("{API}/clusterrolebindings/system:discovery");
    let roles = format!("{API}/clusterroles/system:basic-user");
    client.merge(&user, &json!({"subjects": [{"kind": "User", "name": "x"}]})).await.expect(200);
    client.delete(&discovery).await.expect(200);
    client
        .post(&format!("{API}/clusterrolebindings"), &binding("system:discovery", "ClusterRole", "view", "x"))
        .await
        .expect(201);
    client.merge(&roles, &json!({"metadata": {"labels": null}, "rules": []})).await.expect(200);
    let own =
        json!({"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []});
    let monitoring = format!("{API}/clusterroles/system:monitoring");
    client.merge(&monitoring, &own).await.expect(200);
    let unchanged = client.get(&format!("{API}/clusterroles/cluster-admin")).await.expect(200);

    let client = client.restarted().await;
    let subjects = client.get(&user).await.expect(200)["subjects"].clone();
    assert_eq!(subjects[0]["name"], "x");
    assert_eq!(subjects[1]["name"], "system:authenticated");
    let recreated = client.get(&discovery).await.expect(200);
    assert_eq!(recreated["roleRef"]["name"], "system:discovery");
    assert_eq!(recreated["subjects"].as_array().unwrap().len(), 1);
    let role = client.get(&roles).await.expect(200);
    assert_eq!(role["metadata"]["labels"], json!({"kubernetes.io/bootstrapping": "rbac-defaults"}));
    assert_eq!(role["rules"].as_array().unwrap().len(), 3);
    assert_eq!(client.get(&monitoring).await.expect(200)["rules"], Value::Null);
    assert_eq!(client.get(&format!("{API}/clusterroles/cluster-admin")).await.expect(200), unchanged);
}
