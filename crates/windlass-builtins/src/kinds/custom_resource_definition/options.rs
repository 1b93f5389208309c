//! Validation options. An update may violate a rule that the old object violates, so that rules that were added later
//! do not block existing CRDs.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use windlass_schema::{field::Path, sorting::Gather as _};

use super::internal_version::{Spec, same};
use super::schema::Props;
use super::{conditions, conversion, open_api, selectable_fields, structural};
use crate::object::{items, text};

/// The rules to enforce.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) conversion: conversion::Rules,
    /// Scope and kind must not change.
    pub(super) immutable_names: bool,
    /// Every version must have a schema.
    pub(super) has_schema: bool,
    /// Types must be OpenAPI types.
    pub(super) valid_types: bool,
    /// Schemas must be structural.
    pub(super) structural: bool,
    /// Defaults must not have fields that would be pruned.
    pub(super) pruned_defaults: bool,
    /// Items of sets must be atomic.
    pub(super) atomic_sets: bool,
    /// Keys of map lists must be required or have a default.
    pub(super) map_keys: bool,
    /// Versions whose validation rules may exceed the cost limit because they already did.
    pub(super) unchanged_versions: BTreeSet<String>,
    /// Versions that may have more selectable fields than allowed; an empty name means all.
    pub(super) many_selectable: BTreeSet<String>,
}

impl Options {
    /// Returns the options for a create.
    pub(super) fn for_create() -> Self {
        Self {
            // The CA bundle is checked when the CRD is established.
            conversion: conversion::Rules { known_review_version: true, any_ca_bundle: true },
            immutable_names: false,
            has_schema: true,
            valid_types: true,
            structural: true,
            pruned_defaults: true,
            atomic_sets: true,
            map_keys: true,
            unchanged_versions: BTreeSet::new(),
            many_selectable: BTreeSet::new(),
        }
    }

    /// Returns the options for an update.
    pub(super) fn for_update(new: &Spec<'_>, old: &Spec<'_>, old_object: &Value) -> Self {
        let established = conditions::is_true(old_object, conditions::ESTABLISHED);
        let reviews = items(old.value, "/conversion/webhook/conversionReviewVersions");
        let names = new.versions.iter().map(|version| version.name);
        let unchanged = names.filter(|name| match (new.schema_of(name), old.schema_of(name)) {
            (Some(new), Some(old)) => new == old,
            _ => false,
        });
        let invalid_type = |schema: Props<'_>| !open_api::has_valid_type(schema);
        Self {
            conversion: conversion::Rules {
                known_review_version: conversion::is_known_or_empty(reviews),
                any_ca_bundle: !established || has_invalid_bundle(old.value),
            },
            immutable_names: established,
            has_schema: old.validation.and_then(super::internal_version::open_api).is_some()
                || old
                    .versions
                    .iter()
                    .all(|version| version.schema.and_then(super::internal_version::open_api).is_some()),
            valid_types: !old.has_schema(invalid_type),
            structural: old.schemas().all(structural::is_structural),
            pruned_defaults: old.values().all(super::defaults::are_pruned),
            atomic_sets: !old.has_schema(|schema| open_api::set_item_error(schema).is_some()),
            map_keys: !old.has_schema(|schema| !open_api::map_keys(schema, &Path::root()).is_empty()),
            unchanged_versions: unchanged.map(str::to_owned).gather(),
            many_selectable: many_selectable(new, old),
        }
    }
}

fn has_invalid_bundle(spec: &Value) -> bool {
    let bundle = text(spec, "/conversion/webhook/clientConfig/caBundle");
    !bundle.is_empty() && !conversion::is_ca_bundle(&STANDARD.decode(bundle).unwrap_or_default())
}

fn many_selectable(new: &Spec<'_>, old: &Spec<'_>) -> BTreeSet<String> {
    let many = |fields: Option<&Value>| {
        fields.and_then(Value::as_array).is_some_and(|fields| fields.len() > selectable_fields::MAX_FIELDS)
    };
    let mut allowed = BTreeSet::new();
    if many(old.selectable) && same(new.selectable, old.selectable) {
        allowed.insert(String::new());
    }
    for version in &new.versions {
        let before = old.versions.iter().rev().find(|before| before.name == version.name);
        if before.is_some_and(|before| many(before.selectable) && same(version.selectable, before.selectable)) {
            allowed.insert(version.name.to_owned());
        }
    }
    allowed
}
