//! The compiled policy against a model that is written straight from the definition.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::{decisions::DecidedPolicy, policy::Policy};
use crate::{
    authorization::{Action, Attributes, ResourceAction, Verdict},
    user::User,
};

/// A write of a role or binding: its key, and the object unless it is deleted.
#[derive(Debug, Clone)]
enum Write {
    Role(String, Option<Value>),
    Binding(String, Option<Value>),
}

/// All objects, and the definition of what they allow.
#[derive(Default)]
struct Model {
    roles: BTreeMap<String, Value>,
    bindings: BTreeMap<String, Value>,
}

fn texts<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    value[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

impl Model {
    fn allows(&self, user: &User, action: &Action<'_>) -> bool {
        let namespace = match action {
            Action::Resource(action) => action.namespace,
            Action::Path { .. } => "",
        };
        self.bindings.iter().any(|(key, binding)| {
            let own = key.split_once('/').map_or("", |(namespace, _)| namespace);
            (own.is_empty() || own == namespace)
                && binding["subjects"].as_array().unwrap().iter().any(|subject| Self::applies(subject, user, own))
                && self.role(&binding["roleRef"], own).is_some_and(|role| {
                    role["rules"].as_array().unwrap().iter().any(|rule| Self::rule_allows(rule, action))
                })
        })
    }

    fn role(&self, reference: &Value, namespace: &str) -> Option<&Value> {
        let name = reference["name"].as_str().unwrap();
        match reference["kind"].as_str().unwrap() {
            "ClusterRole" => self.roles.get(name),
            "Role" => self.roles.get(&format!("{namespace}/{name}")),
            _ => None,
        }
    }

    fn applies(subject: &Value, user: &User, namespace: &str) -> bool {
        let name = subject["name"].as_str().unwrap();
        match subject["kind"].as_str().unwrap() {
            "User" => user.name == name,
            "Group" => user.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let namespace = subject["namespace"].as_str().unwrap_or(namespace);
                !namespace.is_empty() && user.name == format!("system:serviceaccount:{namespace}:{name}")
            }
            _ => false,
        }
    }

    fn rule_allows(rule: &Value, action: &Action<'_>) -> bool {
        let has = |field: &str, wanted: &str| texts(rule, field).iter().any(|text| *text == "*" || *text == wanted);
        match action {
            Action::Path { verb, path } => {
                let matches = |url: &str| match url.strip_suffix('*') {
                    Some(prefix) => path.starts_with(prefix),
                    None => url == *path,
                };
                has("verbs", verb) && texts(rule, "nonResourceURLs").into_iter().any(matches)
            }
            Action::Resource(action) => {
                let resource = match action.subresource {
                    "" => vec!["*".to_owned(), action.resource.to_owned()],
                    sub => vec!["*".to_owned(), format!("{}/{sub}", action.resource), format!("*/{sub}")],
                };
                let names = texts(rule, "resourceNames");
                has("verbs", action.verb)
                    && has("apiGroups", action.group)
                    && texts(rule, "resources").iter().any(|text| resource.iter().any(|known| known == text))
                    && (names.is_empty() || names.contains(&action.name))
            }
        }
    }
}

const NAMESPACES: [&str; 3] = ["", "a", "b"];
const ROLES: [&str; 3] = ["reader", "writer", "u"];
const USERS: [&str; 4] = ["u", "reader", "system:serviceaccount:a:u", "system:serviceaccount:b:u"];
const GROUPS: [&str; 3] = ["g", "u", "system:authenticated"];
const VERBS: [&str; 3] = ["get", "list", "*"];
const RESOURCES: [&str; 7] = ["pods", "pods/log", "*/log", "*", "pods/*", "logs", "*/scale"];
const URLS: [&str; 5] = ["/api", "/api/*", "*", "/metrics", "/api/v1"];

fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn some(from: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(select(from), 0..3)
}

