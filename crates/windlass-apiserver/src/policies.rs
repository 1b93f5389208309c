//! Admission policies: ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings.
//!
//! All policies that have bindings are compiled into an immutable [`ActivePolicies`]. A write loads the current one;
//! without policies it costs nothing else. The task that follows the store creates the next one when a policy or
//! binding changes, before the caches' revision advances; the writer waits for that, so a policy has taken effect when
//! its write is acknowledged, and also if the writer no longer waits.

mod compiled;
mod failure;
mod inputs;
mod metrics;
mod mutating;
mod params;
mod permission;
mod rounds;
pub(crate) mod type_checking;
mod validating;

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use serde_json::Value;
use windlass_schema::sorting;

use self::{
    compiled::{Binding, Bound, Evaluator, Policy},
    metrics::PolicyMetrics,
    mutating::Mutations,
    validating::Validations,
};
pub(crate) use self::{permission::check_params_permission, rounds::PolicyRounds};
use crate::{
    endpoint::Endpoint,
    meta,
    server::Inner,
    storage::{ResourceCache, Storage},
    webhooks::GROUP,
};

const VALIDATING: (&str, &str) = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
const MUTATING: (&str, &str) = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings");

/// The admission policies of a server.
pub(crate) struct Policies {
    validating: Caches,
    mutating: Caches,
    active: ArcSwap<ActivePolicies>,
    pub(crate) metrics: PolicyMetrics,
}

/// The policies and bindings of one kind.
struct Caches {
    policies: Arc<ResourceCache>,
    bindings: Arc<ResourceCache>,
    /// Whether they run. Otherwise none of them is ever compiled.
    is_enabled: bool,
}

/// All policies that have bindings, in the order in which they run.
#[derive(Default)]
pub(crate) struct ActivePolicies {
    validating: Vec<Bound<Validations>>,
    mutating: Vec<Bound<Mutations>>,
}

impl ActivePolicies {
    fn is_empty(&self) -> bool {
        self.validating.is_empty() && self.mutating.is_empty()
    }
}

impl Policies {
    pub(crate) fn new(storage: &Storage, disabled_plugins: &[String]) -> Self {
        let caches = |(policies, bindings): (&str, &str), plugin: &str| Caches {
            policies: storage.cache(&format!("/{GROUP}/{policies}/")),
            bindings: storage.cache(&format!("/{GROUP}/{bindings}/")),
            is_enabled: !disabled_plugins.iter().any(|disabled| disabled == plugin),
        };
        let policies = Self {
            validating: caches(VALIDATING, "ValidatingAdmissionPolicy"),
            mutating: caches(MUTATING, "MutatingAdmissionPolicy"),
            active: ArcSwap::default(),
            metrics: PolicyMetrics::default(),
        };
        policies.refresh();
        policies
    }

    /// Compiles policies whenever they or their bindings change until the server is dropped.
    pub(crate) fn follow(&self, server: &Weak<Inner>) {
        for caches in [&self.validating, &self.mutating].into_iter().filter(|caches| caches.is_enabled) {
            for cache in [&caches.policies, &caches.bindings] {
                let server = server.clone();
                cache.set_observer(Box::new(move |_, _| {
                    if let Some(server) = server.upgrade() {
                        server.policies.refresh();
                    }
                }));
            }
        }
    }

    /// Compiles the policies in the caches. Only the task that follows the store does this while the server runs.
    fn refresh(&self) {
        let before = self.active.load_full();
        let active = ActivePolicies {
            validating: self.validating.compile(&before.validating),
            mutating: self.mutating.compile(&before.mutating),
        };
        self.active.store(Arc::new(active));
    }

    /// Returns the policies for writes of an endpoint, if there are any.
    pub(crate) fn for_endpoint(&self, endpoint: &Endpoint) -> Option<Arc<ActivePolicies>> {
        let active = self.active.load();
        // Policies and bindings themselves bypass policies, and so do reviews, because without them clusters break.
        if active.is_empty() || is_configuration(endpoint) || is_review(endpoint) {
            return None;
        }
        Some(active.clone())
    }
}

impl Caches {
    /// Compiles the policies that have bindings, in the order of their names; unchanged ones are reused.
    fn compile<E: Evaluator>(&self, before: &[Bound<E>]) -> Vec<Bound<E>> {
        if !self.is_enabled {
            return Vec::new();
        }
        let known = |name: &str| before.iter().find(|bound| bound.policy.name == name);
        let mut bindings: Vec<Arc<Binding>> = Vec::new();
        for object in self.bindings.snapshot().objects() {
            let same = before.iter().flat_map(|bound| &bound.bindings).find(|have| have.revision == object.revision);
            bindings.push(same.cloned().unwrap_or_else(|| Arc::new(Binding::new(object))));
        }
        sorting::sort_by(&mut bindings, |a, b| a.name.cmp(&b.name));
        let snapshot = self.policies.snapshot();
        let mut active: Vec<Bound<E>> = Vec::new();
        for object in snapshot.objects() {
            let name = &*object.header.name;
            let bindings: Vec<_> = bindings.iter().filter(|binding| binding.policy == name).cloned().collect();
            if bindings.is_empty() {
                continue;
            }
            let value = object.to_value();
            let version = (meta::text(&value, "uid").to_owned(), meta::generation(&value));
            let same = known(name).filter(|bound| bound.policy.version == version);
            let compile = || Arc::new(Policy::new(&value, version.clone()));
            let policy = same.map_or_else(compile, |bound| bound.policy.clone());
            active.push(Bound { policy, bindings });
        }
        sorting::sort_by(&mut active, |a, b| a.policy.name.cmp(&b.policy.name));
        active
    }
}

/// Returns whether an endpoint has policies or bindings.
pub(crate) fn is_configuration(endpoint: &Endpoint) -> bool {
    let plural = &*endpoint.resource.plural;
    &*endpoint.resource.group == GROUP && [VALIDATING.0, VALIDATING.1, MUTATING.0, MUTATING.1].contains(&plural)
}

/// Returns whether an endpoint is for reviews of users and their permissions.
fn is_review(endpoint: &Endpoint) -> bool {
    let resource = &*endpoint.resource;
    matches!(&*resource.group, "authentication.k8s.io" | "authorization.k8s.io") && resource.plural.ends_with("reviews")
}

/// Returns the items of a list in a specification.
fn list<'a>(spec: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    spec[field].as_array().into_iter().flatten()
}
