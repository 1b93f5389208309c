//! Server-side apply: who owns which field of an object, and what a configuration changes in it.
//!
//! [`path`] names fields, [`set`] holds sets of them, [`schema`] says how a type merges, and [`typed`] compares and
//! merges values of a type. On top of them, [`field_manager`] attributes writes and applies configurations, by the rules
//! of `update`; [`managers`] reads and writes `metadata.managedFields`, [`reset_fields`] says what an endpoint cannot
//! change, and [`scale`] maps the owners of a scale to those of its object.

pub mod conflict;
pub mod field_manager;
pub mod managers;
pub mod path;
pub mod reset_fields;
pub mod scale;
pub mod schema;
pub mod set;
pub mod typed;
mod update;
