//! User of the credentials. Pure.

use serde_json::{Value, json};
use windlass_scaffold::names::is_dns_label;

use crate::{failure::ErrorWithHint, service_account::AccountName};

/// A user with groups, or a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    User { name: String, groups: Vec<String> },
    ServiceAccount(AccountName),
}

impl Identity {
    /// A user with a certificate. Names of Kubernetes itself are rejected.
    pub(super) fn user(name: &str, groups: &[String]) -> Result<Self, ErrorWithHint> {
        if let Some(problem) = problem(name) {
            let hint = "use a name such as alice or alice@example.com";
            return Err(ErrorWithHint { message: format!("user name {name:?} {problem}"), hint: hint.into() });
        }
        if let Some(account) = name.strip_prefix("system:serviceaccount:") {
            let hint = format!("use --service-account {}", account.replacen(':', "/", 1));
            let message = format!("the user {name:?} is a service account, and service accounts have no certificates");
            return Err(ErrorWithHint { message, hint: hint.into() });
        }
        if name.starts_with("system:") {
            let message = format!("user name {name:?} is reserved: names with the prefix system: belong to Kubernetes");
            return Err(ErrorWithHint { message, hint: "choose a name without this prefix".into() });
        }
        for group in groups {
            if group == "system:masters" {
                let message = "group system:masters is rejected: its members may do everything, and a certificate \
                               cannot be revoked";
                let hint = "use --cluster-role cluster-admin, whose binding can be deleted";
                return Err(ErrorWithHint { message: message.to_owned(), hint: hint.into() });
            }
            if let Some(problem) = problem(group) {
                let message = format!("group {group:?} {problem}");
                return Err(ErrorWithHint { message, hint: "use a name such as dev".into() });
            }
        }
        Ok(Self::User { name: name.to_owned(), groups: groups.to_vec() })
    }

    /// A service account, from `[NAMESPACE/]NAME`.
    pub(super) fn service_account(text: &str) -> Result<Self, ErrorWithHint> {
        let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
        if !is_dns_label(namespace) || name.len() > 253 || !name.split('.').all(is_dns_label) {
            let message = format!("{text:?} is not the name of a service account");
            let hint = "use NAME or NAMESPACE/NAME, in lower-case letters, digits, '-' and '.'";
            return Err(ErrorWithHint { message, hint: hint.into() });
        }
        Ok(Self::ServiceAccount(AccountName { namespace: namespace.to_owned(), name: name.to_owned() }))
    }

    /// Name of the entry in the kubeconfig.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::User { name, .. } => name,
            Self::ServiceAccount(account) => &account.name,
        }
    }

    /// Prefix of the names of its bindings. Names of bindings are segments of a path.
    pub(super) fn binding_prefix(&self) -> String {
        match self {
            Self::User { name, .. } => name.replace(['/', '%'], "-"),
            Self::ServiceAccount(AccountName { namespace, name }) => format!("{namespace}-{name}"),
        }
    }

    /// The subject of bindings.
    pub(super) fn subject(&self) -> Value {
        match self {
            Self::User { name, .. } => json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}),
            Self::ServiceAccount(AccountName { namespace, name }) => {
                json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
            }
        }
    }

    /// Describes it: `user alice (group dev)`.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::User { name, groups } => match &groups[..] {
                [] => format!("user {name}"),
                [group] => format!("user {name} (group {group})"),
                groups => format!("user {name} (groups {})", groups.join(", ")),
            },
            Self::ServiceAccount(account) => format!("service account {account}"),
        }
    }
}

fn problem(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("is empty"),
        name if name.chars().any(char::is_control) => Some("has control characters"),
        name if name.trim() != name => Some("begins or ends with a space"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kubernetes_are_rejected() {
        let user = |name: &str, groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
            Identity::user(name, &groups).map_err(|error| format!("{error} / {}", error.hint))
        };
        for (name, groups, expected) in [
            ("system:admin", &[][..], "is reserved"),
            ("system:serviceaccount:dev:robot", &[], "use --service-account dev/robot"),
            ("", &[], "is empty"),
            ("a\nb", &[], "control characters"),
            (" a", &[], "begins or ends with a space"),
            ("alice", &["dev", "system:masters"], "group system:masters is rejected"),
            ("alice", &[""], "group \"\" is empty"),
        ] {
            let error = user(name, groups).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let alice = user("alice@example.com", &["dev", "ops"]).unwrap();
        assert_eq!(alice.describe(), "user alice@example.com (groups dev, ops)");
        assert_eq!(user("a/b%c", &[]).unwrap().binding_prefix(), "a-b-c");
    }

    #[test]
    fn service_accounts_have_a_namespace() {
        let robot = Identity::service_account("robot").unwrap();
        assert_eq!(robot.describe(), "service account default/robot");
        let robot = Identity::service_account("ci/robot").unwrap();
        assert_eq!((robot.name(), robot.binding_prefix().as_str()), ("robot", "ci-robot"));
        for text in ["", "a/b/c", "A", "a_b", "/a", "a/"] {
            assert!(Identity::service_account(text).is_err(), "{text}");
        }
    }
}
