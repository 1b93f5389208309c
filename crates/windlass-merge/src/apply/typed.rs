//! Operations on typed values, with the behavior of kube-apiserver: validation, field sets, comparison, merging and
//! removal.
//!
//! All functions except [`validate`] expect values that it accepts, with or without duplicates. For other values they
//! return something sensible, or the error that kube-apiserver reports.

mod compare;
mod errors;
mod field_set;
mod item;
mod merge;
mod reconcile;
mod remove;
mod validate;

pub use compare::{Comparison, compare};
pub use errors::{ValidationError, ValidationErrors};
pub use field_set::to_field_set;
pub use merge::{merge, merge_into};
pub use reconcile::reconcile_field_set;
pub use remove::{ExtractOptions, extract_items, remove_items};
pub use validate::{ValidateOptions, validate};

/// kube-apiserver's message for a place whose type allows no value.
const INVALID_TYPE: &str = "schema error: invalid atom: inlined";

#[cfg(test)]
mod tests;
