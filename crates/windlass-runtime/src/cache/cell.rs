//! Storage of one state of one object, parsed or packed.

use std::{
    cell::OnceCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    Event,
    packed::{Brief, Packed},
    packing::Packer,
};
use crate::{any_object::AnyObject, key::ObjectKey};

/// One state of an object, in one of two forms: parsed, or as text that is parsed when it is read and then stays
/// parsed. For a while, or if the type loses fields when it is serialized, it has both. A cell never changes its state: another state is another cell. So it can be read at any time, under the
/// store's lock or later, and is shared by the store, its indices and queued events.
///
/// Its lock is held for no longer than it takes to parse one object a few times, and no other lock is taken in the
/// meantime.
pub(crate) struct Cell<K: ?Sized> {
    held: Mutex<Held<K>>,
    /// Whether it was read since the last sweep, or is new.
    read: AtomicBool,
}

enum Held<K: ?Sized> {
    Parsed(Arc<K>),
    Packed(Packed<K>),
    Both(Box<Both<K>>),
}

/// A parsed object with the text that it was received as: its type may not serialize everything.
struct Both<K: ?Sized> {
    object: Arc<K>,
    packed: Packed<K>,
    /// Whether a sweep has found it in use.
    in_use: bool,
}

impl<K: ?Sized> Held<K> {
    fn both(object: Arc<K>, packed: Packed<K>) -> Self {
        Self::Both(Box::new(Both { object, packed, in_use: false }))
    }

    fn object(&self) -> Option<&Arc<K>> {
        match self {
            Self::Parsed(object) => Some(object),
            Self::Both(both) => Some(&both.object),
            Self::Packed(_) => None,
        }
    }
}

/// A cell that is read several times in a row: it is parsed once for all reads, and does not stay parsed.
pub(super) struct ParsedCell<'a, K: ?Sized> {
    pub(super) cell: &'a Arc<Cell<K>>,
    object: OnceCell<Arc<K>>,
}

/// Objects that are being read. Packed objects wait until the store's lock is released: parsing many takes a while.
pub(super) struct Reading<K: ?Sized> {
    objects: Vec<Arc<K>>,
    packed: Vec<Arc<Cell<K>>>,
}

impl<K: ?Sized> Default for Reading<K> {
    fn default() -> Self {
        Self { objects: Vec::new(), packed: Vec::new() }
    }
}

impl<K: AnyObject + ?Sized> Reading<K> {
    pub(super) fn reserve(&mut self, objects: usize) {
        self.objects.reserve_exact(objects);
    }

    pub(super) fn add(&mut self, cell: &Arc<Cell<K>>) {
        self.add_if(cell, |_| true);
    }

    /// Adds an object if it matches.
    pub(super) fn add_if(&mut self, cell: &Arc<Cell<K>>, matches: impl FnOnce(&K) -> bool) {
        match cell.read_parsed(matches) {
            Some(object) => self.objects.extend(object),
            None => self.packed.push(cell.clone()),
        }
    }

    /// Returns all objects. Must not be called under the store's lock.
    pub(super) fn finish(self) -> Vec<Arc<K>> {
        self.finish_if(|_| true)
    }

    /// Like `finish`, for objects added by [`add_if`](Self::add_if).
    pub(super) fn finish_if(self, matches: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let Self { mut objects, packed } = self;
        objects.extend(packed.into_iter().map(|cell| cell.read()).filter(|object| matches(object)));
        objects
    }
}

impl<K: AnyObject + ?Sized> Cell<K> {
    pub(super) fn new(object: Arc<K>) -> Arc<Self> {
        Arc::new(Self { held: Mutex::new(Held::Parsed(object)), read: AtomicBool::new(true) })
    }

    /// Creates a cell in packed form, if possible.
    pub(super) fn packed(object: Arc<K>, packer: &Packer<K>) -> Arc<Self> {
        let held = packer.pack(&*object).map_or(Held::Parsed(object), Held::Packed);
        Arc::new(Self { held: Mutex::new(held), read: AtomicBool::new(true) })
    }

    /// Creates a cell that keeps the text that the object was parsed from, if possible.
    pub(super) fn of_text(object: Arc<K>, text: &[u8], packer: &Packer<K>) -> Arc<Self> {
        let held = packer.pack_text(&*object, text).map_or(Held::Parsed(object), Held::Packed);
        Arc::new(Self { held: Mutex::new(held), read: AtomicBool::new(true) })
    }

    /// Creates a cell with an object and the text that it was parsed from, until it is known whether it is packed.
    pub(super) fn with_text(object: Arc<K>, text: &[u8], packer: &Packer<K>) -> Arc<Self> {
        let held = match packer.pack_text(&*object, text).filter(Packed::is_received) {
            Some(packed) => Held::both(object, packed),
            None => Held::Parsed(object),
        };
        Arc::new(Self { held: Mutex::new(held), read: AtomicBool::new(true) })
    }

