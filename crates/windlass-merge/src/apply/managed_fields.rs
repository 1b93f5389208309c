//! `metadata.managedFields`: which manager owns which fields, decoded and encoded as by kube-apiserver.
//!
//! A list that the server itself stored is read lazily: an entry whose fields a write does not touch is passed on
//! unparsed. A list that a client sends is parsed in full and rejected as a whole if one entry is invalid.

use std::cmp::Ordering;

use serde_json::{Map, Value};
use windlass_schema::time::{Time, parse_rfc3339};

use super::set::Set;

mod cap;
pub(crate) mod stored;

pub(crate) use cap::cap_update_managers;

/// The kind of write by which a manager acquired its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// Identifies an entry of `managedFields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerId {
    /// Name of the manager, as specified by the client.
    pub manager: String,
    /// The kind of write.
    pub operation: Operation,
    /// Version of the writes; empty for an applier, which has a single entry regardless of version.
    pub api_version: String,
    /// Subresource of the writes; empty for the object itself.
    pub subresource: String,
}

/// A manager and the fields it owns.
#[derive(Debug, Clone)]
pub(crate) struct ManagedFieldsEntry {
    pub(crate) id: ManagerId,
    /// The version that the field paths refer to.
    pub(crate) api_version: String,
    pub(crate) time: Option<Time>,
    fields: Fields,
}

#[derive(Debug, Clone)]
enum Fields {
    /// The entry as stored.
    Stored(Map<String, Value>),
    Parsed(Set),
}

/// The managed fields of an object.
#[derive(Debug, Clone, Default)]
pub(crate) struct ManagedFields {
    pub(crate) entries: Vec<ManagedFieldsEntry>,
    /// Timestamps of entries that were dropped on the way: an entry that reappears unchanged keeps its timestamp.
    dropped: Vec<(ManagerId, Option<Time>)>,
}

impl Operation {
    /// Returns the name used in `managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl ManagerId {
    /// Returns the identity of a manager that writes in a version, through a subresource or (empty) to the object
    /// itself.
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self::of_entry(manager, operation, api_version, subresource)
    }

    fn of_entry(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// Compares in the order in which managers are listed and old ones are merged: that of their JSON.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.json().cmp(&other.json())
    }

    fn json(&self) -> String {
        let mut out = String::from("{");
        let fields = [
            ("manager", &*self.manager),
            ("operation", self.operation.as_str()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&format!("\"{name}\":{}", Value::from(value)));
        }
        out.push('}');
        out
    }
}

impl ManagedFieldsEntry {
    pub(crate) fn new(id: ManagerId, api_version: &str, set: Set, time: Option<Time>) -> Self {
        Self { id, api_version: api_version.to_owned(), time, fields: Fields::Parsed(set) }
    }

    pub(crate) fn applied(&self) -> bool {
        self.id.operation == Operation::Apply
    }

    /// Returns the fields as stored, if nothing has changed them yet.
    pub(crate) fn stored(&self) -> Option<&Value> {
        match &self.fields {
            Fields::Stored(entry) => Some(entry.get("fieldsV1").unwrap_or(&Value::Null)),
            Fields::Parsed(_) => None,
        }
    }

    /// Like [`Self::stored`], for changing them in place.
    pub(crate) fn stored_mut(&mut self) -> Option<&mut Map<String, Value>> {
        match &mut self.fields {
            Fields::Stored(entry) => entry.get_mut("fieldsV1").and_then(Value::as_object_mut),
            Fields::Parsed(_) => None,
        }
    }

    /// Returns the parsed fields.
    pub(crate) fn set(&mut self) -> Result<&Set, String> {
        if let Fields::Stored(entry) = &self.fields {
            self.fields = Fields::Parsed(parse_fields(entry.get("fieldsV1"))?);
        }
        match &self.fields {
            Fields::Parsed(set) => Ok(set),
            Fields::Stored(_) => unreachable!("the fields must be parsed by now"),
        }
    }

    pub(crate) fn replace(&mut self, set: Set) {
        self.fields = Fields::Parsed(set);
    }

    fn encode(self) -> Value {
        let mut entry = match self.fields {
            Fields::Stored(entry) => entry,
            Fields::Parsed(set) => {
                let mut entry = Map::new();
                if !self.id.manager.is_empty() {
                    entry.insert("manager".to_owned(), self.id.manager.into());
                }
                entry.insert("operation".to_owned(), self.id.operation.as_str().into());
                entry.insert("apiVersion".to_owned(), self.api_version.into());
                entry.insert("fieldsType".to_owned(), "FieldsV1".into());
                entry.insert("fieldsV1".to_owned(), set.to_fields());
                if !self.id.subresource.is_empty() {
                    entry.insert("subresource".to_owned(), self.id.subresource.into());
                }
                entry
            }
        };
        match self.time {
            Some(time) => {
                let text = time.to_rfc3339();
                match entry.get_mut("time") {
                    Some(Value::String(old)) if *old == text => {}
                    Some(slot) => *slot = text.into(),
                    None => {
                        entry.insert("time".to_owned(), text.into());
                    }
                }
            }
            None => {
                entry.remove("time");
            }
        }
        Value::Object(entry)
    }

