//! Causes of a reconcile.

use std::{fmt, sync::Arc};

use crate::{
    any_object::{AnyChange, AnyObject},
    key::ObjectKey,
    object::revision,
};

/// Maximum number of events of watched objects that are kept per reconcile.
const MAX_CHANGES: usize = 8;

/// A reason for a reconcile; see [`Context::causes`](crate::context::Context::causes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The object was added, changed or deleted, with the resource versions before the first and after the last change.
    Object {
        /// Before; `None` if it was added.
        old: Option<u64>,
        /// After; `None` if it was deleted.
        new: Option<u64>,
    },
    /// An object of another kind, which is owned or watched, was added, changed or deleted.
    Watched {
        /// Kind of that object.
        kind: Arc<str>,
        /// Key of the object.
        key: ObjectKey,
        /// Resource version before; `None` if it was added.
        old: Option<u64>,
        /// Resource version after; `None` if it was deleted.
        new: Option<u64>,
    },
    /// The object, or one that it depends on, existed before the controller started.
    Initial,
    /// All objects were requested: by a timer, by a change of shards, or because something may have been missed.
    Resync,
    /// A trigger, a stream or a timer has requested the object.
    Source,
    /// The last reconcile requested it.
    Requeue,
    /// The last reconcile has failed.
    Retry,
}

impl Cause {
    /// Returns the name of the cause, as in the metric `windlass_reconcile_causes_total`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Object { .. } => "object",
            Self::Watched { .. } => "watched",
            Self::Initial => "initial",
            Self::Resync => "resync",
            Self::Source => "source",
            Self::Requeue => "requeue",
            Self::Retry => "retry",
        }
    }
}

/// `object 4->7`, `Deployment default/web 9->`.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revisions = |f: &mut fmt::Formatter<'_>, old: &Option<u64>, new: &Option<u64>| {
            let text = |revision: &Option<u64>| revision.map(|revision| revision.to_string()).unwrap_or_default();
            write!(f, " {}->{}", text(old), text(new))
        };
        match self {
            Self::Object { old, new } => {
                f.write_str("object")?;
                revisions(f, old, new)
            }
            Self::Watched { kind, key, old, new } => {
                write!(f, "{kind} {key}")?;
                revisions(f, old, new)
            }
            _ => f.write_str(self.name()),
        }
    }
}

/// The causes of a key in the queue. Small, and allocates nothing for events of the object itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Causes {
    flags: u8,
    /// Number of the object's own events.
    events: u32,
    /// Revisions of the object's own events; 0 for none.
    old: u64,
    new: u64,
    watched: Option<Arc<Vec<WatchedChange>>>,
}

/// An event of an object of another kind.
#[derive(Clone, Debug)]
struct WatchedChange {
    kind: Arc<str>,
    key: ObjectKey,
    old: u64,
    new: u64,
}

/// The names of all causes.
pub(crate) const CAUSES: [&str; 7] = ["object", "watched", "initial", "resync", "source", "requeue", "retry"];

const OBJECT: u8 = 1;
const INITIAL: u8 = 1 << 1;
const RESYNC: u8 = 1 << 2;
const SOURCE: u8 = 1 << 3;
const REQUEUE: u8 = 1 << 4;
const RETRY: u8 = 1 << 5;
/// There were more watched objects than are kept.
const MORE: u8 = 1 << 6;
/// It was also added without a reason.
const OTHER: u8 = 1 << 7;

/// Changes of an object by its own reconcile that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnChanges {
    /// Number of writes.
    pub(crate) writes: u32,
    /// Resource version after the last one.
    pub(crate) up_to: u64,
}

impl Causes {
    pub(crate) fn resync() -> Self {
        Self::flag(RESYNC)
    }

    pub(crate) fn source() -> Self {
        Self::flag(SOURCE)
    }

    pub(crate) fn requeue() -> Self {
        Self::flag(REQUEUE)
    }

    pub(crate) fn retry() -> Self {
        Self::flag(RETRY)
    }

    fn flag(flags: u8) -> Self {
        Self { flags, ..Self::default() }
    }

