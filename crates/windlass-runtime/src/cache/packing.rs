//! Policy for packing objects.

use std::{
    fmt::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{any_informer::AnyInformer, lossless::is_lossless, packed::Packed, shape::Shapes};
use crate::{any_object::AnyObject, watch::Decoder};

/// Number of slots that are swept at once. Only the watch waits for it, for less than a millisecond.
const STEP: usize = 8;
/// Pause between two steps.
const PAUSE: Duration = Duration::from_millis(5);
/// Number of initial texts that are compared with what the type would serialize, and the interval of later comparisons.
const COMPARED_FIRST: usize = 32;
const COMPARED_LATER: usize = 256;

/// When an informer keeps objects as compact JSON, which takes about half of the memory of parsed ones. Part of
/// [`Settings::packing`](super::Settings::packing).
///
/// Reading a packed object parses it, which takes a few microseconds. It stays parsed while it is read from time to
/// time, and is packed again after it was not read for [`idle`](Self::idle) to twice that, if it is not referenced
/// elsewhere. Reads and handlers never see the difference. A read of every object, such as
/// [`list`](super::Informer::list) or [`select`](super::Informer::select), parses every object.
///
/// Objects of a list are kept as the text that they were parsed from. Others are serialized, and the text is verified:
/// if the type does not restore an object from what it serializes, or if it does not serialize a field that it has read
/// from any received object, this is logged, and no more objects are serialized. So an object is never changed by
/// packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Number of objects up to which nothing is packed; 1,000 by default.
    pub above: usize,
    /// Time after the last read before an object is packed; 5 minutes by default.
    pub idle: Duration,
}

impl Default for Packing {
    fn default() -> Self {
        Self { above: 1000, idle: Duration::from_secs(300) }
    }
}

/// Packs the objects of one informer.
pub(super) struct Packer<K: ?Sized> {
    decoder: Arc<Decoder<K>>,
    packing: Option<Packing>,
    /// Number of received texts that were kept.
    texts: AtomicUsize,
    /// Number of texts of events.
    events: AtomicUsize,
    /// Fields of texts that the type was seen to serialize.
    shapes: Mutex<Shapes>,
    /// Received texts are much longer than serialized ones, because the type has only some of the fields.
    wordy: AtomicBool,
    /// The type does not serialize all fields that it reads, or does not restore what it serializes.
    unfit: AtomicBool,
}

impl<K: AnyObject + ?Sized> Packer<K> {
    /// `decoder` deserializes packed objects, as it has deserialized those of lists.
    pub(super) fn new(packing: Option<Packing>, decoder: Decoder<K>) -> Arc<Self> {
        Arc::new(Self {
            decoder: Arc::new(decoder),
            packing,
            texts: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
            shapes: Mutex::default(),
            wordy: AtomicBool::new(false),
            unfit: AtomicBool::new(false),
        })
    }

    /// Returns whether this many objects are enough to pack them.
    pub(super) fn packs(&self, objects: usize) -> bool {
        self.packs_texts(objects) && !self.unfit.load(Ordering::Relaxed)
    }

    /// Returns whether this many objects are enough to keep the text of more.
    pub(super) fn packs_texts(&self, objects: usize) -> bool {
        self.packing.is_some_and(|packing| objects > packing.above)
    }

    /// Packs the text that an object was parsed from: parsing it again restores the object.
    pub(super) fn pack_text(&self, object: &K, text: &[u8]) -> Option<Packed<K>> {
        if self.wordy.load(Ordering::Relaxed)
            && self.check(object, text)
            && let Some(packed) = self.pack(object)
        {
            return Some(packed);
        }
        let packed = Packed::of_text(object, text, &self.decoder)?;
        let before = self.texts.fetch_add(1, Ordering::Relaxed);
        if (before < COMPARED_FIRST || before.is_multiple_of(COMPARED_LATER))
            && let Some(serialized) = Packed::new(object, &self.decoder)
        {
            self.check_serialized(text, serialized.json());
            if packed.len() > serialized.len() + serialized.len() / 2 {
                self.wordy.store(true, Ordering::Relaxed);
            }
        }
        Some(packed)
    }

