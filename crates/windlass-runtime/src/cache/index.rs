//! Indices: objects by the values of a function.

use std::{
    any::{Any, TypeId, type_name},
    borrow::Borrow,
    hash::Hash,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use hashbrown::{HashMap, HashSet, hash_map::Entry};

use super::{
    any_informer::AnyInformer,
    cell::{Cell, ParsedCell},
    table::{Table, parts},
};
use crate::{
    any_object::{AnyObject, typed},
    key::ObjectKey,
    object::Object,
};

/// Maximum number of objects per value that are kept in a plain list, from which removal is a search.
const FEW: usize = 16;

/// A named index: objects by the values that a function returns for them. Created by
/// [`Informer::index`](super::Informer::index).
///
/// It is updated under the same lock as the objects, so its results are exactly what the informer holds at that moment.
/// A cheap handle.
pub struct Index<K: Object, V> {
    any: Arc<AnyInformer>,
    place: usize,
    /// Indices of other scopes, read as one with this.
    others: Vec<Self>,
    _types: PhantomData<fn() -> (K, V)>,
}

/// Error from creating an index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Another index of this name has values of another type.
    #[error("index {name:?} has values of type {present}, not {asked}")]
    OtherType {
        /// Name of the index.
        name: &'static str,
        /// The requested type.
        asked: &'static str,
        /// The type of the existing index.
        present: &'static str,
    },
}

/// A type-erased index.
pub(super) trait AnyIndex<K: ?Sized>: Any + Send + Sync {
    fn name(&self) -> &'static str;
    fn value_type(&self) -> (TypeId, &'static str);
    fn insert(&mut self, object: &ParsedCell<'_, K>);
    fn remove(&mut self, object: &ParsedCell<'_, K>);
    fn clear(&mut self);
    fn as_any(&self) -> &dyn Any;
}

/// The entries of an index.
pub(super) struct Entries<K: ?Sized, V> {
    name: &'static str,
    values: Values<K, V>,
    objects: HashMap<V, Bucket<K>>,
}

/// Values of objects, by the address of their cells. The cells are held, so that no address is reused.
pub(super) struct PrecomputedValues<K: ?Sized, V> {
    values: HashMap<*const Cell<K>, Vec<V>>,
    _cells: Vec<Arc<Cell<K>>>,
}

/// Function that returns the values of an object.
pub(super) enum Values<K: ?Sized, V> {
    OfKey(fn(&ObjectKey) -> Vec<V>),
    OfObject(Box<OfObject<K, V>>),
}

type OfObject<K, V> = dyn Fn(&K) -> Vec<V> + Send + Sync;

/// The objects of one value. Most values have one object, or a few.
enum Bucket<K: ?Sized> {
    One(Arc<Cell<K>>),
    Few(Vec<Arc<Cell<K>>>),
    Many(Table<K>),
}

impl<K: Object, V> Index<K, V> {
    pub(super) fn new(any: Arc<AnyInformer>, place: usize) -> Self {
        Self { any, place, others: Vec::new(), _types: PhantomData }
    }

    /// Combines several indices of the same name and type; returns `None` if there are none.
    pub(crate) fn union(mut indexes: Vec<Self>) -> Option<Self> {
        let mut first = indexes.pop()?;
        first.others = indexes;
        Some(first)
    }
}

impl<K: Object, V: Hash + Eq + Send + Sync + 'static> Index<K, V> {
    /// Returns the objects with a value, in no particular order, without a scan.
    pub fn get<Q>(&self, value: &Q) -> Vec<Arc<K>>
    where
        V: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut objects: Vec<Arc<K>> = self.any.indexed::<V, Q>(self.place, value).into_iter().map(typed).collect();
        if !self.others.is_empty() {
            objects.extend(self.others.iter().flat_map(|other| other.get(value)));
            let mut seen = HashSet::new();
            objects.retain(|object| seen.insert(ObjectKey::of(object.as_ref())));
        }
        objects
    }

    /// Returns the keys of the objects with a value, in no particular order. Packed objects stay packed.
    pub fn keys<Q>(&self, value: &Q) -> Vec<ObjectKey>
    where
        V: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut keys = Vec::new();
        self.any.with_index::<V, _>(self.place, |entries| entries.each(value, |object| keys.push(object.key())));
        if !self.others.is_empty() {
            keys.extend(self.others.iter().flat_map(|other| other.keys(value)));
            keys.sort_unstable();
            keys.dedup();
        }
        keys
    }

    /// Returns the number of objects with a value.
    pub fn count<Q>(&self, value: &Q) -> usize
    where
        V: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if !self.others.is_empty() {
            return self.get(value).len();
        }
        self.any.with_index::<V, _>(self.place, |entries| entries.count(value))
    }

    /// Returns the values that at least one object has, in no particular order.
    pub fn values(&self) -> Vec<V>
    where
        V: Clone,
    {
        let own = self.any.with_index::<V, _>(self.place, |entries| entries.objects.keys().cloned().collect());
        if self.others.is_empty() {
            return own;
        }
        let all: HashSet<V> = own.into_iter().chain(self.others.iter().flat_map(Self::values)).collect();
        all.into_iter().collect()
    }
}

