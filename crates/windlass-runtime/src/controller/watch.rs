//! Watches of other objects, whose events become keys.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube::core::PartialObjectMeta;

use crate::{
    any_object::{AnyChange, AnyObject, typed_ref},
    cache::{AnyInformer, Caches, Informer, InformerLease},
    context::{
        Context, WatchLease, WatchedKinds,
        any_kind::{KindInfo, ResourceScope, kind_info},
    },
    controller::{
        Causes,
        filter::{AnyFilter, Filter},
        mapping::{Find, Lookup},
        owners::OwnerSelection,
        source::{AnySource, Connection, IsNamespaced, PendingSubscription, Source, SourceContext},
    },
    key::ObjectKey,
    manifests::Permission,
    object::Object,
    queue::Priority,
    scope::Scope,
};

type Open = Arc<dyn Fn(&Caches, &Scope) -> Arc<AnyInformer> + Send + Sync>;
/// Opens an informer that ends with the lease; without one if it was given by the caller.
type OpenLeased = Arc<dyn Fn(&Caches, &Scope) -> (Arc<AnyInformer>, Option<InformerLease>) + Send + Sync>;
type Map = Box<dyn Fn(&dyn AnyObject, &Context, EachPrioritized<'_>) + Send + Sync>;
/// Calls the function with each key, and its priority if the program has chosen one.
type EachPrioritized<'a> = &'a mut dyn FnMut(ObjectKey, Option<Priority>);

/// Selects the objects to watch: of a kind, within a scope, with a filter of their events.
///
/// It becomes a [`Source`] by choosing which objects its events affect: [`map`](Self::map), [`owned`](Self::owned),
/// [`owned_by_any`](Self::owned_by_any) or [`for_all`](Self::for_all).
///
/// ```
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Secret}};
/// use windlass_runtime::{controller::{Action, Controller, Watch, filter}, key::ObjectKey, scope::Scope};
///
/// let controller = Controller::<Deployment>::new("restarter", async |_deployment, _ctx| Ok(Action::done()))
///     .source(Watch::<ConfigMap>::new().scope(Scope::all().labels("restarts=true")).map(|config, _ctx| {
///         vec![ObjectKey::of(config)]
///     }))
///     // Names and labels are enough: the contents of secrets stay on the server.
///     .source(Watch::metadata_of::<Secret>().filter(filter::resource_version_changed()).owned_by_any());
/// ```
pub struct Watch<W: Object> {
    dynamic: W::DynamicType,
    any: AnyWatch,
}

/// A type-erased [`Watch`].
pub(crate) struct AnyWatch {
    pub(crate) kind_info: Arc<dyn KindInfo>,
    scopes: Vec<Scope>,
    pub(crate) filter: Option<AnyFilter>,
    open: Open,
    open_leased: OpenLeased,
    /// Priority of keys, if it is not that of the event.
    pub(super) priority: Option<Priority>,
    /// Whether the informer was given by the caller.
    given: bool,
    /// Rust type of the objects, for logs.
    type_name: &'static str,
    /// The kind, for causes of reconciles.
    kind: Arc<str>,
}

impl<W: Object<DynamicType: Default>> Watch<W> {
    /// Watches all objects of a kind.
    #[expect(clippy::new_without_default, reason = "a watch has no sensible default")]
    pub fn new() -> Self {
        Self::with(W::DynamicType::default())
    }

    /// Uses an existing informer.
    pub fn informer(informer: Informer<W>) -> Self {
        Self::informer_with(W::DynamicType::default(), informer)
    }
}

impl<W: Object> Watch<W> {
    /// Watches all objects of a kind that is known at run time.
    pub fn with(dynamic: W::DynamicType) -> Self {
        let kind = dynamic.clone();
        let open = move |caches: &Caches, scope: &Scope| caches.informer_with::<W>(&kind, scope).into_any();
        Self::opened_by(dynamic, Arc::new(open), false)
    }

    /// Uses an existing informer of a kind that is known at run time.
    pub fn informer_with(dynamic: W::DynamicType, informer: Informer<W>) -> Self {
        let informer = informer.into_any();
        Self::opened_by(dynamic, Arc::new(move |_, _| informer.clone()), true)
    }