    fn order(&self, other: &Self) -> Ordering {
        let seconds = |entry: &Self| entry.time.map_or(0, Time::unix_seconds);
        (self.id.operation.as_str().cmp(other.id.operation.as_str()))
            .then_with(|| seconds(self).cmp(&seconds(other)))
            .then_with(|| self.id.manager.cmp(&other.id.manager))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.id.subresource.cmp(&other.id.subresource))
    }
}

impl ManagedFields {
    /// Decodes a list, leaving the fields of each entry unparsed.
    pub(crate) fn decode(entries: Vec<Value>) -> Result<Self, String> {
        let mut managed = Self::default();
        for (index, entry) in entries.into_iter().enumerate() {
            let Value::Object(entry) = entry else {
                return Err(format!("managed fields entry {index} is not an object"));
            };
            let entry = decode_entry(entry, index)?;
            match managed.position(&entry.id) {
                Some(position) => managed.entries[position] = entry,
                None => managed.entries.push(entry),
            }
        }
        Ok(managed)
    }

    /// Like [`Self::decode`], but also parses the fields: for a list that the server did not write itself.
    pub(crate) fn decode_and_parse(entries: Vec<Value>) -> Result<Self, String> {
        let mut managed = Self::decode(entries)?;
        for entry in &mut managed.entries {
            entry.set()?;
        }
        Ok(managed)
    }

    /// Encodes the sorted list; returns `None` if there are no entries.
    pub(crate) fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.sort_by(ManagedFieldsEntry::order);
        Some(Value::Array(self.entries.into_iter().map(ManagedFieldsEntry::encode).collect()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn position(&self, id: &ManagerId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.id == *id)
    }

    /// Keeps the entries for which the test returns true.
    pub(crate) fn retain<E>(
        &mut self,
        mut test: impl FnMut(&mut ManagedFieldsEntry) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut kept = Vec::with_capacity(self.entries.len());
        for mut entry in std::mem::take(&mut self.entries) {
            if test(&mut entry)? {
                kept.push(entry);
            } else {
                self.dropped.push((entry.id, entry.time));
            }
        }
        self.entries = kept;
        Ok(())
    }

    /// Drops the entry of a manager that owns nothing.
    pub(crate) fn drop_if_empty(&mut self, id: Option<&ManagerId>) -> Result<(), String> {
        self.retain(|entry| Ok(Some(&entry.id) != id || !entry.set()?.is_empty()))
    }

    /// Adds to the fields that a manager owns and sets its timestamp.
    pub(crate) fn add(&mut self, id: ManagerId, api_version: &str, set: Set, now: Time) -> Result<(), String> {
        let Some(position) = self.position(&id) else {
            self.entries.push(ManagedFieldsEntry::new(id, api_version, set, Some(now)));
            return Ok(());
        };
        let entry = &mut self.entries[position];
        entry.time = Some(now);
        if entry.stored().is_some_and(|fields| stored::covers(fields, &set)) {
            return Ok(());
        }
        match entry.stored_mut() {
            Some(fields) => stored::insert(fields, &set),
            None => {
                let set = entry.set()?.union(&set);
                entry.replace(set);
            }
        }
        Ok(())
    }

    /// Sets the fields that a manager owns; its timestamp stays that of its last change.
    pub(crate) fn put(&mut self, id: ManagerId, api_version: &str, set: Set) {
        match self.position(&id) {
            Some(position) => {
                let entry = &mut self.entries[position];
                api_version.clone_into(&mut entry.api_version);
                entry.replace(set);
            }
            None => {
                let time = self.dropped.iter().rev().find(|(dropped, _)| *dropped == id).and_then(|(_, time)| *time);
                self.entries.push(ManagedFieldsEntry::new(id, api_version, set, time));
            }
        }
    }
}

fn decode_entry(entry: Map<String, Value>, index: usize) -> Result<ManagedFieldsEntry, String> {
    let text = |name| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
        other => {
            let other = windlass_schema::field::quote(other);
            return Err(format!("invalid fieldsType {other} in managed fields entry {index}"));
        }
    }
    let id = ManagerId::of_entry(text("manager"), operation, api_version, text("subresource"));
    let api_version = api_version.to_owned();
    let time = match entry.get("time").and_then(Value::as_str) {
        Some(text) => Some(parse_rfc3339(text)?),
        None => None,
    };
    Ok(ManagedFieldsEntry { id, api_version, time, fields: Fields::Stored(entry) })
}

fn parse_fields(fields: Option<&Value>) -> Result<Set, String> {
    match fields {
        None | Some(Value::Null) => Ok(Set::default()),
        Some(fields) => Set::from_fields(fields).map_err(|error| format!("error decoding set: {error}")),
    }
}