impl<K: Object, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { others: self.others.clone(), ..Self::new(self.any.clone(), self.place) }
    }
}

impl<K: AnyObject + ?Sized, V: Hash + Eq + Send + Sync + 'static> Entries<K, V> {
    pub(super) fn new(name: &'static str, values: Values<K, V>) -> Self {
        Self { name, values, objects: HashMap::new() }
    }

    /// Computes the values of objects without the store's lock, as parsing many takes a while.
    pub(super) fn precompute(&self, cells: Vec<Arc<Cell<K>>>) -> PrecomputedValues<K, V> {
        let values = cells.iter().map(|cell| (Arc::as_ptr(cell), self.values_of(&ParsedCell::new(cell)))).collect();
        PrecomputedValues { values, _cells: cells }
    }

    /// Adds all objects; only those without precomputed values are parsed.
    pub(super) fn fill<'a>(
        &mut self,
        cells: impl Iterator<Item = &'a Arc<Cell<K>>>,
        mut precomputed: PrecomputedValues<K, V>,
    ) where
        K: 'a,
    {
        for cell in cells {
            let values = precomputed.values.remove(&Arc::as_ptr(cell));
            let values = values.unwrap_or_else(|| self.values_of(&ParsedCell::new(cell)));
            self.insert_as(cell, values);
        }
    }

    fn insert_as(&mut self, cell: &Arc<Cell<K>>, values: Vec<V>) {
        for value in values {
            match self.objects.entry(value) {
                Entry::Occupied(mut entry) => entry.get_mut().insert(cell),
                Entry::Vacant(entry) => {
                    entry.insert(Bucket::One(cell.clone()));
                }
            }
        }
    }

    /// Visits the objects with a value.
    pub(super) fn each<Q>(&self, value: &Q, visit: impl FnMut(&Arc<Cell<K>>))
    where
        V: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(bucket) = self.objects.get(value) {
            bucket.each(visit);
        }
    }

    pub(super) fn count<Q>(&self, value: &Q) -> usize
    where
        V: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.objects.get(value).map(Bucket::len).unwrap_or_default()
    }

    /// Returns the values of an object; none if the function panics.
    fn values_of(&self, object: &ParsedCell<'_, K>) -> Vec<V> {
        let values = match &self.values {
            Values::OfKey(values) => return values(&object.cell.key()),
            Values::OfObject(values) => values,
        };
        catch_unwind(AssertUnwindSafe(|| values(object.object()))).unwrap_or_else(|_| {
            tracing::error!(index = self.name, "index function panicked; the object is not in the index");
            Vec::new()
        })
    }
}

impl<K: AnyObject + ?Sized, V: Hash + Eq + Send + Sync + 'static> AnyIndex<K> for Entries<K, V> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn value_type(&self) -> (TypeId, &'static str) {
        (TypeId::of::<V>(), type_name::<V>())
    }

    fn insert(&mut self, object: &ParsedCell<'_, K>) {
        self.insert_as(object.cell, self.values_of(object));
    }

    fn remove(&mut self, object: &ParsedCell<'_, K>) {
        for value in self.values_of(object) {
            if let Entry::Occupied(mut entry) = self.objects.entry(value) {
                entry.get_mut().remove(object.cell);
                if entry.get().len() == 0 {
                    entry.remove();
                }
            }
        }
    }

    fn clear(&mut self) {
        self.objects = HashMap::new();
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<K: AnyObject + ?Sized> Bucket<K> {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Few(objects) => objects.len(),
            Self::Many(objects) => objects.len(),
        }
    }

    fn each(&self, visit: impl FnMut(&Arc<Cell<K>>)) {
        match self {
            Self::One(object) => std::iter::once(object).for_each(visit),
            Self::Few(objects) => objects.iter().for_each(visit),
            Self::Many(objects) => objects.iter().for_each(visit),
        }
    }

    fn insert(&mut self, object: &Arc<Cell<K>>) {
        match self {
            // A function may return a value twice.
            Self::One(present) if Arc::ptr_eq(present, object) => {}
            Self::One(present) => *self = Self::Few(vec![present.clone(), object.clone()]),
            Self::Few(objects) if objects.iter().any(|present| Arc::ptr_eq(present, object)) => {}
            Self::Few(objects) if objects.len() < FEW => objects.push(object.clone()),
            Self::Few(objects) => {
                let mut table = Table::default();
                for object in objects.drain(..).chain([object.clone()]) {
                    table.insert(object);
                }
                *self = Self::Many(table);
            }
            Self::Many(table) => {
                table.insert(object.clone());
            }
        }
    }

    fn remove(&mut self, object: &Arc<Cell<K>>) {
        match self {
            Self::One(present) if Arc::ptr_eq(present, object) => *self = Self::Few(Vec::new()),
            Self::One(_) => {}
            Self::Few(objects) => objects.retain(|present| !Arc::ptr_eq(present, object)),
            Self::Many(table) => {
                table.remove(parts(&object.key()));
                table.shrink();
            }
        }
    }
}
