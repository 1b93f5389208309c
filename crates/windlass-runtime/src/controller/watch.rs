//! Watches of other objects, whose events become keys.

use std::{
    any::TypeId,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use k8s_openapi::NamespaceResourceScope;
use kube::core::PartialObjectMeta;

use crate::{
    cache::{Caches, Event, Informer},
    context::{Context, Wired},
    controller::{
        filter::{Change, Filter},
        owners::Which,
        source::{Connected, Connection, Feed, Source, Wiring},
    },
    key::ObjectKey,
    manifests::Permission,
    object::{Object, resource_of},
    scope::Scope,
};

type Open<W> = Arc<dyn Fn(&Caches, &Scope) -> Informer<W> + Send + Sync>;
type Map<W> = Box<dyn Fn(&W, &Context) -> Vec<ObjectKey> + Send + Sync>;

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
    scopes: Vec<Scope>,
    filter: Option<Filter<W>>,
    open: Open<W>,
    /// Whether the informer was given.
    given: bool,
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
        let open = move |caches: &Caches, scope: &Scope| caches.informer_with::<W>(&kind, scope);
        Self { dynamic, scopes: vec![Scope::all()], filter: None, open: Arc::new(open), given: false }
    }

    /// What an informer that is there already brings, of a kind that is known at run time.
    pub fn informer_with(dynamic: W::DynamicType, informer: Informer<W>) -> Self {
        let open = move |_: &Caches, _: &Scope| informer.clone();
        Self { dynamic, scopes: vec![Scope::all()], filter: None, open: Arc::new(open), given: true }
    }

    /// Only objects of this scope. An informer that was given keeps its own.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scopes = vec![scope];
        self
    }

    /// Only objects of these namespaces: a watch for each, within the scope given so far.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let scope = self.scopes.pop().unwrap_or_default();
        self.scopes = namespaces
            .into_iter()
            .map(|namespace| Scope { namespace: Scope::namespace(namespace).namespace, ..scope.clone() })
            .collect();
        self
    }

    /// Only events that pass. A second filter is added to the first.
    #[must_use]
    pub fn filter(mut self, filter: Filter<W>) -> Self {
        self.filter = Some(match self.filter {
            Some(first) => first.and(filter),
            None => filter,
        });
        self
    }

    /// An event concerns the objects whose keys the function gives for the state before it and for the state after it.
    /// The function is called by the watch itself: it must be quick. It can read other caches of the controller. If it
    /// panics, every object is looked at.
    pub fn map(self, map: impl Fn(&W, &Context) -> Vec<ObjectKey> + Send + Sync + 'static) -> Source {
        Source::new(WatchFeed { watch: self, target: Target::Map(Box::new(map)), informers: Vec::new() })
    }

    /// An event concerns the owner that controls the object (before or after), if it is of the controller's kind.
    pub fn owned(self) -> Source {
        Source::new(WatchFeed { watch: self, target: Target::Owner(Which::Controller), informers: Vec::new() })
    }

    /// An event concerns all owners of the object (before or after) that are of the controller's kind.
    pub fn owned_by_any(self) -> Source {
        Source::new(WatchFeed { watch: self, target: Target::Owner(Which::Every), informers: Vec::new() })
    }

    /// What the watch alone needs, and more verbs where the objects are written, too.
    pub(crate) fn permissions(&self, subresource: &str, verbs: &[&'static str]) -> Vec<Permission> {
        let resource = resource_of::<W>(&self.dynamic);
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
    pub(crate) fn within(&mut self, namespaces: &[String]) {
        let namespaced = TypeId::of::<W::Scope>() == TypeId::of::<NamespaceResourceScope>();
        if namespaces.is_empty() || self.given || !namespaced {
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

    pub(crate) fn dynamic(&self) -> &W::DynamicType {
        &self.dynamic
    }

    /// Opens the informers, which contexts can read from then on.
    pub(crate) fn open(&self, caches: &Caches, wired: &Wired) -> Vec<Informer<W>> {
        let open = |scope: &Scope| {
            let informer = (self.open)(caches, scope);
            wired.insert(&self.dynamic, scope, informer.clone());
            informer
        };
        self.scopes.iter().map(open).collect()
    }

    pub(crate) fn passes(&self) -> Option<Filter<W>> {
        self.filter.clone()
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
        let open = move |caches: &Caches, scope: &Scope| caches.metadata_with::<W>(&kind, scope);
        Watch { dynamic, scopes: vec![Scope::all()], filter: None, open: Arc::new(open), given: false }
    }
}

enum Target<W> {
    Owner(Which),
    Map(Map<W>),
}

struct WatchFeed<W: Object> {
    watch: Watch<W>,
    target: Target<W>,
    informers: Vec<Informer<W>>,
}

impl<W: Object> Feed for WatchFeed<W> {
    fn permissions(&self) -> Vec<Permission> {
        // Who owns objects makes and removes them.
        let verbs: &[_] = match self.target {
            Target::Owner(_) => &["get", "list", "watch", "create", "update", "patch", "delete"],
            Target::Map(_) => &["get", "list", "watch"],
        };
        self.watch.permissions("", verbs)
    }

    fn within(&mut self, namespaces: &[String]) {
        self.watch.within(namespaces);
    }

    fn open(&mut self, caches: &Caches, wired: &Wired) {
        self.informers = self.watch.open(caches, wired);
    }

    fn connect(self: Box<Self>, wiring: &Wiring) -> Connection {
        let filter = self.watch.passes();
        let target = Arc::new(self.target);
        let connected = self.informers.into_iter().map(|informer| {
            let (filter, target, heard) = (filter.clone(), target.clone(), wiring.clone());
            let hear = move |event| hear(&event, filter.as_ref(), &target, &heard);
            Connected::new(informer, hear)
        });
        Connection::Watch(connected.collect())
    }
}

/// What an event of a watched object leads to.
fn hear<W: Object>(event: &Event<W>, filter: Option<&Filter<W>>, target: &Target<W>, wiring: &Wiring) {
    let change = Change::of(event);
    if !filter.is_none_or(|filter| filter.lets_pass(&change)) {
        return;
    }
    let priority = change.priority();
    let old = if change.resync { None } else { change.old };
    match target {
        Target::Owner(which) => {
            let add = |key| wiring.queue.add(key, priority);
            if let Some(new) = change.new {
                wiring.owner.keys(new.meta(), *which, add);
            }
            if let Some(old) = old
                && change.new.is_none_or(|new| new.meta().owner_references != old.meta().owner_references)
            {
                wiring.owner.keys(old.meta(), *which, add);
            }
        }
        Target::Map(map) => {
            for object in [change.new, old].into_iter().flatten() {
                match catch_unwind(AssertUnwindSafe(|| map(object, &wiring.context))) {
                    Ok(keys) => keys.into_iter().for_each(|key| wiring.queue.add(key, priority)),
                    Err(_) => {
                        let kind = std::any::type_name::<W>();
                        tracing::error!(kind, "a map has panicked: it may concern any object, so all are looked at");
                        wiring.everything.ask();
                    }
                }
            }
        }
    }
}
