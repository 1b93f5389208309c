//! Removes fields that a manager applied before and does not apply now.

use super::{Updater, Versioned};
use crate::apply::{
    managed_fields::{ManagedFields, ManagerId},
    set::Set,
    typed,
};

impl<'a> Updater<'a> {
    /// Returns a merged object without the fields of `last` that no manager owns any longer.
    pub(super) fn prune(
        &self,
        merged: Versioned<'a>,
        managed: &mut ManagedFields,
        id: &ManagerId,
        last: &Set,
        last_version: &str,
    ) -> Result<Versioned<'a>, String> {
        let applied = managed.position(id).map(|position| &mut managed.entries[position]);
        let applied = applied.ok_or_else(|| "the applying manager has no managed fields entry".to_owned())?;
        let target = applied.api_version.clone();
        let still_owned = target == last_version && last.difference(applied.set()?).is_empty();
        if still_owned && managed.entries.iter().all(|entry| entry.api_version == target) {
            // Everything that would be removed is restored, because the manager still owns it.
            return Ok(merged);
        }
        let context = "failed to convert merged object to last applied version: ";
        let Some(converted) = self.convert(&merged, last_version, context)? else { return Ok(merged) };
        let removed = last.ensure_named_fields_are_members(converted.types);
        let pruned = without(&converted, &removed);
        let pruned = self
            .add_back_owned(&converted, pruned, managed, last_version)
            .map_err(|error| format!("failed add back owned items: {error}"))?;
        let pruned = self
            .add_back_dangling(&converted, pruned, last, last_version)
            .map_err(|error| format!("failed add back dangling items: {error}"))?;
        match self.convert(&pruned, &target, "")? {
            Some(pruned) => Ok(pruned),
            None => Err(format!("no kind is registered for version {target:?}")),
        }
    }

    /// Restores the fields that any manager owns, in any version.
    fn add_back_owned(
        &self,
        merged: &Versioned<'a>,
        pruned: Versioned<'a>,
        managed: &mut ManagedFields,
        first: &str,
    ) -> Result<Versioned<'a>, String> {
        let mut by_version: Vec<(String, Set)> = Vec::new();
        for entry in &mut managed.entries {
            let version = entry.api_version.clone();
            let set = entry.set()?;
            match by_version.iter_mut().find(|(known, _)| *known == version) {
                Some((_, owned)) => *owned = owned.union(set),
                None => by_version.push((version, set.clone())),
            }
        }
        // The version of the last apply comes first: conversion to others may need the fields it restores.
        by_version.sort_by(|(a, _), (b, _)| (a != first).cmp(&(b != first)).then_with(|| a.cmp(b)));
        let mut merged = merged.clone();
        let mut pruned = pruned;
        for (version, owned) in by_version {
            let context = |what| format!("failed to convert {what} object at version {version}: ");
            let Some(converted) = self.convert(&merged, &version, &context("merged"))? else { continue };
            merged = converted;
            let Some(converted) = self.convert(&pruned, &version, &context("pruned"))? else { continue };
            pruned = converted;
            let merged_set = field_set(&merged, || format!("merged object at version {version}"))?;
            let pruned_set = field_set(&pruned, || format!("pruned object at version {version}"))?;
            let kept = pruned_set.union(&owned.ensure_named_fields_are_members(merged.types));
            pruned = without(&merged, &merged_set.difference(&kept));
        }
        Ok(pruned)
    }

    /// Restores the fields that the manager had not applied itself.
    fn add_back_dangling(
        &self,
        merged: &Versioned<'a>,
        pruned: Versioned<'a>,
        last: &Set,
        last_version: &str,
    ) -> Result<Versioned<'a>, String> {
        let context = "failed to convert pruned object to last applied version: ";
        let Some(pruned) = self.convert(&pruned, last_version, context)? else { return Ok(merged.clone()) };
        let pruned_set = field_set(&pruned, || "pruned object in last applied version".to_owned())?;
        let merged_set = field_set(merged, || "merged object in last applied version".to_owned())?;
        let last = last.ensure_named_fields_are_members(merged.types);
        Ok(without(merged, &merged_set.difference(&pruned_set).intersection(&last)))
    }
}

/// Returns the fields of an object, with every declared field that leads to one.
fn field_set(object: &Versioned<'_>, what: impl Fn() -> String) -> Result<Set, String> {
    let set = typed::to_field_set(&object.value, object.types)
        .map_err(|errors| format!("failed to create field set from {}: {errors}", what()))?;
    Ok(set.ensure_named_fields_are_members(object.types))
}

fn without<'a>(object: &Versioned<'a>, items: &Set) -> Versioned<'a> {
    Versioned { value: typed::remove_items(&object.value, object.types, items).into(), ..object.clone() }
}
