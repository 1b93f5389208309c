//! Lists and watches one resource, for as long as asked: the reflector.
//!
//! [`run`] sends what happens to a resource into a channel: first the whole state, then each change, and the whole
//! state again whenever changes may have been missed. It copes with everything that a server or a network does:
//!
//! | what happens | what follows |
//! |---|---|
//! | a watch ends or breaks | it goes on from the last revision, at once |
//! | that revision is no longer kept (410, as a status or as an event) | [`Change::Replace`] |
//! | a watch ends at once and brings nothing | it is tried again, later each time |
//! | any other refusal | the same; not before `Retry-After` says |
//! | 403 | the same; the log says which rights are missing |
//! | 404: the definition is not there, or any more | [`Change::Absent`] (after a state: if said twice in a row); asked for every 2 s |
//! | streaming the state is refused | it is listed, from then on |
//! | an object does not parse | it is passed over: the log has its name, a metric the number |
//!
//! Waits begin at 0.8 s and double up to 30 s, each stretched at random by up to as much again; two minutes without
//! a failure make them short again. Each watch has its own.
//!
//! An object that is passed over is missing from a [`Change::Replace`]; if a change of it cannot be read, its last
//! readable state stands until the next one; its end is told by name, as [`Change::Gone`]. A type whose parsing panics
//! does not parse.
//!
//! The default client of kube retries 429, 503 and 504 by itself, up to fifteen times, before this sees them. That does
//! no harm: a list that gets no answer for a minute is tried anew.
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
//!         Change::Replace { objects, revision } => println!("{} objects at {revision}", objects.len()),
//!         Change::Apply(object) => println!("{:?} is there", object.metadata.name),
//!         Change::Delete(object) => println!("{:?} is gone", object.metadata.name),
//!         Change::Gone { key, .. } => println!("{key} is gone"),
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

use std::{pin::Pin, sync::Arc, time::Duration};

use kube::{Client, core::ApiResource};
use tokio::sync::mpsc::{self, Sender};
use tracing::Instrument;

pub(crate) use self::decode::Parse;
pub use self::metrics::WatchMetrics;
use crate::{
    any_object::{AnyObject, typed},
    key::ObjectKey,
    object::{Object, resource_of},
    scope::Scope,
};

/// What happened to a resource, in order. Whoever applies these to a map has the state of the server at some revision.
///
/// `O` is what whole states are made of; [informers](crate::cache::Informer) have shorter forms there.
#[derive(Clone, Debug)]
pub enum Change<K: ?Sized, O = Arc<K>> {
    /// The whole state; what is not in it is gone. Sent first, and again after a desync.
    Replace {
        /// All objects within the scope, each once, mostly in the server's order.
        objects: Vec<O>,
        /// The revision of the state. Smaller than before only if the server was restored from a backup.
        revision: u64,
    },
    /// An object was added or modified.
    Apply(Arc<K>),
    /// An object was deleted, or left the scope; its last state, with the revision of its deletion.
    Delete(Arc<K>),
    /// An object was deleted, or left the scope, whose last state cannot be read as its type: all that is known of it.
    Gone {
        /// Which.
        key: ObjectKey,
        /// The revision of its deletion.
        revision: u64,
    },
    /// Nothing happened up to this revision.
    Bookmark(u64),
    /// The resource is not served: its definition is not there (yet, or any more). Nothing is left of it. Sent once;
    /// a [`Change::Replace`] follows when it is served.
    Absent,
}

impl<K: ?Sized, O> Change<K, O> {
    /// The same with states made of something else.
    pub(crate) fn map<P>(self, keep: impl FnMut(O) -> P) -> Change<K, P> {
        self.with(|object| object, keep)
    }

