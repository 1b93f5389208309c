//! Reads and writes of one kind.

use std::{hash::Hash, sync::Arc};

use kube::core::{Selector, SelectorExt};

use super::{
    Context, ContextError,
    any_kind::{AnyKind, kind_info},
    watched_kinds::Entry,
};
use crate::{
    cache::{Index, Informer},
    key::ObjectKey,
    object::Object,
    objects::owner::controller_of,
    watch::UnreadableObject,
};

/// Reads and writes of one kind, from [`Context::kind`] or, for kinds known at run time, [`Context::kind_with`]. All
/// operations of a context on objects are methods of this type.
pub struct Kind<'a, K: Object> {
    pub(super) context: &'a Context,
    pub(super) dynamic: K::DynamicType,
}

impl Context {
    /// Returns the operations of a kind.
    pub fn kind<K: Object<DynamicType: Default>>(&self) -> Kind<'_, K> {
        Kind { context: self, dynamic: K::DynamicType::default() }
    }

    /// Returns the operations of a kind that is known at run time.
    pub fn kind_with<K: Object>(&self, dynamic: &K::DynamicType) -> Kind<'_, K> {
        Kind { context: self, dynamic: dynamic.clone() }
    }
}

/// Reads are generic, as they are small and called often.
impl<K: Object> Kind<'_, K> {
    /// Returns an object from the cache. This is an error if its newest state failed to deserialize, even if an earlier one is
    /// cached.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ContextError> {
        let entries = self.entries()?;
        match entries.iter().find_map(|entry| Some((entry, entry.informer::<K>().get(key)?))) {
            Some((entry, object)) => match entry.informer.unreadable(key) {
                Some(unreadable) => Err(self.unreadable(unreadable)),
                None => Ok(Some(object)),
            },
            None => self.check_missing(&entries, Some(key)).map(|()| None),
        }
    }

    /// Returns all cached objects, in no particular order.
    ///
    /// Like all reads of several objects, this is an error if an object that belongs to the result has never been
    /// readable, because it fails to deserialize: a controller that counts its children must not create another one then,
    /// nor one that allocates numbers assign one twice. Objects whose newest state failed to deserialize are in their last
    /// readable state. A read of [`informer`](Self::informer) omits unreadable objects instead.
    pub fn list(&self) -> Result<Vec<Arc<K>>, ContextError> {
        self.union(&|informer| informer.list(), &|_| true)
    }

    /// Returns the cached objects of a namespace. See [`list`](Self::list) for unreadable objects.
    pub fn list_in(&self, namespace: &str) -> Result<Vec<Arc<K>>, ContextError> {
        self.union(&|informer| informer.list_in(namespace), &|hidden| hidden.key.namespace() == Some(namespace))
    }

    /// Returns the cached objects whose labels match, within a namespace if one is given. See [`list`](Self::list) for
    /// unreadable objects.
    pub fn select(&self, namespace: Option<&str>, selector: &Selector) -> Result<Vec<Arc<K>>, ContextError> {
        let Some(namespace) = namespace else {
            return self.union(&|informer| informer.select(selector), &|hidden| selector.matches(&hidden.labels));
        };
        let belongs =
            |hidden: &UnreadableObject| hidden.key.namespace() == Some(namespace) && selector.matches(&hidden.labels);
        let mut objects = self.union(&|informer| informer.list_in(namespace), &belongs)?;
        let none = Default::default();
        objects.retain(|object| selector.matches(object.meta().labels.as_ref().unwrap_or(&none)));
        Ok(objects)
    }

    /// Returns the cached objects whose controller has this UID, by an index. See [`list`](Self::list) for unreadable
    /// objects.
    pub fn owned(&self, uid: &str) -> Result<Vec<Arc<K>>, ContextError> {
        let belongs = |hidden: &UnreadableObject| hidden.controller.as_deref() == Some(uid);
        let mut objects = self.union(&|informer| informer.owned_by(uid), &belongs)?;
        objects.retain(|object| controller_of(object.meta()).is_some_and(|owner| owner.uid == uid));
        Ok(objects)
    }

    /// Returns the index of this name over the cached objects of all scopes; see [`Informer::index`]. Unreadable objects are
    /// not in an index: this is an error if there are any that have never been readable, as for [`list`](Self::list).
    pub fn index<V, F>(&self, name: &'static str, values: F) -> Result<Index<K, V>, ContextError>
    where
        V: Hash + Eq + Send + Sync + 'static,
        F: Fn(&K) -> Vec<V> + Send + Sync + 'static,
    {
        let failed = |source| ContextError::Index { kind: K::kind(&self.dynamic).into_owned(), source };
        let entries = self.entries()?;
        if entries.iter().any(|entry| entry.informer.is_absent()) {
            return Err(ContextError::NotServed { kind: K::kind(&self.dynamic).into_owned() });
        }
        let hidden = entries.iter().flat_map(|entry| entry.informer.all_unreadable());
        let mut hidden = hidden.filter(|hidden| entries.iter().all(|entry| entry.informer.get(&hidden.key).is_none()));
        if let Some(hidden) = hidden.next() {
            return Err(self.unreadable(hidden));
        }
        if let [entry] = &*entries {
            return entry.informer::<K>().index(name, values).map_err(failed);
        }
        let values = Arc::new(values);
        let indexes = entries.iter().map(|entry| {
            let values = values.clone();
            entry.informer::<K>().index(name, move |object: &K| values(object))
        });
        let indexes: Vec<_> = indexes.collect::<Result<_, _>>().map_err(failed)?;
        Ok(Index::union(indexes).expect("a readable kind has an informer"))
    }

    /// Returns the informer. Fails if the kind is watched in several scopes and thus has several informers, as in an
    /// operator that is restricted to some namespaces.
    pub fn informer(&self) -> Result<Informer<K>, ContextError> {
        match &*self.entries()? {
            [entry] => Ok(entry.informer()),
            _ => Err(ContextError::SeveralScopes { kind: K::kind(&self.dynamic).into_owned() }),
        }
    }

    /// Returns the caches of the kind, at least one.
    fn entries(&self) -> Result<Vec<Arc<Entry>>, ContextError> {
        let entries = self.context.watched_kinds.entries_of::<K>(&self.dynamic);
        if entries.is_empty() {
            return Err(self.context.watched_kinds.missing(K::kind(&self.dynamic).into_owned()));
        }
        Ok(entries)
    }

    /// Returns an error if nothing was found because it is unknown what exists.
    fn check_missing(&self, entries: &[Arc<Entry>], key: Option<&ObjectKey>) -> Result<(), ContextError> {
        let kind = || K::kind(&self.dynamic).into_owned();
        if entries.iter().any(|entry| entry.informer.is_absent()) {
            return Err(ContextError::NotServed { kind: kind() });
        }
        let unreadable = |key: &ObjectKey| entries.iter().find_map(|entry| entry.informer.unreadable(key));
        match key.and_then(unreadable) {
            Some(object) => Err(self.unreadable(object)),
            None => Ok(()),
        }
    }

    fn unreadable(&self, UnreadableObject { key, problem, .. }: UnreadableObject) -> ContextError {
        ContextError::Unreadable { kind: K::kind(&self.dynamic).into_owned(), key, problem }
    }

    /// Returns the union of several caches, with each object once; an error if an unreadable object that belongs to it is
    /// missing.
    fn union(
        &self,
        read: &dyn Fn(&Informer<K>) -> Vec<Arc<K>>,
        belongs: &dyn Fn(&UnreadableObject) -> bool,
    ) -> Result<Vec<Arc<K>>, ContextError> {
        let entries = self.entries()?;
        // Before the objects, so that one that becomes readable is not overlooked.
        let hidden = entries.iter().flat_map(|entry| entry.informer.all_unreadable()).filter(|object| belongs(object));
        let mut hidden: Vec<UnreadableObject> = hidden.collect();
        let objects = if let [entry] = &*entries {
            read(&entry.informer())
        } else {
            let mut seen = hashbrown::HashSet::new();
            let objects = entries.iter().flat_map(|entry| read(&entry.informer()));
            objects.filter(|object| seen.insert(ObjectKey::of(object.as_ref()))).collect()
        };
        if !hidden.is_empty() {
            let known: hashbrown::HashSet<ObjectKey> =
                objects.iter().map(|object| ObjectKey::of(object.as_ref())).collect();
            hidden.retain(|object| !known.contains(&object.key));
            if let Some(object) = hidden.pop() {
                return Err(self.unreadable(object));
            }
        }
        if objects.is_empty() {
            self.check_missing(&entries, None)?;
        }
        Ok(objects)
    }
}

impl<'a, K: Object> Kind<'a, K> {
    /// Erases the type, for everything that is not small.
    pub(super) fn any(&self) -> AnyKind<'a> {
        AnyKind::new(self.context, kind_info::<K>(&self.dynamic))
    }
}
