//! PodSecurity: the labels of a namespace decide about its pods.

use std::sync::Arc;

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use windlass_apiserver::{Server, admission::AdmissionConfiguration, user::User};
use windlass_builtins::pod_security::Configuration;
use windlass_store::memory::MemoryStore;

use crate::client::Client;

const NAMESPACE: &str = "/api/v1/namespaces/default";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
    }});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    let texts = headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned());
    let quoted = texts.map(|text| text.strip_prefix("299 - \"").unwrap().strip_suffix('"').unwrap().to_owned());
    quoted.map(|text| text.replace("\\\"", "\"")).collect()
}

async fn label(client: &Client, labels: Value) -> Vec<String> {
    let prefixed = labels.as_object().unwrap().iter();
    let labels: Value =
        prefixed.map(|(mode, level)| (format!("pod-security.kubernetes.io/{mode}"), level.clone())).collect();
    let answer = client.merge(NAMESPACE, &json!({"metadata": {"labels": labels}})).await;
    let warnings = warnings(&answer.headers);
    answer.expect(200);
    warnings
}

#[tokio::test]
async fn a_pod_below_the_enforced_level_is_rejected_from_the_moment_it_is_enforced() {
    let client = Client::new().await;
    client.post(PODS, &pod("before", json!({"hostPID": true}))).await.expect(201);
    label(&client, json!({"enforce": "baseline"})).await;
    let rejected = client.post(PODS, &pod("after", json!({"hostPID": true}))).await;
    assert_eq!(rejected.code, 403);
    assert_eq!(
        rejected.message(),
        r#"pods "after" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)"#
    );
    assert!(warnings(&rejected.headers).is_empty(), "who is rejected is not warned");
    client.post(PODS, &pod("plain", json!({}))).await.expect(201);
}

#[tokio::test]
async fn a_generated_name_is_in_the_message() {
    let client = Client::new().await;
    label(&client, json!({"enforce": "baseline"})).await;
    let mut generated = pod("", json!({"hostIPC": true}));
    generated["metadata"] = json!({"generateName": "web-"});
    let message = client.post(PODS, &generated).await.message();
    let name = message.strip_prefix("pods \"web-").and_then(|rest| rest.split_once('"')).map(|(name, _)| name.len());
    assert_eq!(name, Some(5), "{message}");
}

#[tokio::test]
async fn only_significant_updates_of_existing_pods_are_checked() {
    let client = Client::new().await;
    client.post(PODS, &pod("p", json!({"hostPID": true}))).await.expect(201);
    label(&client, json!({"enforce": "baseline"})).await;
    let path = format!("{PODS}/p");
    client.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "other"}]}});
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let rejected = client.ask(Method::PATCH, &path, &strategic, image.to_string()).await;
    assert_eq!(rejected.code, 403, "{}", rejected.message());
    let added = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}});
    let rejected =
        client.ask(Method::PATCH, &format!("{path}/ephemeralcontainers"), &strategic, added.to_string()).await;
    assert_eq!(rejected.code, 403, "{}", rejected.message());
    client.delete(&path).await.expect(200);
}

#[tokio::test]
async fn users_are_warned_about_pods_and_templates() {
    let client = Client::new().await;
    label(&client, json!({"warn": "baseline", "warn-version": "v1.30"})).await;
    let warned = client.post(PODS, &pod("p", json!({"hostIPC": true}))).await;
    assert_eq!(warned.code, 201);
    let expected = [r#"would violate PodSecurity "baseline:v1.30": host namespaces (hostIPC=true)"#];
    assert_eq!(warnings(&warned.headers), expected);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "hostIPC": true, "containers": [{"name": "c", "image": "i"}],
    }});
    let job = json!({"template": {"spec": {
        "hostIPC": true, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
    }}});
    let cron = json!({"schedule": "@daily", "jobTemplate": {"spec": job}});
    let workload = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    for (path, api_version, kind, spec) in [
        ("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment", &workload),
        ("/apis/apps/v1/namespaces/default/daemonsets", "apps/v1", "DaemonSet", &workload),
        ("/apis/batch/v1/namespaces/default/jobs", "batch/v1", "Job", &job),
        ("/apis/batch/v1/namespaces/default/cronjobs", "batch/v1", "CronJob", &cron),
    ] {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec});
        let warned = client.post(path, &object).await;
        assert_eq!((warned.code, warnings(&warned.headers)), (201, expected.map(str::to_owned).into()), "{kind}");
    }
    label(&client, json!({"warn": null, "enforce": "baseline"})).await;
    let follows =
        client.merge("/apis/apps/v1/namespaces/default/deployments/w", &json!({"spec": {"replicas": 2}})).await;
    let warned = warnings(&follows.headers);
    assert_eq!(warned, [r#"would violate PodSecurity "baseline:v1.30": host namespaces (hostIPC=true)"#]);
}

#[tokio::test]
async fn a_stricter_level_warns_about_existing_pods() {
    let client = Client::new().await;
    for name in ["b", "a"] {
        client.post(PODS, &pod(name, json!({"hostPID": true}))).await.expect(201);
    }
    let volumes = json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]});
    client.post(PODS, &pod("c", volumes)).await.expect(201);
    let expected = [
        r#"existing pods in namespace "default" violate the new PodSecurity enforce level "baseline:latest""#,
        "a (and 1 other pod): host namespaces",
        "c: hostPath volumes",
    ];
    assert_eq!(label(&client, json!({"enforce": "baseline"})).await, expected);
    assert!(label(&client, json!({"audit": "restricted"})).await.is_empty(), "the enforced level is the same");
    assert!(label(&client, json!({"enforce": "privileged"})).await.is_empty());
}

