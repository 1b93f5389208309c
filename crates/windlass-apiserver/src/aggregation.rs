//! API aggregation: groups of the API that other servers serve.
//!
//! An APIService names the server of a group version. Requests for group versions without a service are handled here,
//! and others are forwarded. The remote group versions are a snapshot, [`Routes`], which the task that follows the
//! store replaces when an APIService changes; if it is empty, a request costs one check.

mod availability;
mod discovery;
pub(crate) mod headers;
mod link;
mod maintain;
mod openapi;
mod priorities;
mod proxy;
mod registration;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use imbl::OrdMap;
use serde_json::Value;
use windlass_builtins::kinds::api_service;

pub(crate) use self::{
    discovery::{ListedGroup, Listing},
    maintain::run as keep_available,
    openapi::RemoteDocuments,
    proxy::{Forwarded, carry},
    registration::{follow as follow_definitions, store_builtin},
};
use self::{link::Link, priorities::Priorities};
use crate::{
    endpoint::Endpoint,
    server::Inner,
    storage::{ResourceCache, Storage},
    webhooks::{Identity, Service, ServiceResolver},
};

pub(crate) const GROUP: &str = "apiregistration.k8s.io";
pub(crate) const PLURAL: &str = "apiservices";
const PREFIX: &str = "/apiregistration.k8s.io/apiservices/";

/// The APIServices of a server.
pub(crate) struct Aggregation {
    objects: Arc<ResourceCache>,
    resolver: Arc<dyn ServiceResolver>,
    /// The certificate by which other servers know this one.
    identity: ArcSwapOption<Identity>,
    routes: ArcSwap<Routes>,
}

/// The APIServices that are not the default ones: those of other servers, and those with other priorities.
#[derive(Default, Clone)]
pub(crate) struct Routes {
    entries: OrdMap<Arc<str>, Arc<Entry>>,
    /// The remote ones by group.
    remotes: HashMap<Arc<str>, Vec<Arc<Entry>>>,
}

/// An APIService.
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) group: Arc<str>,
    pub(crate) version: Box<str>,
    priorities: Priorities,
    /// The connection to its server; `None` if that is this one.
    pub(crate) link: Option<Arc<Link>>,
    /// Whether requests are forwarded.
    available: bool,
}

impl Entry {
    /// Returns the path of the group version.
    fn path(&self) -> String {
        match &*self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }
}

impl Routes {
    /// Returns the server of a group version, if another server serves it.
    fn remote(&self, group: &str, version: &str) -> Option<&Arc<Entry>> {
        if self.remotes.is_empty() {
            return None;
        }
        self.remotes.get(group)?.iter().find(|entry| &*entry.version == version)
    }

    /// Returns the APIServices of other servers.
    fn remotes(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values().filter(|entry| entry.link.is_some())
    }
}

impl Aggregation {
    pub(crate) fn new(storage: &Storage, resolver: Arc<dyn ServiceResolver>, identity: Option<Identity>) -> Self {
        let aggregation = Self {
            objects: storage.cache(PREFIX),
            resolver,
            identity: ArcSwapOption::from_pointee(identity),
            routes: ArcSwap::default(),
        };
        aggregation.refresh(None);
        aggregation
    }

    /// Replaces the certificate that authenticates this server to others, for new connections.
    pub(crate) fn set_identity(&self, identity: Identity) {
        self.identity.store(Some(Arc::new(identity)));
    }

    /// Replaces the routes whenever an APIService changes until the server is dropped.
    pub(crate) fn follow(&self, server: &Weak<Inner>) {
        let server = server.clone();
        self.objects.set_observer(Box::new(move |_, keys| {
            if let Some(server) = server.upgrade() {
                server.aggregation.refresh(keys);
            }
        }));
    }

    /// Returns the server of a group version, if another server serves it.
    pub(crate) fn remote(&self, group: &str, version: &str) -> Option<Arc<Entry>> {
        self.routes.load().remote(group, version).cloned()
    }

    /// Returns the server of the group version of a path, if another server serves it.
    pub(crate) fn remote_of_path(&self, path: &str) -> Option<Arc<Entry>> {
        let routes = self.routes.load();
        if routes.remotes.is_empty() {
            return None;
        }
        let mut segments = path.split('/').skip(1);
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        routes.remote(group, segments.next()?).cloned()
    }

    /// Returns an APIService of another server.
    fn remote_named(&self, name: &str) -> Option<Arc<Entry>> {
        self.routes.load().entries.get(name).filter(|entry| entry.link.is_some()).cloned()
    }

    fn routes(&self) -> Arc<Routes> {
        self.routes.load_full()
    }

    /// Updates the routes after a change of these objects; all of them without keys. Only the task that follows the
    /// store does this while the server runs.
    fn refresh(&self, keys: Option<&[&str]>) {
        let before = self.routes.load_full();
        let mut entries = if keys.is_some() { before.entries.clone() } else { OrdMap::new() };
        let snapshot = self.objects.snapshot();
        let all: Vec<&str>;
        let keys = match keys {
            Some(keys) => keys,
            None => {
                all = snapshot.objects().map(|object| &*object.header.name).collect();
                &all
            }
        };
        for key in keys {
            let object = snapshot.get(key).map(|object| object.to_value());
            match object.and_then(|object| self.entry(key, &object, before.entries.get(*key))) {
                Some(entry) => drop(entries.insert(entry.name.clone(), Arc::new(entry))),
                None => drop(entries.remove(*key)),
            }
        }
        let mut remotes = HashMap::<Arc<str>, Vec<Arc<Entry>>>::new();
        for entry in entries.values().filter(|entry| entry.link.is_some()) {
            remotes.entry(entry.group.clone()).or_default().push(entry.clone());
        }
        self.routes.store(Arc::new(Routes { entries, remotes }));
    }

    /// Returns an APIService, unless it is a default one.
    fn entry(&self, name: &str, object: &Value, before: Option<&Arc<Entry>>) -> Option<Entry> {
        let spec = &object["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default();
        let (group, version) = (text("group"), text("version"));
        let priority = |field: &str| spec[field].as_i64().unwrap_or_default();
        let priorities = Priorities { group: priority("groupPriorityMinimum"), version: priority("versionPriority") };
        let link = Service::of(&spec["service"]).map(|service| {
            let link = Link::new(service, text("caBundle"), spec["insecureSkipTLSVerify"] == true);
            let known = before.and_then(|before| before.link.as_ref()).filter(|known| ***known == link);
            known.cloned().unwrap_or_else(|| Arc::new(link))
        });
        if link.is_none() && priorities == priorities::of(group, version) {
            return None;
        }
        Some(Entry {
            name: name.into(),
            group: group.into(),
            version: version.into(),
            priorities,
            available: link.is_some() && api_service::is_available(object),
            link,
        })
    }
}

/// Returns whether an endpoint has APIServices.
pub(crate) fn is_configuration(endpoint: &Endpoint) -> bool {
    endpoint.is(GROUP, PLURAL)
}
