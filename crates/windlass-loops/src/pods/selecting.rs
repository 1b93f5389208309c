//! Label lookups without scanning all objects: objects without a controller by their labels, and parents by a label
//! that their selector requires.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::Job,
        core::v1::ReplicationController,
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::core::{Selector, SelectorExt as _};
use windlass::{
    cache::Index,
    context::{Context, ContextError},
    key::ObjectKey,
    object::Object,
    objects::owner::controller_of,
};

/// A parent that selects its children by labels.
pub(crate) trait Selecting: Object<DynamicType = ()> {
    /// Its selector, if it has one.
    fn selector(&self) -> Option<Cow<'_, LabelSelector>>;
}

macro_rules! selecting {
    ($($kind:ty),*) => {$(
        impl Selecting for $kind {
            fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
                self.spec.as_ref().map(|spec| Cow::Borrowed(&spec.selector))
            }
        }
    )*};
}

selecting!(ReplicaSet, Deployment, DaemonSet, StatefulSet);

impl Selecting for Job {
    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        self.spec.as_ref()?.selector.as_ref().map(Cow::Borrowed)
    }
}

impl Selecting for PodDisruptionBudget {
    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        self.spec.as_ref()?.selector.as_ref().map(Cow::Borrowed)
    }
}

impl Selecting for ReplicationController {
    fn selector(&self) -> Option<Cow<'_, LabelSelector>> {
        let labels = self.spec.as_ref()?.selector.clone()?;
        Some(Cow::Owned(LabelSelector { match_labels: Some(labels), match_expressions: None }))
    }
}

/// Compiles a selector. Returns `None` if it is invalid.
pub(crate) fn compiled(selector: &LabelSelector) -> Option<Selector> {
    selector.clone().try_into().ok()
}

/// Returns whether a selector selects an object.
pub(crate) fn selects<K: Object>(selector: &Selector, object: &K) -> bool {
    match &object.meta().labels {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&BTreeMap::new()),
    }
}

/// The objects of a namespace without a controller that may be selected: a superset of the selected ones.
pub(crate) fn orphans<K: Object<DynamicType: Default>>(
    ctx: &Context,
    namespace: &str,
    selector: &LabelSelector,
) -> Result<Vec<Arc<K>>, ContextError> {
    let index = ctx.informer::<K>()?.index("orphans", orphan_values::<K>);
    let index: Index<K, String> = index.expect("an index name must always have the same value type");
    let mut found: Vec<Arc<K>> = Vec::new();
    for value in needed(namespace, selector) {
        found.extend(index.get(&value));
    }
    Ok(found)
}

/// The selected objects of a namespace, regardless of their controller.
pub(crate) fn selected<K: Object<DynamicType: Default>>(
    ctx: &Context,
    namespace: &str,
    selector: &LabelSelector,
) -> Result<Vec<Arc<K>>, ContextError> {
    let Some(compiled) = compiled(selector) else { return Ok(Vec::new()) };
    let informer = ctx.informer::<K>()?;
    let needed = needed(namespace, selector);
    let mut found = if needed.iter().any(|value| value == namespace) {
        informer.list_in(namespace)
    } else {
        // The index that services use for their pods, with the same values.
        let index = informer.index("services/labels", |object: &K| {
            let namespace = object.meta().namespace.as_deref().unwrap_or_default();
            values_of(namespace, object).split_off(1)
        });
        let index: Index<K, String> = index.expect("an index name must always have the same value type");
        needed.iter().flat_map(|value| index.get(value.as_str())).collect()
    };
    found.retain(|object| selects(&compiled, object.as_ref()));
    Ok(found)
}

/// The parents that select an object, regardless of its controller.
pub(crate) fn selecting<P: Selecting, K: Object>(object: &K, ctx: &Context) -> Vec<ObjectKey> {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    let selects = |parent: &Arc<P>| {
        let selector = parent.selector().and_then(|selector| compiled(&selector));
        selector.is_some_and(|selector| selects(&selector, object))
    };
    let candidates = may_select::<P, K>(namespace, object, ctx);
    candidates.iter().filter(|parent| selects(parent)).map(|parent| ObjectKey::of(&**parent)).collect()
}

