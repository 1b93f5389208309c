//! Requests that no role allows, and the permissions that would allow them.
//!
//! An operator that lacks a permission gets 403 (Forbidden) for some of its requests. A [`Denial`] is such a response:
//! it knows the RBAC rule that is missing, and the line of code that adds it to the generated manifests. The operator
//! logs each rule that its watches and the writes and live reads of its contexts lack, once; requests of other clients of the program are
//! not seen. `windlass-testing` sees all requests of the operator's client, and fails the test.

use std::{fmt, sync::Arc};

use kube::core::Status;
use parking_lot::Mutex;

use crate::{context::Verb, manifests::Permission};

mod message;
mod observed;
#[cfg(test)]
mod tests;

pub(crate) use observed::Origin;

/// A request that the API server denied because no role allows it.
///
/// Shown as the missing rule and the line that adds it:
///
/// ```
/// use kube::core::Status;
/// use windlass_runtime::access::Denial;
///
/// let message = "pods is forbidden: User \"system:serviceaccount:task-system:task\" cannot create resource \"pods\" \
///                in API group \"\" in the namespace \"default\"";
/// let denial = Denial::of(&Status::failure(message, "Forbidden").with_code(403)).unwrap();
/// assert_eq!(denial.line(), r#".permission(Permission::new("", "pods", ["create"]))"#);
/// assert_eq!(denial.rule(), "- apiGroups: [\"\"]\n  resources: [\"pods\"]\n  verbs: [\"create\"]\n");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denial {
    /// The user that the request was sent as, such as `system:serviceaccount:foo-system:foo-operator`.
    pub user: String,
    /// The verb, as in RBAC rules.
    pub verb: String,
    /// Group of the resource; empty for the core group.
    pub group: String,
    /// Plural name of the resource, with a subresource after a slash.
    pub resource: String,
    /// Namespace of the request; `None` if it was about the whole cluster or a cluster-scoped object.
    pub namespace: Option<String>,
    /// Name of the controller that sent the request, if known.
    pub controller: Option<Arc<str>>,
    /// The operation of the [context](crate::context::Context), and the Rust type that it was called with.
    operation: Option<(Verb, String)>,
    generated: Generated,
}

/// Requests that the generated roles allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Generated {
    /// The rule is missing.
    #[default]
    Missing,
    /// The rule exists for other namespaces.
    Elsewhere,
    /// The rule exists.
    Present,
}

impl Denial {
    /// Returns the denial that a response states; `None` if the API server rejected the request for another reason,
    /// such as a quota, an admission webhook or a namespace that is being deleted.
    pub fn of(status: &Status) -> Option<Self> {
        if status.code != 403 || status.reason != "Forbidden" {
            return None;
        }
        message::parse(&status.message)
    }

    /// Returns the RBAC rule that is missing, as YAML.
    pub fn rule(&self) -> String {
        let Self { group, resource, verb, .. } = self;
        format!("- apiGroups: [{group:?}]\n  resources: [{resource:?}]\n  verbs: [{verb:?}]\n")
    }

    /// Returns the line of code that adds the rule to the generated manifests: a method of the controller that is being
    /// wired, or of the operator if the controller is not known.
    pub fn line(&self) -> String {
        let Self { group, resource, verb, .. } = self;
        match &self.operation {
            _ if self.generated == Generated::Elsewhere => {
                let namespace = self.namespace.as_deref().unwrap_or_default();
                format!(".permission(Permission::new({group:?}, {resource:?}, [{verb:?}]).in_namespace({namespace:?}))")
            }
            Some((operation, kind)) if self.controller.is_some() && self.is_declared_by(*operation) => {
                match operation {
                    Verb::Create => format!(".creates::<{kind}>()"),
                    Verb::Apply => format!(".applies::<{kind}>()"),
                    Verb::Update | Verb::Patch | Verb::SetStatus => format!(".updates::<{kind}>()"),
                    Verb::Delete => format!(".deletes::<{kind}>()"),
                    Verb::Get | Verb::List => format!(".reads::<{kind}>()"),
                    Verb::DeleteAll => format!(".deletes_all::<{kind}>()"),
                    Verb::Scale => format!(".scales::<{kind}>()"),
                    Verb::Evict => ".evicts()".to_owned(),
                    Verb::Logs => ".reads_logs()".to_owned(),
                    Verb::Exec => ".execs()".to_owned(),
                }
            }
            _ => format!(".permission(Permission::new({group:?}, {resource:?}, [{verb:?}]))"),
        }
    }