    fn opened_by(dynamic: W::DynamicType, open: Open, given: bool) -> Self {
        let open_leased: OpenLeased = if given {
            let open = open.clone();
            Arc::new(move |caches, scope| (open(caches, scope), None))
        } else {
            let kind = dynamic.clone();
            Arc::new(move |caches, scope| {
                let (informer, lease) = caches.lease::<W>(&kind, scope);
                (informer, Some(lease))
            })
        };
        let any = AnyWatch::new(kind_info::<W>(&dynamic), open, open_leased, given, std::any::type_name::<W>());
        Self { dynamic, any }
    }

    /// Restricts the watch to the objects of a scope. A given informer keeps its own.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.any.set_scope(scope);
        self
    }

    /// Restricts the watch to these namespaces: one watch per namespace, within the current scope.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let scope = self.any.scopes.pop().unwrap_or_default();
        self.any.scopes = namespaces
            .into_iter()
            .map(|namespace| Scope { namespace: Scope::namespace(namespace).namespace, ..scope.clone() })
            .collect();
        self
    }

    /// Watches these scopes.
    pub(crate) fn scopes(mut self, scopes: Vec<Scope>) -> Self {
        self.any.scopes = scopes;
        self
    }

    /// Restricts the events. With several filters, an event must pass all of them.
    #[must_use]
    pub fn filter(mut self, filter: Filter<W>) -> Self {
        self.any.add_filter(AnyFilter::of(filter));
        self
    }

    /// Sets the priority of the keys that new events affect; [`Priority::NORMAL`] by default. Those of the initial list and
    /// of resyncs are never above [`Priority::LOW`].
    ///
    /// An object whose changes affect thousands of others should have a low priority: users' edits then come first.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.any.priority = Some(priority);
        self
    }

    /// Maps an event to the keys that the function returns for the states before and after it. The function runs on the
    /// watch, so it must be quick. It can read other caches of the controller. If it panics, all objects are
    /// reconciled.
    pub fn map(self, map: impl Fn(&W, &Context) -> Vec<ObjectKey> + Send + Sync + 'static) -> Source {
        let map = move |object: &dyn AnyObject, context: &Context, each: EachPrioritized<'_>| {
            map(typed_ref(object), context).into_iter().for_each(|key| each(key, None));
        };
        self.any.source(Target::Map(Box::new(map)))
    }

    /// Like [`map`](Self::map), with a priority for each key.
    pub fn map_prioritized(
        self,
        map: impl Fn(&W, &Context) -> Vec<(ObjectKey, Priority)> + Send + Sync + 'static,
    ) -> Source {
        let map = move |object: &dyn AnyObject, context: &Context, each: EachPrioritized<'_>| {
            map(typed_ref(object), context).into_iter().for_each(|(key, priority)| each(key, Some(priority)));
        };
        self.any.source(Target::Map(Box::new(map)))
    }

    /// Maps an event to all objects of the controller's kind, with [`Priority::LOW`] unless another
    /// [priority](Self::priority) is set: for one object that all depend on. The initial list and resyncs are ignored, as
    /// all objects are reconciled at the start anyway.
    pub fn for_all(self) -> Source {
        self.any.source(Target::All)
    }

    /// Maps an event to the controlling owner of the object, before and after the event, if it is of the controller's
    /// kind.
    pub fn owned(self) -> Source {
        self.any.source(Target::Owner(OwnerSelection::Controller))
    }

    /// Maps an event to all owners of the object, before and after the event, that are of the controller's kind.
    pub fn owned_by_any(self) -> Source {
        self.any.source(Target::Owner(OwnerSelection::All))
    }

    pub(crate) fn dynamic(&self) -> &W::DynamicType {
        &self.dynamic
    }

    pub(crate) fn into_any(self) -> AnyWatch {
        self.any
    }
}

impl AnyWatch {
    fn new(
        kind_info: Arc<dyn KindInfo>,
        open: Open,
        open_leased: OpenLeased,
        given: bool,
        type_name: &'static str,
    ) -> Self {
        let kind = kind_info.kind().into();
        let scopes = vec![Scope::all()];
        Self { kind_info, scopes, filter: None, priority: None, open, open_leased, given, type_name, kind }
    }

    pub(crate) fn set_scope(&mut self, scope: Scope) {
        self.scopes = vec![scope];
    }

    pub(crate) fn add_filter(&mut self, filter: AnyFilter) {
        self.filter = Some(match self.filter.take() {
            Some(first) => first.and(filter),
            None => filter,
        });
    }

    pub(super) fn source(self, target: Target) -> Source {
        Source::new(WatchSource { watch: self, target, informers: Vec::new() })
    }

