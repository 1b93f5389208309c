//! Compiled roles and bindings.

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde::Deserialize;
use tracing::error;
use windlass_schema::go_format::quote;

use super::GROUP;
use crate::{authorization::PolicyRule, user::User};

/// A Role or ClusterRole. Its rules are parsed by the first request that needs them: most roles are never used.
pub(super) struct Role {
    object: Bytes,
    rules: OnceLock<Box<[PolicyRule]>>,
}

impl Role {
    pub(super) fn new(object: Bytes) -> Self {
        Self { object, rules: OnceLock::new() }
    }

    pub(super) fn rules(&self) -> &[PolicyRule] {
        #[derive(Deserialize)]
        struct Body {
            rules: Option<Vec<PolicyRule>>,
        }
        self.rules.get_or_init(|| match serde_json::from_slice::<Body>(&self.object) {
            Ok(body) => body.rules.unwrap_or_default().into(),
            Err(error) => {
                error!(%error, "the rules of a stored role are damaged and grant nothing");
                Box::default()
            }
        })
    }
}

/// A RoleBinding or ClusterRoleBinding.
pub(super) struct Binding {
    pub(super) name: Box<str>,
    /// Empty for ClusterRoleBindings.
    pub(super) namespace: Box<str>,
    pub(super) role: RoleRef,
    pub(super) subjects: Box<[Subject]>,
}

/// The role of a binding.
pub(super) struct RoleRef {
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    /// The key of the role; `None` if its kind is unknown.
    pub(super) key: Option<Box<str>>,
}

impl RoleRef {
    pub(super) fn new(kind: &str, name: &str, namespace: &str) -> Self {
        let key = match kind {
            "ClusterRole" => Some(name.into()),
            "Role" => Some(format!("{namespace}/{name}").into()),
            _ => None,
        };
        Self { kind: kind.into(), name: name.into(), key }
    }

    pub(super) fn missing(&self) -> MissingRole {
        let name = self.name.to_string();
        match (&*self.kind, &self.key) {
            ("Role", _) => MissingRole::Role(name),
            (_, Some(_)) => MissingRole::ClusterRole(name),
            (kind, None) => MissingRole::UnknownKind(kind.to_owned()),
        }
    }
}

/// A role that a binding refers to and that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MissingRole {
    /// A Role with this name.
    Role(String),
    /// A ClusterRole with this name.
    ClusterRole(String),
    /// A role of this kind.
    UnknownKind(String),
}

/// The error in reasons of the authorizer, which has other names for resources than the API.
impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(name) => write!(f, "role.{GROUP} \"{name}\" not found"),
            Self::ClusterRole(name) => write!(f, "clusterrole.{GROUP} \"{name}\" not found"),
            Self::UnknownKind(kind) => write!(f, "unsupported role reference kind: {}", quote(kind)),
        }
    }
}

/// A subject of a binding.
pub(super) struct Subject {
    kind: SubjectKind,
    /// The name of the user or group; for a service account the name of its user.
    name: Box<str>,
    /// Reason why a request that the binding grants is allowed.
    reason: OnceLock<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubjectKind {
    User,
    Group,
    ServiceAccount,
}

/// The prefix of the user names of service accounts.
const ACCOUNT: &str = "system:serviceaccount:";

impl Subject {
    fn applies_to(&self, user: &User) -> bool {
        match self.kind {
            SubjectKind::User | SubjectKind::ServiceAccount => *self.name == *user.name,
            SubjectKind::Group => user.groups.iter().any(|group| **group == *self.name),
        }
    }

    /// Returns the key of the bindings of this subject.
    pub(super) fn key(&self, namespace: &str) -> String {
        let mut key = String::new();
        write_key(&mut key, namespace, self.kind == SubjectKind::Group, &self.name);
        key
    }
}

/// Writes the key of the bindings of a user or group in a namespace.
pub(super) fn write_key(key: &mut String, namespace: &str, is_group: bool, name: &str) {
    key.clear();
    key.push_str(namespace);
    key.push_str(if is_group { "\0g" } else { "\0u" });
    key.push_str(name);
}

impl Binding {
    /// Parses a stored binding; one that is damaged has no subjects.
    pub(super) fn parse(object: &[u8], namespace: &str, name: &str) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            #[serde(borrow)]
            role_ref: Reference<'a>,
            #[serde(borrow)]
            subjects: Option<Vec<Reference<'a>>>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Reference<'a> {
            #[serde(borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(borrow)]
            namespace: Cow<'a, str>,
        }
        let body = serde_json::from_slice::<Body<'_>>(object).unwrap_or_else(|error| {
            error!(%error, namespace, name, "a stored role binding is damaged and grants nothing");
            Body { role_ref: Reference::default(), subjects: None }
        });
        let subject = |subject: &Reference<'_>| {
            let (kind, name) = match &*subject.kind {
                "User" => (SubjectKind::User, subject.name.as_ref().into()),
                "Group" => (SubjectKind::Group, subject.name.as_ref().into()),
                "ServiceAccount" => {
                    let own: &str = if subject.namespace.is_empty() { namespace } else { &subject.namespace };
                    if own.is_empty() {
                        return None;
                    }
                    (SubjectKind::ServiceAccount, format!("{ACCOUNT}{own}:{}", subject.name).into())
                }
                _ => return None,
            };
            Some(Subject { kind, name, reason: OnceLock::new() })
        };
        Self {
            name: name.into(),
            namespace: namespace.into(),
            role: RoleRef::new(&body.role_ref.kind, &body.role_ref.name, namespace),
            subjects: body.subjects.unwrap_or_default().iter().filter_map(subject).collect(),
        }
    }

    /// Returns why a request of a user is allowed; `None` if the binding does not apply to the user.
    pub(super) fn reason(&self, user: &User) -> Option<Arc<str>> {
        let subject = self.subjects.iter().find(|subject| subject.applies_to(user))?;
        Some(subject.reason.get_or_init(|| self.describe(subject).into()).clone())
    }

    fn describe(&self, subject: &Subject) -> String {
        let (kind, name) = match &*self.namespace {
            "" => ("ClusterRoleBinding", self.name.to_string()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let RoleRef { kind: role_kind, name: role, .. } = &self.role;
        let (subject_kind, subject) = match subject.kind {
            SubjectKind::User => ("User", subject.name.to_string()),
            SubjectKind::Group => ("Group", subject.name.to_string()),
            SubjectKind::ServiceAccount => {
                // Names of accounts have no colons.
                let account = subject.name.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':'));
                let (namespace, name) = account.unwrap_or_default();
                ("ServiceAccount", format!("{name}/{namespace}"))
            }
        };
        let (name, role, subject) = (quote(&name), quote(role), quote(&subject));
        format!("RBAC: allowed by {kind} {name} of {role_kind} {role} to {subject_kind} {subject}")
    }
}
