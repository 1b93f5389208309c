//! Rules for file paths.

use windlass_schema::field::{ErrorList, Path};

use crate::kinds::pod::report::Report;

/// Whether a path steps back: one of its elements is `..`.
pub(super) fn has_backsteps(target: &str) -> bool {
    target.split('/').any(|element| element == "..")
}

/// A path must not step back.
pub(crate) fn no_backsteps(target: &str, path: &Path, errors: &mut ErrorList) {
    if has_backsteps(target) {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// A relative path that does not step back.
pub(super) fn local_descending(target: &str, path: &Path, errors: &mut ErrorList) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    no_backsteps(target, path, errors);
}

/// A relative path that neither steps back nor starts with `..`.
pub(super) fn local_non_reserved(target: &str, path: &Path, errors: &mut ErrorList) {
    local_descending(target, path, errors);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}
