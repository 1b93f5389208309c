//! Pods that have no node yet, and in which order they get one: pure, but for the time that is told to it.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;
use windlass::key::ObjectKey;

/// How long a pod waits after the first attempt that failed, and at most; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The pods that wait.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pods: HashMap<ObjectKey, Entry>,
    /// Those whose turn it is: the most important first, then the first that came.
    ready: BTreeSet<(Reverse<i32>, u64, ObjectKey)>,
    /// Those that were tried, and may be tried again because something has changed: when.
    later: BTreeSet<(Instant, ObjectKey)>,
    /// Those that no change since has been for.
    parked: BTreeSet<ObjectKey>,
    arrivals: u64,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    place: Place,
    attempts: u32,
    /// Not before.
    until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ready(u64),
    Later(Instant),
    Parked,
    /// Somebody has it.
    Taken,
}

impl Pending {
    /// A pod waits for a node; or it has changed. If `anew`, in a way that may matter.
    pub(super) fn put(&mut self, pod: &Arc<Pod>, anew: bool) {
        let key = ObjectKey::of(pod.as_ref());
        match self.pods.get_mut(&key) {
            Some(entry) if entry.pod.metadata.uid == pod.metadata.uid => {
                entry.pod = pod.clone();
                if anew && matches!(entry.place, Place::Parked | Place::Later(_)) {
                    self.make_ready(&key);
                }
            }
            _ => {
                self.forget(&key);
                let entry = Entry { pod: pod.clone(), place: Place::Taken, attempts: 0, until: None };
                self.pods.insert(key.clone(), entry);
                self.make_ready(&key);
            }
        }
    }

    /// A pod waits no more.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        if self.pods.contains_key(key) {
            self.take_out(key);
            self.pods.remove(key);
        }
    }

    /// The pod whose turn it is. It is gone until it is [put back](Self::failed) or [forgotten](Self::forget).
    pub(super) fn next(&mut self, now: Instant) -> Option<Arc<Pod>> {
        while let Some((at, key)) = self.later.first().filter(|(at, _)| *at <= now).cloned() {
            self.later.remove(&(at, key.clone()));
            self.make_ready(&key);
        }
        let (_, _, key) = self.ready.pop_first()?;
        let entry = self.pods.get_mut(&key).expect("a pod whose turn it is must be known");
        entry.place = Place::Taken;
        Some(entry.pod.clone())
    }

    /// When the turn of the next comes, if none is ready.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// A pod that was taken is not placed: it waits for a change if there is `nowhere` to put it, and else is tried
    /// again soon.
    pub(super) fn failed(&mut self, key: &ObjectKey, nowhere: bool, now: Instant) {
        let Some(entry) = self.pods.get_mut(key).filter(|entry| entry.place == Place::Taken) else { return };
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

    /// Something has changed that may help: all that are parked are tried again, but none too often.
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

    /// Takes a pod out of whichever line it stands in.
    fn take_out(&mut self, key: &ObjectKey) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        let _was_there = match std::mem::replace(&mut entry.place, Place::Taken) {
            Place::Ready(number) => self.ready.remove(&(Reverse(priority(&entry.pod)), number, key.clone())),
            Place::Later(at) => self.later.remove(&(at, key.clone())),
            Place::Parked => self.parked.remove(key),
            Place::Taken => false,
        };
    }
}

/// A pod's priority, which does not change in its life.
fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}
