//! Unscheduled pods and their order: pure, with the current time as an input.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;
use windlass::key::ObjectKey;

/// Backoff after the first failed attempt; it doubles with each attempt up to the maximum.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The scheduling queue.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pods: HashMap<ObjectKey, Entry>,
    /// Pods to schedule now: highest priority first, then oldest first.
    ready: BTreeSet<(Reverse<i32>, u64, ObjectKey)>,
    /// Pods to retry because something has changed, by the end of their backoff.
    later: BTreeSet<(Instant, ObjectKey)>,
    /// Unschedulable pods that wait for a change.
    parked: BTreeSet<ObjectKey>,
    arrivals: u64,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    place: Place,
    attempts: u32,
    /// End of the backoff.
    until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ready(u64),
    Later(Instant),
    Parked,
    /// Its scheduling is in progress.
    InProgress,
}

impl Pending {
    /// Adds or updates an unscheduled pod. `anew` indicates whether the change may affect scheduling.
    pub(super) fn add(&mut self, pod: &Arc<Pod>, anew: bool) {
        let key = ObjectKey::of(pod.as_ref());
        match self.pods.get_mut(&key) {
            Some(entry) if entry.pod.metadata.uid == pod.metadata.uid => {
                entry.pod = pod.clone();
                if anew && matches!(entry.place, Place::Parked | Place::Later(_)) {
                    self.make_ready(&key);
                }
            }
            _ => {
                self.remove(&key);
                let entry = Entry { pod: pod.clone(), place: Place::InProgress, attempts: 0, until: None };
                self.pods.insert(key.clone(), entry);
                self.make_ready(&key);
            }
        }
    }

    /// Removes a pod.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if self.pods.contains_key(key) {
            self.take_out(key);
            self.pods.remove(key);
        }
    }

    /// Returns the next pod. It leaves the queue until it is [put back](Self::failed) or [removed](Self::remove).
    pub(super) fn next(&mut self, now: Instant) -> Option<Arc<Pod>> {
        while let Some((at, key)) = self.later.first().filter(|(at, _)| *at <= now).cloned() {
            self.later.remove(&(at, key.clone()));
            self.make_ready(&key);
        }
        let (_, _, key) = self.ready.pop_first()?;
        let entry = self.pods.get_mut(&key).expect("a queued pod must have an entry");
        entry.place = Place::InProgress;
        Some(entry.pod.clone())
    }

    /// Returns the time at which the next pod is due, if none is ready.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Puts back a pod that was not scheduled: if it fits `nowhere` it waits for a change, otherwise it is retried
    /// soon.
    pub(super) fn failed(&mut self, key: &ObjectKey, nowhere: bool, now: Instant) {
        let Some(entry) = self.pods.get_mut(key).filter(|entry| entry.place == Place::InProgress) else { return };
        let wait = FIRST_WAIT.saturating_mul(1 << entry.attempts.min(16)).min(LONGEST_WAIT);
        entry.attempts += 1;
        let until = now + wait;
        entry.until = Some(until);
        if nowhere {
            entry.place = Place::Parked;
            self.parked.insert(key.clone());
        } else {
            entry.place = Place::Later(until);
            self.later.insert((until, key.clone()));
        }
    }

    /// Moves all unschedulable pods back, because something has changed that may help. Their backoff still applies.
    pub(super) fn retry(&mut self) {
        for key in std::mem::take(&mut self.parked) {
            let Some(entry) = self.pods.get_mut(&key) else { continue };
            match entry.until {
                Some(until) => {
                    entry.place = Place::Later(until);
                    self.later.insert((until, key));
                }
                None => self.make_ready(&key),
            }
        }
    }

    fn make_ready(&mut self, key: &ObjectKey) {
        self.take_out(key);
        let Some(entry) = self.pods.get_mut(key) else { return };
        self.arrivals += 1;
        entry.place = Place::Ready(self.arrivals);
        self.ready.insert((Reverse(priority(&entry.pod)), self.arrivals, key.clone()));
    }

    /// Removes a pod from the queue that it is in.
    fn take_out(&mut self, key: &ObjectKey) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        let _was_there = match std::mem::replace(&mut entry.place, Place::InProgress) {
            Place::Ready(number) => self.ready.remove(&(Reverse(priority(&entry.pod)), number, key.clone())),
            Place::Later(at) => self.later.remove(&(at, key.clone())),
            Place::Parked => self.parked.remove(key),
            Place::InProgress => false,
        };
    }
}

/// A pod's priority, which is immutable.
fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}
