//! Values with their types: validation, field sets, comparison, merging and removal, as the real server does them.
//!
//! All functions but [`validate`] expect values that it accepts, with or without duplicates. For others they answer
//! something sensible, or the error that the real server finds there.

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

/// What the real server says about a place whose type allows nothing.
const INVALID_TYPE: &str = "schema error: invalid atom: inlined";

#[cfg(test)]
mod tests;
