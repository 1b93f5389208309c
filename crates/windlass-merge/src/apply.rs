//! Server-side apply: which manager owns which field of an object, and how an applied configuration changes the object.
//!
//! [`path`] identifies fields, [`set`] holds sets of them, [`schema`] describes how a type merges, and [`typed`]
//! compares and merges values of a type. On top of them, [`field_manager`] attributes writes to managers and applies
//! configurations by the rules of `update`; [`managed_fields`] reads and writes `metadata.managedFields`,
//! [`reset_fields`] lists the fields that an endpoint cannot change, and [`scale`] maps the managed fields of a scale
//! to those of its object.

pub mod configuration;
pub mod conflict;
pub mod field_manager;
pub mod managed_fields;
pub mod path;
pub mod reset_fields;
pub mod scale;
pub mod schema;
pub mod set;
pub mod typed;
mod update;