    /// Returns whether the operation has a method of the controller that declares it.
    fn is_declared_by(&self, operation: Verb) -> bool {
        let subresource = self.resource.split_once('/').map(|(_, subresource)| subresource);
        match operation {
            Verb::Scale => subresource == Some("scale"),
            Verb::Evict => subresource == Some("eviction"),
            Verb::Logs => subresource == Some("log"),
            Verb::Exec => subresource == Some("exec"),
            _ => subresource.is_none(),
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> String {
        if self.generated == Generated::Present {
            return "the generated roles allow this: apply the current manifests".to_owned();
        }
        match &self.controller {
            Some(controller) => format!("add to controller {controller:?}: {}", self.line()),
            None => format!("add to the operator, or to the controller that sent it: {}", self.line()),
        }
    }

    /// Returns what the roles with these permissions allow.
    fn generated_by(&self, permissions: &[Permission]) -> Generated {
        let rule = |permission: &&Permission| {
            permission.group == self.group
                && permission.resource == self.resource
                && permission.names.is_empty()
                && (permission.verbs.contains(self.verb.as_str()) || permission.verbs.contains("*"))
        };
        let allowed_in = |namespace: &Option<String>| namespace.is_none() || *namespace == self.namespace;
        let mut rules = permissions.iter().filter(rule).peekable();
        match (rules.peek().is_some(), self.namespace.is_some()) {
            _ if rules.any(|rule| allowed_in(&rule.namespace)) => Generated::Present,
            (true, true) => Generated::Elsewhere,
            _ => Generated::Missing,
        }
    }

    /// Returns whether the same rule would allow both.
    fn is_same_rule(&self, other: &Self) -> bool {
        (&self.group, &self.resource, &self.verb) == (&other.group, &other.resource, &other.verb)
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, .. } = self;
        if let Some(controller) = &self.controller {
            write!(f, "controller {controller:?} ")?;
        }
        write!(f, "may not {verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " in namespace {namespace}")?;
        }
        writeln!(f, "\n  missing rule:")?;
        for line in self.rule().lines() {
            writeln!(f, "    {line}")?;
        }
        write!(f, "  hint: {}", self.hint())
    }
}

/// The denials of a process, one per missing rule. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Denials {
    shared: Arc<Mutex<Vec<Denial>>>,
    /// Permissions of the generated roles.
    generated: Arc<[Permission]>,
}

impl Denials {
    /// Creates a record for a process whose generated roles grant these permissions.
    pub fn new(generated: impl IntoIterator<Item = Permission>) -> Self {
        Self { shared: Arc::default(), generated: generated.into_iter().collect() }
    }

    /// Returns all denials so far, in the order of their first occurrence.
    pub fn all(&self) -> Vec<Denial> {
        self.shared.lock().clone()
    }

    /// Adds a denial. Returns it if no other was denied for lack of the same rule before.
    fn add(&self, mut denial: Denial) -> Option<Denial> {
        let mut all = self.shared.lock();
        if all.iter().any(|other| other.is_same_rule(&denial)) {
            return None;
        }
        denial.generated = denial.generated_by(&self.generated);
        all.push(denial.clone());
        Some(denial)
    }

    /// Logs the missing rule if a response is a denial, once per rule.
    pub(crate) fn report(&self, status: &Status, origin: impl FnOnce() -> Origin) {
        if let Some(denial) = Denial::of(status).and_then(|denial| self.add(origin().of(denial))) {
            let Denial { user, verb, group, resource, namespace, controller, .. } = &denial;
            tracing::error!(
                controller = controller.as_deref(),
                %user, %verb, %group, %resource, namespace,
                hint = denial.hint(),
                "missing permission"
            );
        }
    }
}
