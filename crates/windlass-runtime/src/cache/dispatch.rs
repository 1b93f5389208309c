//! Delivery of events to handlers: every event, once, in order, outside of the store's lock.
//!
//! Events are queued under the store's lock, so their order is that of the store. A caller that finds the queue
//! unattended delivers it; all others leave their events to that caller and continue. So a handler may read, write,
//! subscribe and end subscriptions, even of its own informer: events that result are delivered after the current one.
//! Packed objects are parsed when their event is delivered, and not at all without handlers.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{Event, cell::Cell};
use crate::any_object::AnyObject;

/// Limit of queued events at which the watch waits, so that memory is bounded while another caller delivers.
const QUEUED: usize = 1024;

/// The handlers of one informer, and their queue.
pub(super) struct Dispatch<K: ?Sized> {
    queue: Mutex<Queue<K>>,
    /// Locked only by the caller that delivers.
    handlers: Mutex<Vec<Handler<K>>>,
    emptied: Notify,
    panics: AtomicU64,
    kind: Box<str>,
}

struct Queue<K: ?Sized> {
    items: VecDeque<Item<K>>,
    /// Number of events in all items.
    events: usize,
    /// Whether a caller is delivering.
    attended: bool,
    /// Number of present and queued handlers. Without handlers, events are not even queued.
    handlers: usize,
    closed: bool,
}

enum Item<K: ?Sized> {
    Events(Vec<Event<Cell<K>>>),
    /// A new handler, with the present state.
    Join {
        handler: Handler<K>,
        present: Vec<Arc<Cell<K>>>,
        synced: bool,
    },
    /// The initial list is complete.
    Synced,
    /// Some subscriptions have ended.
    RemoveEnded,
    /// All subscriptions end.
    End,
}

struct Handler<K: ?Sized> {
    call: Box<dyn FnMut(Event<K>) + Send>,
    state: Arc<SubscriptionState>,
}

/// State that a handler and its subscription share.
struct SubscriptionState {
    ended: AtomicBool,
    synced: watch::Sender<bool>,
}

/// Subscription of a handler to an informer. Events end when it is dropped; a running call on another thread still
/// finishes.
#[must_use = "events end when the subscription is dropped"]
pub struct Subscription {
    state: Arc<SubscriptionState>,
    dispatch: Weak<dyn AnyDispatch>,
}

/// A type-erased [`Dispatch`].
trait AnyDispatch: Send + Sync {
    fn sweep(&self);
}

impl Subscription {
    /// Resolves when the handler has received the initial list. It stays resolved, even if the resource is no longer
    /// served. Never resolves if the informer was [removed](super::Caches::remove) before.
    pub async fn synced(&self) {
        let mut synced = self.state.synced.subscribe();
        if synced.wait_for(|synced| *synced).await.is_err() {
            unreachable!("the borrowed subscription holds the sender");
        }
    }

    /// Returns whether the handler has received the initial list.
    pub fn is_synced(&self) -> bool {
        *self.state.synced.borrow()
    }

    /// Returns whether the informer was removed, so that there will be no more events.
    pub fn is_ended(&self) -> bool {
        self.state.ended.load(Ordering::Acquire)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Release);
        if let Some(dispatch) = self.dispatch.upgrade() {
            dispatch.sweep();
        }
    }
}

impl<K: ?Sized> Dispatch<K> {
    /// Creates a dispatch without handlers. The kind is for logs.
    pub(super) fn new(kind: &str) -> Self {
        let queue = Queue { items: VecDeque::new(), events: 0, attended: false, handlers: 0, closed: false };
        Self {
            queue: Mutex::new(queue),
            handlers: Mutex::new(Vec::new()),
            emptied: Notify::new(),
            panics: AtomicU64::new(0),
            kind: kind.into(),
        }
    }
}

impl<K: AnyObject + ?Sized> Dispatch<K> {
    /// Queues the events that `fill` emits. Must be called under the store's lock.
    pub(super) fn queue(&self, fill: impl FnOnce(&mut dyn FnMut(Event<Cell<K>>))) {
        // The queue's lock is not held meanwhile: the store's lock is, so no other thread queues events.
        if self.queue.lock().handlers == 0 {
            return fill(&mut |_| ());
        }
        let mut events = Vec::new();
        fill(&mut |event| events.push(event));
        if !events.is_empty() {
            let mut queue = self.queue.lock();
            queue.events += events.len();
            queue.items.push_back(Item::Events(events));
        }
    }

