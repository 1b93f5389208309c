//! A short notation for field errors: the methods of [`FieldErrors`] append to a list in the order of the calls.

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::names;

/// Message for a negative number.
const NEGATIVE: &str = "must be greater than or equal to 0";

/// Appends field errors to a list.
pub(crate) trait FieldErrors {
    /// Appends an error.
    fn add(&mut self, error: FieldError);

    /// Reports a missing value.
    fn required(&mut self, path: &Path) {
        self.add(FieldError::required(path, ""));
    }

    /// Reports a missing value and why it is required.
    fn required_because(&mut self, path: &Path, detail: impl Into<String>) {
        self.add(FieldError::required(path, detail));
    }

    /// Reports an invalid value.
    fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.add(FieldError::invalid(path, &value.into(), detail));
    }

    /// Reports an invalid value that the message does not show as JSON.
    fn invalid_shown(&mut self, path: &Path, shown: String, detail: impl Into<String>) {
        self.add(FieldError {
            kind: ErrorKind::Invalid,
            field: path.to_string(),
            value: Some(shown),
            detail: detail.into(),
        });
    }

    /// Reports an invalid value once per detail.
    fn invalid_each(&mut self, path: &Path, value: impl Into<Value>, details: Vec<String>) {
        if details.is_empty() {
            return;
        }
        let value = value.into();
        for detail in details {
            self.add(FieldError::invalid(path, &value, detail));
        }
    }

    /// Reports a duplicate value.
    fn duplicate(&mut self, path: &Path, value: &str) {
        self.add(FieldError::duplicate(path, &value.into()));
    }

    /// Reports a duplicate value that the message does not show as JSON.
    fn duplicate_shown(&mut self, path: &Path, shown: String) {
        let detail = String::new();
        self.add(FieldError { kind: ErrorKind::Duplicate, field: path.to_string(), value: Some(shown), detail });
    }

    /// Reports a reference to something that does not exist.
    fn not_found(&mut self, path: &Path, value: &str) {
        self.add(FieldError::not_found(path, &value.into()));
    }

    /// Reports a field that must not be set.
    fn forbidden(&mut self, path: &Path, detail: impl Into<String>) {
        self.add(FieldError::forbidden(path, detail));
    }

    /// Reports something that no object of the kind may have; kube-apiserver reports it for the field `[]`.
    fn forbidden_at_all(&mut self, detail: &str) {
        self.add(FieldError::forbidden(&Path::new("[]"), detail));
    }

    /// Reports a value that is not among the supported ones.
    fn not_supported(&mut self, path: &Path, value: &str, supported: &[&str]) {
        self.add(FieldError::not_supported(path, &value.into(), supported));
    }

    /// Requires one of the supported values; an empty value is reported as missing.
    fn one_of(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(path);
        } else if !supported.contains(&value) {
            self.not_supported(path, value, supported);
        }
    }

    /// Requires a number that is not negative.
    fn nonnegative(&mut self, path: &Path, value: Option<i64>) {
        if let Some(value) = value.filter(|value| *value < 0) {
            self.invalid(path, value, NEGATIVE);
        }
    }

    /// Requires a string that is not empty.
    fn nonempty(&mut self, path: &Path, value: &str) {
        if value.is_empty() {
            self.required(path);
        }
    }

    /// Requires a DNS label.
    fn dns_label(&mut self, path: &Path, value: &str) {
        self.invalid_each(path, value, names::is_dns1123_label(value));
    }

    /// Requires a DNS subdomain.
    fn dns_subdomain(&mut self, path: &Path, value: &str) {
        self.invalid_each(path, value, names::is_dns1123_subdomain(value));
    }

    /// Requires a qualified name.
    fn qualified_name(&mut self, path: &Path, value: &str) {
        self.invalid_each(path, value, names::is_qualified_name(value));
    }
}

impl FieldErrors for ErrorList {
    fn add(&mut self, error: FieldError) {
        self.push(error);
    }
}
