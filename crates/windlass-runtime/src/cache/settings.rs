//! Settings of informers.

use std::{fmt, sync::Arc, time::Duration};

use super::Packing;
use crate::{
    any_object::{AnyObject, typed_mut},
    object::Object,
    random,
};

/// Settings of the informers of a kind, for [`Caches::configure`](super::Caches::configure).
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use windlass_runtime::cache::Settings;
/// // Only names are needed: do not keep the data in memory.
/// let settings = Settings::<Secret>::default().transform(|secret| secret.data = None);
/// # let _ = settings;
/// ```
pub struct Settings<K: ?Sized> {
    /// Changes each object before it is stored, to drop unneeded fields. It is applied to everything, including own
    /// writes and last states. It must not change name, namespace, UID, resource version, labels and owner references.
    pub transform: Option<Transform<K>>,
    /// Period in which handlers get an [`Updated`](super::Event::Updated) event for every object although nothing has
    /// changed, within 10 % either way. `None` by default: relists find missed changes, so this is only useful for
    /// handlers that depend on state outside of the cluster; these should preferably requeue only the keys that need
    /// it. A resync sends no requests to the API server.
    pub resync: Option<Duration>,
    /// Whether `metadata.managedFields` is kept. Not by default: it is often half of an object.
    pub keep_managed_fields: bool,
    /// Whether, and when, objects that are not read are kept as text. By default in informers of more than 1,000
    /// objects; see [`Packing`].
    pub packing: Option<Packing>,
    /// Objects per page of a list; see [`WatchOptions`](crate::watch::WatchOptions::page_size).
    pub page_size: u32,
    /// Whether to request the initial state as a stream of events where the API server supports it.
    ///
    /// Not by default: a list is also parsed while it arrives, and is an eighth faster with 100,000 objects. The first
    /// list may be any state that a replica of the API server has cached, even from before this program started. The
    /// watch then delivers what has happened since, and own writes are never read in an older state. If the initial
    /// state must be current, use the stream. Later states are never older than the one before, either way.
    pub streaming_list: bool,
    /// A watch that lasts less than this and delivers nothing counts as a failure.
    pub short_watch: Duration,
}

/// Changes an object before it is stored.
pub type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

impl<K: ?Sized> Default for Settings<K> {
    fn default() -> Self {
        Self {
            transform: None,
            resync: None,
            keep_managed_fields: false,
            packing: Some(Packing::default()),
            page_size: 500,
            streaming_list: false,
            short_watch: Duration::from_secs(1),
        }
    }
}

impl<K> Settings<K> {
    /// Sets the [transform](Self::transform).
    #[must_use]
    pub fn transform(mut self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Sets the [resync period](Self::resync).
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Keeps [managed fields](Self::keep_managed_fields).
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.keep_managed_fields = true;
        self
    }

    /// Sets the [packing](Self::packing). With `None`, all objects stay parsed.
    #[must_use]
    pub fn packing(mut self, packing: impl Into<Option<Packing>>) -> Self {
        self.packing = packing.into();
        self
    }
}

impl<K: Object> Settings<K> {
    /// Erases the type of objects.
    pub(super) fn into_any(self) -> Settings<dyn AnyObject> {
        let transform = self
            .transform
            .map(|transform| -> Transform<dyn AnyObject> { Arc::new(move |object| transform(typed_mut(object))) });
        let Self { resync, keep_managed_fields, packing, page_size, streaming_list, short_watch, .. } = self;
        Settings { transform, resync, keep_managed_fields, packing, page_size, streaming_list, short_watch }
    }
}

impl Settings<dyn AnyObject> {
    /// Returns the time until the next resync: within 10 % of the period, and at least a second.
    pub(super) fn next_resync(&self) -> Option<Duration> {
        let period = self.resync?.max(Duration::from_secs(1));
        Some(period.mul_f64(0.9 + 0.2 * random::fraction()))
    }
}

impl<K: ?Sized> Clone for Settings<K> {
    fn clone(&self) -> Self {
        Self { transform: self.transform.clone(), ..*self }
    }
}

impl<K: ?Sized> fmt::Debug for Settings<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("transform", &self.transform.is_some())
            .field("resync", &self.resync)
            .field("keep_managed_fields", &self.keep_managed_fields)
            .field("packing", &self.packing)
            .field("page_size", &self.page_size)
            .field("streaming_list", &self.streaming_list)
            .field("short_watch", &self.short_watch)
            .finish()
    }
}
