//! The handle that reports which keys belong to this process.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use super::{
    clock,
    ring::{KeyHash, Ring},
};
use crate::key::ObjectKey;

/// The keys that belong to this process. A cheap handle.
///
/// At any time, at most one process owns a key (see [`Sharding`](super::Sharding)). A controller starts no reconcile of
/// a key that it does not own, sends no write for a key that it has lost, and drops its running reconcile. Requests
/// that were already sent are in flight: see [`Sharding`](super::Sharding#writes-in-flight).
///
/// ```
/// use windlass_runtime::{key::ObjectKey, lease::Shard};
/// assert!(Shard::whole().owns(&ObjectKey::namespaced("default", "web")));
/// ```
#[derive(Clone, Debug)]
pub struct Shard {
    /// `None` without sharding.
    view: Option<watch::Receiver<ShardView>>,
}

/// Guarantees to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardView {
    pub(crate) me: Arc<str>,
    /// Valid until this time, by [`clock::now`].
    pub(crate) until: Option<Instant>,
    /// All of these must assign a key to this member. If empty, it owns nothing.
    pub(crate) held: Vec<Arc<Ring>>,
    /// Members that may use other rings, with these. `None` is a ring of an unknown format.
    pub(crate) rivals: Vec<(Arc<str>, Option<Arc<Ring>>)>,
}

impl ShardView {
    pub(crate) fn nothing(me: Arc<str>) -> Self {
        Self { me, until: None, held: Vec::new(), rivals: Vec::new() }
    }

    pub(crate) fn owns(&self, key: KeyHash, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
            && !self.held.is_empty()
            && self.held.iter().all(|ring| ring.claims(&self.me, key))
            && !self.rivals.iter().any(|(rival, ring)| ring.as_ref().is_none_or(|ring| ring.claims(rival, key)))
    }

    /// Returns whether both give the same results while they last.
    pub(crate) fn answers_as(&self, other: &Self) -> bool {
        self.held == other.held && self.rivals == other.rivals && self.until.is_some() == other.until.is_some()
    }
}

impl Shard {
    /// Returns a handle for a process without sharding, which owns all keys.
    pub fn whole() -> Self {
        Self { view: None }
    }

    /// Returns a handle that follows a group, and its sender.
    pub(crate) fn followed(me: Arc<str>) -> (watch::Sender<ShardView>, Self) {
        let (sender, view) = watch::channel(ShardView::nothing(me));
        (sender, Self { view: Some(view) })
    }

    /// Returns whether this process owns a key. Computed from the clock at the time of the call, so a process that was
    /// paused past the end of its lease owns nothing. Controllers check it before a reconcile, and the
    /// [contexts](crate::context::Context::for_key) of reconciles again before each write.
    pub fn owns(&self, key: &ObjectKey) -> bool {
        match &self.view {
            None => true,
            Some(view) => view.borrow().owns(KeyHash::of(key), clock::now()),
        }
    }

    /// Resolves when this process does not own a key: at once if it does not own it now, never without sharding.
    /// Running reconciles are dropped then.
    pub async fn lost(&self, key: &ObjectKey) {
        let Some(view) = &self.view else { return std::future::pending().await };
        let (key, mut view) = (KeyHash::of(key), view.clone());
        loop {
            let now = clock::now();
            let left = {
                let view = view.borrow_and_update();
                if !view.owns(key, now) {
                    return;
                }
                view.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
            };
            // The deadline applies whether or not there is an update. Renewals are not published.
            let told = tokio::time::timeout(left, view.changed()).await;
            if let Ok(Err(_)) = told {
                tokio::time::sleep(left).await;
            }
        }
    }

    /// Returns whether the results of [`owns`](Self::owns) may have changed since the last call of
    /// [`mark_unchanged`](Self::mark_unchanged) or [`changed`](Self::changed) of this handle.
    pub(crate) fn has_changed(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.has_changed().unwrap_or(false))
    }

    /// Regards the results of [`owns`](Self::owns) as seen.
    pub(crate) fn mark_unchanged(&mut self) {
        if let Some(view) = &mut self.view {
            view.mark_unchanged();
        }
    }

    /// Resolves when the results of [`owns`](Self::owns) may have changed since the last call. New keys must be
    /// reconciled then.
    pub async fn changed(&mut self) {
        let Some(view) = &mut self.view else { return std::future::pending().await };
        if view.changed().await.is_err() {
            // The lease is no longer renewed: the remaining keys expire by themselves, and no update follows.
            let until = view.borrow().until;
            let left = until.map(|until| until.saturating_duration_since(clock::now())).filter(|left| !left.is_zero());
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        }
    }
}
