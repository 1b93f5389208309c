//! How the informers of a kind keep it.

use std::{fmt, sync::Arc, time::Duration};

use super::Packing;
use crate::{
    any_object::{AnyObject, typed_mut},
    object::Object,
    random,
};

/// How the informers of a kind keep it. Given to [`Caches::configure`](super::Caches::configure).
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use windlass_runtime::cache::Settings;
/// // The names are enough: the contents are not kept in memory.
/// let settings = Settings::<Secret>::default().transform(|secret| secret.data = None);
/// # let _ = settings;
/// ```
pub struct Settings<K: ?Sized> {
    /// Changes each object before it is kept: to drop what nobody needs. It is applied to everything, own writes and
    /// last states included. It must leave name, namespace, uid, resourceVersion, labels and owners as they are.
    pub transform: Option<Transform<K>>,
    /// How often handlers get an [`Updated`](super::Event::Updated) for every object although nothing has changed,
    /// within 10 % either way. None by default: relists find what was missed, so this only serves handlers that look at
    /// the world outside of the cluster; they rather requeue the keys that need it. It asks nothing of the server.
    pub resync: Option<Duration>,
    /// Whether `metadata.managedFields` is kept. Not by default: they are often half of an object.
    pub keep_managed_fields: bool,
    /// Whether, and when, objects that nobody reads are kept as text. By default in informers of more than 1,000
    /// objects; see [`Packing`].
    pub packing: Option<Packing>,
    /// Objects in a page of a list, as in [`WatchOptions`](crate::watch::WatchOptions::page_size).
    pub page_size: u32,
    /// Whether to ask for states as a stream of events where the server has that.
    ///
    /// Not by default: a list is parsed while it comes, too, and is an eighth faster with 100,000 objects. The first
    /// list is any state that a replica of the server remembers: it may be from before this program was started. The
    /// watch brings what has happened since, and own writes are never read older than they were; who must not begin
    /// with such a state asks for the stream, which is of the newest. After that no state is older than the one before
    /// it, either way.
    pub streaming_list: bool,
    /// A watch that lasted for less than this and brought nothing counts as a failure.
    pub short_watch: Duration,
}

/// Changes an object before it is kept.
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

    /// Sets the [packing](Self::packing); `None`: all objects stay parsed.
    #[must_use]
    pub fn packing(mut self, packing: impl Into<Option<Packing>>) -> Self {
        self.packing = packing.into();
        self
    }
}

impl<K: Object> Settings<K> {
    /// The same for objects whose type is forgotten.
    pub(super) fn into_any(self) -> Settings<dyn AnyObject> {
        let transform = self
            .transform
            .map(|transform| -> Transform<dyn AnyObject> { Arc::new(move |object| transform(typed_mut(object))) });
        let Self { resync, keep_managed_fields, packing, page_size, streaming_list, short_watch, .. } = self;
        Settings { transform, resync, keep_managed_fields, packing, page_size, streaming_list, short_watch }
    }
}

impl Settings<dyn AnyObject> {
    /// The time until the next resync: within 10 % of the period, and no less than a second.
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
