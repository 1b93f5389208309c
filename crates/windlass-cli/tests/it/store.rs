//! `windlass store migrate`.

use std::{fs, path::Path, process::Output};

use http::Request;
use k8s_openapi::api::{
    apps::v1::Deployment,
    authentication::v1::TokenRequest,
    core::v1::{Secret, ServiceAccount},
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::process::{Up, output, windlass};

const QUIET: [&str; 2] = ["--nodes", "0"];

fn migrate(arguments: &[&str]) -> Output {
    output(windlass().args(["store", "migrate"]).args(arguments))
}

/// Returns what was printed to both streams.
#[track_caller]
fn ends(output: &Output, code: i32) -> (String, String) {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

fn at(kind: &str, path: &Path) -> String {
    format!("{kind}:{}", path.display())
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    client.request(Request::get(path).body(Vec::new()).unwrap()).await
}

/// Returns the code of the first event of a watch.
async fn watched(client: &Client, version: u64) -> u64 {
    let path = format!("/api/v1/secrets?watch=true&timeoutSeconds=1&resourceVersion={version}");
    let text = client.request_text(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    let event: Value = serde_json::from_str(text.lines().next().unwrap_or("{}")).unwrap();
    event["object"]["code"].as_u64().unwrap_or(200)
}

fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Widget"), "widgets")
}

/// The objects that must survive: each without its resource version.
async fn objects(client: &Client) -> Vec<Value> {
    let mut objects = Vec::new();
    for path in [
        "/api/v1/secrets",
        "/apis/apps/v1/deployments",
        "/apis/example.com/v1/widgets",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/api/v1/namespaces",
    ] {
        let mut list = get(client, path).await.unwrap();
        objects.extend(list["items"].as_array_mut().unwrap().drain(..).map(|mut object| {
            object["metadata"]["resourceVersion"].take();
            object
        }));
    }
    objects
}

fn version(object: &impl serde::Serialize) -> u64 {
    let object = serde_json::to_value(object).unwrap();
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

async fn newest(client: &Client) -> u64 {
    version(&get(client, "/api/v1/secrets").await.unwrap())
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {"password": "x"}})).unwrap()
}

/// Creates objects of several kinds. Returns a token and the uid of a secret.
async fn fill(client: &Client) -> (String, Option<String>) {
    let definitions: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition")),
    );
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let create = PostParams::default();
    definitions.create(&create, &serde_json::from_value(definition).unwrap()).await.unwrap();
    let widgets: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource());
    for number in 0..20 {
        let mut widget = DynamicObject::new(&format!("widget-{number}"), &resource());
        widget.data = json!({"spec": {"number": number}});
        // The definition is served a moment after it has been created.
        while let Err(error) = widgets.create(&create, &widget).await {
            assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error}");
        }
    }
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    deployments.create(&create, &serde_json::from_value(deployment).unwrap()).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    accounts.create(&create, &account).await.unwrap();
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let token = accounts.create_token_request("robot", &create, &request).await.unwrap().status.unwrap().token;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let created = secrets.create(&create, &secret("kept")).await.unwrap();
    (token.expect("a request must get a token"), created.metadata.uid)
}

async fn is_authenticated(client: &Client, token: &str) -> bool {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    let request =
        Request::post("/apis/authentication.k8s.io/v1/tokenreviews").header("content-type", "application/json");
    let review: Value = client.request(request.body(review.to_string().into_bytes()).unwrap()).await.unwrap();
    review["status"]["authenticated"] == true
}

/// Checks that a server has the objects, and that clients that have seen `seen` notice what they have missed. Returns the
/// newest resource version.
async fn check(up: &Up, expected: &[Value], token: &str, seen: u64) -> u64 {
    let client = up.admin().await;
    assert_eq!(objects(&client).await, expected);
    assert!(is_authenticated(&client, token).await, "tokens must stay valid");
    let now = newest(&client).await;
    assert!(now >= seen, "{now} is before {seen}");
    for earlier in [1, seen - 1] {
        assert_eq!(watched(&client, earlier).await, 410, "a watch from {earlier}, and {seen} was seen");
    }
    assert_eq!(watched(&client, now).await, 200);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let created = secrets.create(&PostParams::default(), &secret("after")).await.unwrap();
    assert!(version(&created) > seen);
    secrets.delete("after", &DeleteParams::default()).await.unwrap();
    newest(&client).await
}

#[tokio::test]
async fn objects_move_to_a_snapshot_and_to_another_directory() {
    let folder = tempfile::tempdir().unwrap();
    let [data, file, other] = ["data", "file", "other"].map(|name| folder.path().join(name));
    let up = Up::start(&data, &["--nodes", "0", "--controllers", ""]);
    let client = up.admin().await;
    let (token, uid) = fill(&client).await;
    let (expected, seen) = (objects(&client).await, newest(&client).await);
    let (from, to) = (at("embedded", &data), at("snapshot", &file));
    let (_, said) = ends(&migrate(&["--from", &from, "--to", &to]), 1);
    assert!(
        said.contains("is in use by another windlass (process ") && said.contains("\nhint: stop process"),
        "{said}"
    );
    up.stop("TERM");

    let (out, said) = ends(&migrate(&["--from", &from, "--to", &to, "--dry-run", "-o", "json"]), 0);
    let planned: Value = serde_json::from_str(&out).unwrap();
    assert!(said.contains("nothing was changed") && !file.exists(), "{said}");
    let (out, said) = ends(&migrate(&["--from", &from, "--to", &to, "-o", "json"]), 0);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), planned);
    assert!(said.contains("the snapshot has no certificates and keys"), "{said}");
    let (_, said) = ends(&migrate(&["--from", &from, "--to", &to]), 1);
    assert!(said.contains("exists already\nhint: choose another directory or file"), "{said}");

    let (_, said) = ends(&migrate(&["--from", &from, "--to", &at("embedded", &other)]), 0);
    assert!(said.contains("copied the certificate authorities and keys as well"), "{said}");
    let up = Up::start(&other, &["--nodes", "0", "--controllers", ""]);
    check(&up, &expected, &token, seen).await;
    let kept = Api::<Secret>::namespaced(up.admin().await, "default").get("kept").await.unwrap();
    assert_eq!(kept.metadata.uid, uid);
    up.stop("TERM");

    // Clients may have seen later revisions than that of a snapshot.
    fs::rename(other.join("store.redb"), folder.path().join("old")).unwrap();
    let (out, said) = ends(&migrate(&["--from", &to, "--to", &at("embedded", &other), "-o", "json"]), 0);
    let restored: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(restored["checksum"], planned["checksum"]);
    assert_eq!(restored["revision"].as_u64(), planned["revision"].as_u64().map(|revision| revision + 1_000_000_000));
    assert!(said.contains("has the certificate authorities and keys already"), "{said}");
}