    /// Queues that the initial list is complete. Must be called under the store's lock.
    pub(super) fn queue_synced(&self) {
        self.queue.lock().items.push_back(Item::Synced);
    }

    /// Queues a new handler. Must be called under the store's lock.
    pub(super) fn queue_handler(
        self: &Arc<Self>,
        call: Box<dyn FnMut(Event<K>) + Send>,
        present: Vec<Arc<Cell<K>>>,
        synced: bool,
    ) -> Subscription {
        let state = Arc::new(SubscriptionState { ended: AtomicBool::new(false), synced: watch::Sender::new(false) });
        let handler = Handler { call, state: state.clone() };
        let mut queue = self.queue.lock();
        if queue.closed {
            state.ended.store(true, Ordering::Release);
        } else {
            queue.handlers += 1;
            queue.items.push_back(Item::Join { handler, present, synced });
        }
        drop(queue);
        let dispatch: Weak<Self> = Arc::downgrade(self);
        Subscription { state, dispatch }
    }

    /// Delivers the queue, unless another caller does. Must not be called under the store's lock.
    pub(super) fn deliver(&self) {
        {
            let mut queue = self.queue.lock();
            if queue.attended || queue.items.is_empty() {
                return;
            }
            queue.attended = true;
        }
        let mut handlers = self.handlers.lock();
        loop {
            let items = {
                let mut queue = self.queue.lock();
                queue.attended = !queue.items.is_empty();
                if !queue.attended {
                    break;
                }
                queue.events = 0;
                std::mem::take(&mut queue.items)
            };
            self.emptied.notify_waiters();
            for item in items {
                self.deliver_item(item, &mut handlers);
            }
        }
        drop(handlers);
        self.emptied.notify_waiters();
    }

    fn deliver_item(&self, item: Item<K>, handlers: &mut Vec<Handler<K>>) {
        match item {
            Item::Events(events) => {
                let Some((last, others)) = handlers.split_last_mut() else { return };
                for event in events {
                    let Some(event) = self.open(event) else { continue };
                    for handler in &mut *others {
                        self.call(handler, event.clone());
                    }
                    self.call(last, event);
                }
            }
            Item::Join { mut handler, present, synced } => {
                for object in present {
                    if let Some(event) = self.open(Event::Added { object, initial: true }) {
                        self.call(&mut handler, event);
                    }
                }
                if synced {
                    handler.state.synced.send_replace(true);
                }
                handlers.push(handler);
            }
            Item::Synced => {
                for handler in handlers {
                    handler.state.synced.send_replace(true);
                }
            }
            Item::RemoveEnded => self.sweep_ended(handlers),
            Item::End => {
                for handler in &*handlers {
                    handler.state.ended.store(true, Ordering::Release);
                }
                self.sweep_ended(handlers);
            }
        }
    }

    fn sweep_ended(&self, handlers: &mut Vec<Handler<K>>) {
        let ended: Vec<_> = handlers.extract_if(.., |handler| handler.state.ended.load(Ordering::Acquire)).collect();
        self.queue.lock().handlers -= ended.len();
        // Dropping a handler may panic.
        for handler in ended {
            self.contain(|| drop(handler));
        }
    }

    fn call(&self, handler: &mut Handler<K>, event: Event<K>) {
        if !handler.state.ended.load(Ordering::Acquire) {
            self.contain(|| (handler.call)(event));
        }
    }

    /// Converts the event for handlers; returns `None` if an object cannot be parsed from its own JSON.
    fn open(&self, event: Event<Cell<K>>) -> Option<Event<K>> {
        self.contain(|| event.open())
    }

    fn contain<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(call)).ok();
        if done.is_none() {
            self.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!(kind = %self.kind, "handler panicked and missed an event");
        }
        done
    }

    /// Returns the number of panics of handlers.
    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Resolves when the queue is short.
    pub(super) async fn settled(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            emptied.as_mut().enable();
            if self.queue.lock().events <= QUEUED {
                return;
            }
            emptied.await;
        }
    }

    /// Ends all subscriptions, after the queued events.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.items.push_back(Item::End);
        drop(queue);
        self.deliver();
    }
}

impl<K: AnyObject + ?Sized> AnyDispatch for Dispatch<K> {
    fn sweep(&self) {
        self.queue.lock().items.push_back(Item::RemoveEnded);
        self.deliver();
    }
}
