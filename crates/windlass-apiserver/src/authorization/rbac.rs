//! Role-based access control.
//!
//! Roles and bindings are compiled into an immutable [`Policy`]. The task that follows the store creates the next one
//! when an object changes, before the caches' revision advances; the writer waits for that, so a binding has taken
//! effect when its write is acknowledged, and also if the writer no longer waits.

mod binding;
pub(crate) mod bootstrap;
mod decisions;
mod policy;
mod rule;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

pub(crate) use self::{
    binding::MissingRole,
    policy::aggregate,
    rule::{describe, quoted, uncovered},
};
use self::{binding::RoleRef, decisions::DecidedPolicy, policy::Policy};
use super::{Attributes, Authorization, Authorizer, PolicyRule, UserRules};
use crate::{
    endpoint::Endpoint,
    storage::{ResourceCache, Storage},
    user::User,
};

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// The resources, and whether they are bindings.
const RESOURCES: [(&str, bool); 4] =
    [("clusterroles", false), ("roles", false), ("clusterrolebindings", true), ("rolebindings", true)];

/// The authorizer by roles and bindings.
pub(crate) struct Rbac {
    caches: [Arc<ResourceCache>; 4],
    current: ArcSwap<DecidedPolicy>,
}

impl Rbac {
    pub(crate) fn new(storage: &Storage) -> Arc<Self> {
        let caches = RESOURCES.map(|(plural, _)| storage.cache(&format!("/{GROUP}/{plural}/")));
        let rbac = Arc::new(Self { caches, current: ArcSwap::default() });
        rbac.reload();
        rbac
    }

    /// Follows the caches, for as long as this exists.
    pub(crate) fn follow(self: &Arc<Self>) {
        for (cache, (_, is_binding)) in self.caches.iter().zip(RESOURCES) {
            let rbac: Weak<Self> = Arc::downgrade(self);
            cache.set_observer(Box::new(move |cache, keys| match (rbac.upgrade(), keys) {
                (Some(rbac), Some(keys)) => rbac.update(cache, is_binding, keys),
                (Some(rbac), None) => rbac.reload(),
                (None, _) => {}
            }));
        }
    }

    /// Compiles all objects in the caches.
    fn reload(&self) {
        let mut policy = Policy::default();
        for (cache, (_, is_binding)) in self.caches.iter().zip(RESOURCES) {
            for (key, cached) in cache.snapshot().range("", None) {
                match is_binding {
                    true => policy.set_binding(key, Some(cached.object.bytes())),
                    false => policy.set_role(key, Some(cached.object.bytes().clone())),
                }
            }
        }
        self.current.store(Arc::new(policy.into()));
    }

    /// Compiles changed objects. Only the task that follows the store does this.
    fn update(&self, cache: &ResourceCache, is_binding: bool, keys: &[&str]) {
        let mut policy = self.current.load().policy.clone();
        for key in keys {
            let object = cache.get(key);
            let bytes = object.as_ref().map(|object| object.bytes());
            match is_binding {
                true => policy.set_binding(key, bytes.map(|bytes| &**bytes)),
                false => policy.set_role(key, bytes.cloned()),
            }
        }
        self.current.store(Arc::new(policy.into()));
    }

    /// Returns the rules of a role, as a binding in a namespace refers to it.
    pub(crate) fn rules_of(&self, kind: &str, name: &str, namespace: &str) -> Result<Vec<PolicyRule>, MissingRole> {
        self.current.load().policy.rules_of(&RoleRef::new(kind, name, namespace)).map(<[_]>::to_vec)
    }

    /// Returns the rules of a user in a namespace, and the roles of its bindings that do not exist.
    pub(crate) fn rules_for(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<MissingRole>) {
        self.current.load().policy.rules_for(user, namespace)
    }
}

impl Authorizer for Arc<Rbac> {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        self.current.load().decide(request).into()
    }

    fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        self.current.load().policy.user_rules(user, namespace)
    }
}

/// Returns whether an endpoint has roles or bindings.
pub(crate) fn is_configuration(endpoint: &Endpoint) -> bool {
    &*endpoint.resource.group == GROUP
}