    /// Returns the cause for an event of the object itself.
    pub(crate) fn object(change: &AnyChange<'_>) -> Self {
        if change.initial || change.resync {
            return Self::flag(if change.initial { INITIAL } else { RESYNC });
        }
        let (old, new) = revisions(change);
        Self { flags: OBJECT, events: 1, old, new, watched: None }
    }

    /// Returns the cause for an event of an object of another kind.
    pub(crate) fn watched(kind: &Arc<str>, change: &AnyChange<'_>) -> Self {
        if change.initial || change.resync {
            return Self::flag(if change.initial { INITIAL } else { RESYNC });
        }
        let (old, new) = revisions(change);
        let key = change.newest().map(|object| ObjectKey::of_meta(object.metadata()));
        let watched = key.map(|key| Arc::new(vec![WatchedChange { kind: kind.clone(), key, old, new }]));
        Self { watched, ..Self::default() }
    }

    /// Returns whether these are only events of the object itself, and only those that its own changes explain.
    pub(crate) fn are_explained_by(&self, own: OwnChanges) -> bool {
        self.flags == OBJECT && self.watched.is_none() && self.events <= own.writes && self.is_up_to(own.up_to)
    }

    /// Returns whether this is an event of the object itself, up to a resource version.
    pub(crate) fn is_event_up_to(&self, revision: u64) -> bool {
        self.flags == OBJECT && self.watched.is_none() && self.is_up_to(revision)
    }

    /// Returns whether the last event was a change up to this resource version; not a deletion.
    fn is_up_to(&self, revision: u64) -> bool {
        (1..=revision).contains(&self.new)
    }

    /// Adds later causes.
    pub(crate) fn add(&mut self, later: Self) {
        if later.flags == 0 && later.watched.is_none() {
            self.flags |= OTHER;
        }
        self.events = self.events.saturating_add(later.events);
        if later.flags & OBJECT != 0 {
            if self.flags & OBJECT == 0 {
                self.old = later.old;
            }
            self.new = later.new;
        }
        self.flags |= later.flags;
        match (&mut self.watched, later.watched) {
            (Some(watched), Some(later)) => {
                let watched = Arc::make_mut(watched);
                for change in later.iter() {
                    let same = |other: &WatchedChange| other.kind == change.kind && other.key == change.key;
                    match watched.iter().position(same) {
                        Some(at) => watched[at].new = change.new,
                        None if watched.len() < MAX_CHANGES => watched.push(change.clone()),
                        None => self.flags |= MORE,
                    }
                }
            }
            (watched @ None, later) => *watched = later,
            (Some(_), None) => {}
        }
    }

    /// Drops causes that were to come later: something else came first.
    pub(crate) fn forget_delayed(&mut self) {
        self.flags &= !(REQUEUE | RETRY);
    }

    /// Returns all causes.
    pub(crate) fn list(&self) -> Vec<Cause> {
        let has = |flag: u8| self.flags & flag != 0;
        let some = |revision: u64| (revision != 0).then_some(revision);
        let mut causes = Vec::new();
        causes.extend(has(OBJECT).then(|| Cause::Object { old: some(self.old), new: some(self.new) }));
        causes.extend(self.watched.iter().flat_map(|watched| watched.iter()).map(|change| Cause::Watched {
            kind: change.kind.clone(),
            key: change.key.clone(),
            old: some(change.old),
            new: some(change.new),
        }));
        let flags =
            [(INITIAL, Cause::Initial), (RESYNC, Cause::Resync), (SOURCE, Cause::Source), (REQUEUE, Cause::Requeue)];
        causes.extend(flags.into_iter().filter(|(flag, _)| has(*flag)).map(|(_, cause)| cause));
        causes.extend(has(RETRY).then_some(Cause::Retry));
        causes
    }

    /// Returns all causes as text.
    pub(crate) fn texts(&self) -> Vec<String> {
        let more = (self.flags & MORE != 0).then(|| "...".to_owned());
        self.list().iter().map(ToString::to_string).chain(more).collect()
    }

