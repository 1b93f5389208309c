//! Events of a watch.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{DecodeError, Decoder, Lenient, Unreadable};

/// Annotation of the bookmark that ends a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One line of a watch.
#[derive(Debug)]
pub(crate) enum Event<K: ?Sized> {
    Added(Arc<K>),
    Modified(Arc<K>),
    Deleted(Arc<K>),
    Bookmark {
        revision: String,
        /// Whether the initial state is complete.
        initial_events_end: bool,
    },
    Error(Status),
    /// An object that failed to deserialize. `deleted`: it was deleted.
    Unreadable {
        object: Unreadable,
        deleted: bool,
    },
    /// An event type that does not exist yet.
    Unknown,
}

/// Error response of a server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) details: Option<StatusDetails>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatusDetails {
    pub(crate) retry_after_seconds: u64,
    pub(crate) causes: Option<Vec<StatusCause>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatusCause {
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Type {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
    #[serde(other)]
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

/// First parse of a line: the kind of object depends on the event type, which may come last.
#[derive(Deserialize)]
struct Line<'a> {
    r#type: Type,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<K: ?Sized> Decoder<K> {
    /// Parses the event of a line, and returns it with the text of its object.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not an event. An event with an unreadable object is not an error.
    pub(crate) fn event<'a>(&self, line: &'a [u8]) -> Result<(Event<K>, &'a [u8]), DecodeError> {
        let no_event = |error: serde_json::Error| DecodeError::Event((&error).into());
        let Line { r#type, object } = serde_json::from_slice(line).map_err(no_event)?;
        let text = object.get().as_bytes();
        let event = match r#type {
            Type::Added => Event::Added,
            Type::Modified => Event::Modified,
            Type::Deleted => Event::Deleted,
            Type::Bookmark => return Ok((serde_json::from_slice(text).map(bookmark).map_err(no_event)?, text)),
            Type::Error => return Ok((serde_json::from_slice(text).map(Event::Error).map_err(no_event)?, text)),
            Type::Unknown => return Ok((Event::Unknown, text)),
        };
        let parsed = self.parse(&mut serde_json::Deserializer::from_slice(text)).map(event).or_else(|error| {
            // The object is malformed; find out which one it is.
            let lenient: Lenient = serde_json::from_slice(text).map_err(|_| DecodeError::Event((&error).into()))?;
            Ok(Event::Unreadable { object: Unreadable::new(lenient, &error), deleted: r#type == Type::Deleted })
        });
        parsed.map(|event| (event, text))
    }
}

fn bookmark<K: ?Sized>(bookmark: Bookmark) -> Event<K> {
    let annotations = bookmark.metadata.annotations.unwrap_or_default();
    Event::Bookmark {
        revision: bookmark.metadata.resource_version,
        initial_events_end: annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"),
    }
}
