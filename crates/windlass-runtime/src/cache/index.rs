//! Objects by values that a function gives them.

use std::{
    any::{Any, TypeId, type_name},
    borrow::Borrow,
    hash::Hash,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use hashbrown::{HashMap, hash_map::Entry};

use super::{informer::Shared, table::Table};
use crate::object::Object;

/// Up to this many objects of one value are a plain list; a removal from it is a search.
const FEW: usize = 16;

/// A named index: objects by the values that a function gives them. Made by
/// [`Informer::index`](super::Informer::index).
///
/// It is kept under the same lock as the objects: what it gives is exactly what the informer holds at that moment. A
/// cheap handle.
pub struct Index<K: Object, V> {
    shared: Arc<Shared<K>>,
    place: usize,
    _value: PhantomData<fn() -> V>,
}

/// Why there is no such index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Another index has the name, with values of another type.
    #[error("the index {name:?} has values of type {present}, not {asked}")]
    OtherType {
        /// The name.
        name: &'static str,
        /// The type that was asked for.
        asked: &'static str,
        /// The type of the index that has the name.
        present: &'static str,
    },
}

/// An index whose type of values is forgotten.
pub(super) trait AnyIndex<K>: Any + Send + Sync {
    fn name(&self) -> &'static str;
    fn value_type(&self) -> (TypeId, &'static str);
    fn insert(&mut self, object: &Arc<K>);
    fn remove(&mut self, object: &Arc<K>);
    fn clear(&mut self);
    fn as_any(&self) -> &dyn Any;
}

/// The entries of an index.
pub(super) struct Entries<K, V> {
    name: &'static str,
    values: Values<K, V>,
    objects: HashMap<V, Bucket<K>>,
}

type Values<K, V> = Box<dyn Fn(&K) -> Vec<V> + Send + Sync>;

/// The objects of one value. Most values have one object, or a few.
enum Bucket<K> {
    One(Arc<K>),
    Few(Vec<Arc<K>>),
    Many(Table<K>),
}

impl<K: Object, V> Index<K, V> {
    pub(super) fn new(shared: Arc<Shared<K>>, place: usize) -> Self {
        Self { shared, place, _value: PhantomData }
    }
}

impl<K: Object, V: Hash + Eq + Send + Sync + 'static> Index<K, V> {
    /// The objects with a value, in no order, without a scan.
    pub fn get<Q>(&self, value: &Q) -> Vec<Arc<K>>
    where
        V: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.with(|entries| entries.objects.get(value).map(Bucket::to_vec).unwrap_or_default())
    }

    /// How many objects have a value.
    pub fn count<Q>(&self, value: &Q) -> usize
    where
        V: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.with(|entries| entries.objects.get(value).map(Bucket::len).unwrap_or_default())
    }

    /// The values that at least one object has, in no order.
    pub fn values(&self) -> Vec<V>
    where
        V: Clone,
    {
        self.with(|entries| entries.objects.keys().cloned().collect())
    }

    fn with<T>(&self, read: impl FnOnce(&Entries<K, V>) -> T) -> T {
        let store = self.shared.store();
        let entries = store.index_at(self.place).as_any().downcast_ref::<Entries<K, V>>();
        read(entries.expect("an index must have the type that it was made with"))
    }
}

impl<K: Object, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self::new(self.shared.clone(), self.place)
    }
}

impl<K: Object, V: Hash + Eq + Send + Sync + 'static> Entries<K, V> {
    pub(super) fn new(name: &'static str, values: impl Fn(&K) -> Vec<V> + Send + Sync + 'static) -> Self {
        Self { name, values: Box::new(values), objects: HashMap::new() }
    }

    /// The values of an object; none if the function panics.
    fn values_of(&self, object: &K) -> Vec<V> {
        catch_unwind(AssertUnwindSafe(|| (self.values)(object))).unwrap_or_else(|_| {
            tracing::error!(index = self.name, "the function of an index has panicked: the object is not in the index");
            Vec::new()
        })
    }
}

impl<K: Object, V: Hash + Eq + Send + Sync + 'static> AnyIndex<K> for Entries<K, V> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn value_type(&self) -> (TypeId, &'static str) {
        (TypeId::of::<V>(), type_name::<V>())
    }

    fn insert(&mut self, object: &Arc<K>) {
        for value in self.values_of(object) {
            match self.objects.entry(value) {
                Entry::Occupied(mut entry) => entry.get_mut().insert(object),
                Entry::Vacant(entry) => {
                    entry.insert(Bucket::One(object.clone()));
                }
            }
        }
    }

    fn remove(&mut self, object: &Arc<K>) {
        for value in self.values_of(object) {
            if let Entry::Occupied(mut entry) = self.objects.entry(value) {
                entry.get_mut().remove(object);
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

impl<K: Object> Bucket<K> {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Few(objects) => objects.len(),
            Self::Many(objects) => objects.len(),
        }
    }

    fn to_vec(&self) -> Vec<Arc<K>> {
        match self {
            Self::One(object) => vec![object.clone()],
            Self::Few(objects) => objects.clone(),
            Self::Many(objects) => objects.iter().cloned().collect(),
        }
    }

    fn insert(&mut self, object: &Arc<K>) {
        match self {
            // A function may give a value twice.
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

    fn remove(&mut self, object: &Arc<K>) {
        match self {
            Self::One(present) if Arc::ptr_eq(present, object) => *self = Self::Few(Vec::new()),
            Self::One(_) => {}
            Self::Few(objects) => objects.retain(|present| !Arc::ptr_eq(present, object)),
            Self::Many(table) => {
                table.remove(super::table::key_of(&**object));
                table.shrink();
            }
        }
    }
}
