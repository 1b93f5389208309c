//! CustomResourceDefinitions: accepts their names, serves them, and deletes their objects with them.
//!
//! One task handles every changed CRD, writes its conditions and swaps the registry. Requests that write a CRD are
//! answered after that ([`Definitions::reached`]), so a CRD is effective when its write is acknowledged.

mod cleanup;
mod names;
mod settling;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tracing::warn;
use windlass_builtins::kinds::custom_resource_definition::{
    Definition, accept_names_in, api_approval, check_structural,
    conditions::{self, Condition, TERMINATING},
    establish,
};
use windlass_schema::sorting::Gather as _;
use windlass_store::Revision;

use self::{
    names::Names,
    settling::{settle, settle_later},
};
use crate::{
    call::Call,
    custom::{self, Custom},
    meta,
    options::WriteOptions,
    registry::{Endpoint, Registry},
    request_info::ResourceRequest,
    server::Inner,
    status::{ApiError, Result},
    storage::{ResourceCache, Storage, StoredObject},
    user::User,
    webhooks::ConversionFunction,
    write::{ManagedFieldsMode, OnConflict, Written, update_object},
};

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
pub(crate) const PREFIX: &str = "/apiextensions.k8s.io/customresourcedefinitions/";

/// The delay after a failure other than a conflict.
const RETRY: Duration = Duration::from_secs(1);
/// The number of CRDs that are handled at once: enough to share a commit, few enough to hold in memory whole.
const BATCH: usize = 64;

/// The progress of the task.
pub(crate) struct Definitions {
    handled: watch::Sender<Revision>,
}

impl Default for Definitions {
    fn default() -> Self {
        Self { handled: watch::Sender::new(Revision(0)) }
    }
}

impl Definitions {
    /// Returns the revision up to which CRDs are effective, whose changes can be waited for.
    pub(crate) fn progress(&self) -> watch::Receiver<Revision> {
        self.handled.subscribe()
    }

    /// Waits until every CRD written up to a revision is effective.
    pub(crate) async fn reached(&self, revision: Revision) {
        let mut handled = self.handled.subscribe();
        // The sender lives in self, so this cannot fail.
        let _ = handled.wait_for(|at| *at >= revision).await;
    }
}

/// The state of the task.
pub(crate) struct Controller {
    cache: Arc<ResourceCache>,
    names: Names,
    served: HashMap<String, Served>,
    /// The CRDs whose objects are being deleted, with their uids.
    cleaning: HashMap<String, Box<str>>,
    /// The conversion functions by CRD.
    conversions: HashMap<String, ConversionFunction>,
    /// The revision up to which all changes have been handled.
    cursor: Revision,
    /// The endpoints from the start whose objects other servers may write by older CRDs.
    held: Vec<Arc<Endpoint>>,
}

/// A CRD that is served.
struct Served {
    group: String,
    plural: String,
    /// The parts of the CRD that decide whether its endpoints have to be replaced.
    state: State,
    endpoints: Vec<Arc<Endpoint>>,
}

#[derive(Clone, PartialEq)]
struct State {
    uid: String,
    generation: i64,
    names: Value,
}

impl State {
    fn of(object: &Value) -> Self {
        Self {
            uid: meta::text(object, "uid").to_owned(),
            generation: meta::generation(object),
            names: object["status"]["acceptedNames"].clone(),
        }
    }
}

/// Returns the new status of a CRD, if it changes.
type Judge = fn(&Value, Timestamp) -> Option<Value>;

/// A CRD with its new conditions.
struct Decided {
    name: String,
    source: Arc<StoredObject>,
    object: Value,
    /// Whether the status has to be written.
    changed: bool,
}

