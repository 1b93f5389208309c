//! Conversion of occurrences to Events.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use uuid::Uuid;

use super::{EventStyle, EventType, recorder::EventClient};

/// Limits of the API server, in bytes.
const NOTE_LIMIT: usize = 1024;
const WORD_LIMIT: usize = 128;

/// Something that was recorded.
#[derive(Clone, Debug)]
pub(super) struct Occurrence {
    pub(super) reporter: Arc<str>,
    pub(super) instance: Arc<str>,
    /// The instance on whose behalf the process acts, if there is one.
    pub(super) host: Arc<str>,
    pub(super) style: EventStyle,
    pub(super) client: Option<EventClient>,
    pub(super) about: ObjectReference,
    pub(super) related: Option<ObjectReference>,
    pub(super) kind: EventType,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) note: String,
    pub(super) at: Timestamp,
}

impl Occurrence {
    /// Returns whether the API server could accept it.
    pub(super) fn is_valid(&self) -> bool {
        let named = self.about.name.as_deref().is_some_and(|name| !name.is_empty());
        named && !self.reason.is_empty() && !self.reporter.is_empty() && !self.instance.is_empty()
    }

    /// Returns the key of its series: everything but the note and the object's version, which change while the same
    /// thing happens again.
    pub(super) fn series_key(&self) -> Arc<str> {
        let mut key = self.source_key();
        for part in [&self.reason, &self.action] {
            key.push('\0');
            key.push_str(part);
        }
        for part in [self.about.field_path.as_deref()].into_iter().chain(self.related.iter().flat_map(identity)) {
            key.push('\0');
            key.push_str(part.unwrap_or_default());
        }
        key.into()
    }

    /// Returns the key of its rate limit: reporter, object and type.
    pub(super) fn source_key(&self) -> String {
        let mut key = [&self.reporter, "\0", &self.instance, "\0", self.kind.name()].concat();
        for part in identity(&self.about) {
            key.push('\0');
            key.push_str(part.unwrap_or_default());
        }
        key
    }

    /// Returns the namespace and the name of its Event.
    pub(super) fn place(&self, unique: i128) -> (String, String) {
        let namespace = self.about.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default");
        (namespace.to_owned(), event_name(self.about.name.as_deref().unwrap_or_default(), unique))
    }

    /// Returns the Event, truncated to the limits of the API server. `unique` is a number of nanoseconds that is unique
    /// among the events of this process.
    pub(super) fn event(&self, unique: i128) -> Event {
        let (namespace, name) = self.place(unique);
        let reason = cut(&self.reason, WORD_LIMIT);
        let action = if self.action.is_empty() { reason } else { cut(&self.action, WORD_LIMIT) };
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
            event_time: Some(MicroTime(self.at)),
            reporting_controller: Some(self.reporter.to_string()),
            reporting_instance: Some(cut(&self.instance, WORD_LIMIT).to_owned()),
            action: Some(action.to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(self.about.clone()),
            related: self.related.clone(),
            note: Some(shortened(&self.note)),
            type_: Some(self.kind.name().to_owned()),
            ..Event::default()
        }
    }
}

/// Returns the fields that identify an object.
fn identity(object: &ObjectReference) -> impl Iterator<Item = Option<&str>> {
    [&object.api_version, &object.kind, &object.namespace, &object.name, &object.uid].into_iter().map(Option::as_deref)
}

/// Returns `name.17b8e1`, which includes the time; or a UUID if the object's name cannot be part of an event's name, as
/// with some kinds.
fn event_name(about: &str, unique: i128) -> String {
    let name = format!("{about}.{unique:x}");
    if is_subdomain(&name) { name } else { Uuid::new_v4().to_string() }
}

fn is_subdomain(name: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|part| {
            let bytes = part.as_bytes();
            bytes.first().copied().is_some_and(outer)
                && bytes.last().copied().is_some_and(outer)
                && bytes.iter().all(|byte| outer(*byte) || *byte == b'-')
        })
}

/// Returns the note, with an ellipsis if it had to be truncated.
fn shortened(note: &str) -> String {
    if note.len() <= NOTE_LIMIT {
        return note.to_owned();
    }
    format!("{}…", cut(note, NOTE_LIMIT - '…'.len_utf8()))
}

/// Truncates to at most this many bytes, in whole characters.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occurrence() -> Occurrence {
        Occurrence {
            reporter: "foo-controller".into(),
            instance: "foo-0".into(),
            host: "".into(),
            style: EventStyle::Series,
            client: None,
            about: ObjectReference {
                kind: Some("Foo".to_owned()),
                name: Some("web".to_owned()),
                ..ObjectReference::default()
            },
            related: None,
            kind: EventType::Normal,
            reason: "Synced".to_owned(),
            action: "Sync".to_owned(),
            note: "done".to_owned(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_event_is_named_by_object_and_time_and_lives_in_the_objects_namespace() {
        let mut occurrence = occurrence();
        let event = occurrence.event(255);
        assert_eq!(event.metadata.name.as_deref(), Some("web.ff"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        occurrence.about.namespace = Some("shop".to_owned());
        assert_eq!(occurrence.event(1).metadata.namespace.as_deref(), Some("shop"));
        occurrence.about.name = Some("system:admin".to_owned());
        let name = occurrence.event(255).metadata.name.unwrap();
        assert!(Uuid::parse_str(&name).is_ok(), "{name}");
    }

    #[test]
    fn texts_are_truncated_to_the_limits_of_the_server_between_characters() {
        let mut occurrence = occurrence();
        occurrence.note = "ä".repeat(1000);
        occurrence.reason = "é".repeat(100);
        occurrence.action = String::new();
        let event = occurrence.event(1);
        let note = event.note.unwrap();
        assert!(note.len() <= 1024 && note.len() > 1000 && note.ends_with("ä…"));
        assert_eq!(event.reason.as_deref().map(str::len), Some(128));
        assert_eq!(event.action, event.reason);
    }

    #[test]
    fn the_note_and_the_objects_version_do_not_make_another_series() {
        let first = occurrence();
        let mut again = occurrence();
        again.note = "done again".to_owned();
        again.about.resource_version = Some("5".to_owned());
        assert_eq!(first.series_key(), again.series_key());
        for change in [
            |other: &mut Occurrence| other.reason = "Failed".to_owned(),
            |other: &mut Occurrence| other.kind = EventType::Warning,
            |other: &mut Occurrence| other.about.uid = Some("1".to_owned()),
            |other: &mut Occurrence| other.related = Some(ObjectReference::default()),
        ] {
            let mut other = occurrence();
            change(&mut other);
            assert_ne!(first.series_key(), other.series_key());
        }
    }

    #[test]
    fn events_that_the_server_would_reject_are_detected() {
        assert!(occurrence().is_valid());
        assert!(!Occurrence { reason: String::new(), ..occurrence() }.is_valid());
        assert!(!Occurrence { about: ObjectReference::default(), ..occurrence() }.is_valid());
    }
}
