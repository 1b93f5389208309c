//! Reporting of errors. Until the end, a field is the name used in messages, which distinguishes `.a` from `a`.

use std::collections::HashSet;

use serde_json::Value;

use super::place::Place;
use super::{Check, error};
use crate::field::{ErrorKind, ErrorList, Path, quote, show};

/// Maximum size of the messages of one validation. An object of some megabytes could otherwise cause gigabytes.
const MAX_BYTES: usize = 16 << 20;

impl Check {
    /// Returns whether enough errors have been reported: the value is invalid regardless of further ones.
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

    /// Reports an error for the value at a path, already formatted.
    pub(super) fn invalid(&mut self, place: &Place<'_>, shown: String, detail: String, out: &mut ErrorList) {
        self.push(ErrorKind::Invalid, place.name(), Some(shown), detail, out);
    }

    /// Reports an error that kube-apiserver's validator does not attach to any path.
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

/// Removes duplicate errors, and prefixes each field with the path of the whole value.
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
