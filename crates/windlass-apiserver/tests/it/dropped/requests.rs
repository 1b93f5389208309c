//! Every kind of mutating request. Each attempt has objects of its own, named after its number.

use http::Method;
use serde_json::{Value, json};

use crate::client::config_map;

/// The namespace with quotas, in which nothing is deleted: without a control loop, deletions do not release charges.
pub(crate) const LIMITED: &str = "limited";

/// A kind of request.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Returns the request of an attempt, preceded by the requests that it needs.
    pub(crate) requests: fn(usize) -> Vec<Ask>,
}

/// A request.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) media: &'static str,
    pub(crate) body: Value,
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn ask(method: Method, path: impl Into<String>, media: &'static str, body: Value) -> Ask {
    Ask { method, path: path.into(), media, body }
}

fn post(path: impl Into<String>, body: Value) -> Ask {
    ask(Method::POST, path, JSON, body)
}

fn merge(path: impl Into<String>, body: Value) -> Ask {
    ask(Method::PATCH, path, MERGE, body)
}

fn delete(path: impl Into<String>, options: Value) -> Ask {
    ask(Method::DELETE, path, JSON, options)
}

fn core(namespace: &str, plural: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{plural}")
}

fn service(n: usize, spec: Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{n}")},
        "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}});
    service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    service
}

/// A request that creates a service, and one that changes it.
fn changed_service(n: usize, namespace: &str, spec: Value, change: Value) -> Vec<Ask> {
    let path = core(namespace, "services");
    vec![post(&path, service(n, spec)), merge(format!("{path}/s{n}"), json!({ "spec": change }))]
}

fn pod(n: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{n}"), "labels": {"app": format!("p{n}")}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}})
}

fn finalized(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    object
}

/// Requests for a pod that runs on a node.
fn running_pod(n: usize) -> Vec<Ask> {
    let path = core("default", "pods");
    let mut pod = pod(n);
    pod["spec"]["nodeName"] = "node".into();
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    vec![post(&path, pod), merge(format!("{path}/p{n}/status"), status)]
}

fn with(mut asks: Vec<Ask>, more: impl IntoIterator<Item = Ask>) -> Vec<Ask> {
    asks.extend(more);
    asks
}

pub(crate) const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A webhook configuration that rejects ConfigMaps with the label `hook: h{n}`, because its condition fails.
fn hook(n: usize) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": format!("h{n}")}, "webhooks": [{
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/never-called"},
        "objectSelector": {"matchLabels": {"hook": format!("h{n}")}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        "matchConditions": [{"name": "fails", "expression": "object.metadata.annotations['none'] == 'x'"}],
    }]})
}

pub(crate) const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
pub(crate) const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// A policy that rejects ConfigMaps with the label `policy: p{n}`.
fn policy(n: usize) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": format!("p{n}")}, "spec": {
        "matchConstraints": {
            "objectSelector": {"matchLabels": {"policy": format!("p{n}")}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
            ],
        },
        "validations": [{"expression": "false"}],
    }})
}

/// The binding of a policy.
fn policy_binding(n: usize) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": format!("p{n}")}, "spec": {"policyName": format!("p{n}"), "validationActions": ["Deny"]}})
}

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(n: usize) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas"}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": format!("w{n}s.example.com")}, "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": format!("w{n}s"), "singular": format!("w{n}"), "kind": format!("W{n}")},
    }})
}

fn custom(n: usize) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": format!("W{n}"), "metadata": {"name": "x"}, "spec": {"replicas": 1}})
}

fn custom_path(n: usize) -> String {
    format!("/apis/example.com/v1/namespaces/default/w{n}s")
}

fn namespace(n: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("n{n}")}})
}

/// Requests for an eviction that a budget allows.
fn eviction(n: usize) -> Vec<Ask> {
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let selector = json!({"matchLabels": {"app": format!("p{n}")}});
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,
        "expectedPods": 2});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": format!("p{n}")}});
    with(
        running_pod(n),
        [
            post(budgets, json!({"metadata": {"name": format!("b{n}")}, "spec": {"selector": selector}})),
            merge(format!("{budgets}/b{n}/status"), json!({ "status": status })),
            post(core("default", &format!("pods/p{n}/eviction")), eviction),
        ],
    )
}

