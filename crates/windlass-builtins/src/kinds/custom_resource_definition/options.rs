//! What a definition must fulfil. An update need not fulfil what the object it replaces did not, so that a rule that
//! came later locks nobody out.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use windlass_schema::field::Path;

use super::inner::{Spec, same};
use super::schema::Props;
use super::{conditions, conversion, open_api, selectable, structural};
use crate::object::{items, text};

/// The requirements.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) conversion: conversion::Rules,
    /// Scope and kind must stay.
    pub(super) immutable_names: bool,
    /// Every version has a schema.
    pub(super) has_schema: bool,
    /// Types are those of OpenAPI.
    pub(super) valid_types: bool,
    /// Schemas are structural.
    pub(super) structural: bool,
    /// Defaults have no fields that would be pruned.
    pub(super) pruned_defaults: bool,
    /// The items of sets are atomic.
    pub(super) atomic_sets: bool,
    /// The keys of map lists are required or have a default.
    pub(super) map_keys: bool,
    /// The versions whose rules may cost more than allowed, because they did before.
    pub(super) unchanged_versions: BTreeSet<String>,
    /// The versions that may have more selectable fields than allowed; the empty one stands for all.
    pub(super) many_selectable: BTreeSet<String>,
}

impl Options {
    /// The requirements of a new definition.
    pub(super) fn for_create() -> Self {
        Self {
            // Whether the bundle is one is looked at when the definition is established.
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

    /// The requirements of a change.
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
            has_schema: old.validation.and_then(super::inner::open_api).is_some()
                || old.versions.iter().all(|version| version.schema.and_then(super::inner::open_api).is_some()),
            valid_types: !old.has_schema(invalid_type),
            structural: old.schemas().all(structural::is_structural),
            pruned_defaults: old.values().all(super::defaults::are_pruned),
            atomic_sets: !old.has_schema(|schema| open_api::set_item_error(schema).is_some()),
            map_keys: !old.has_schema(|schema| !open_api::map_keys(schema, &Path::root()).is_empty()),
            unchanged_versions: unchanged.map(str::to_owned).collect(),
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
        fields.and_then(Value::as_array).is_some_and(|fields| fields.len() > selectable::MAX_FIELDS)
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
