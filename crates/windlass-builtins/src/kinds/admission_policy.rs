//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings.

mod binding;
mod match_resources;
mod mutating;
mod spec;
mod validating;

pub use self::{binding::PolicyBinding, mutating::MutatingAdmissionPolicy, validating::ValidatingAdmissionPolicy};

#[cfg(test)]
mod tests;
