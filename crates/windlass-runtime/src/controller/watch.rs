//! Watches of other objects, whose events become keys.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube::core::PartialObjectMeta;

use crate::{
    any_object::{AnyChange, AnyObject, typed_ref},
    cache::{AnyInformer, Caches, Informer},
    context::{
        Context, WatchedKinds,
        any_kind::{KindInfo, ResourceScope, kind_info},
    },
    controller::{
        filter::{AnyFilter, Filter},
        owners::OwnerSelection,
        source::{AnySource, Connection, PendingSubscription, Source, SourceContext},
    },
    key::ObjectKey,
    manifests::Permission,
    object::Object,
    scope::Scope,
};

type Open = Arc<dyn Fn(&Caches, &Scope) -> Arc<AnyInformer> + Send + Sync>;
type Map = Box<dyn Fn(&dyn AnyObject, &Context) -> Vec<ObjectKey> + Send + Sync>;

/// Which objects are watched: of a kind, within a scope, and which of their events matter.
///
/// It becomes a [`Source`] when it is said whom its events concern: [`map`](Self::map), [`owned`](Self::owned) or
/// [`owned_by_any`](Self::owned_by_any).
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

/// A [`Watch`] whose Rust type is forgotten.
pub(crate) struct AnyWatch {
    pub(crate) kind_info: Arc<dyn KindInfo>,
    scopes: Vec<Scope>,
    pub(crate) filter: Option<AnyFilter>,
    open: Open,
    /// Whether the informer was given.
    given: bool,
    /// The Rust type of the objects, for the log.
    type_name: &'static str,
}

impl<W: Object<DynamicType: Default>> Watch<W> {
    /// All objects of a kind.
    #[expect(clippy::new_without_default, reason = "a watch of nothing in particular is no sensible default")]
    pub fn new() -> Self {
        Self::with(W::DynamicType::default())
    }

    /// What an informer that is there already brings.
    pub fn informer(informer: Informer<W>) -> Self {
        Self::informer_with(W::DynamicType::default(), informer)
    }
}

impl<W: Object> Watch<W> {
    /// All objects of a kind that is known at run time.
    pub fn with(dynamic: W::DynamicType) -> Self {
        let kind = dynamic.clone();
        let open = move |caches: &Caches, scope: &Scope| caches.informer_with::<W>(&kind, scope).into_any();
        Self::opened_by(dynamic, Arc::new(open), false)
    }

    /// What an informer that is there already brings, of a kind that is known at run time.
    pub fn informer_with(dynamic: W::DynamicType, informer: Informer<W>) -> Self {
        let informer = informer.into_any();
        Self::opened_by(dynamic, Arc::new(move |_, _| informer.clone()), true)
    }

    fn opened_by(dynamic: W::DynamicType, open: Open, given: bool) -> Self {
        let any = AnyWatch::new(kind_info::<W>(&dynamic), open, given, std::any::type_name::<W>());
        Self { dynamic, any }
    }

