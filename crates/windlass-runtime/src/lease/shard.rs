//! Which keys are this process's: the handle.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use super::{
    clock,
    ring::{KeyHash, Ring},
};
use crate::key::ObjectKey;

/// Which keys are this process's. A cheap handle.
///
/// At any moment at most one process in the world is told that it owns a key (see [`Sharding`](super::Sharding)). A
/// controller begins no reconcile of a key that is not its own, sends no write in one whose key it has lost, and drops
/// what runs of it. What it has sent by then is on its way: see [there](super::Sharding#writes-on-their-way).
///
/// ```
/// use windlass_runtime::{key::ObjectKey, lease::Shard};
/// assert!(Shard::whole().owns(&ObjectKey::namespaced("default", "web")));
/// ```
#[derive(Clone, Debug)]
pub struct Shard {
    /// None for those who share with nobody.
    view: Option<watch::Receiver<ShardView>>,
}

/// What a member may rely on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardView {
    pub(crate) me: Arc<str>,
    /// Until when, by [`clock::now`].
    pub(crate) until: Option<Instant>,
    /// All of these must give a key to this member. None, and it has nothing.
    pub(crate) held: Vec<Arc<Ring>>,
    /// Members that may have other rings in mind, with these. None is one that is not understood.
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

    /// Whether the two give the same answers while they last.
    pub(crate) fn answers_as(&self, other: &Self) -> bool {
        self.held == other.held && self.rivals == other.rivals && self.until.is_some() == other.until.is_some()
    }
}

impl Shard {
    /// For processes that share with nobody: all keys.
    pub fn whole() -> Self {
        Self { view: None }
    }

    /// A handle that follows a group, and the end by which it is told.
    pub(crate) fn followed(me: Arc<str>) -> (watch::Sender<ShardView>, Self) {
        let (sender, view) = watch::channel(ShardView::nothing(me));
        (sender, Self { view: Some(view) })
    }

    /// Whether a key is to be worked on here. Computed from the clock at the time of the call, so a process that was
    /// paused past its lease owns nothing. Controllers ask before a key is worked on, and the
    /// [contexts](crate::context::Context::for_key) of reconciles again before each write.
    pub fn owns(&self, key: &ObjectKey) -> bool {
        match &self.view {
            None => true,
            Some(view) => view.borrow().owns(KeyHash::of(key), clock::now()),
        }
    }

    /// Resolves when a key is not this process's: at once if it is not now, never if this process shares with nobody.
    /// Reconciles are dropped then.
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
            // The deadline counts whether or not anybody tells. Renewals are not told.
            let told = tokio::time::timeout(left, view.changed()).await;
            if let Ok(Err(_)) = told {
                tokio::time::sleep(left).await;
            }
        }
    }

    /// Resolves when the answers of [`owns`](Self::owns) may have changed since the last call. Keys that were gained
    /// want to be looked at then.
    pub async fn changed(&mut self) {
        let Some(view) = &mut self.view else { return std::future::pending().await };
        if view.changed().await.is_err() {
            // Nobody renews any more: what is left ends by itself, and nothing comes after.
            let until = view.borrow().until;
            let left = until.map(|until| until.saturating_duration_since(clock::now())).filter(|left| !left.is_zero());
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        }
    }
}