#[tokio::test]
async fn wrong_labels_are_rejected_unless_they_were_there() {
    let client = Client::new().await;
    let wrong = json!({"pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn-version": "1"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": wrong}});
    let rejected = client.post("/api/v1/namespaces", &namespace).await;
    assert_eq!(rejected.code, 422);
    assert_eq!(
        rejected.message(),
        "Namespace \"n\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must \
         be one of privileged, baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid \
         value: \"1\": must be \"latest\" or \"v1.x\"]"
    );
    let changed = client.merge(NAMESPACE, &json!({"metadata": {"labels": wrong}})).await;
    assert_eq!(changed.code, 422);
}

/// A server with defaults and exemptions.
async fn configured(defaults: Value, exemptions: Value) -> Client {
    let configuration = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration", "defaults": defaults, "exemptions": exemptions});
    let pod_security = Configuration::read(&configuration).unwrap();
    let configuration = AdmissionConfiguration { pod_security, ..AdmissionConfiguration::default() };
    let server = Server::builder(Arc::new(MemoryStore::new())).admission_configuration(configuration);
    Client::of(server.build().await.unwrap())
}

#[tokio::test]
async fn defaults_apply_to_namespaces_as_far_as_their_labels_do_not_differ() {
    let client = configured(json!({"enforce": "baseline", "warn": "restricted"}), json!({})).await;
    let rejected = client.post(PODS, &pod("a", json!({"hostPID": true}))).await;
    assert_eq!(
        rejected.message(),
        r#"pods "a" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)"#
    );
    let warned = client.post(PODS, &pod("b", json!({}))).await;
    assert_eq!(warned.code, 201);
    assert!(warnings(&warned.headers)[0].starts_with("would violate PodSecurity \"restricted:latest\": "));
    label(&client, json!({"enforce": "privileged", "warn": "privileged"})).await;
    let allowed = client.post(PODS, &pod("c", json!({"hostPID": true}))).await;
    assert_eq!((allowed.code, warnings(&allowed.headers)), (201, Vec::new()));
}

#[tokio::test]
async fn users_namespaces_and_runtime_classes_are_exempt() {
    let class = json!({"metadata": {"name": "sandboxed"}, "handler": "h"});
    let add_class = async |client: &Client| {
        client.post("/apis/node.k8s.io/v1/runtimeclasses", &class).await.expect(201);
    };
    let restricted = json!({"enforce": "restricted", "warn": "restricted"});
    let exemptions = json!({"usernames": ["system:serviceaccount:default:installer"], "runtimeClasses": ["sandboxed"]});
    let client = configured(restricted.clone(), exemptions).await;
    add_class(&client).await;
    let as_user = async |name: &str, pod: &Value| {
        let user = User { groups: User::admin().groups, ..User::service_account("default", name) };
        let answer = client.ask_for(&user, Method::POST, PODS, pod).await;
        (answer.code, warnings(&answer.headers).len())
    };
    assert_eq!(as_user("installer", &pod("a", json!({"hostPID": true}))).await, (201, 0));
    assert_eq!(as_user("other", &pod("b", json!({"hostPID": true}))).await, (403, 0));
    assert_eq!(as_user("other", &pod("b", json!({"hostPID": true, "runtimeClassName": "sandboxed"}))).await, (201, 0));
    assert_eq!(as_user("other", &pod("c", json!({"runtimeClassName": "sandboxed"}))).await, (201, 0));

    let client = configured(restricted, json!({"namespaces": ["default"]})).await;
    assert_eq!(client.post(PODS, &pod("a", json!({"hostPID": true}))).await.code, 201);
    let warnings = label(&client, json!({"enforce": "baseline", "audit": "baseline"})).await;
    assert!(warnings.is_empty(), "the default was stricter: {warnings:?}");
    let warnings = label(&client, json!({"enforce": "restricted", "enforce-version": "v1.30"})).await;
    assert_eq!(
        warnings,
        ["namespace \"default\" is exempt from Pod Security, and the policy (enforce=restricted:v1.30, \
          audit=baseline:latest) will be ignored"]
    );
}
