//! Conversion of permissions to the fewest RBAC rules that grant them and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Manifest, OperatorManifests, Part, Permission};

/// A namespace; `None` for the whole cluster, which sorts first.
type Scope = Option<String>;

/// A resource: its group and its plural name.
type Resource = (String, String);

/// Names of objects; empty for all, which sorts first.
type Names = BTreeSet<String>;

type Verbs = BTreeSet<&'static str>;

/// One rule of a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    verbs: Vec<&'static str>,
}

impl Rule {
    fn to_json(&self) -> Value {
        let mut rule = json!({ "apiGroups": self.groups, "resources": self.resources, "verbs": self.verbs });
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        rule
    }
}

/// Returns a ServiceAccount for the operator, its roles and their bindings.
pub(super) fn manifests(operator: &OperatorManifests, name: &str, permissions: Vec<Permission>) -> Vec<Manifest> {
    let mut manifests = vec![operator.manifest(
        Part::Rbac,
        ("", "v1", "ServiceAccount", "serviceaccounts"),
        Some(&operator.namespace),
        name,
        json!({}),
    )];
    let subjects = json!([{ "kind": "ServiceAccount", "name": name, "namespace": operator.namespace }]);
    for (scope, rules) in minimal(permissions) {
        let (role, roles) = if scope.is_none() { ("ClusterRole", "clusterroles") } else { ("Role", "roles") };
        let rules: Vec<_> = rules.iter().map(Rule::to_json).collect();
        let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name });
        for (kind, plural, content) in [
            (role.to_owned(), roles.to_owned(), json!({ "rules": rules })),
            (
                format!("{role}Binding"),
                format!("{}bindings", &roles[..roles.len() - 1]),
                json!({ "roleRef": reference, "subjects": subjects }),
            ),
        ] {
            let resource = ("rbac.authorization.k8s.io", "v1", kind.as_str(), plural.as_str());
            manifests.push(operator.manifest(Part::Rbac, resource, scope.as_deref(), name, content));
        }
    }
    manifests
}

/// Returns the rules of each scope. A narrower rule does not repeat what a wider one grants.
fn minimal(permissions: Vec<Permission>) -> BTreeMap<Scope, Vec<Rule>> {
    // From wide to narrow: the whole cluster before namespaces, all objects before those with a name.
    let mut granted: BTreeMap<(Scope, bool, Names, Resource), Verbs> = BTreeMap::new();
    for Permission { group, resource, verbs, namespace, names } in permissions {
        granted.entry((namespace, !names.is_empty(), names, (group, resource))).or_default().extend(verbs);
    }
    let mut kept: BTreeMap<(Scope, bool, Names, Resource), Verbs> = BTreeMap::new();
    for ((scope, named, names, resource), mut verbs) in granted {
        if verbs.contains("*") {
            verbs = Verbs::from(["*"]);
        }
        let wider = [(None, false, Names::new()), (None, named, names.clone()), (scope.clone(), false, Names::new())];
        for (scope, named, names) in wider {
            if let Some(wide) = kept.get(&(scope, named, names, resource.clone())) {
                verbs.retain(|verb| !wide.contains(verb) && !wide.contains("*"));
            }
        }
        if !verbs.is_empty() {
            kept.insert((scope, named, names, resource), verbs);
        }
    }

    let mut by_verbs: BTreeMap<(Scope, Names, Verbs, String), Vec<String>> = BTreeMap::new();
    for ((scope, _, names, (group, resource)), verbs) in kept {
        by_verbs.entry((scope, names, verbs, group)).or_default().push(resource);
    }
    let mut by_resources: BTreeMap<(Scope, Names, Verbs, Vec<String>), Vec<String>> = BTreeMap::new();
    for ((scope, names, verbs, group), resources) in by_verbs {
        by_resources.entry((scope, names, verbs, resources)).or_default().push(group);
    }
    let mut rules: BTreeMap<Scope, Vec<Rule>> = BTreeMap::new();
    for ((scope, names, verbs, resources), groups) in by_resources {
        let rule = Rule { groups, resources, names: names.into_iter().collect(), verbs: verbs.into_iter().collect() };
        rules.entry(scope).or_default().push(rule);
    }
    rules.values_mut().for_each(|rules| rules.sort());
    rules
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::{Expect, expect};

    use super::*;

    const READ: [&str; 3] = ["get", "list", "watch"];

    fn check(permissions: impl IntoIterator<Item = Permission>, expected: Expect) {
        let mut text = String::new();
        for (scope, rules) in minimal(permissions.into_iter().collect()) {
            for Rule { groups, resources, names, verbs } in rules {
                let scope = scope.as_deref().unwrap_or("*");
                let names = if names.is_empty() { String::new() } else { format!(" named {}", names.join(",")) };
                let (groups, resources, verbs) = (groups.join(","), resources.join(","), verbs.join(","));
                writeln!(text, "{scope}: {groups} {resources}{names}: {verbs}").unwrap();
            }
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn verbs_of_one_resource_are_united() {
        let again = Permission::new("apps", "deployments", ["create", "get"]);
        check(
            [Permission::new("apps", "deployments", READ), again],
            expect![[r#"
            *: apps deployments: create,get,list,watch
        "#]],
        );
    }

    #[test]
    fn resources_with_the_same_verbs_share_a_rule() {
        check(
            [
                Permission::new("example.com", "foos", READ),
                Permission::new("example.com", "bars", READ),
                Permission::new("example.com", "foos/status", ["patch"]),
                Permission::new("", "events", ["create", "patch"]),
                Permission::new("events.k8s.io", "events", ["create", "patch"]),
            ],
            expect![[r#"
                *: ,events.k8s.io events: create,patch
                *: example.com bars,foos: get,list,watch
                *: example.com foos/status: patch
            "#]],
        );
    }

    #[test]
    fn a_role_does_not_repeat_what_the_cluster_role_grants() {
        check(
            [
                Permission::new("", "secrets", ["get", "create"]).in_namespace("system"),
                Permission::new("", "secrets", ["get"]),
                Permission::new("", "pods", ["get"]).in_namespace("system"),
                Permission::new("", "pods", ["*", "get"]),
                Permission::new("coordination.k8s.io", "leases", ["get"]).in_namespace("other"),
            ],
            expect![[r#"
                *:  pods: *
                *:  secrets: get
                other: coordination.k8s.io leases: get
                system:  secrets: create
            "#]],
        );
    }

    #[test]
    fn a_rule_with_names_does_not_repeat_what_is_granted_for_all_objects() {
        check(
            [
                Permission::new("", "secrets", ["get", "update"]).in_namespace("system").named("certificate"),
                Permission::new("", "secrets", ["create", "get"]).in_namespace("system"),
                Permission::new("", "configmaps", ["get"]).in_namespace("system").named("a").named("b"),
                Permission::new("", "configmaps", ["get"]).named("a").named("b"),
            ],
            expect![[r#"
                *:  configmaps named a,b: get
                system:  secrets: create,get
                system:  secrets named certificate: update
            "#]],
        );
    }

    #[test]
    fn a_permission_without_verbs_grants_nothing() {
        check([Permission::new("", "pods", [])], expect![[""]]);
    }
}