/// All kinds of mutating requests.
pub(crate) const CASES: &[Case] = &[
    Case { name: "create a service", requests: |n| vec![post(core("default", "services"), service(n, json!({})))] },
    Case {
        name: "create a load balancer",
        requests: |n| {
            let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
            vec![post(core("default", "services"), service(n, spec))]
        },
    },
    Case {
        name: "apply a new service",
        requests: |n| {
            let path = format!("{}?fieldManager=m", core("default", &format!("services/s{n}")));
            vec![ask(Method::PATCH, path, APPLY, service(n, json!({"type": "NodePort"})))]
        },
    },
    Case {
        name: "allocate node ports by a patch",
        requests: |n| changed_service(n, "default", json!({}), json!({"type": "NodePort"})),
    },
    Case {
        name: "release node ports by a patch",
        requests: |n| {
            let ports =
                json!([{"name": "a", "port": 80, "nodePort": null}, {"name": "b", "port": 81, "nodePort": null}]);
            changed_service(n, "default", json!({"type": "NodePort"}), json!({"type": "ClusterIP", "ports": ports}))
        },
    },
    Case {
        name: "replace a service by one with other ports",
        requests: |n| {
            let path = core("default", "services");
            let ports = json!([{"name": "c", "port": 82}, {"name": "b", "port": 81}]);
            let other = service(n, json!({"type": "NodePort", "ports": ports}));
            vec![
                post(&path, service(n, json!({"type": "NodePort"}))),
                ask(Method::PUT, format!("{path}/s{n}"), JSON, other),
            ]
        },
    },
    Case {
        name: "release the address of a service",
        requests: |n| {
            let change = json!({"type": "ExternalName", "externalName": "example.com", "clusterIP": null,
                "clusterIPs": null, "ports": null});
            changed_service(n, "default", json!({}), change)
        },
    },
    Case {
        name: "delete a service",
        requests: |n| {
            let path = core("default", "services");
            vec![post(&path, service(n, json!({"type": "NodePort"}))), delete(format!("{path}/s{n}"), Value::Null)]
        },
    },
    Case {
        name: "delete a collection of services",
        requests: |n| {
            let path = core("collection", "services");
            let two = [service(2 * n, json!({"type": "NodePort"})), service(2 * n + 1, json!({}))];
            with(two.into_iter().map(|service| post(&path, service)).collect(), [delete(path.clone(), Value::Null)])
        },
    },
    Case {
        name: "remove the last finalizer of a service",
        requests: |n| {
            let path = core("default", "services");
            let one = format!("{path}/s{n}");
            vec![
                post(&path, finalized(service(n, json!({"type": "NodePort"})))),
                delete(&one, Value::Null),
                merge(&one, json!({"metadata": {"finalizers": null}})),
            ]
        },
    },
    Case {
        name: "create an object under a quota",
        requests: |n| vec![post(core(LIMITED, "configmaps"), config_map(&format!("c{n}")))],
    },
    Case {
        name: "create an object with a generated name under a quota",
        requests: |_| {
            let object = json!({"metadata": {"generateName": "c-"}});
            vec![post(core(LIMITED, "configmaps"), object)]
        },
    },
    Case { name: "create a pod under quotas", requests: |n| vec![post(core(LIMITED, "pods"), pod(n))] },
    Case {
        name: "create a service under a quota",
        requests: |n| vec![post(core(LIMITED, "services"), service(n, json!({"type": "NodePort"})))],
    },
    Case {
        name: "allocate node ports under a quota",
        requests: |n| changed_service(n, LIMITED, json!({}), json!({"type": "NodePort"})),
    },
    Case {
        name: "create an object that exists under a quota",
        requests: |n| {
            let create = || post(core(LIMITED, "configmaps"), config_map(&format!("c{n}")));
            vec![create(), create()]
        },
    },
    Case { name: "create a webhook configuration", requests: |n| vec![post(HOOKS, hook(n))] },
    Case {
        name: "apply a webhook configuration",
        requests: |n| vec![ask(Method::PATCH, format!("{HOOKS}/h{n}?fieldManager=m"), APPLY, hook(n))],
    },
    Case {
        name: "empty a webhook configuration",
        requests: |n| vec![post(HOOKS, hook(n)), merge(format!("{HOOKS}/h{n}"), json!({"webhooks": null}))],
    },
    Case {
        name: "delete a webhook configuration",
        requests: |n| vec![post(HOOKS, hook(n)), delete(format!("{HOOKS}/h{n}"), Value::Null)],
    },
    Case {
        name: "delete all webhook configurations",
        requests: |n| vec![post(HOOKS, hook(n)), delete(HOOKS, Value::Null)],
    },
    Case {
        name: "create a policy and its binding",
        requests: |n| vec![post(POLICIES, policy(n)), post(BINDINGS, policy_binding(n))],
    },
    Case {
        name: "create a policy after its binding",
        requests: |n| vec![post(BINDINGS, policy_binding(n)), post(POLICIES, policy(n))],
    },
    Case {
        name: "delete a policy",
        requests: |n| {
            let delete = delete(format!("{POLICIES}/p{n}"), Value::Null);
            vec![post(POLICIES, policy(n)), post(BINDINGS, policy_binding(n)), delete]
        },
    },
    Case {
        name: "delete the binding of a policy",
        requests: |n| {
            let delete = delete(format!("{BINDINGS}/p{n}"), Value::Null);
            vec![post(POLICIES, policy(n)), post(BINDINGS, policy_binding(n)), delete]
        },
    },
    Case { name: "create a definition", requests: |n| vec![post(DEFINITIONS, definition(n))] },
    Case {
        name: "delete a definition",
        requests: |n| {
            vec![post(DEFINITIONS, definition(n)), delete(format!("{DEFINITIONS}/w{n}s.example.com"), Value::Null)]
        },
    },
    Case {
        name: "delete all definitions",
        requests: |n| vec![post(DEFINITIONS, definition(n)), delete(DEFINITIONS, Value::Null)],
    },
    Case {
        name: "create a custom resource",
        requests: |n| vec![post(DEFINITIONS, definition(n)), post(custom_path(n), custom(n))],
    },
    Case {
        name: "scale a custom resource",
        requests: |n| {
            vec![
                post(DEFINITIONS, definition(n)),
                post(custom_path(n), custom(n)),
                merge(format!("{}/x/scale", custom_path(n)), json!({"spec": {"replicas": 3}})),
            ]
        },
    },
    Case {
        name: "delete a pod without grace",
        requests: |n| {
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
            with(running_pod(n), [delete(core("default", &format!("pods/p{n}")), options)])
        },
    },
    Case {
        name: "delete a pod that is not scheduled",
        requests: |n| {
            vec![post(core("default", "pods"), pod(n)), delete(core("default", &format!("pods/p{n}")), Value::Null)]
        },
    },
    Case {
        name: "delete a pod with grace",
        requests: |n| with(running_pod(n), [delete(core("default", &format!("pods/p{n}")), Value::Null)]),
    },
    Case {
        name: "delete a collection of pods",
        requests: |n| {
            let path = core("collection", "pods");
            vec![post(&path, pod(2 * n)), post(&path, pod(2 * n + 1)), delete(&path, Value::Null)]
        },
    },
    Case {
        name: "bind a pod",
        requests: |n| {
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": format!("p{n}")},
                "target": {"kind": "Node", "name": "node"}});
            let path = core("default", "pods");
            vec![post(&path, pod(n)), post(format!("{path}/p{n}/binding"), binding)]
        },
    },
    Case { name: "evict a pod", requests: eviction },
    Case { name: "create a namespace", requests: |n| vec![post("/api/v1/namespaces", namespace(n))] },
    Case {
        name: "delete a namespace",
        requests: |n| {
            let path = format!("/api/v1/namespaces/n{n}");
            vec![post("/api/v1/namespaces", namespace(n)), delete(path, Value::Null)]
        },
    },
    Case {
        name: "finalize a namespace",
        requests: |n| {
            let path = format!("/api/v1/namespaces/n{n}");
            let mut finalized = namespace(n);
            finalized["spec"] = json!({"finalizers": []});
            vec![
                post("/api/v1/namespaces", namespace(n)),
                delete(&path, Value::Null),
                ask(Method::PUT, format!("{path}/finalize"), JSON, finalized),
            ]
        },
    },
];
