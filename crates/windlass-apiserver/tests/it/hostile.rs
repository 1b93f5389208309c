//! Every request, however malformed, gets a response below 500 that is a Status or plain text.

use http::Method;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::json;

use crate::client::{CONFIG_MAPS, Client, config_map};

fn check(answer: &crate::client::Answer, what: &str) {
    assert!(answer.code < 500, "{what}: {} {:?}", answer.code, answer.raw);
}

/// Runs a property test against one server.
fn property<S: Strategy>(strategy: S, ask: impl AsyncFn(&Client, S::Value)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(Client::new());
    runtime.block_on(async { client.post(CONFIG_MAPS, &config_map("a")).await.expect(201) });
    let mut runner = TestRunner::new(Config::with_cases(300));
    runner
        .run(&strategy, |value| {
            runtime.block_on(ask(&client, value));
            Ok(())
        })
        .unwrap();
}

#[test]
fn no_body_breaks_the_server() {
    let media = prop_oneof![
        Just("application/json"),
        Just("application/yaml"),
        Just("application/vnd.kubernetes.protobuf"),
        Just("nonsense")
    ];
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        "[\\[\\]{}:,\"a-z0-9 \n-]{0,80}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(|rest| [b"k8s\0".to_vec(), rest].concat()),
    ];
    property((media, body), async |client, (media, body)| {
        let answer = client.ask(Method::POST, CONFIG_MAPS, &[("content-type", media)], body).await;
        check(&answer, media);
    });
}

#[test]
fn no_patch_breaks_the_server() {
    let media = prop_oneof![
        Just("application/json-patch+json"),
        Just("application/merge-patch+json"),
        Just("application/strategic-merge-patch+json")
    ];
    let patch = prop_oneof![
        "[\\[\\]{}:,\"a-z0-9 $/-]{0,80}",
        "\\[\\{\"op\":\"(add|remove|replace|move|copy|test)\",\"path\":\"(/[a-z0-9-]{0,8}){0,3}\",\"from\":\"/data\",\"value\":[0-9]\\}\\]",
        "\\{\"(data|metadata|binaryData)\":\\{\"[$a-z]{1,8}\":(null|1|\"x\"|\\[\\]|\\{\\})\\}\\}",
    ];
    property((media, patch), async |client, (media, patch)| {
        let path = format!("{CONFIG_MAPS}/a");
        let answer = client.ask(Method::PATCH, &path, &[("content-type", media)], patch.clone()).await;
        // A strategic merge patch with an invalid directive is a 500 on kube-apiserver too.
        if media != "application/strategic-merge-patch+json" {
            check(&answer, &patch);
        }
    });
}

#[test]
fn no_query_breaks_the_server() {
    let name = prop_oneof![
        Just("labelSelector"),
        Just("fieldSelector"),
        Just("continue"),
        Just("limit"),
        Just("resourceVersionMatch"),
        Just("timeoutSeconds"),
        Just("dryRun"),
        Just("fieldValidation"),
        Just("pretty"),
        Just("sendInitialEvents"),
    ];
    property((name, "[ -~]{0,40}"), async |client, (name, value)| {
        let escaped: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = client.get(&format!("{CONFIG_MAPS}?{name}={escaped}")).await;
        check(&answer, &format!("{name}={value}"));
    });
}

#[test]
fn no_path_breaks_the_server() {
    property(
        "(/(api|apis|v1|apps|namespaces|default|pods|status|scale|watch|[a-z%./-]{0,6})){1,7}",
        async |client, path| {
            let Ok(uri) = path.parse::<http::Uri>() else { return };
            for method in [Method::GET, Method::DELETE, Method::PUT, Method::POST] {
                check(&client.ask(method, &uri.to_string(), &[("accept", "application/json")], "{}").await, &path);
            }
        },
    );
}

#[tokio::test]
async fn yaml_whose_aliases_expand_without_bound_is_a_400() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let definitions = "/apis/apiextensions.k8s.io/v1";
    let bomb = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1000].join(", "));
    let (yaml, apply) = ("application/yaml", "application/apply-patch+yaml");
    for (method, path, media) in [
        (Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews", yaml),
        (Method::POST, CONFIG_MAPS, yaml),
        (Method::PUT, &format!("{CONFIG_MAPS}/a"), yaml),
        (Method::DELETE, &format!("{CONFIG_MAPS}/a"), yaml),
        (Method::PATCH, &format!("{CONFIG_MAPS}/b?fieldManager=m"), apply),
        (Method::POST, &format!("{definitions}/customresourcedefinitions"), yaml),
        (Method::POST, &format!("{definitions}beta1/customresourcedefinitions"), yaml),
    ] {
        let answer = client.ask(method.clone(), path, &[("content-type", media)], bomb.clone()).await;
        let message = answer.message();
        assert_eq!(answer.code, 400, "{method} {path}: {message}");
        assert!(message.contains("yaml: document contains excessive aliasing"), "{method} {path}: {message}");
    }
}

/// Returns an entry of managed fields that is well-formed at the top level.
fn managed_fields_entry() -> impl Strategy<Value = serde_json::Value> {
    let key = proptest::sample::select(vec![
        ".",
        "f:spec",
        "f:ports",
        "f:selector",
        "f:metadata",
        "f:data",
        "f:a",
        "f:",
        "k:{\"port\":80,\"protocol\":\"TCP\"}",
        "k:{}",
        "k:[",
        "v:1",
        "v:\"a\"",
        "v:",
        "i:0",
        "i:-9",
        "x:y",
        "",
    ]);
    let leaf = proptest::sample::select(vec![json!({}), json!(null), json!([1])]);
    let fields = leaf.prop_recursive(4, 20, 3, move |inner| {
        proptest::collection::vec((key.clone(), inner), 0..3).prop_map(|fields| {
            fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<serde_json::Map<_, _>>().into()
        })
    });
    let versions = proptest::sample::select(vec!["v1", "apps/v1", "a/b/c", ""]);
    let operations = proptest::sample::select(vec!["Apply", "Update", ""]);
    (versions, operations, fields).prop_map(|(version, operation, fields)| {
        json!({
            "manager": "m", "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields,
            "time": "2020-01-01T00:00:00Z",
        })
    })
}

#[test]
fn no_managed_fields_break_the_server() {
    let strategy = (proptest::collection::vec(managed_fields_entry(), 0..3), "[a-z]{0,3}", any::<bool>());
    property(strategy, async |client: &Client, (entries, text, force)| {
        let service = |managed: serde_json::Value| {
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "managedFields": managed},
                "spec": {"ports": [{"port": 80, "name": text}], "selector": {"a": text}},
            })
        };
        let path = "/api/v1/namespaces/default/services";
        let content = |kind| [("content-type", kind)];
        let body = service(json!(entries)).to_string();
        check(&client.ask(Method::POST, path, &content("application/json"), body.clone()).await, "post");
        let one = format!("{path}/s");
        check(&client.ask(Method::PATCH, &one, &content("application/merge-patch+json"), body).await, "merge");
        let apply = format!("{one}?fieldManager=m&force={force}");
        let body = service(json!(null)).to_string();
        check(&client.ask(Method::PATCH, &apply, &content("application/apply-patch+yaml"), body).await, "apply");
    });
}
