//! Errors as they are told. Until the end a field is the name that messages use, which tells apart `.a` and `a`.

use std::collections::HashSet;

use serde_json::Value;

use super::place::Place;
use super::{Check, error};
use crate::field::{ErrorKind, ErrorList, Path, quote, show};

/// How many bytes of messages one check makes. An object of some megabytes could else cause gigabytes.
const MAX_BYTES: usize = 16 << 20;

impl Check {
    /// Whether enough is said: what is checked is bad already, whatever else is wrong with it.
    pub(super) fn is_full(&self) -> bool {
        self.spent > MAX_BYTES || self.effort > super::MAX_EFFORT
    }

    fn push(
        &mut self,
        kind: ErrorKind,
        field: String,
        value: Option<String>,
        detail: impl Into<String>,
        out: &mut ErrorList,
    ) {
        if self.is_full() {
            return;
        }
        let detail = detail.into();
        self.spent += field.len() + detail.len() + value.as_ref().map_or(0, String::len);
        out.push(error(kind, field, value, detail));
    }

    /// An error about the value at a place, already in words.
    pub(super) fn invalid(&mut self, place: &Place<'_>, shown: String, detail: String, out: &mut ErrorList) {
        self.push(ErrorKind::Invalid, place.name(), Some(shown), detail, out);
    }

    /// An error that the real validator attaches to no place.
    pub(super) fn placeless(&mut self, detail: String, out: &mut ErrorList) {
        self.push(ErrorKind::Invalid, String::new(), Some("\"\"".to_owned()), detail, out);
    }

    pub(super) fn wrong_type(&mut self, place: &Place<'_>, wanted: &str, found: &str, out: &mut ErrorList) {
        let found = quote(found);
        let detail = format!("{} in body must be of type {wanted}: {found}", place.name());
        self.push(ErrorKind::TypeInvalid, place.name(), Some(found), detail, out);
    }

    pub(super) fn required(&mut self, place: &Place<'_>, out: &mut ErrorList) {
        self.push(ErrorKind::Required, place.name(), None, "", out);
    }

    pub(super) fn not_supported(&mut self, place: &Place<'_>, value: &Value, detail: &str, out: &mut ErrorList) {
        self.push(ErrorKind::NotSupported, place.name(), Some(show(value)), detail, out);
    }

    pub(super) fn too_long(&mut self, place: &Place<'_>, max: i64, out: &mut ErrorList) {
        let detail = match max {
            1 => "may not be more than 1 byte".to_owned(),
            max if max < 0 => "value is too long".to_owned(),
            max => format!("may not be more than {max} bytes"),
        };
        self.push(ErrorKind::TooLong, place.name(), None, detail, out);
    }

    pub(super) fn too_many(&mut self, place: &Place<'_>, count: i64, max: i64, out: &mut ErrorList) {
        let detail = match max {
            1 => "must have at most 1 item".to_owned(),
            max if max < 0 => "has too many items".to_owned(),
            max => format!("must have at most {max} items"),
        };
        self.push(ErrorKind::TooMany, place.name(), Some(count.to_string()), detail, out);
    }
}

/// Leaves of errors with the same words the first, and puts the place of the whole value in front of each field.
pub(super) fn finish(mut errors: ErrorList, base: &Path) -> ErrorList {
    if errors.len() > 1 {
        let keep: Vec<bool> = {
            let mut seen = HashSet::with_capacity(errors.len());
            errors.iter().map(|error| seen.insert((error.kind.reason(), &*error.field, &*error.detail))).collect()
        };
        let mut keep = keep.into_iter();
        errors.retain(|_| keep.next().unwrap_or(true));
    }
    for error in &mut errors {
        error.field = match error.field.strip_prefix('.').unwrap_or(&error.field) {
            "" => base.to_string(),
            name => base.child(name).to_string(),
        };
    }
    errors
}
