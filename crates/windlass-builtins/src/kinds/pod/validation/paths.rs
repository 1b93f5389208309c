//! Validation of file paths.

use windlass_schema::field::{ErrorList, Path};

use crate::field_errors::FieldErrors;

/// Returns whether an element of a path is `..`.
pub(super) fn has_backsteps(target: &str) -> bool {
    target.split('/').any(|element| element == "..")
}

/// Rejects paths with `..` elements.
pub(crate) fn no_backsteps(target: &str, path: &Path, errors: &mut ErrorList) {
    if has_backsteps(target) {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// Requires a relative path without `..` elements.
pub(super) fn local_descending(target: &str, path: &Path, errors: &mut ErrorList) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    no_backsteps(target, path, errors);
}

/// Requires a relative path that has no `..` elements and does not start with `..`.
pub(super) fn local_non_reserved(target: &str, path: &Path, errors: &mut ErrorList) {
    local_descending(target, path, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}
