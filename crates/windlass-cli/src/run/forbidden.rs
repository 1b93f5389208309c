//! Forbidden requests in the operator's log, with the rule that is missing. Pure.

use std::fmt;

/// A permission that the operator lacks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MissingRule {
    verb: String,
    group: String,
    /// Including the subresource; empty for a path.
    resource: String,
    /// A path that is not a resource.
    path: String,
    /// `None` for the whole cluster.
    namespace: Option<String>,
}

impl MissingRule {
    /// Finds the API server's message about a forbidden request of a user in a line of a log.
    pub(crate) fn find(line: &str, user: &str) -> Option<Self> {
        // Quotes may be escaped, depending on the format of the log.
        let line = line.replace('\\', "");
        let (_, rest) = line.split_once(&format!("User \"{user}\" cannot "))?;
        let (verb, rest) = rest.split_once(' ')?;
        let quoted = |text: &str, before: &str| {
            let (_, rest) = text.split_once(&format!("{before} \""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let mut rule = Self {
            verb: verb.to_owned(),
            group: String::new(),
            resource: String::new(),
            path: String::new(),
            namespace: None,
        };
        if rest.starts_with("path \"") {
            rule.path = quoted(rest, "path")?;
            return Some(rule);
        }
        rule.resource = quoted(rest, "resource")?;
        rule.group = quoted(rest, "in API group")?;
        let (_, place) = rest.split_once("in API group")?;
        rule.namespace = quoted(place.get(..200).unwrap_or(place), "in the namespace");
        Some(rule)
    }

    /// How to grant it.
    pub(crate) fn hint(&self) -> String {
        let Self { verb, group, resource, path, .. } = self;
        let advice = match path.is_empty() {
            true => format!(
                "if the operator needs it, add .permission(Permission::new({group:?}, {resource:?}, [{verb:?}])) to \
                 Operator in src/operator.rs"
            ),
            false => format!("bind a ClusterRole with the nonResourceURL {path} to the service account"),
        };
        format!("hint: {advice}; --as-admin runs it without roles")
    }
}

impl fmt::Display for MissingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, path, namespace } = self;
        if resource.is_empty() {
            return write!(f, "forbidden: the operator's roles do not allow {verb} on {path}");
        }
        let place = match namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in all namespaces".to_owned(),
        };
        write!(
            f,
            "forbidden: the operator's roles do not allow {verb} on {resource} {place}; missing rule: \
             {{apiGroups: [{group:?}], resources: [{resource:?}], verbs: [{verb:?}]}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "system:serviceaccount:shop-system:shop";

    #[test]
    fn the_missing_rule_is_found_in_any_log_format() {
        for (line, expected) in [
            (
                r#"WARN watch: pods is forbidden: User "system:serviceaccount:shop-system:shop" cannot list resource "pods" in API group "" at the cluster scope"#,
                r#"forbidden: the operator's roles do not allow list on pods in all namespaces; missing rule: {apiGroups: [""], resources: ["pods"], verbs: ["list"]}"#,
            ),
            (
                r#"{"error":"deployments.apps \"a\" is forbidden: User \"system:serviceaccount:shop-system:shop\" cannot patch resource \"deployments/scale\" in API group \"apps\" in the namespace \"default\"","name":"x"}"#,
                r#"forbidden: the operator's roles do not allow patch on deployments/scale in namespace default; missing rule: {apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"]}"#,
            ),
            (
                r#"forbidden: User "system:serviceaccount:shop-system:shop" cannot get path "/metrics""#,
                "forbidden: the operator's roles do not allow get on /metrics",
            ),
        ] {
            assert_eq!(MissingRule::find(line, USER).unwrap().to_string(), expected);
        }
        let line = r#"User "system:serviceaccount:shop-system:shop" cannot create resource "pods" in API group """#;
        let hint = MissingRule::find(line, USER).unwrap().hint();
        assert!(hint.contains(r#".permission(Permission::new("", "pods", ["create"]))"#), "{hint}");
    }

    #[test]
    fn other_lines_are_not_about_missing_rules() {
        for line in [
            "started",
            r#"pods is forbidden: User "bob" cannot list resource "pods" in API group """#,
            r#"User "system:serviceaccount:shop-system:shop" cannot list"#,
            r#"User "system:serviceaccount:shop-system:shop" cannot list resource "pods"#,
            "pods \"a\" is forbidden: exceeded quota: pods",
        ] {
            assert_eq!(MissingRule::find(line, USER), None, "{line}");
        }
    }
}
