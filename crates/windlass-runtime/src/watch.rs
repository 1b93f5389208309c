//! List/watch of one resource, with recovery: the reflector.
//!
//! [`run`] sends the changes of a resource into a channel: first the whole state, then each change, and the whole state
//! again whenever changes may have been missed. It recovers from every failure of the API server or the network:
//!
//! | event | reaction |
//! |---|---|
//! | a watch ends or breaks | it continues from the last revision, at once |
//! | that revision has expired (410, as a status or as an event) | [`Change::Replace`] |
//! | a watch ends at once without an event | retry with backoff |
//! | any other error | retry with backoff, not before `Retry-After` |
//! | 403 | retry with backoff; the log names the missing permissions |
//! | 404: the CRD does not exist (any more) | [`Change::Absent`] (after a list: if it happens twice in a row); polled every 2 s |
//! | a streaming list is rejected | an ordinary list, from then on |
//! | an object fails to deserialize | [`Change::Unreadable`], or as part of [`Change::Replace`]; it is logged by name, and counted |
//!
//! Delays begin at 0.8 s and double up to 30 s, each stretched at random by up to the same amount again. They are reset
//! by two minutes without a failure. Each watch has its own.
//!
//! An object that fails to deserialize still exists: it must not be treated as deleted. Its deletion is reported by
//! name, as [`Change::Gone`]. A panic while deserializing counts as a failure to deserialize.
//!
//! kube's default client retries 429, 503 and 504 up to fifteen times before they are seen here. That is harmless: a
//! list without response for a minute is retried.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use windlass_runtime::{scope::Scope, watch::{self, Change, WatchOptions}};
//!
//! # async fn example(client: kube::Client) {
//! let (sender, mut changes) = tokio::sync::mpsc::channel(128);
//! let options = WatchOptions::of::<ConfigMap>(&(), Scope::namespace("default"));
//! tokio::spawn(watch::run::<ConfigMap>(client, options, sender));
//! while let Some(change) = changes.recv().await {
//!     match change {
//!         Change::Replace { objects, revision, .. } => println!("{} objects at {revision}", objects.len()),
//!         Change::Apply(object) => println!("{:?} is there", object.metadata.name),
//!         Change::Delete(object) => println!("deleted {:?}", object.metadata.name),
//!         Change::Unreadable(object) => println!("{} is there, and unreadable: {}", object.key, object.problem),
//!         Change::Gone { key, .. } => println!("deleted {key}"),
//!         Change::Bookmark(revision) => println!("nothing up to {revision}"),
//!         Change::Absent => println!("not served"),
//!     }
//! }
//! # }
//! ```

mod backoff;
mod decode;
mod failure;
mod initial;
mod machine;
mod metrics;
mod reflector;
mod request;

use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use kube::{Client, core::ApiResource};
use tokio::sync::mpsc::{self, Sender};
use tracing::Instrument;

pub(crate) use self::decode::{Decoder, Parse};
pub use self::metrics::WatchMetrics;
use crate::{
    any_object::{AnyObject, typed},
    key::ObjectKey,
    object::{Object, resource_of},
    scope::Scope,
};

/// A change of a resource. Applying the changes in order to a map yields the state of the server at some revision.
///
/// `O` is the representation of objects in whole states; [informers](crate::cache::Informer) use a more compact one.
#[derive(Clone, Debug)]
pub enum Change<K: ?Sized, O = Arc<K>> {
    /// The whole state; objects that are not in it are deleted. Sent first, and again after missed changes.
    Replace {
        /// All readable objects within the scope, without duplicates, usually in the order of the server.
        objects: Vec<O>,
        /// The objects that failed to deserialize. An object may be in both if its newest state is unreadable.
        unreadable: Vec<UnreadableObject>,
        /// Revision of the state. Smaller than before only if the server was restored from a backup.
        revision: u64,
    },
    /// An object was added or modified.
    Apply(Arc<K>),
    /// An object was added or modified, and its state failed to deserialize.
    Unreadable(UnreadableObject),
    /// An object was deleted, or left the scope. Its last state, with the revision of its deletion.
    Delete(Arc<K>),
    /// An object was deleted, or left the scope, and its last state failed to deserialize.
    Gone {
        /// The object.
        key: ObjectKey,
        /// Revision of the deletion.
        revision: u64,
    },
    /// Nothing happened up to this revision.
    Bookmark(u64),
    /// The resource is not served, as its CRD does not exist or has been deleted. All its objects are deleted. Sent
    /// once; a [`Change::Replace`] follows when the resource is served.
    Absent,
}

/// An object that exists, and whose state failed to deserialize.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableObject {
    /// The object.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// Revision of the state.
    pub revision: u64,
    /// The error, without the content, which may be secret.
    pub problem: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// UID of its controlling owner.
    pub controller: Option<String>,
}

impl<K: ?Sized, O> Change<K, O> {
    /// Converts the objects of whole states.
    pub(crate) fn map<P>(self, keep: impl FnMut(O) -> P) -> Change<K, P> {
        self.with(|object| object, keep)
    }

    /// Converts objects, alone and in whole states.
    fn with<L: ?Sized, P>(self, object: impl FnOnce(Arc<K>) -> Arc<L>, keep: impl FnMut(O) -> P) -> Change<L, P> {
        match self {
            Self::Replace { objects, unreadable, revision } => {
                Change::Replace { objects: objects.into_iter().map(keep).collect(), unreadable, revision }
            }
            Self::Unreadable(object) => Change::Unreadable(object),
            Self::Apply(applied) => Change::Apply(object(applied)),
            Self::Delete(deleted) => Change::Delete(object(deleted)),
            Self::Gone { key, revision } => Change::Gone { key, revision },
            Self::Bookmark(revision) => Change::Bookmark(revision),
            Self::Absent => Change::Absent,
        }
    }
}