    /// Only objects of this scope. An informer that was given keeps its own.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.any.set_scope(scope);
        self
    }

    /// Only objects of these namespaces: a watch for each, within the scope given so far.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let scope = self.any.scopes.pop().unwrap_or_default();
        self.any.scopes = namespaces
            .into_iter()
            .map(|namespace| Scope { namespace: Scope::namespace(namespace).namespace, ..scope.clone() })
            .collect();
        self
    }

    /// Only events that pass. A second filter is added to the first.
    #[must_use]
    pub fn filter(mut self, filter: Filter<W>) -> Self {
        self.any.add_filter(AnyFilter::of(filter));
        self
    }

    /// An event concerns the objects whose keys the function gives for the state before it and for the state after it.
    /// The function is called by the watch itself: it must be quick. It can read other caches of the controller. If it
    /// panics, every object is looked at.
    pub fn map(self, map: impl Fn(&W, &Context) -> Vec<ObjectKey> + Send + Sync + 'static) -> Source {
        let map = move |object: &dyn AnyObject, context: &Context| map(typed_ref(object), context);
        self.any.source(Target::Map(Box::new(map)))
    }

    /// An event concerns the owner that controls the object (before or after), if it is of the controller's kind.
    pub fn owned(self) -> Source {
        self.any.source(Target::Owner(OwnerSelection::Controller))
    }

    /// An event concerns all owners of the object (before or after) that are of the controller's kind.
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
    fn new(kind_info: Arc<dyn KindInfo>, open: Open, given: bool, type_name: &'static str) -> Self {
        Self { kind_info, scopes: vec![Scope::all()], filter: None, open, given, type_name }
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

    fn source(self, target: Target) -> Source {
        Source::new(WatchSource { watch: self, target, informers: Vec::new() })
    }

    /// What the watch alone needs, and more verbs where the objects are written, too.
    pub(crate) fn permissions(&self, subresource: &str, verbs: &[&'static str]) -> Vec<Permission> {
        let resource = self.kind_info.resource();
        self.scopes
            .iter()
            .map(|scope| Permission {
                group: resource.group.clone(),
                resource: format!("{}{subresource}", resource.plural),
                verbs: verbs.iter().copied().collect(),
                namespace: scope.namespace.clone(),
                ..Permission::default()
            })
            .collect()
    }

    /// Narrows scopes without a namespace to these. What may have no namespaces is left alone.
    pub(crate) fn restrict_to(&mut self, namespaces: &[String]) {
        if namespaces.is_empty() || self.given || self.kind_info.resource_scope() != ResourceScope::Namespaced {
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

    /// Opens the informers, which contexts can read from then on.
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
    /// The metadata of all objects of a kind: what names, labels, annotations and owners tell, for a fraction of the
    /// memory.
    pub fn metadata_of<W: Object<DynamicType: Default>>() -> Watch<PartialObjectMeta<W>>
    where
        PartialObjectMeta<W>: Object<DynamicType = W::DynamicType>,
    {
        Self::metadata_with::<W>(W::DynamicType::default())
    }

    /// The metadata of all objects of a kind that is known at run time.
    pub fn metadata_with<W: Object>(dynamic: W::DynamicType) -> Watch<PartialObjectMeta<W>>
    where
        PartialObjectMeta<W>: Object<DynamicType = W::DynamicType>,
    {
        let kind = dynamic.clone();
        let open = move |caches: &Caches, scope: &Scope| caches.metadata_with::<W>(&kind, scope).into_any();
        Watch::opened_by(dynamic, Arc::new(open), false)
    }
}

enum Target {
    Owner(OwnerSelection),
    Map(Map),
}

struct WatchSource {
    watch: AnyWatch,
    target: Target,
    informers: Vec<Arc<AnyInformer>>,
}

impl AnySource for WatchSource {
    fn permissions(&self) -> Vec<Permission> {
        // Who owns objects makes and removes them.
        let verbs: &[_] = match self.target {
            Target::Owner(_) => &["get", "list", "watch", "create", "update", "patch", "delete"],
            Target::Map(_) => &["get", "list", "watch"],
        };
        self.watch.permissions("", verbs)
    }

    fn restrict_to(&mut self, namespaces: &[String]) {
        self.watch.restrict_to(namespaces);
    }

    fn open(&mut self, caches: &Caches, watched_kinds: &WatchedKinds) {
        self.informers = self.watch.open(caches, watched_kinds);
    }

    fn connect(self: Box<Self>, source_context: &SourceContext) -> Connection {
        let Self { watch, target, informers } = *self;
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

/// What an event of a watched object leads to.
fn handle_change(change: &AnyChange<'_>, watch: &AnyWatch, target: &Target, source_context: &SourceContext) {
    if !watch.filter.as_ref().is_none_or(|filter| filter.lets_pass(change)) {
        return;
    }
    let priority = change.priority();
    let old = if change.resync { None } else { change.old };
    match target {
        Target::Owner(which) => {
            let add = |key| source_context.queue.add(key, priority);
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
        Target::Map(map) => {
            for object in [change.new, old].into_iter().flatten() {
                match catch_unwind(AssertUnwindSafe(|| map(object, &source_context.context))) {
                    Ok(keys) => keys.into_iter().for_each(|key| source_context.queue.add(key, priority)),
                    Err(_) => {
                        let kind = watch.type_name;
                        tracing::error!(kind, "a map has panicked: it may concern any object, so all are looked at");
                        source_context.resync.request();
                    }
                }
            }
        }
    }
}