fn rules() -> impl Strategy<Value = Value> {
    let rule = (some(&VERBS), some(&["", "apps", "*"]), some(&RESOURCES), some(&["x", "y"]), some(&URLS));
    let rule = rule.prop_map(|(verbs, groups, resources, names, urls)| {
        json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names, "nonResourceURLs": urls})
    });
    proptest::collection::vec(rule, 0..4).prop_map(Value::from)
}

fn subject() -> impl Strategy<Value = Value> {
    let account = (select(&["u", "reader"][..]), select(&[None, Some("a"), Some("b")][..]));
    prop_oneof![
        select(&USERS[..]).prop_map(|name| json!({"kind": "User", "name": name})),
        select(&GROUPS[..]).prop_map(|name| json!({"kind": "Group", "name": name})),
        account.prop_map(|(name, namespace)| {
            let mut subject = json!({"kind": "ServiceAccount", "name": name});
            if let Some(namespace) = namespace {
                subject["namespace"] = namespace.into();
            }
            subject
        }),
    ]
}

fn write() -> impl Strategy<Value = Write> {
    let place = || (select(&NAMESPACES[..]), select(&ROLES[..])).prop_map(|(namespace, name)| key(namespace, name));
    let role = (place(), proptest::option::weighted(0.8, rules()));
    let binding =
        (select(&["Role", "ClusterRole"][..]), select(&ROLES[..]), proptest::collection::vec(subject(), 0..4));
    let binding = binding
        .prop_map(|(kind, name, subjects)| json!({"roleRef": {"kind": kind, "name": name}, "subjects": subjects}));
    prop_oneof![
        role.prop_map(|(key, rules)| Write::Role(key, rules.map(|rules| json!({"rules": rules})))),
        (place(), proptest::option::weighted(0.8, binding)).prop_map(|(key, binding)| Write::Binding(key, binding)),
    ]
}

fn bytes(value: &Value) -> Bytes {
    value.to_string().into()
}

fn users() -> Vec<User> {
    let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let user = |name: &str, names: &[&str]| User { name: name.to_owned(), groups: groups(names), ..User::default() };
    let single = USERS.iter().map(|name| user(name, &[]));
    single.chain([user("other", &["g", "system:authenticated"]), user("u", &["u"])]).collect()
}

fn actions() -> Vec<Action<'static>> {
    let mut actions = Vec::new();
    for verb in ["get", "list"] {
        for path in ["/api", "/api/v1", "/", "/metrics"] {
            actions.push(Action::Path { verb, path });
        }
        for namespace in NAMESPACES {
            for (group, resource, subresource) in
                [("", "pods", ""), ("", "pods", "log"), ("apps", "logs", ""), ("apps", "deployments", "scale")]
            {
                for name in ["", "x"] {
                    let action =
                        ResourceAction { verb, group, resource, subresource, namespace, name, ..Default::default() };
                    actions.push(Action::Resource(action));
                }
            }
        }
    }
    actions
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_definition(writes in proptest::collection::vec(write(), 0..24)) {
        let (mut policy, mut model) = (Policy::default(), Model::default());
        for write in writes {
            match write {
                Write::Role(key, object) => {
                    policy.set_role(&key, object.as_ref().map(bytes));
                    match object {
                        Some(object) => drop(model.roles.insert(key, object)),
                        None => drop(model.roles.remove(&key)),
                    }
                }
                Write::Binding(key, object) => {
                    policy.set_binding(&key, object.as_ref().map(bytes).as_deref());
                    match object {
                        Some(object) => drop(model.bindings.insert(key, object)),
                        None => drop(model.bindings.remove(&key)),
                    }
                }
            }
        }
        let decided = DecidedPolicy::from(policy.clone());
        for user in users() {
            for action in actions() {
                let request = Attributes { user: &user, action: action.clone() };
                let decision = policy.decide(&request);
                // Another decision about the same request, or about its object with another name, may be kept.
                prop_assert_eq!(decided.decide(&request), decision.clone());
                prop_assert_eq!(decided.decide(&request), decision.clone());
                prop_assert_eq!(decision.is_allowed(), model.allows(&user, &action), "{:?} {:?}", &user, &action);
                prop_assert!(decision.is_allowed() || decision.verdict == Verdict::NoOpinion);
                let namespace = if let Action::Resource(action) = &action { action.namespace } else { "" };
                let (rules, _) = policy.rules_for(&user, namespace);
                prop_assert_eq!(decision.is_allowed(), rules.iter().any(|rule| rule.allows(&action)));
            }
        }
        // Nothing remains of bindings that are deleted.
        for key in model.bindings.keys() {
            policy.set_binding(key, None);
        }
        prop_assert!(policy.has_no_grants());
    }
}

