//! Watches whose events affect many objects: all objects of the controller's kind, or objects found by an index.

use std::{hash::Hash, sync::Arc};

use crate::{
    any_object::{AnyObject, typed_ref},
    cache::AnyInformer,
    controller::{
        Controller,
        watch::{Target, Watch},
    },
    key::ObjectKey,
    object::Object,
};

/// Calls the function with each key.
pub(super) type EachKey<'a> = &'a mut dyn FnMut(ObjectKey);
/// Finds the keys that an object of the watched kind affects.
pub(super) type Find = Box<dyn Fn(&dyn AnyObject, EachKey<'_>) + Send + Sync>;

/// Creates an index of the controller's kind, when its informers exist.
pub(super) type Lookup = Box<dyn FnOnce(&[Arc<AnyInformer>]) -> Find + Send>;

/// Returns a lookup by the values that objects of both kinds have.
fn lookup<K, W, V>(
    of_primary: impl Fn(&K) -> Vec<V> + Clone + Send + Sync + 'static,
    of_watched: impl Fn(&W) -> Vec<V> + Send + Sync + 'static,
) -> Lookup
where
    K: Object,
    W: Object,
    V: Hash + Eq + Send + Sync + 'static,
{
    Box::new(move |primary| {
        let index = |informer: &Arc<AnyInformer>| informer.typed::<K>().private_index(of_primary.clone());
        let indexes: Vec<_> = primary.iter().map(index).collect();
        Box::new(move |watched, each| {
            for value in of_watched(typed_ref(watched)) {
                indexes.iter().flat_map(|index| index.keys(&value)).for_each(&mut *each);
            }
        })
    })
}

/// Watches whose events affect many objects.
///
/// ```
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Node}};
/// use windlass_runtime::{controller::{Action, Controller}, key::ObjectKey};
///
/// /// The ConfigMaps that the volumes of a Deployment name.
/// fn configs(deployment: &Deployment) -> Vec<ObjectKey> {
///     let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
///     let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
///     let volumes = pod.into_iter().flat_map(|pod| pod.volumes.iter().flatten());
///     let names = volumes.filter_map(|volume| volume.config_map.as_ref().map(|source| source.name.as_str()));
///     names.map(|name| ObjectKey::namespaced(namespace, name)).collect()
/// }
///
/// let controller = Controller::<Deployment>::new("restarter", async |_deployment, _ctx| Ok(Action::done()))
///     // An event of a ConfigMap: the Deployments that name it.
///     .watches_referenced::<ConfigMap>(configs)
///     // An event of a Node: all Deployments, after everything else.
///     .watches_for_all::<Node>();
/// ```
impl<K: Object> Controller<K> {
    /// Watches a kind that affects all objects of the controller's kind; see [`Watch::for_all`].
    #[must_use]
    pub fn watches_for_all<W: Object<DynamicType: Default>>(self) -> Self {
        self.source(Watch::<W>::new().for_all())
    }

    /// Watches a kind whose objects are named in objects of the controller's kind. The function returns the keys that
    /// an object names, and an event triggers the objects that name the changed one. They are found by an index, so that
    /// an event costs the same with ten objects and with ten thousand.
    #[must_use]
    pub fn watches_referenced<W: Object<DynamicType: Default>>(
        self,
        references: impl Fn(&K) -> Vec<ObjectKey> + Clone + Send + Sync + 'static,
    ) -> Self {
        self.watches_by(Watch::<W>::new(), references, |watched: &W| vec![ObjectKey::of(watched)])
    }

    /// Watches objects that are related to the controller's objects by a common value. An event triggers each object for
    /// which `of_primary` returns one of the values that `of_watched` returns for the changed object, before or after the
    /// event. `of_primary` fills an index, so it must always return the same values for the same object; both functions
    /// must be fast.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Node, Pod};
    /// use windlass_runtime::{controller::{Action, Controller, Watch}, queue::Priority};
    ///
    /// let controller = Controller::<Pod>::new("pods", async |_pod, _ctx| Ok(Action::done())).watches_by(
    ///     Watch::<Node>::new().priority(Priority::LOW),
    ///     |pod: &Pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect(),
    ///     |node: &Node| node.metadata.name.iter().cloned().collect(),
    /// );
    /// ```
    #[must_use]
    pub fn watches_by<W: Object, V: Hash + Eq + Send + Sync + 'static>(
        self,
        watch: Watch<W>,
        of_primary: impl Fn(&K) -> Vec<V> + Clone + Send + Sync + 'static,
        of_watched: impl Fn(&W) -> Vec<V> + Send + Sync + 'static,
    ) -> Self {
        self.source(watch.into_any().source(Target::Lookup(lookup(of_primary, of_watched))))
    }
}
