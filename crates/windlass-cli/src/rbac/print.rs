//! Roles as manifests and as a table.

use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_schema::yaml;

use super::rules::{Roles, Rule};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Subject of the roles.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// Name of the roles, bindings and service account.
    pub(super) name: String,
    /// Namespace of the service account.
    pub(super) namespace: String,
    /// The operator, if it is that of a project.
    pub(super) operator: Option<OwnOperator>,
}

/// The operator of a project.
#[derive(Clone, Debug)]
pub(super) struct OwnOperator {
    pub(super) name: String,
    /// Directory of the project.
    pub(super) root: PathBuf,
}

/// Roles with their bindings.
pub(super) fn manifests(roles: &Roles, owner: &Owner) -> Vec<Value> {
    let Owner { name, namespace, .. } = owner;
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
    let api_version = format!("{GROUP}/v1");
    let mut manifests = Vec::new();
    let mut add = |prefix: &str, of: Option<&str>, rules: &[Rule]| {
        let mut metadata = json!({"name": name});
        if let Some(of) = of {
            metadata["namespace"] = of.into();
        }
        let rules: Vec<Value> = rules.iter().map(Rule::write).collect();
        let kind = format!("{prefix}Role");
        manifests.push(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules}));
        manifests.push(json!({
            "apiVersion": api_version,
            "kind": format!("{kind}Binding"),
            "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
            "subjects": subjects,
        }));
    };
    if !roles.cluster.is_empty() {
        add("Cluster", None, &roles.cluster);
    }
    for (namespace, rules) in &roles.namespaces {
        add("", Some(namespace), rules);
    }
    manifests
}

/// The manifests as text.
pub(super) fn to_yaml(manifests: &[Value]) -> String {
    manifests.iter().map(yaml::to_yaml).collect::<Vec<_>>().join("---\n")
}

/// One line per rule.
pub(super) fn table(roles: &Roles) -> String {
    let mut rows = vec![["NAMESPACE", "GROUP", "RESOURCES", "NAMES", "VERBS"].map(str::to_owned)];
    let cluster = roles.cluster.iter().map(|rule| ("*", rule));
    let namespaces =
        roles.namespaces.iter().flat_map(|(name, rules)| rules.iter().map(move |rule| (name.as_str(), rule)));
    for (scope, rule) in cluster.chain(namespaces) {
        let groups: Vec<&str> =
            rule.groups.iter().map(|group| if group.is_empty() { "core" } else { group.as_str() }).collect();
        let resources = if rule.urls.is_empty() { &rule.resources } else { &rule.urls };
        rows.push([
            scope.to_owned(),
            or_dash(groups.join(",")),
            resources.join(","),
            or_dash(rule.names.join(",")),
            rule.verbs.join(","),
        ]);
    }
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_bound_to_the_account() {
        let rule = Rule {
            groups: vec![String::new()],
            resources: vec!["pods".to_owned()],
            verbs: vec!["list".to_owned(), "watch".to_owned()],
            ..Rule::default()
        };
        let named = Rule { names: vec!["a".to_owned()], ..rule.clone() };
        let roles = Roles { cluster: vec![rule], namespaces: [("system".to_owned(), vec![named])].into() };
        let owner = Owner { name: "me".to_owned(), namespace: "me-system".to_owned(), operator: None };
        let manifests = manifests(&roles, &owner);
        let kinds: Vec<&Value> = manifests.iter().map(|manifest| &manifest["kind"]).collect();
        assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
        assert_eq!(manifests[2]["metadata"], json!({"name": "me", "namespace": "system"}));
        assert_eq!(manifests[2]["rules"][0]["resourceNames"], json!(["a"]));
        assert_eq!(manifests[3]["roleRef"]["kind"], "Role");
        let expected = "\
NAMESPACE  GROUP  RESOURCES  NAMES  VERBS
*          core   pods       -      list,watch
system     core   pods       a      list,watch
";
        assert_eq!(table(&roles), expected);
    }
}