fn policy(roles: &[(&str, Value)], bindings: &[(&str, Value)]) -> Policy {
    let mut policy = Policy::default();
    for (key, rules) in roles {
        policy.set_role(key, Some(bytes(&json!({"rules": rules}))));
    }
    for (key, binding) in bindings {
        policy.set_binding(key, Some(&bytes(binding)));
    }
    policy
}

fn reason(policy: &Policy, user: &str, groups: &[&str], namespace: &str) -> String {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let user = User { name: user.to_owned(), groups, ..User::default() };
    let action = ResourceAction { verb: "get", resource: "pods", namespace, ..ResourceAction::default() };
    policy.decide(&Attributes { user: &user, action: Action::Resource(action) }).reason.to_string()
}

#[test]
fn reasons_are_those_of_kube_apiserver() {
    let pods = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let binding = |kind: &str, role: &str, subjects: Value| json!({"roleRef": {"kind": kind, "name": role}, "subjects": subjects});
    let policy = policy(
        &[("all", pods.clone()), ("n/own", pods)],
        &[
            (
                "b",
                binding("ClusterRole", "all", json!([{"kind": "Group", "name": "g"}, {"kind": "User", "name": "bob"}])),
            ),
            ("n/r", binding("Role", "own", json!([{"kind": "ServiceAccount", "name": "sa"}]))),
            ("m/lost", binding("Role", "own", json!([{"kind": "User", "name": "eve"}]))),
            (
                "lost",
                binding(
                    "ClusterRole",
                    "gone",
                    json!([{"kind": "User", "name": "eve"}, {"kind": "Group", "name": "h"}]),
                ),
            ),
            ("odd", binding("Thing", "x", json!([{"kind": "User", "name": "odd"}]))),
        ],
    );
    for (user, groups, namespace, expected) in [
        ("bob", &[][..], "", r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "all" to User "bob""#),
        ("bob", &["g"], "n", r#"RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "all" to Group "g""#),
        (
            "system:serviceaccount:n:sa",
            &[],
            "n",
            r#"RBAC: allowed by RoleBinding "r/n" of Role "own" to ServiceAccount "sa/n""#,
        ),
        ("system:serviceaccount:n:sa", &[], "m", ""),
        ("eve", &["h"], "", r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#),
        (
            "eve",
            &["h"],
            "m",
            r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "own" not found]"#,
        ),
        ("odd", &[], "", r#"RBAC: unsupported role reference kind: "Thing""#),
        ("nobody", &["none"], "n", ""),
    ] {
        assert_eq!(reason(&policy, user, groups, namespace), expected, "{user} {namespace}");
    }
}

#[test]
fn damaged_objects_grant_nothing() {
    let mut policy = Policy::default();
    policy.set_role("r", Some("{".into()));
    policy.set_binding(
        "b",
        Some(br#"{"roleRef":{"kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"u"}]}"#),
    );
    policy.set_binding("c", Some(b"{\"subjects\":"));
    assert_eq!(reason(&policy, "u", &[], ""), "");
}
