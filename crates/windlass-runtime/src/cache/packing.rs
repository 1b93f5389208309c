//! When objects are packed, and when never.

use std::{
    fmt::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{any_informer::AnyInformer, packed::Packed};
use crate::{any_object::AnyObject, watch::Parse};

/// Slots that are swept at once: nobody waits for it but the watch, for less than a millisecond.
const STEP: usize = 64;
/// The pause between two steps.
const PAUSE: Duration = Duration::from_millis(5);
/// So many of the first objects are read back when they are packed, and one of so many later ones.
const CHECKED_FIRST: usize = 32;
const CHECKED_LATER: usize = 256;

/// When an informer keeps objects as compact JSON, which takes about half of the memory that parsed ones take. In
/// [`Settings::packing`](super::Settings::packing).
///
/// A read of a packed object parses it, in some microseconds, and it stays parsed while it is read now and then: it is
/// packed again when it was not read for [`idle`](Self::idle) to twice that, and nobody holds it any more. Reads and
/// handlers never see the difference. A read that looks at every object, a
/// [`list`](super::Informer::list) or [`select`](super::Informer::select), parses every object.
///
/// The type must read what it writes, to the last field. Informers read some of what they pack back; one that finds a
/// difference says so in the log and packs nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Informers with this many objects or fewer pack nothing: 1,000 by default.
    pub above: usize,
    /// For how long an object must not have been read: 5 minutes by default.
    pub idle: Duration,
}

impl Default for Packing {
    fn default() -> Self {
        Self { above: 1000, idle: Duration::from_secs(300) }
    }
}

/// Packs the objects of one informer.
pub(super) struct Packer<K: ?Sized> {
    parse: Parse<K>,
    packing: Option<Packing>,
    packed: AtomicUsize,
    /// The type does not read what it writes.
    unfit: AtomicBool,
}

impl<K: AnyObject + ?Sized> Packer<K> {
    /// `parse` reads what is packed.
    pub(super) fn new(packing: Option<Packing>, parse: Parse<K>) -> Arc<Self> {
        Arc::new(Self { parse, packing, packed: AtomicUsize::new(0), unfit: AtomicBool::new(false) })
    }

    /// Whether so many objects are enough for it.
    pub(super) fn packs(&self, objects: usize) -> bool {
        self.packing.is_some_and(|packing| objects > packing.above) && !self.unfit.load(Ordering::Relaxed)
    }

    pub(super) fn pack(&self, object: &K) -> Option<Packed<K>> {
        if self.unfit.load(Ordering::Relaxed) {
            return None;
        }
        let packed = Packed::new(object, self.parse)?;
        let before = self.packed.fetch_add(1, Ordering::Relaxed);
        if (before < CHECKED_FIRST || before.is_multiple_of(CHECKED_LATER)) && !is_whole(&packed, object) {
            self.unfit.store(true, Ordering::Relaxed);
            tracing::warn!(
                r#type = self.parse.name,
                "a type does not read all that it writes: its objects are not packed, and take more memory"
            );
            return None;
        }
        Some(packed)
    }
}

/// Whether what was packed is the whole object.
fn is_whole<K: AnyObject + ?Sized>(packed: &Packed<K>, object: &K) -> bool {
    packed.try_parse().is_some_and(|back| ByteHistogram::of(&*back) == ByteHistogram::of(object))
}

/// How often each byte is in the debug form of something. Objects need not be comparable, but can be shown; and equal
/// ones with hash maps are shown in any order.
#[derive(PartialEq, Eq)]
struct ByteHistogram([u32; 256]);

impl ByteHistogram {
    fn of(object: &(impl fmt::Debug + ?Sized)) -> Option<Self> {
        let mut histogram = Self([0; 256]);
        write!(histogram, "{object:?}").ok().map(|()| histogram)
    }
}

impl Write for ByteHistogram {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let count = &mut self.0[usize::from(byte)];
            *count = count.wrapping_add(1);
        }
        Ok(())
    }
}

/// Where the sweep of an informer is.
#[derive(Default)]
pub(super) struct Sweep {
    due: Option<Instant>,
    slot: usize,
}

impl Sweep {
    /// When the next step is due; never while there are few objects.
    pub(super) fn due(&mut self, shared: &AnyInformer) -> Option<Instant> {
        if self.due.is_none()
            && let Some(packing) = &shared.settings.packing
            && shared.packer.packs(shared.store().len())
        {
            self.due = Some(Instant::now() + packing.idle.max(Duration::from_secs(1)));
        }
        self.due
    }

    /// Does a step.
    pub(super) fn step(&mut self, shared: &AnyInformer) {
        let slots = self.slot..self.slot + STEP;
        self.slot = slots.end;
        let (cells, more) = shared.store().slots(slots);
        // Not under the store's lock, which writers wait for: a cell has its own.
        cells.iter().for_each(|cell| cell.sweep(&shared.packer));
        if more {
            self.due = Some(Instant::now() + PAUSE);
        } else {
            *self = Self::default();
        }
    }
}
