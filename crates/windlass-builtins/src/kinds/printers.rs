//! The columns of `kubectl get` for kinds without a file of their own.
//!
//! Kinds that have no printer (roles, limit ranges, CustomResourceDefinitions...) are shown by kube-apiserver with
//! their name and creation time.

pub(super) mod admission;
pub(super) mod component_status;
pub(super) mod dynamic_resources;

use crate::columns::{AGE, NAME, Printer, age, name};

/// Name and age only.
pub(super) const NAME_AND_AGE: Printer = Printer::new(&[NAME, AGE], |object, now| vec![name(object), age(object, now)]);

#[cfg(test)]
mod tests;