impl Controller {
    /// Serves the CRDs in the store.
    pub(crate) fn load(
        storage: &Storage,
        registry: &mut Registry,
        conversions: HashMap<String, ConversionFunction>,
    ) -> Self {
        let cache = storage.cache(PREFIX);
        let snapshot = cache.snapshot();
        let mut controller = Self {
            cache,
            names: Names::new(storage.applied().max(snapshot.revision)),
            served: HashMap::new(),
            cleaning: HashMap::new(),
            conversions,
            cursor: storage.applied().max(snapshot.revision),
            held: Vec::new(),
        };
        let mut change = Change { registry: registry.clone(), retired: Vec::new(), replaced: Vec::new() };
        for source in snapshot.objects() {
            let object = source.to_value();
            controller.names.set(&source.header.name, &object);
            // Stored objects may have been written under another schema.
            controller.serve(&mut change, storage, source, &object, storage.applied());
        }
        *registry = change.registry;
        if storage.store().is_shared() {
            change.replaced.iter().filter_map(|endpoint| endpoint.custom()).for_each(Custom::expect_older_writes);
            controller.held = change.replaced;
        } else {
            change.replaced.into_iter().for_each(settle);
        }
        controller
    }

    /// Follows the CRDs until the server is dropped.
    pub(crate) async fn run(mut self, server: Weak<Inner>) {
        let mut dirty: BTreeSet<String> = self.names_of_all();
        let cache = self.cache.clone();
        tokio::spawn(settle_later(server.clone(), std::mem::take(&mut self.held)).boxed());
        loop {
            let mut changed = std::pin::pin!(cache.changed());
            changed.as_mut().enable();
            let Some(server) = server.upgrade() else { return };
            // Read before the log: if the log then has no more events, everything up to this revision has been handled.
            let applied = server.storage.applied();
            match self.cache.events_after(self.cursor, usize::MAX) {
                Some(events) => {
                    self.cursor = events.last().map_or(applied.max(self.cursor), |event| event.object.revision);
                    dirty.extend(events.iter().map(|event| event.object.header.name.to_string()));
                }
                None => {
                    self.cursor = applied.max(self.cache.snapshot().revision);
                    dirty = self.names_of_all();
                }
            }
            if dirty.is_empty() {
                server.definitions.handled.send_replace(self.cursor);
                drop(server);
                changed.await;
                continue;
            }
            let mut batch = std::mem::take(&mut dirty);
            if let Some(first_of_rest) = batch.iter().nth(BATCH).cloned() {
                dirty = batch.split_off(&first_of_rest);
            }
            let outcome = self.reconcile(&server, batch).await;
            let complete = dirty.is_empty();
            dirty.extend(outcome.again);
            match outcome.failure {
                None if complete => {
                    server.definitions.handled.send_replace(self.cursor);
                }
                None => {}
                // The caches hold the other write by now.
                Some(StatusCode::CONFLICT | StatusCode::NOT_FOUND) => {}
                Some(_) => {
                    drop(server);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    fn names_of_all(&self) -> BTreeSet<String> {
        let there = self.cache.snapshot();
        let there = there.objects().map(|object| object.header.name.to_string());
        let known = self.names.definitions().map(str::to_owned);
        there.chain(self.served.keys().cloned()).chain(known).gather()
    }

    /// Handles changed CRDs.
    async fn reconcile(&mut self, server: &Arc<Inner>, names: BTreeSet<String>) -> Outcome {
        let mut again = BTreeSet::new();
        let mut failure = None;
        let mut decided = Vec::new();
        let mut gone = Vec::new();
        let sources: Vec<_> = names.into_iter().map(|name| (self.cache.get(&name), name)).collect();
        if server.storage.store().is_shared() {
            again.extend(self.names.follow(&self.cache));
        }
        for (source, name) in sources {
            match source {
                Some(source) => {
                    let (definition, affected) = self.decide(name, source, server.now());
                    decided.push(definition);
                    again.extend(affected);
                }
                None => {
                    again.extend(self.names.remove(&name));
                    gone.push(name);
                }
            }
        }
        // Large CRDs take a while: let other tasks run.
        tokio::task::yield_now().await;
        let written = join_all(decided.iter().map(|definition| write_status(server, definition).boxed())).await;
        // Decisions are based on the caches, so these must hold the status that was just written.
        if let Some(newest) = written.iter().filter_map(|result| result.as_ref().ok()?.as_ref()).max() {
            server.storage.reached(*newest).await;
        }
        for (definition, result) in decided.iter().zip(written) {
            if let Err(error) = result {
                let lost = matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND);
                if !lost {
                    warn!(definition = definition.name, %error, "failed to update the status of a CustomResourceDefinition");
                }
                // A status that was rejected would be rejected again.
                if lost || error.code.is_server_error() {
                    again.insert(definition.name.clone());
                    failure = Some(error.code);
                }
            }
        }
        let registry = Registry::clone(&server.registry.load());
        let before = registry.generation;
        let mut change = Change { registry, retired: Vec::new(), replaced: Vec::new() };
        for name in &gone {
            self.cleaning.remove(name);
            self.remove(&mut change, name);
        }
        let known = server.storage.applied();
        for Decided { name, mut source, mut object, changed } in decided {
            if changed {
                let Some(written) = self.cache.get(&name) else {
                    again.insert(name);
                    continue;
                };
                object = written.to_value();
                source = written;
            }
            self.serve(&mut change, &server.storage, &source, &object, known);
            self.clean_up(server, &source, &object);
        }
        if change.registry.generation != before {
            change.take_effect(server).await;
        }
        Outcome { again, failure }
    }

    /// Decides on names and conditions; returns other CRDs that this may affect.
    fn decide(&mut self, name: String, source: Arc<StoredObject>, now: Timestamp) -> (Decided, Vec<String>) {
        let mut object = source.to_value();
        let group = object["spec"]["group"].as_str().unwrap_or_default().to_owned();
        let names_before = object["status"]["acceptedNames"].clone();
        let mut changed = false;
        let mut take = |object: &mut Value, status: Option<Value>| {
            if let Some(status) = status {
                object["status"] = status;
                changed = true;
            }
        };
        let names = accept_names_in(&object, self.names.group(&group), now);
        take(&mut object, names);
        let judges: &[Judge] = match meta::is_terminating(&object) {
            // Checking a large schema that is about to be removed would be wasted work.
            true => &[establish],
            false => &[establish, check_structural, api_approval],
        };
        for judge in judges {
            let status = judge(&object, now);
            take(&mut object, status);
        }
        let differs = self.names.set(&name, &object) || object["status"]["acceptedNames"] != names_before;
        let mut affected = if differs { self.names.waiting(&group) } else { Vec::new() };
        affected.retain(|other| *other != name);
        (Decided { name, source, object, changed }, affected)
    }

    /// Adds the endpoints of a CRD to the registry, unless it has them already.
    fn serve(
        &mut self,
        change: &mut Change,
        storage: &Storage,
        source: &Arc<StoredObject>,
        object: &Value,
        known: Revision,
    ) {
        let definition = Definition::parse(object);
        if !definition.names_accepted && !definition.established {
            self.remove(change, &source.header.name);
            return;
        }
        let state = State::of(object);
        if let Some(before) = self.served.get(&*source.header.name).filter(|served| served.state == state) {
            if definition.terminating {
                before.endpoints.iter().filter_map(|endpoint| endpoint.custom()).for_each(Custom::terminate);
            }
            return;
        }
        let conversion = self.conversions.get(&*source.header.name);
        let endpoints = custom::endpoints(&definition, source, change.registry.table, storage, known, conversion);
        change.registry.replace_custom(&definition.group, &definition.names.plural, &endpoints);
        // Another server may write objects by an older CRD even if there are none yet.
        let is_shared = storage.store().is_shared();
        let is_old = |endpoint: &&Arc<Endpoint>| is_shared || endpoint.served_as_stored_after() != Revision(0);
        change.replaced.extend(endpoints.iter().filter(is_old).cloned());
        let served = Served { group: definition.group, plural: definition.names.plural, state, endpoints };
        change.retired.extend(self.served.insert(source.header.name.to_string(), served));
    }

    fn remove(&mut self, change: &mut Change, name: &str) {
        if let Some(served) = self.served.remove(name) {
            change.registry.replace_custom(&served.group, &served.plural, &[]);
            change.retired.push(served);
        }
    }

    /// Starts deleting the objects of a CRD that is being deleted.
    fn clean_up(&mut self, server: &Arc<Inner>, source: &Arc<StoredObject>, object: &Value) {
        let name = source.header.name.to_string();
        if !cleanup::is_due(object) || self.cleaning.get(&name) == Some(&source.header.uid) {
            return;
        }
        self.cleaning.insert(name.clone(), source.header.uid.clone());
        let definition = Definition::parse(object);
        let table = server.registry.load().table;
        let endpoint = custom::storage_endpoint(&definition, source, table, &server.storage);
        tokio::spawn(cleanup::run(Arc::downgrade(server), name, source.header.uid.clone(), endpoint).boxed());
    }
}

/// The outcome of a batch of CRDs.
struct Outcome {
    /// The CRDs that must be handled again.
    again: BTreeSet<String>,
    /// Reason why a status could not be written.
    failure: Option<StatusCode>,
}

/// The next registry.
struct Change {
    registry: Registry,
    /// The CRDs that are no longer served.
    retired: Vec<Served>,
    /// Endpoints over objects that were written under another CRD.
    replaced: Vec<Arc<Endpoint>>,
}

impl Change {
    /// Swaps the registry, then ends the watches on replaced endpoints.
    async fn take_effect(self, server: &Arc<Inner>) {
        let is_shared = server.storage.store().is_shared();
        if is_shared {
            self.replaced.iter().filter_map(|endpoint| endpoint.custom()).for_each(Custom::expect_older_writes);
        }
        server.registry.store(Arc::new(self.registry));
        server.openapi.forget_outdated(&server.registry.load());
        for served in &self.retired {
            served.endpoints.iter().filter_map(|endpoint| endpoint.custom()).for_each(Custom::retire);
            if server.registry.load().versions_of(&served.group, &served.plural).next().is_none() {
                server.storage.drop_empty(&format!("/{}/{}/", served.group, served.plural));
            }
        }
        if self.replaced.is_empty() {
            return;
        }
        if is_shared {
            tokio::spawn(settle_later(Arc::downgrade(server), self.replaced).boxed());
            return;
        }
        // Objects up to this revision may have been written under the previous schema. Requests that are still running
        // note that themselves when they persist an object.
        if let Ok(revision) = server.storage.fresh().await {
            for custom in self.replaced.iter().filter_map(|endpoint| endpoint.custom()) {
                custom.note_older_write(revision);
            }
        }
        self.replaced.into_iter().for_each(settle);
    }
}

/// Marks a CRD as being deleted, with a finalizer that keeps it until its objects are deleted. Returns `false` if it is
/// marked already.
pub(crate) fn begin_deletion(object: &mut Value, now: Timestamp) -> bool {
    if meta::is_terminating(object) {
        return false;
    }
    meta::set(object, "deletionTimestamp", meta::format_time(now));
    let mut finalizers = meta::finalizers(object);
    if !finalizers.iter().any(|name| name == cleanup::FINALIZER) {
        finalizers.push(cleanup::FINALIZER.to_owned());
    }
    meta::set_finalizers(object, finalizers);
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let condition = Condition::new(TERMINATING, "True", "InstanceDeletionPending", message);
    conditions::set(&mut object["status"], &condition, now);
    true
}

/// Writes the status if it changed; returns the revision.
async fn write_status(server: &Arc<Inner>, definition: &Decided) -> Result<Option<Revision>> {
    if !definition.changed {
        return Ok(None);
    }
    let written = update_definition(server, &definition.name, |_| Ok(definition.object.clone())).await?;
    Ok(Some(written))
}

/// Updates a CRD through its status, as the server itself.
async fn update_definition(
    server: &Arc<Inner>,
    name: &str,
    change: impl FnMut(&Value) -> Result<Value>,
) -> Result<Revision> {
    static HEADERS: OnceLock<HeaderMap> = OnceLock::new();
    let headers = HEADERS
        .get_or_init(|| HeaderMap::from_iter([(header::USER_AGENT, HeaderValue::from_static("kube-apiserver"))]));
    let registry = server.registry.load_full();
    let endpoint = registry.endpoint(GROUP, "v1", PLURAL).ok_or_else(ApiError::no_such_resource)?;
    let target = ResourceRequest {
        group: GROUP,
        version: "v1",
        resource: PLURAL,
        name,
        subresource: "status",
        ..ResourceRequest::default()
    };
    let user = User::admin();
    let call = Call::internal(server, endpoint, target, &user, headers);
    match update_object(&call, &WriteOptions::internal(), OnConflict::Retry, ManagedFieldsMode::Track, change).await? {
        Written::Stored(object) => Ok(object.revision),
        Written::DryRun(_) => Ok(Revision(0)),
    }
}