#[test]
fn combinations_without_meaning_are_errors_with_hints() {
    for (arguments, expected) in [
        (&["--from", "snapshot:/a", "--to", "snapshot:/b"][..], "both stores are snapshots\nhint: "),
        (&["--from", "etcd", "--to", "etcd", "--etcd-servers", "http://a"], "both stores are in etcd\nhint: "),
        (&["--from", "snapshot:/a", "--to", "etcd"], "no etcd server is given\nhint: "),
        (
            &["--from", "snapshot:/a", "--to", "embedded:/b", "--etcd-prefix", "/c"],
            "--etcd-prefix has no effect\nhint: ",
        ),
    ] {
        let (_, said) = ends(&migrate(arguments), 1);
        assert!(said.contains(expected), "{said}");
    }
    let (_, said) = ends(&migrate(&["--from", "/a", "--to", "etcd"]), 2);
    assert!(said.contains("write embedded, embedded:DIR, snapshot:FILE or etcd"), "{said}");
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn objects_move_to_etcd_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let [data, back, file] = ["data", "back", "file"].map(|name| folder.path().join(name));
    let servers = std::env::var("ETCD_SERVERS").expect("cargo xtask etcd sets ETCD_SERVERS");
    let prefix = format!("/migration-{}", std::process::id());
    let etcd = ["--etcd-servers", &servers, "--etcd-prefix", &prefix];
    let move_objects = |from: &str, to: &str, more: &[&str]| {
        migrate(&[&["--from", from, "--to", to, "-o", "json"], &etcd[..], more].concat())
    };

    let up = Up::start(&data, &QUIET);
    let client = up.admin().await;
    let (token, _) = fill(&client).await;
    up.stop("TERM");
    let up = Up::start(&data, &["--nodes", "0", "--controllers", ""]);
    let client = up.admin().await;
    let (expected, seen) = (objects(&client).await, newest(&client).await);
    let page = get(&client, "/api/v1/namespaces?limit=1").await.unwrap();
    let next = format!("/api/v1/namespaces?limit=1&continue={}", page["metadata"]["continue"].as_str().unwrap());
    up.stop("TERM");

    let from = at("embedded", &data);
    let (planned, said) = ends(&move_objects(&from, "etcd", &["--dry-run"]), 0);
    assert!(said.contains("nothing was changed"), "{said}");
    let (copied, said) = ends(&move_objects(&from, "etcd", &[]), 0);
    let [planned, copied] = [planned, copied].map(|text| serde_json::from_str::<Value>(&text).unwrap());
    assert_eq!(planned["checksum"], copied["checksum"]);
    assert!(copied["revision"].as_u64().unwrap() > seen, "{copied} after {seen}");
    assert!(said.contains(&format!("windlass up --data-dir {} --store etcd", data.display())), "{said}");
    let (_, said) = ends(&move_objects(&from, "etcd", &[]), 1);
    assert!(said.contains("in etcd already\nhint: choose another --etcd-prefix"), "{said}");

    let on_etcd = [&["--nodes", "0", "--controllers", "", "--store", "etcd"], &etcd[..]].concat();
    let up = Up::start(&data, &on_etcd);
    let gone = get(&up.admin().await, &next).await;
    assert!(matches!(&gone, Err(kube::Error::Api(status)) if status.code == 410), "{gone:?}");
    let seen = check(&up, &expected, &token, seen).await;
    let (_, said) = ends(&move_objects("etcd", &at("embedded", &back), &[]), 1);
    assert!(
        said.contains("the objects in etcd are in use: ") && said.contains("\nhint: stop all API servers"),
        "{said}"
    );
    up.stop("TERM");

    let (_, said) = ends(&move_objects("etcd", &at("embedded", &back), &[]), 0);
    assert!(said.contains("copy the directory pki"), "{said}");
    ends(&move_objects("etcd", &at("snapshot", &file), &[]), 0);
    ends(&output(windlass().args(["snapshot", "verify"]).arg(&file)), 0);
    fs::create_dir(back.join("pki")).unwrap();
    for name in fs::read_dir(data.join("pki")).unwrap().map(|entry| entry.unwrap().file_name()) {
        fs::copy(data.join("pki").join(&name), back.join("pki").join(&name)).unwrap();
    }
    let up = Up::start(&back, &["--nodes", "0", "--controllers", ""]);
    check(&up, &expected, &token, seen).await;
    up.stop("TERM");
}