    /// Calls `each` with the name of each type of cause.
    pub(crate) fn names(&self, mut each: impl FnMut(&'static str)) {
        for (flag, name) in [
            (OBJECT, "object"),
            (INITIAL, "initial"),
            (RESYNC, "resync"),
            (SOURCE, "source"),
            (REQUEUE, "requeue"),
            (RETRY, "retry"),
        ] {
            if self.flags & flag != 0 {
                each(name);
            }
        }
        if self.watched.is_some() {
            each("watched");
        }
    }
}

/// Separated by commas, for the span of a reconcile.
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, cause) in self.list().iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{cause}")?;
        }
        if self.flags & MORE != 0 {
            f.write_str(", ...")?;
        }
        Ok(())
    }
}

fn revisions(change: &AnyChange<'_>) -> (u64, u64) {
    let of = |object: Option<&dyn AnyObject>| object.map_or(0, |object| revision(object.metadata()));
    (of(change.old), of(change.new))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cache::Event;

    fn state(name: &str, revision: &str) -> Arc<dyn AnyObject> {
        let mut config = ConfigMap::default();
        config.metadata.name = Some(name.into());
        config.metadata.resource_version = Some(revision.into());
        Arc::new(config)
    }

    fn updated(name: &str, old: &str, new: &str) -> Event<dyn AnyObject> {
        Event::Updated { old: state(name, old), new: state(name, new) }
    }

    #[test]
    fn causes_are_merged_from_the_first_to_the_last_state() {
        let kind: Arc<str> = "Pod".into();
        let mut causes = Causes::object(&AnyChange::of(&updated("a", "1", "2")));
        causes.add(Causes::object(&AnyChange::of(&updated("a", "2", "5"))));
        causes.add(Causes::watched(&kind, &AnyChange::of(&updated("p", "3", "4"))));
        causes.add(Causes::watched(&kind, &AnyChange::of(&Event::Deleted { object: state("p", "6") })));
        causes.add(Causes::watched(&kind, &AnyChange::of(&Event::Added { object: state("q", "7"), initial: false })));
        causes.add(Causes::source());
        assert_eq!(causes.to_string(), "object 1->5, Pod p 3->, Pod q ->7, source");
        let mut names = Vec::new();
        causes.names(|name| names.push(name));
        assert_eq!(names, ["object", "source", "watched"]);
    }

    #[test]
    fn initial_objects_and_resyncs_are_not_changes() {
        let initial = Event::Added { object: state("a", "1"), initial: true };
        assert_eq!(Causes::object(&AnyChange::of(&initial)).list(), [Cause::Initial]);
        let same = state("a", "1");
        let resync = Event::Updated { old: same.clone(), new: same };
        assert_eq!(Causes::watched(&"Pod".into(), &AnyChange::of(&resync)).list(), [Cause::Resync]);
    }

    #[test]
    fn own_changes_explain_only_as_many_events_as_there_were_writes() {
        let own = OwnChanges { writes: 2, up_to: 5 };
        let mut causes = Causes::object(&AnyChange::of(&updated("a", "1", "3")));
        causes.add(Causes::object(&AnyChange::of(&updated("a", "3", "5"))));
        assert!(causes.are_explained_by(own));
        assert!(!causes.are_explained_by(OwnChanges { up_to: 4, ..own }), "a later change");
        assert!(!causes.are_explained_by(OwnChanges { writes: 1, ..own }), "a change of another");
        for other in [
            Causes::source(),
            Causes::default(),
            Causes::watched(&"Pod".into(), &AnyChange::of(&updated("p", "1", "2"))),
        ] {
            let mut causes = causes.clone();
            causes.add(other);
            assert!(!causes.are_explained_by(OwnChanges { writes: 9, up_to: 9 }));
        }
        let deleted = Causes::object(&AnyChange::of(&Event::Deleted { object: state("a", "5") }));
        assert!(!deleted.are_explained_by(own));
    }

    #[test]
    fn only_some_watched_objects_are_kept() {
        let kind: Arc<str> = "Pod".into();
        let mut causes = Causes::default();
        for number in 0..100 {
            causes.add(Causes::watched(&kind, &AnyChange::of(&updated(&format!("p{number}"), "1", "2"))));
        }
        assert_eq!(causes.list().len(), MAX_CHANGES);
        assert!(causes.to_string().ends_with("Pod p7 1->2, ..."), "{causes}");
    }
}
