//! Admission and conversion webhooks.
//!
//! All webhook configurations are compiled into an immutable [`Hooks`]. A write loads the current one; without webhooks
//! it costs nothing else. The task that follows the store creates the next [`Hooks`] when a configuration changes, before
//! the caches' revision advances; the writer waits for that, so a configuration is effective when its write is
//! acknowledged, and also if the writer no longer waits.

mod admit;
pub(crate) mod client;
mod configuration;
pub(crate) mod conversion;
mod criteria;
mod matching;
mod resolver;
pub(crate) mod review;

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use windlass_schema::sorting;

use self::configuration::{Configuration, Hook};
pub(crate) use self::{
    admit::{
        Options, Subject, Versions, WebhookRounds, call_mutating_webhooks, call_validating_webhooks, hooks_for,
        name_of, request, request_resource,
    },
    client::{
        Client, Connections, Fetch, HttpVersions, Identity, Limits, Remote, Service, Target, Tls, authorities,
        error_text, hold_time, service_connections, unverified,
    },
    conversion::{ConversionCache, ConversionWebhook, Converter},
    criteria::Criteria,
    matching::Labels,
    resolver::{EndpointSlices, Loopback},
};
pub use self::{conversion::ConversionFunction, resolver::ServiceResolver};
use crate::{
    endpoint::Endpoint,
    server::Inner,
    storage::{ResourceCache, Storage},
};

pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// The webhooks of a server.
pub(crate) struct Webhooks {
    pub(crate) client: Client,
    /// `None` if their plugin is disabled, as with `validating`.
    mutating: Option<Arc<ResourceCache>>,
    validating: Option<Arc<ResourceCache>>,
    hooks: ArcSwap<Hooks>,
}

/// All webhooks, in the order in which they are called.
#[derive(Default)]
pub(crate) struct Hooks {
    mutating: Vec<Arc<Configuration>>,
    validating: Vec<Arc<Configuration>>,
}

impl Hooks {
    /// The mutating webhooks.
    fn mutating(&self) -> impl Iterator<Item = &Arc<Hook>> {
        self.mutating.iter().flat_map(|configuration| &configuration.hooks)
    }

    /// The validating webhooks.
    fn validating(&self) -> impl Iterator<Item = &Arc<Hook>> {
        self.validating.iter().flat_map(|configuration| &configuration.hooks)
    }

    fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }
}

impl Webhooks {
    pub(crate) fn new(storage: &Storage, resolver: Arc<dyn ServiceResolver>, disabled_plugins: &[String]) -> Self {
        let cache = |plural: &str, plugin: &str| {
            let is_enabled = !disabled_plugins.iter().any(|disabled| disabled == plugin);
            is_enabled.then(|| storage.cache(&format!("/{GROUP}/{plural}/")))
        };
        let webhooks = Self {
            client: Client::new(resolver),
            mutating: cache(MUTATING, "MutatingAdmissionWebhook"),
            validating: cache(VALIDATING, "ValidatingAdmissionWebhook"),
            hooks: ArcSwap::default(),
        };
        webhooks.refresh();
        webhooks
    }

    /// Compiles configurations whenever they change until the server is dropped.
    pub(crate) fn follow(&self, server: &Weak<Inner>) {
        self.client.set_own(server);
        for cache in [&self.mutating, &self.validating].into_iter().flatten() {
            let server = server.clone();
            cache.set_observer(Box::new(move |_, _| {
                if let Some(server) = server.upgrade() {
                    server.webhooks.refresh();
                }
            }));
        }
    }

    /// Compiles the configurations in the caches. Only the task that follows the store does this while the server runs.
    fn refresh(&self) {
        let before = self.hooks.load_full();
        let hooks = Hooks {
            mutating: self.compile(self.mutating.as_deref(), &before.mutating),
            validating: self.compile(self.validating.as_deref(), &before.validating),
        };
        self.hooks.store(Arc::new(hooks));
    }

    /// Compiles the configurations of a cache in the order of their names; unchanged ones are reused.
    fn compile(&self, cache: Option<&ResourceCache>, before: &[Arc<Configuration>]) -> Vec<Arc<Configuration>> {
        let Some(cache) = cache else { return Vec::new() };
        let snapshot = cache.snapshot();
        let mut compiled: Vec<Arc<Configuration>> = Vec::new();
        for object in snapshot.objects() {
            let same = before.iter().find(|known| known.revision == object.revision);
            compiled.push(same.cloned().unwrap_or_else(|| Arc::new(Configuration::new(object, &self.client))));
        }
        sorting::sort_by(&mut compiled, |a, b| a.name.cmp(&b.name));
        compiled.retain(|configuration| !configuration.hooks.is_empty());
        compiled
    }

    /// Returns the webhooks for writes of an endpoint, if there are any.
    fn hooks_for(&self, endpoint: &Endpoint) -> Option<Arc<Hooks>> {
        let hooks = self.hooks.load();
        // Webhook configurations themselves bypass webhooks.
        if hooks.is_empty() || &*endpoint.resource.group == GROUP {
            return None;
        }
        Some(hooks.clone())
    }
}

/// Returns whether an endpoint has webhook configurations.
pub(crate) fn is_configuration(endpoint: &Endpoint) -> bool {
    let resource = &*endpoint.resource;
    &*resource.group == GROUP && matches!(&*resource.plural, MUTATING | VALIDATING)
}