    /// The same with other objects, alone and in states.
    fn with<L: ?Sized, P>(self, object: impl FnOnce(Arc<K>) -> Arc<L>, keep: impl FnMut(O) -> P) -> Change<L, P> {
        match self {
            Self::Replace { objects, revision } => {
                Change::Replace { objects: objects.into_iter().map(keep).collect(), revision }
            }
            Self::Apply(applied) => Change::Apply(object(applied)),
            Self::Delete(deleted) => Change::Delete(object(deleted)),
            Self::Gone { key, revision } => Change::Gone { key, revision },
            Self::Bookmark(revision) => Change::Bookmark(revision),
            Self::Absent => Change::Absent,
        }
    }
}

impl<K: Object> Change<K> {
    /// The same with objects whose type is forgotten.
    pub(crate) fn into_any(self) -> Change<dyn AnyObject> {
        self.with(|object| object as _, |object| object as _)
    }
}

impl Change<dyn AnyObject> {
    /// The same with objects of the type that they have.
    fn typed<K: Object>(self) -> Change<K> {
        self.with(typed, typed)
    }
}

/// Makes the objects of a state to what is kept of them, as they come.
pub(crate) trait ObjectStorer: Send + Sync + 'static {
    /// What is kept.
    type Stored: Send + Sync + 'static;

    /// Keeps an object, which so many of the same state have come before.
    fn keep(&self, object: Arc<dyn AnyObject>, before: usize) -> Self::Stored;

    /// The key of what is kept.
    fn key(kept: &Self::Stored) -> ObjectKey;
}

/// Keeps objects as they are.
struct StoreUnchanged;

impl ObjectStorer for StoreUnchanged {
    type Stored = Arc<dyn AnyObject>;

    fn keep(&self, object: Arc<dyn AnyObject>, _: usize) -> Arc<dyn AnyObject> {
        object
    }

    fn key(kept: &Arc<dyn AnyObject>) -> ObjectKey {
        ObjectKey::of_meta(kept.metadata())
    }
}

/// Whether whole objects are watched, or their metadata alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// Whole objects.
    #[default]
    Whole,
    /// `PartialObjectMetadata`, to be kept as kube's `PartialObjectMeta`. A server that cannot leave the rest out sends
    /// it, and it is passed over.
    Metadata,
}

/// What to watch, and how.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Which resource. Objects have its `apiVersion` and `kind`, whether or not the server sends them.
    pub resource: ApiResource,
    /// How much of it.
    pub scope: Scope,
    /// Whole objects or metadata.
    pub form: Form,
    /// Whether `metadata.managedFields` is kept; they are skipped while parsing otherwise.
    pub keep_managed_fields: bool,
    /// Objects in a page of a list; 0 for no pages. Servers send the first list and most others from memory and whole,
    /// whatever this is. It does not matter for memory: a list is parsed while it comes.
    pub page_size: u32,
    /// Whether to ask for the initial state as a stream of events first. Falls back to a list where it is not served.
    ///
    /// The default here (an informer's [is a list](crate::cache::Settings::streaming_list)): it is the newest state,
    /// where a first list is any that a replica of the server remembers, perhaps one from before this program was
    /// started; and neither side ever has the whole of it in memory as text. With 100,000 objects a list takes about an
    /// eighth less time, and as much memory here.
    pub streaming_list: bool,
    /// A watch that lasted for less than this and brought nothing counts as a failure.
    pub short_watch: Duration,
    /// Where to count, if anywhere.
    pub metrics: Option<WatchMetrics>,
}

impl WatchOptions {
    /// Whole objects of a resource, without managed fields.
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

    /// The same, for the resource of a type.
    pub fn of<K: Object>(dynamic: &K::DynamicType, scope: Scope) -> Self {
        Self::new(resource_of::<K>(dynamic), scope)
    }

    /// Metadata alone, for `PartialObjectMeta`.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.form = Form::Metadata;
        self
    }
}

/// Watches until the receiver is gone. Never ends otherwise: every failure is logged, counted and tried again, later
/// each time.
///
/// The channel's bound is how many changes may wait for whoever applies them; a server cuts off a watch that is not
/// read for long, which costs no more than watching on from the last revision.
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

/// The same for objects of a type that is forgotten, and states that are made of something else.
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