impl<K: Object> Change<K> {
    /// Erases the type of objects.
    pub(crate) fn into_any(self) -> Change<dyn AnyObject> {
        self.with(|object| object as _, |object| object as _)
    }
}

impl Change<dyn AnyObject> {
    /// Downcasts the objects.
    fn typed<K: Object>(self) -> Change<K> {
        self.with(typed, typed)
    }
}

/// Converts the objects of a list to their stored form while they arrive.
pub(crate) trait ObjectStorer: Send + Sync + 'static {
    /// The stored form.
    type Stored: Send + Sync + 'static;

    /// Converts an object; `before` is the number of objects before it in the list, `text` the JSON that it was parsed
    /// from, if that is at hand.
    fn keep(&self, object: Arc<dyn AnyObject>, before: usize, text: Option<&[u8]>) -> Self::Stored;

    /// Shows the JSON of an object that a watch has delivered.
    fn received(&self, text: &[u8]) {
        let _ = text;
    }

    /// Reports that the API server rejects a list or a watch, for example because a role is missing. It is retried after a
    /// delay.
    fn rejected(&self, problem: &str) {
        let _ = problem;
    }

    /// Returns the key of a stored object.
    fn key(kept: &Self::Stored) -> ObjectKey;
}

/// Stores objects unchanged.
struct StoreUnchanged;

impl ObjectStorer for StoreUnchanged {
    type Stored = Arc<dyn AnyObject>;

    fn keep(&self, object: Arc<dyn AnyObject>, _: usize, _: Option<&[u8]>) -> Arc<dyn AnyObject> {
        object
    }

    fn key(kept: &Arc<dyn AnyObject>) -> ObjectKey {
        ObjectKey::of_meta(kept.metadata())
    }
}

/// Whether to watch whole objects or only their metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// Whole objects.
    #[default]
    Whole,
    /// `PartialObjectMetadata`, to be stored as kube's `PartialObjectMeta`. If the server sends whole objects
    /// nevertheless, the rest is skipped.
    Metadata,
}

/// Options of a watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// The resource. Objects get its `apiVersion` and `kind`, whether or not the server sends them.
    pub resource: ApiResource,
    /// The scope within the resource.
    pub scope: Scope,
    /// Whole objects or metadata.
    pub form: Form,
    /// Whether `metadata.managedFields` is kept; otherwise it is skipped while parsing.
    pub keep_managed_fields: bool,
    /// Objects per page of a list; 0 for no pages. Servers send the first list and most others from memory in one page,
    /// regardless of this. It does not affect memory, as a list is parsed while it arrives.
    pub page_size: u32,
    /// Whether to request the initial state as a stream of events. Falls back to a list if the server does not support
    /// it.
    ///
    /// The default here, but [not for informers](crate::cache::Settings::streaming_list). The stream delivers the
    /// newest state, while a first list may be any state that a replica of the server has cached, even from before this
    /// program started; and neither side ever has all of it in memory as text. With 100,000 objects, a list takes about
    /// an eighth less time, and the same memory here.
    pub streaming_list: bool,
    /// A watch that lasts less than this and delivers nothing counts as a failure.
    pub short_watch: Duration,
    /// Metrics, if wanted.
    pub metrics: Option<WatchMetrics>,
}

impl WatchOptions {
    /// Watches whole objects of a resource, without managed fields.
    pub fn new(resource: ApiResource, scope: Scope) -> Self {
        Self {
            resource,
            scope,
            form: Form::Whole,
            keep_managed_fields: false,
            page_size: 500,
            streaming_list: true,
            short_watch: Duration::from_secs(1),
            metrics: None,
        }
    }

    /// Watches the resource of a Rust type.
    pub fn of<K: Object>(dynamic: &K::DynamicType, scope: Scope) -> Self {
        Self::new(resource_of::<K>(dynamic), scope)
    }

    /// Watches only metadata, as `PartialObjectMeta`.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.form = Form::Metadata;
        self
    }
}

/// Watches until the receiver is dropped. Never ends otherwise: every failure is logged, counted and retried with
/// backoff.
///
/// The capacity of the channel bounds the number of pending changes. A server disconnects a watch that is not read for
/// long, which costs no more than a new watch from the last revision.
pub async fn run<K: Object>(client: Client, options: WatchOptions, changes: Sender<Change<K>>) {
    let closed = changes.clone();
    let (sender, mut receiver) = mpsc::channel(1);
    let watching = run_keeping(client, options, Parse::of::<K>(), StoreUnchanged, sender);
    let kind_info = async move {
        while let Some(change) = receiver.recv().await {
            if changes.send(change.typed()).await.is_err() {
                return;
            }
        }
    };
    // Boxed, as it is the same for all types.
    let watching: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(watching);
    tokio::select! {
        () = watching => {}
        () = kind_info => {}
        () = closed.closed() => {}
    }
}

/// Like [`run`], for type-erased objects and another stored form.
pub(crate) async fn run_keeping<P: ObjectStorer>(
    client: Client,
    options: WatchOptions,
    parse: Parse<dyn AnyObject>,
    keeper: P,
    changes: Sender<Change<dyn AnyObject, P::Stored>>,
) {
    let closed = changes.clone();
    let span = tracing::info_span!(
        "watch",
        kind = %options.resource.kind,
        api_version = %options.resource.api_version,
        namespace = options.scope.namespace.as_deref(),
    );
    let reflector = reflector::Reflector::new(client, options, parse, keeper, changes);
    let running = async {
        tokio::select! {
            () = reflector.run() => {}
            () = closed.closed() => {}
        }
    };
    running.instrument(span).await;
}