    /// Drops the text of an object that is not packed.
    pub(super) fn forget_text(&self) {
        let mut held = self.held.lock();
        if let Held::Both(both) = &*held {
            *held = Held::Parsed(both.object.clone());
        }
    }

    /// Returns the object, which stays parsed from now on.
    pub(super) fn read(&self) -> Arc<K> {
        let mut held = self.held.lock();
        self.note_read();
        if let Held::Packed(packed) = &*held {
            let object = packed.parse();
            let former = std::mem::replace(&mut *held, Held::Parsed(object.clone()));
            if let Held::Packed(packed) = former
                && packed.is_received()
            {
                *held = Held::both(object.clone(), packed);
            }
            return object;
        }
        let object = held.object().cloned();
        object.expect("a cell that is not packed has an object")
    }

    /// If the object is parsed, returns it if it matches.
    pub(super) fn read_parsed(&self, matches: impl FnOnce(&K) -> bool) -> Option<Option<Arc<K>>> {
        let held = self.held.lock();
        let object = held.object()?;
        self.note_read();
        Some(matches(object).then(|| object.clone()))
    }

    /// A load of shared memory is cheap, a store is not.
    fn note_read(&self) {
        if !self.read.load(Ordering::Relaxed) {
            self.read.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the object without changing the cell.
    pub(super) fn peek(&self) -> Arc<K> {
        match &*self.held.lock() {
            Held::Parsed(object) => object.clone(),
            Held::Both(both) => both.object.clone(),
            Held::Packed(packed) => packed.parse(),
        }
    }

    /// Reads the parts that are known without parsing. The cell is locked in the meantime.
    pub(super) fn brief<T>(&self, look: impl FnOnce(Brief<'_>) -> T) -> T {
        match &*self.held.lock() {
            Held::Parsed(object) => look(Brief::of(object.metadata())),
            Held::Both(both) => look(both.packed.brief()),
            Held::Packed(packed) => look(packed.brief()),
        }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        self.brief(|brief| ObjectKey::namespaced(brief.key.0, brief.key.1))
    }

    pub(super) fn has_key(&self, key: (&str, &str)) -> bool {
        self.brief(|brief| brief.key == key)
    }

    pub(super) fn has_uid(&self, uid: Option<&str>) -> bool {
        self.brief(|brief| brief.uid == uid)
    }

    pub(super) fn revision(&self) -> u64 {
        self.brief(|brief| brief.revision())
    }

    /// Packs the object, unless it is shared: it would be in memory twice.
    pub(super) fn pack(&self, packer: &Packer<K>) {
        let mut held = self.held.lock();
        // It cannot be shared while the lock is held.
        if held.object().is_none_or(|object| Arc::strong_count(object) > 1) {
            return;
        }
        if let Held::Parsed(object) = &*held {
            if let Some(packed) = packer.pack(&**object) {
                *held = Held::Packed(packed);
            }
            return;
        }
        if let Held::Both(both) = &mut *held {
            let packed = both.packed.take();
            *held = Held::Packed(packed);
        }
    }

    /// Packs the object if it was not read since the last sweep.
    pub(super) fn sweep(&self, packer: &Packer<K>) {
        match self.read.swap(false, Ordering::Relaxed) {
            true => self.settle(packer),
            false => self.pack(packer),
        }
    }

    /// Drops the text of an object that is in use, if the object can be packed without it.
    fn settle(&self, packer: &Packer<K>) {
        let mut held = self.held.lock();
        let Held::Both(both) = &mut *held else { return };
        // Most objects are read once, soon after they have arrived.
        if !std::mem::replace(&mut both.in_use, true) {
            return;
        }
        if packer.check(&*both.object, both.packed.json()) {
            *held = Held::Parsed(both.object.clone());
        }
    }

    #[cfg(test)]
    pub(super) fn has_text(&self) -> bool {
        !matches!(*self.held.lock(), Held::Parsed(_))
    }

    #[cfg(test)]
    pub(super) fn is_packed(&self) -> bool {
        matches!(*self.held.lock(), Held::Packed(_))
    }
}

impl<'a, K: AnyObject + ?Sized> ParsedCell<'a, K> {
    pub(super) fn new(cell: &'a Arc<Cell<K>>) -> Self {
        Self { cell, object: OnceCell::new() }
    }

    pub(super) fn object(&self) -> &K {
        self.object.get_or_init(|| self.cell.peek())
    }
}

impl<K: AnyObject + ?Sized> Event<Cell<K>> {
    /// Converts the event for handlers. Packed objects stay packed.
    pub(super) fn open(self) -> Event<K> {
        match self {
            Self::Added { object, initial } => Event::Added { object: object.peek(), initial },
            Self::Updated { old, new } if Arc::ptr_eq(&old, &new) => {
                let object = new.peek();
                Event::Updated { old: object.clone(), new: object }
            }
            Self::Updated { old, new } => Event::Updated { old: old.peek(), new: new.peek() },
            Self::Deleted { object } => Event::Deleted { object: object.peek() },
        }
    }
}
