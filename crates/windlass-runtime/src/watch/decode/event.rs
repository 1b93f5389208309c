//! One event of a watch.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize,
    de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor},
};

use super::{DecodeError, Decoder, Lenient, Unreadable};

/// The annotation of the bookmark that says: this was the state, now come changes.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A line of a watch.
#[derive(Debug)]
pub(crate) enum Event<K> {
    Added(Arc<K>),
    Modified(Arc<K>),
    Deleted(Arc<K>),
    Bookmark {
        revision: String,
        /// Whether the initial state is complete.
        initial_events_end: bool,
    },
    Error(Status),
    /// An object of that came is not of the type it should be. `deleted`: and it is gone.
    Unreadable {
        object: Unreadable,
        deleted: bool,
    },
    /// A type of event that does not exist yet.
    Unknown,
}

/// Why a server refused something.
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

impl Decoder {
    /// The event of a line.
    ///
    /// # Errors
    ///
    /// If it is no event. An event with an unreadable object is one.
    pub(crate) fn event<K: DeserializeOwned>(&self, line: &[u8]) -> Result<Event<K>, DecodeError> {
        self.event_of(line, None).or_else(|error| {
            // Perhaps it is but the object that is odd.
            #[derive(Deserialize)]
            struct Odd {
                r#type: Type,
                object: Lenient,
            }
            match serde_json::from_slice(line) {
                Ok(Odd { r#type: r#type @ (Type::Added | Type::Modified | Type::Deleted), object }) => {
                    let object = Unreadable::new(object, &error);
                    Ok(Event::Unreadable { object, deleted: r#type == Type::Deleted })
                }
                _ => Err(DecodeError::Event((&error).into())),
            }
        })
    }

    fn event_of<K: DeserializeOwned>(&self, line: &[u8], known: Option<Type>) -> Result<Event<K>, serde_json::Error> {
        let mut parser = serde_json::Deserializer::from_slice(line);
        let read = EventSeed { decoder: self, known, kind: std::marker::PhantomData }.deserialize(&mut parser)?;
        parser.end()?;
        match read {
            Read::Event(event) => Ok(event),
            // The type came last, so the object is read again, now that it is known.
            Read::Type(r#type) => self.event_of(line, Some(r#type)),
        }
    }
}

struct EventSeed<'a, K> {
    decoder: &'a Decoder,
    known: Option<Type>,
    kind: std::marker::PhantomData<fn() -> K>,
}

enum Read<K> {
    Event(Event<K>),
    Type(Type),
}

impl<'de, K: DeserializeOwned> DeserializeSeed<'de> for EventSeed<'_, K> {
    type Value = Read<K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Read<K>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, K: DeserializeOwned> Visitor<'de> for EventSeed<'_, K> {
    type Value = Read<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of a watch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read<K>, A::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum Field {
            Type,
            Object,
            #[serde(other)]
            Other,
        }
        let mut r#type = self.known;
        let mut event = None;
        let mut passed_over = false;
        while let Some(field) = map.next_key()? {
            match (field, r#type) {
                (Field::Type, _) => r#type = Some(map.next_value()?),
                (Field::Object, Some(known)) if event.is_none() => {
                    event = Some(match known {
                        Type::Added => Event::Added(map.next_value_seed(self.decoder.seed()).map(Arc::new)?),
                        Type::Modified => Event::Modified(map.next_value_seed(self.decoder.seed()).map(Arc::new)?),
                        Type::Deleted => Event::Deleted(map.next_value_seed(self.decoder.seed()).map(Arc::new)?),
                        Type::Bookmark => bookmark(map.next_value()?),
                        Type::Error => Event::Error(map.next_value()?),
                        Type::Unknown => {
                            map.next_value::<IgnoredAny>()?;
                            Event::Unknown
                        }
                    });
                }
                (Field::Object, _) => {
                    map.next_value::<IgnoredAny>()?;
                    passed_over = true;
                }
                (Field::Other, _) => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match (event, r#type) {
            (Some(event), _) => Ok(Read::Event(event)),
            (None, Some(known)) if passed_over => Ok(Read::Type(known)),
            (None, Some(_)) => Err(serde::de::Error::missing_field("object")),
            (None, None) => Err(serde::de::Error::missing_field("type")),
        }
    }
}

fn bookmark<K>(bookmark: Bookmark) -> Event<K> {
    let annotations = bookmark.metadata.annotations.unwrap_or_default();
    Event::Bookmark {
        revision: bookmark.metadata.resource_version,
        initial_events_end: annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"),
    }
}
