//! All roles and bindings, compiled per subject.
//!
//! A persistent map has the bindings of each user, group and service account, at cluster scope and in each namespace.
//! A changed binding replaces the lists of its subjects; a changed role replaces one entry.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::DefaultHashBuilder;
use imbl::{GenericHashMap, shared_ptr::DefaultSharedPtr};

use super::binding::{Binding, MissingRole, Role, RoleRef, write_key};
use crate::{
    authorization::{Action, Attributes, Decision, PolicyRule, UserRules},
    user::User,
};

/// A persistent map whose keys are hashed faster than by the standard library: a decision looks up dozens.
type HashMap<K, V> = GenericHashMap<K, V, DefaultHashBuilder, DefaultSharedPtr>;

/// All roles and bindings at one point in time.
///
/// Keys of namespaced objects are `namespace/name`, and those of cluster-scoped ones `name`, which has no slash.
#[derive(Clone, Default)]
pub(super) struct Policy {
    roles: HashMap<Arc<str>, Arc<Role>>,
    bindings: HashMap<Arc<str>, Arc<Binding>>,
    /// The bindings of a subject in a namespace, ordered by name, by the key that [`write_key`] writes.
    grants: HashMap<Box<str>, Arc<[Arc<Binding>]>>,
}

impl Policy {
    /// Adds, replaces or removes a role.
    pub(super) fn set_role(&mut self, key: &str, object: Option<Bytes>) {
        match object {
            Some(object) => drop(self.roles.insert(key.into(), Arc::new(Role::new(object)))),
            None => drop(self.roles.remove(key)),
        }
    }

    /// Adds, replaces or removes a binding.
    pub(super) fn set_binding(&mut self, key: &str, object: Option<&[u8]>) {
        if let Some(old) = self.bindings.remove(key) {
            self.revoke(&old);
        }
        if let Some(object) = object {
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            let binding = Arc::new(Binding::parse(object, namespace, name));
            self.grant(&binding);
            self.bindings.insert(key.into(), binding);
        }
    }

    fn grant(&mut self, binding: &Arc<Binding>) {
        for subject in &binding.subjects {
            let key = subject.key(&binding.namespace);
            let granted = self.grants.get(key.as_str()).map(|granted| &**granted).unwrap_or_default();
            let Err(at) = granted.binary_search_by(|known| known.name.cmp(&binding.name)) else { continue };
            let (before, after) = granted.split_at(at);
            let granted = before.iter().chain([binding]).chain(after).cloned().collect();
            self.grants.insert(key.into(), granted);
        }
    }

    fn revoke(&mut self, binding: &Arc<Binding>) {
        for subject in &binding.subjects {
            let key = subject.key(&binding.namespace);
            let granted = self.grants.get(key.as_str()).map(|granted| &**granted).unwrap_or_default();
            let others: Arc<[_]> = granted.iter().filter(|known| known.name != binding.name).cloned().collect();
            if others.is_empty() {
                self.grants.remove(key.as_str());
            } else if others.len() != granted.len() {
                self.grants.insert(key.into(), others);
            }
        }
    }

    /// Decides about a request.
    pub(super) fn decide(&self, request: &Attributes<'_>) -> Decision {
        self.decide_any(request).0
    }

    /// Decides a request, and returns whether the decision could differ for an object with another name.
    pub(super) fn decide_any(&self, request: &Attributes<'_>) -> (Decision, bool) {
        let namespace = match &request.action {
            Action::Resource(action) => action.namespace,
            Action::Path { .. } => "",
        };
        let mut missing: Vec<MissingRole> = Vec::new();
        let mut allowed = None;
        let mut depends_on_name = false;
        self.visit(request.user, namespace, |binding| {
            match self.rules_of(&binding.role) {
                Ok(rules) => {
                    depends_on_name |= rules.iter().any(|rule| !rule.resource_names.is_empty());
                    if rules.iter().any(|rule| rule.allows(&request.action)) {
                        allowed = binding.reason(request.user);
                    }
                }
                Err(role) => missing.push(role),
            }
            allowed.is_some()
        });
        let decision = match allowed {
            Some(reason) => Decision::allow(reason),
            None if missing.is_empty() => Decision::no_opinion(""),
            None => Decision::no_opinion(format!("RBAC: {}", aggregate(missing.iter().map(ToString::to_string)))),
        };
        (decision, depends_on_name)
    }

    #[cfg(test)]
    pub(super) fn has_no_grants(&self) -> bool {
        self.grants.is_empty()
    }

    /// Calls a function with the bindings of a user in a namespace, cluster-wide ones first, until it returns true. A
    /// binding with several subjects may be visited several times.
    fn visit<'a>(&'a self, user: &User, namespace: &str, mut visit: impl FnMut(&'a Arc<Binding>) -> bool) {
        let scopes = if namespace.is_empty() { &[""][..] } else { &["", namespace] };
        let mut key = String::with_capacity(128);
        for scope in scopes {
            let groups = user.groups.iter().map(|group| (true, group));
            for (is_group, name) in std::iter::once((false, &user.name)).chain(groups) {
                write_key(&mut key, scope, is_group, name);
                let granted = self.grants.get(key.as_str()).map(|granted| &**granted).unwrap_or_default();
                if granted.iter().any(&mut visit) {
                    return;
                }
            }
        }
    }

    /// Returns the rules of a role.
    pub(super) fn rules_of(&self, role: &RoleRef) -> Result<&[PolicyRule], MissingRole> {
        let found = role.key.as_deref().and_then(|key| self.roles.get(key));
        found.map(|role| role.rules()).ok_or_else(|| role.missing())
    }

    /// Returns the rules of a user in a namespace, and the roles of its bindings that do not exist.
    pub(super) fn rules_for(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<MissingRole>) {
        let mut bindings: Vec<&Arc<Binding>> = Vec::new();
        self.visit(user, namespace, |binding| {
            if binding.reason(user).is_some() {
                bindings.push(binding);
            }
            false
        });
        bindings.sort_by_key(|binding| (&binding.namespace, &binding.name));
        bindings.dedup_by_key(|binding| (&binding.namespace, &binding.name));
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for binding in bindings {
            match self.rules_of(&binding.role) {
                Ok(granted) => rules.extend_from_slice(granted),
                Err(role) => missing.push(role),
            }
        }
        (rules, missing)
    }

    /// Returns the rules of a user in a namespace, for a review.
    pub(super) fn user_rules(&self, user: &User, namespace: &str) -> UserRules {
        let (rules, missing) = self.rules_for(user, namespace);
        let error = (!missing.is_empty()).then(|| aggregate(missing.iter().map(ToString::to_string)));
        UserRules { rules, is_incomplete: false, error }
    }
}

/// Joins errors as Go does: one unchanged, several in brackets, without duplicates.
pub(crate) fn aggregate(errors: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        if !texts.contains(&error) {
            texts.push(error);
        }
    }
    match &texts[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
