//! The recorded history of a run: every operation with its times and outcome, and everything that watches delivered.
//!
//! Times are microseconds since the run started, all from one clock. Each write puts its own number into the object, so
//! every object that is read shows which writes it consists of.

use std::fmt;

/// Microseconds since the run started.
pub(crate) type Micros = u64;

/// A resource version.
pub(crate) type Revision = u64;

/// The number of an operation, unique in a history. Zero means none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct OpId(pub(crate) u32);

/// An object of the test, by the number in its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(pub(crate) u32);

/// The operations that the contents of an object come from. A create sets the first three, an update replaces `put` and
/// preserves the rest of the version it is based on, a patch replaces only `patch`; all of them set `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Content {
    pub(crate) created: OpId,
    pub(crate) put: OpId,
    pub(crate) patch: OpId,
    pub(crate) last: OpId,
}

/// An object as it was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) revision: Revision,
    pub(crate) uid: u128,
    pub(crate) content: Content,
}

/// State that a list requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// The newest state: no `resourceVersion`.
    Consistent,
    /// Any state: `resourceVersion=0`.
    Cached,
    /// The state at a revision: `resourceVersionMatch=Exact`.
    Exact(Revision),
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Create(Key),
    /// An update of the version with this revision.
    Put(Key, Revision),
    /// A merge patch without a precondition.
    Patch(Key),
    /// A deletion, of the version with this revision if one is given.
    Delete(Key, Option<Revision>),
    Get(Key),
    List(ListKind),
}

impl Call {
    /// Returns the object of the request; `None` for lists.
    pub(crate) fn key(self) -> Option<Key> {
        match self {
            Self::Create(key) | Self::Put(key, _) | Self::Patch(key) | Self::Delete(key, _) | Self::Get(key) => {
                Some(key)
            }
            Self::List(_) => None,
        }
    }

    /// Returns whether the request writes.
    pub(crate) fn is_write(self) -> bool {
        !matches!(self, Self::Get(_) | Self::List(_))
    }
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A create, update, patch or get succeeded and returned this object.
    Object(Version),
    /// A deletion succeeded: the object with this UID.
    Deleted(u128),
    /// A list succeeded.
    Listed { revision: Revision, items: Vec<(Key, Version)> },
    /// 404.
    NotFound,
    /// 409 of a create.
    Exists,
    /// 409 of an update, patch or deletion.
    Conflict,
    /// Another error that promises that nothing was done.
    Rejected(u16),
    /// The response is missing, or an error that does not tell whether the operation took effect.
    Unknown,
}

/// A request with its times and result.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) id: OpId,
    pub(crate) client: u32,
    /// The server it was sent to.
    pub(crate) server: u32,
    pub(crate) call: Call,
    pub(crate) begin: Micros,
    /// Time at which the response was complete, or the client gave up.
    pub(crate) end: Micros,
    pub(crate) outcome: Outcome,
}

impl Operation {
    /// Returns when the operation had certainly taken effect; the end of time if that is unknown.
    pub(crate) fn done_by(&self) -> Micros {
        if self.outcome == Outcome::Unknown { Micros::MAX } else { self.end }
    }

    /// Returns whether the operation is an acknowledged write.
    pub(crate) fn is_acknowledged_write(&self) -> bool {
        self.call.is_write() && matches!(self.outcome, Outcome::Object(_) | Outcome::Deleted(_))
    }
}

/// Type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// An event that a watch delivered. The revision of a deletion is that of the deletion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchEvent {
    pub(crate) kind: EventKind,
    pub(crate) key: Key,
    pub(crate) version: Version,
    pub(crate) at: Micros,
}

/// One watch request and its events, up to the end of the connection.
#[derive(Debug, Clone)]
pub(crate) struct WatchStream {
    pub(crate) watcher: u32,
    /// The revision that the watch started after.
    pub(crate) after: Revision,
    pub(crate) begin: Micros,
    pub(crate) events: Vec<WatchEvent>,
    /// The revision up to which the watch had enough time to deliver everything; `None` if it was interrupted.
    pub(crate) complete_to: Option<Revision>,
}

/// A fault, or its end, for the excerpts of a history.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) at: Micros,
    pub(crate) what: String,
}

/// Everything that was recorded on one data directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) operations: Vec<Operation>,
    pub(crate) watches: Vec<WatchStream>,
    pub(crate) faults: Vec<Mark>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key-{}", self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Content { created, put, patch, last } = self.content;
        write!(f, "revision {} (created #{}, put #{}, ", self.revision, created.0, put.0)?;
        write!(f, "patch #{}, last #{}, uid {:08x})", patch.0, last.0, self.uid >> 96)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(key) => write!(f, "create {key}"),
            Self::Put(key, expected) => write!(f, "update {key} at revision {expected}"),
            Self::Patch(key) => write!(f, "patch {key}"),
            Self::Delete(key, None) => write!(f, "delete {key}"),
            Self::Delete(key, Some(expected)) => write!(f, "delete {key} at revision {expected}"),
            Self::Get(key) => write!(f, "get {key}"),
            Self::List(ListKind::Consistent) => f.write_str("list"),
            Self::List(ListKind::Cached) => f.write_str("list resourceVersion=0"),
            Self::List(ListKind::Exact(revision)) => write!(f, "list at exactly revision {revision}"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(version) => version.fmt(f),
            Self::Deleted(uid) => write!(f, "deleted uid {:08x}", uid >> 96),
            Self::Listed { revision, items } => write!(f, "{} objects at revision {revision}", items.len()),
            Self::NotFound => f.write_str("not found"),
            Self::Exists => f.write_str("already exists"),
            Self::Conflict => f.write_str("conflict"),
            Self::Rejected(code) => write!(f, "status {code}"),
            Self::Unknown => f.write_str("unknown outcome"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |micros: Micros| micros as f64 / 1e6;
        write!(f, "{:.6} s to {:.6} s  client {} ", seconds(self.begin), seconds(self.end), self.client)?;
        write!(f, "at server {} #{}: {}: {}", self.server, self.id.0, self.call, self.outcome)
    }
}

impl fmt::Display for WatchEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        };
        write!(f, "{:.6} s  watch: {kind} {}: {}", self.at as f64 / 1e6, self.key, self.version)
    }
}