    /// Shows the text of an event, whose object may be serialized later. It is compared with what the type serializes if it has
    /// fields that none before it had, and otherwise now and then.
    pub(super) fn received(&self, text: &[u8]) {
        if self.packing.is_none() || self.unfit.load(Ordering::Relaxed) {
            return;
        }
        let is_sample = self.events.fetch_add(1, Ordering::Relaxed).is_multiple_of(COMPARED_LATER);
        let unknown = self.shapes.lock().unknown(text, self.decoder.keeps_managed_fields());
        if !is_sample && unknown.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        let Ok(object) = self.decoder.read(text) else { return };
        if self.check(&*object, text)
            && let Some(unknown) = unknown
        {
            self.shapes.lock().learn(unknown);
        }
    }

    /// Returns whether the type serializes everything that it has read from a received text. Objects of a type that does
    /// not are never serialized again.
    pub(super) fn check(&self, object: &K, text: &[u8]) -> bool {
        if self.unfit.load(Ordering::Relaxed) {
            return false;
        }
        let mut serialized = Vec::with_capacity(text.len());
        object.write_json(&mut serialized).is_ok() && self.check_serialized(text, &serialized)
    }

    fn check_serialized(&self, text: &[u8], serialized: &[u8]) -> bool {
        let is_lossless = is_lossless(text, serialized, &self.decoder);
        if !is_lossless {
            self.mark_unfit();
        }
        is_lossless
    }

    fn mark_unfit(&self) {
        if !self.unfit.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                r#type = self.decoder.type_name(),
                "a type loses fields when it is serialized and deserialized; keeping the received text of its objects or not \
                 packing them, which takes more memory"
            );
        }
    }

    /// Packs what the type serializes, if that restores the object.
    pub(super) fn pack(&self, object: &K) -> Option<Packed<K>> {
        if self.unfit.load(Ordering::Relaxed) {
            return None;
        }
        let packed = Packed::new(object, &self.decoder)?;
        if !is_whole(&packed, object) {
            self.mark_unfit();
            return None;
        }
        Some(packed)
    }
}

/// Returns whether the packed object is complete: it serializes to the same text again, which fails for swapped fields,
/// and looks the same, which fails for fields that are not serialized.
fn is_whole<K: AnyObject + ?Sized>(packed: &Packed<K>, object: &K) -> bool {
    let Some(back) = packed.try_parse() else { return false };
    let mut again = Vec::with_capacity(packed.len());
    back.write_json(&mut again).is_ok()
        && is_same_json(&again, packed.json())
        && ByteHistogram::of(&*back) == ByteHistogram::of(object)
}

/// Returns whether two texts are equal, except for the order of fields: hash maps have none.
fn is_same_json(a: &[u8], b: &[u8]) -> bool {
    let value = |text| serde_json::from_slice::<serde_json::Value>(text).ok();
    a == b || a.len() == b.len() && value(a).is_some_and(|a| value(b) == Some(a))
}

/// Number of occurrences of each byte in the debug output of an object. Objects need not implement `PartialEq`, and
/// equal hash maps are printed in any order.
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

/// Progress of the sweep of an informer.
#[derive(Default)]
pub(super) struct Sweep {
    due: Option<Instant>,
    slot: usize,
}

impl Sweep {
    /// Returns when the next step is due; `None` while there are few objects.
    pub(super) fn due(&mut self, shared: &AnyInformer) -> Option<Instant> {
        if self.due.is_none()
            && let Some(packing) = &shared.settings.packing
            && shared.packer.packs_texts(shared.store().len())
        {
            self.due = Some(Instant::now() + packing.idle.max(Duration::from_secs(1)));
        }
        self.due
    }

    /// Does one step.
    pub(super) fn step(&mut self, shared: &AnyInformer) {
        let slots = self.slot..self.slot + STEP;
        self.slot = slots.end;
        let (cells, more) = shared.store().slots(slots);
        // Not under the store's lock, for which writers wait: a cell has its own.
        cells.iter().for_each(|cell| cell.sweep(&shared.packer));
        if more {
            self.due = Some(Instant::now() + PAUSE);
        } else {
            *self = Self::default();
        }
    }
}