/// The parents that may select an object: a superset.
fn may_select<P: Selecting, K: Object>(namespace: &str, object: &K, ctx: &Context) -> Vec<Arc<P>> {
    let Ok(informer) = ctx.informer::<P>() else { return Vec::new() };
    let index = informer.index("selected", selected_values::<P>);
    let index: Index<P, String> = index.expect("an index name must always have the same value type");
    values_of(namespace, object).iter().flat_map(|value| index.get(value)).collect()
}

/// The parents to reconcile when an object changes: the one of this kind that controls it or, if it has no controller,
/// those that select it and may adopt it. For [`Controller::watches`](windlass::controller::Controller::watches).
pub(crate) fn parents<P: Selecting, K: Object>(child: &K, ctx: &Context) -> Vec<ObjectKey> {
    let namespace = child.meta().namespace.as_deref().unwrap_or_default();
    if let Some(owner) = controller_of(child.meta()) {
        let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
        let ours = owner.kind == P::kind(&()) && group == P::group(&());
        return ours.then(|| ObjectKey::namespaced(namespace, &owner.name)).into_iter().collect();
    }
    let selecting = |parent: &Arc<P>| {
        // Here an empty selector selects nothing, unlike elsewhere.
        let selector = parent.selector().and_then(|selector| compiled(&selector));
        selector.is_some_and(|selector| !selector.selects_all() && selects(&selector, child))
    };
    let candidates = may_select::<P, K>(namespace, child, ctx);
    candidates.iter().filter(|parent| selecting(parent)).map(|parent| ObjectKey::of(&**parent)).collect()
}

fn orphan_values<K: Object>(object: &K) -> Vec<String> {
    match controller_of(object.meta()) {
        Some(_) => Vec::new(),
        None => values_of(object.meta().namespace.as_deref().unwrap_or_default(), object),
    }
}

fn selected_values<P: Selecting>(parent: &P) -> Vec<String> {
    let namespace = parent.meta().namespace.as_deref().unwrap_or_default();
    parent.selector().map(|selector| needed(namespace, &selector)).unwrap_or_default()
}

/// The index values of an object: its namespace, and each of its labels in it.
fn values_of<K: Object>(namespace: &str, object: &K) -> Vec<String> {
    let labels = object.meta().labels.iter().flatten();
    [namespace.to_owned()].into_iter().chain(labels.map(|(name, value)| pair(namespace, name, value))).collect()
}

/// Returns index values such that every selected object has one of them: a required label, if there is one.
fn needed(namespace: &str, selector: &LabelSelector) -> Vec<String> {
    if let Some((name, value)) = selector.match_labels.iter().flatten().next() {
        return vec![pair(namespace, name, value)];
    }
    let within = selector.match_expressions.iter().flatten().find(|expression| expression.operator == "In");
    match within {
        Some(expression) => {
            let mut values: Vec<_> = expression.values.iter().flatten().collect();
            values.sort();
            values.dedup();
            values.into_iter().map(|value| pair(namespace, &expression.key, value)).collect()
        }
        None => vec![namespace.to_owned()],
    }
}

/// Neither namespaces nor label names contain a slash followed by an equals sign.
fn pair(namespace: &str, name: &str, value: &str) -> String {
    [namespace, "/", name, "=", value].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_indexed_by_a_required_label() {
        for (selector, expected) in [
            (serde_json::json!({"matchLabels": {"b": "1", "a": "2"}}), vec!["n/a=2"]),
            (
                serde_json::json!({"matchExpressions": [
                    {"key": "x", "operator": "Exists"},
                    {"key": "a", "operator": "In", "values": ["2", "1", "2"]},
                ]}),
                vec!["n/a=1", "n/a=2"],
            ),
            (serde_json::json!({"matchExpressions": [{"key": "x", "operator": "Exists"}]}), vec!["n"]),
            (serde_json::json!({}), vec!["n"]),
        ] {
            assert_eq!(needed("n", &serde_json::from_value(selector).unwrap()), expected);
        }
    }

    #[test]
    fn only_objects_without_a_controller_are_orphans() {
        let mut set: ReplicaSet = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "a", "namespace": "n", "labels": {"app": "web"}},
        }))
        .unwrap();
        assert_eq!(orphan_values(&set), ["n", "n/app=web"]);
        let owner = |controller| {
            serde_json::from_value(serde_json::json!(
                [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "1", "controller": controller}]
            ))
            .unwrap()
        };
        set.metadata.owner_references = owner(false);
        assert_eq!(orphan_values(&set).len(), 2);
        set.metadata.owner_references = owner(true);
        assert!(orphan_values(&set).is_empty());
    }
}