    /// Returns permissions for the watched resource in all scopes. In a scope of one name, they are for that name.
    pub(crate) fn permissions(&self, subresource: &str, verbs: &[&'static str]) -> Vec<Permission> {
        let resource = self.kind_info.resource();
        let permission = |scope: &Scope, names: BTreeSet<String>, verbs: &[&'static str]| Permission {
            group: resource.group.clone(),
            resource: format!("{}{subresource}", resource.plural),
            verbs: verbs.iter().copied().collect(),
            namespace: scope.namespace.clone(),
            names,
        };
        let of_scope = |scope: &Scope| match scope.name() {
            Some(name) => {
                // The name of an object that does not exist yet cannot be checked.
                let (unnamed, named): (Vec<_>, Vec<_>) = verbs.iter().partition(|verb| **verb == "create");
                let named = permission(scope, [name.to_owned()].into(), &named);
                [named, permission(scope, BTreeSet::new(), &unnamed)].to_vec()
            }
            None => vec![permission(scope, BTreeSet::new(), verbs)],
        };
        self.scopes.iter().flat_map(of_scope).filter(|permission| !permission.verbs.is_empty()).collect()
    }

    /// Restricts scopes without a namespace to these. Cluster-scoped kinds are unchanged; the function decides for those that
    /// are known only at run time.
    pub(crate) fn restrict_to(&mut self, namespaces: &[String], is_namespaced: IsNamespaced<'_>) {
        let follows = match self.kind_info.resource_scope() {
            ResourceScope::Namespaced => true,
            ResourceScope::Cluster => false,
            ResourceScope::Unknown => is_namespaced(&self.kind_info.resource()),
        };
        if namespaces.is_empty() || self.given || !follows {
            return;
        }
        let narrow = |scope: Scope| match scope.namespace {
            Some(_) => vec![scope],
            None => {
                let within = |namespace: &String| Scope { namespace: Some(namespace.clone()), ..scope.clone() };
                namespaces.iter().map(within).collect()
            }
        };
        self.scopes = std::mem::take(&mut self.scopes).into_iter().flat_map(narrow).collect();
    }

    /// Opens the informers, and makes them readable through contexts.
    pub(crate) fn open(&self, caches: &Caches, watched_kinds: &WatchedKinds) -> Vec<Arc<AnyInformer>> {
        let open = |scope: &Scope| {
            let informer = (self.open)(caches, scope);
            watched_kinds.insert_any(self.kind_info.clone(), scope, informer.clone());
            informer
        };
        self.scopes.iter().map(open).collect()
    }
}

impl Watch<PartialObjectMeta> {
    /// Watches only the metadata of all objects of a kind: names, labels, annotations and owner references, for a
    /// fraction of the memory.
    pub fn metadata_of<W: Object<DynamicType: Default>>() -> Watch<PartialObjectMeta<W>>
    where
        PartialObjectMeta<W>: Object<DynamicType = W::DynamicType>,
    {
        Self::metadata_with::<W>(W::DynamicType::default())
    }

    /// Watches only the metadata of all objects of a kind that is known at run time.
    pub fn metadata_with<W: Object>(dynamic: W::DynamicType) -> Watch<PartialObjectMeta<W>>
    where
        PartialObjectMeta<W>: Object<DynamicType = W::DynamicType>,
    {
        let kind = dynamic.clone();
        let open = move |caches: &Caches, scope: &Scope| caches.metadata_with::<W>(&kind, scope).into_any();
        Watch::opened_by(dynamic, Arc::new(open), false)
    }
}

/// The objects that events affect.
pub(super) enum Target {
    Owner(OwnerSelection),
    Map(Map),
    All,
    Lookup(Lookup),
}

/// A [`Target`] of a controller whose informers exist.
enum ConnectedTarget {
    Owner(OwnerSelection),
    Map(Map),
    All,
    Find(Find),
}

struct WatchSource {
    watch: AnyWatch,
    target: Target,
    informers: Vec<Arc<AnyInformer>>,
}

impl AnySource for WatchSource {
    fn permissions(&self) -> Vec<Permission> {
        // A controller creates and deletes the objects that it owns.
        let verbs: &[_] = match self.target {
            Target::Owner(_) => &["get", "list", "watch", "create", "update", "patch", "delete"],
            Target::Map(_) | Target::All | Target::Lookup(_) => &["get", "list", "watch"],
        };
        self.watch.permissions("", verbs)
    }

