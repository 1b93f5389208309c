//! A shorter way to write down field errors: the methods of [`Report`] add to a list in the order they are called.

use serde_json::Value;
use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::names;

/// The words for a number below zero.
const NEGATIVE: &str = "must be greater than or equal to 0";

/// Adds errors to a list.
pub(crate) trait Report {
    /// Adds an error.
    fn add(&mut self, error: FieldError);

    /// A value is missing.
    fn required(&mut self, path: &Path) {
        self.add(FieldError::required(path, ""));
    }

    /// A value is missing, with the reason why there must be one.
    fn required_because(&mut self, path: &Path, detail: impl Into<String>) {
        self.add(FieldError::required(path, detail));
    }

    /// A value is wrong.
    fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.add(FieldError::invalid(path, &value.into(), detail));
    }

    /// A value is wrong whose text in the message is not its JSON.
    fn invalid_shown(&mut self, path: &Path, shown: String, detail: impl Into<String>) {
        self.add(FieldError {
            kind: ErrorKind::Invalid,
            field: path.to_string(),
            value: Some(shown),
            detail: detail.into(),
        });
    }

    /// A value is wrong, for each of these reasons.
    fn invalid_each(&mut self, path: &Path, value: impl Into<Value>, details: Vec<String>) {
        if details.is_empty() {
            return;
        }
        let value = value.into();
        for detail in details {
            self.add(FieldError::invalid(path, &value, detail));
        }
    }

    /// A value stands twice.
    fn duplicate(&mut self, path: &Path, value: &str) {
        self.add(FieldError::duplicate(path, &value.into()));
    }

    /// A value stands twice whose text in the message is not its JSON.
    fn duplicate_shown(&mut self, path: &Path, shown: String) {
        let detail = String::new();
        self.add(FieldError { kind: ErrorKind::Duplicate, field: path.to_string(), value: Some(shown), detail });
    }

    /// A name that nothing has.
    fn not_found(&mut self, path: &Path, value: &str) {
        self.add(FieldError::not_found(path, &value.into()));
    }

    /// A value that may not stand here.
    fn forbidden(&mut self, path: &Path, detail: impl Into<String>) {
        self.add(FieldError::forbidden(path, detail));
    }

    /// Something that no object of this sort may have; the field is the real server's way to say none.
    fn forbidden_at_all(&mut self, detail: &str) {
        self.add(FieldError::forbidden(&Path::new("[]"), detail));
    }

    /// A value that is none of those allowed.
    fn not_supported(&mut self, path: &Path, value: &str, supported: &[&str]) {
        self.add(FieldError::not_supported(path, &value.into(), supported));
    }

    /// A value must be one of a few; a missing one is an error of its own.
    fn one_of(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(path);
        } else if !supported.contains(&value) {
            self.not_supported(path, value, supported);
        }
    }

    /// A number must not be negative.
    fn nonnegative(&mut self, path: &Path, value: Option<i64>) {
        if let Some(value) = value.filter(|value| *value < 0) {
            self.invalid(path, value, NEGATIVE);
        }
    }

    /// A text must not be empty.
    fn nonempty(&mut self, path: &Path, value: &str) {
        if value.is_empty() {
            self.required(path);
        }
    }

    /// A text must be a DNS label.
    fn dns_label(&mut self, path: &Path, value: &str) {
        self.invalid_each(path, value, names::is_dns1123_label(value));
    }

    /// A text must be a DNS subdomain.
    fn dns_subdomain(&mut self, path: &Path, value: &str) {
        self.invalid_each(path, value, names::is_dns1123_subdomain(value));
    }

    /// A text must be a qualified name.
    fn qualified_name(&mut self, path: &Path, value: &str) {
        self.invalid_each(path, value, names::is_qualified_name(value));
    }
}

impl Report for ErrorList {
    fn add(&mut self, error: FieldError) {
        self.push(error);
    }
}