    fn restrict_to(&mut self, namespaces: &[String], is_namespaced: IsNamespaced<'_>) {
        self.watch.restrict_to(namespaces, is_namespaced);
    }

    fn open(&mut self, caches: &Caches, watched_kinds: &WatchedKinds) {
        self.informers = self.watch.open(caches, watched_kinds);
    }

    fn open_leased(&mut self, caches: &Caches, watched_kinds: &WatchedKinds) -> Vec<WatchLease> {
        let watch = &self.watch;
        let open = |scope: &Scope| {
            let (informer, lease) = (watch.open_leased)(caches, scope);
            self.informers.push(informer.clone());
            watched_kinds.insert_leased(watch.kind_info.clone(), scope, informer, lease)
        };
        watch.scopes.iter().map(open).collect()
    }

    fn connect(self: Box<Self>, source_context: &SourceContext) -> Connection {
        let Self { watch, target, informers } = *self;
        let target = match target {
            Target::Owner(which) => ConnectedTarget::Owner(which),
            Target::Map(map) => ConnectedTarget::Map(map),
            Target::All => ConnectedTarget::All,
            Target::Lookup(lookup) => ConnectedTarget::Find(lookup(&source_context.primary)),
        };
        let shared = Arc::new((watch, target));
        let subscriptions = informers.into_iter().map(|informer| {
            let (shared, source_context) = (shared.clone(), source_context.clone());
            PendingSubscription::new(informer, move |change| {
                handle_change(change, &shared.0, &shared.1, &source_context)
            })
        });
        Connection::Watch(subscriptions.collect())
    }
}

/// Queues the keys that an event of a watched object affects.
fn handle_change(change: &AnyChange<'_>, watch: &AnyWatch, target: &ConnectedTarget, source_context: &SourceContext) {
    if !watch.filter.as_ref().is_none_or(|filter| filter.lets_pass(change)) {
        return;
    }
    let priority = prioritized(change, watch.priority);
    let add_with = |key, priority| source_context.queue.add_caused(key, priority, Causes::watched(&watch.kind, change));
    let mut add = |key| add_with(key, priority);
    let old = if change.resync { None } else { change.old };
    match target {
        ConnectedTarget::Owner(which) => {
            let (new, old) = (change.new.map(AnyObject::metadata), old.map(AnyObject::metadata));
            if let Some(new) = new {
                source_context.owner.keys(new, *which, add);
            }
            if let Some(old) = old
                && new.is_none_or(|new| new.owner_references != old.owner_references)
            {
                source_context.owner.keys(old, *which, add);
            }
        }
        ConnectedTarget::All if change.initial || change.resync => {}
        ConnectedTarget::All => {
            let priority = watch.priority.unwrap_or(Priority::LOW);
            let causes = Causes::watched(&watch.kind, change);
            for key in source_context.primary.iter().flat_map(|informer| informer.keys()) {
                source_context.queue.add_caused(key, priority, causes.clone());
            }
        }
        ConnectedTarget::Find(find) => {
            guarded([change.new, old], watch, source_context, |object| find(object, &mut add))
        }
        ConnectedTarget::Map(map) => guarded([change.new, old], watch, source_context, |object| {
            map(object, &source_context.context, &mut |key, chosen| match chosen {
                Some(_) => add_with(key, prioritized(change, chosen)),
                None => add_with(key, priority),
            });
        }),
    }
}

/// Returns the chosen priority, or that of the event. The initial list and resyncs wait for new events.
pub(super) fn prioritized(change: &AnyChange<'_>, chosen: Option<Priority>) -> Priority {
    match (change.priority(), chosen) {
        (Priority::NORMAL, Some(chosen)) => chosen,
        (of_event, Some(chosen)) => of_event.min(chosen),
        (of_event, None) => of_event,
    }
}

/// Calls a function of the program with the states before and after an event. If it panics, all objects are reconciled.
fn guarded(
    states: [Option<&dyn AnyObject>; 2],
    watch: &AnyWatch,
    source_context: &SourceContext,
    mut call: impl FnMut(&dyn AnyObject),
) {
    for object in states.into_iter().flatten() {
        if catch_unwind(AssertUnwindSafe(|| call(object))).is_err() {
            let kind = watch.type_name;
            tracing::error!(kind, "the map function of a watch panicked; reconciling all objects");
            source_context.resync.request();
        }
    }
}
