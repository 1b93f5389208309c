//! Computes the managed fields after a write, and the object that results from an apply.
//!
//! The rules: a field that a write changes belongs to its writer alone. An apply owns the fields it names; without
//! force it fails if it would take fields that other managers own. It removes the fields that its manager applied
//! before, does not apply now, and that no other manager owns.

use std::{borrow::Cow, ops::Deref, rc::Rc};

use serde_json::Value;

use super::{
    conflict::Conflicts,
    field_manager::VersionConverter,
    managed_fields::{ManagedFields, ManagerId, stored},
    path::equal_values,
    reset_fields::ResetFields,
    schema::TypeRef,
    set::Set,
    typed,
};

mod prune;

/// Reason why the managed fields cannot be computed.
#[derive(Debug)]
pub(crate) enum UpdateError {
    Conflicts(Conflicts),
    Failed(String),
}

/// An object in a version; cheap to clone.
#[derive(Clone)]
pub(crate) struct Versioned<'a> {
    pub(crate) value: Shared<'a>,
    pub(crate) types: TypeRef<'a>,
    pub(crate) api_version: Cow<'a, str>,
}

/// A value that no longer changes.
#[derive(Clone)]
pub(crate) enum Shared<'a> {
    Borrowed(&'a Value),
    Owned(Rc<Value>),
}

/// The changes of a write, as field paths of a version.
struct Change {
    api_version: String,
    /// Fields that are new or have a different value.
    set: Set,
    removed: Set,
}

/// Properties of the endpoint that the rules depend on.
#[derive(Clone, Copy)]
pub(crate) struct Updater<'a> {
    pub(crate) versions: &'a dyn VersionConverter,
    pub(crate) reset_fields: &'a ResetFields,
}

impl Deref for Shared<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }
}

impl From<Value> for Shared<'_> {
    fn from(value: Value) -> Self {
        Self::Owned(Rc::new(value))
    }
}

impl Shared<'_> {
    fn into_owned(self) -> Value {
        match self {
            Self::Borrowed(value) => value.clone(),
            Self::Owned(value) => Rc::unwrap_or_clone(value),
        }
    }
}

impl From<String> for UpdateError {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl<'a> Updater<'a> {
    /// Removes the fields that a write changed or removed from all managers, and returns the fields that its writer now
    /// owns.
    pub(crate) fn update(
        &self,
        live: &Versioned<'a>,
        new: &Versioned<'a>,
        managed: &mut ManagedFields,
    ) -> Result<Set, UpdateError> {
        self.reconcile(live, managed)?;
        let change = self.take_ownership(live, new, managed, None, true)?;
        Ok(change.set)
    }

    /// Applies a configuration; returns `None` if the object is unchanged.
    pub(crate) fn apply(
        &self,
        live: &Versioned<'a>,
        config: &Versioned<'a>,
        managed: &mut ManagedFields,
        id: &ManagerId,
        force: bool,
    ) -> Result<Option<Value>, UpdateError> {
        self.reconcile(live, managed)?;
        let merged = typed::merge(&live.value, &config.value, live.types)
            .map_err(|errors| format!("failed to merge config: {errors}"))?;
        let last = match managed.position(id) {
            Some(position) => {
                let entry = &mut managed.entries[position];
                Some((entry.set()?.clone(), entry.api_version.clone()))
            }
            None => None,
        };
        let set = typed::to_field_set(&config.value, config.types)
            .map_err(|errors| format!("failed to get field set: {errors}"))?;
        let set = self.without_reset(&config.api_version, set);
        managed.put(id.clone(), &config.api_version, set);
        let merged = Versioned { value: merged.into(), ..live.clone() };
        let new = match last {
            Some((last, version)) if !last.is_empty() => self
                .prune(merged, managed, id, &last, &version)
                .map_err(|error| format!("failed to prune fields: {error}"))?,
            _ => merged,
        };
        self.take_ownership(live, &new, managed, Some(id), force)?;
        let same = equal_values(&live.value, &new.value);
        Ok((!same).then(|| new.value.into_owned()))
    }

    /// Removes the differences between two objects from every manager except `acting`; without force, changed (not
    /// removed) fields that others own are conflicts. Drops entries that own nothing or whose version is unknown.
    fn take_ownership(
        &self,
        old: &Versioned<'a>,
        new: &Versioned<'a>,
        managed: &mut ManagedFields,
        acting: Option<&ManagerId>,
        force: bool,
    ) -> Result<Change, UpdateError> {
        let mut changes = vec![self.change(old, new)?];
        let mut conflicts = Vec::new();
        managed.retain(|entry| {
            if acting == Some(&entry.id) {
                return Ok::<_, UpdateError>(true);
            }
            let position = match changes.iter().position(|change| change.api_version == entry.api_version) {
                Some(position) => position,
                None => {
                    let Some(old) = self.convert(old, &entry.api_version, "failed to convert old object: ")? else {
                        return Ok(false);
                    };
                    let Some(new) = self.convert(new, &entry.api_version, "failed to convert new object: ")? else {
                        return Ok(false);
                    };
                    changes.push(self.change(&old, &new)?);
                    changes.len() - 1
                }
            };
            let change = &changes[position];
            if let Some(fields) = entry.stored_mut() {
                let takes = stored::touches(fields, &change.set);
                if force || !takes {
                    if takes {
                        stored::subtract(fields, &change.set);
                    }
                    if stored::touches(fields, &change.removed) {
                        stored::subtract(fields, &change.removed);
                    }
                    return Ok(!fields.is_empty());
                }
            }
            let set = entry.set()?;
            let taken = set.intersection(&change.set);
            if !taken.is_empty() && !force {
                conflicts.push((entry.id.clone(), taken));
                return Ok(true);
            }
            let set = set.difference(&taken).difference(&change.removed);
            let owns = !set.is_empty();
            entry.replace(set);
            Ok(owns)
        })?;
        if let Some(conflicts) = Conflicts::of(conflicts) {
            return Err(UpdateError::Conflicts(conflicts));
        }
        managed.drop_if_empty(acting)?;
        Ok(changes.swap_remove(0))
    }

    fn change(&self, old: &Versioned<'a>, new: &Versioned<'a>) -> Result<Change, String> {
        let comparison = typed::compare(&old.value, &new.value, old.types)
            .map_err(|errors| format!("failed to compare objects: {errors}"))?;
        let mut set = comparison.modified;
        set.extend(comparison.added);
        let api_version = old.api_version.clone().into_owned();
        let set = self.without_reset(&api_version, set);
        let removed = self.without_reset(&api_version, comparison.removed);
        Ok(Change { api_version, set, removed })
    }

    fn without_reset(&self, api_version: &str, set: Set) -> Set {
        match self.reset_fields.of_version(api_version) {
            Some(reset) => set.recursive_difference(reset),
            None => set,
        }
    }

    /// Updates entries that are older than the schema, and drops those of versions that no longer exist.
    fn reconcile(&self, live: &Versioned<'a>, managed: &mut ManagedFields) -> Result<(), UpdateError> {
        let mut known: Vec<(String, Option<TypeRef<'a>>)> = vec![(live.api_version.to_string(), Some(live.types))];
        managed.retain(|entry| {
            let types = match known.iter().find(|(version, _)| *version == entry.api_version) {
                Some((_, types)) => *types,
                None => {
                    let types = self.convert(live, &entry.api_version, "")?.map(|converted| converted.types);
                    known.push((entry.api_version.clone(), types));
                    types
                }
            };
            let Some(types) = types else { return Ok::<_, UpdateError>(false) };
            if entry.stored().is_some_and(|fields| !stored::is_outdated(fields, types)) {
                return Ok(true);
            }
            let reconciled = typed::reconcile_field_set(entry.set()?, types)
                .map_err(|errors| format!("errors reconciling field set with schema: {errors}"))?;
            if let Some(set) = reconciled {
                entry.replace(set);
            }
            Ok(true)
        })
    }

    /// Converts an object to another version; returns `None` if there is no such version.
    fn convert(
        &self,
        object: &Versioned<'a>,
        api_version: &str,
        context: &str,
    ) -> Result<Option<Versioned<'a>>, String> {
        if object.api_version == api_version {
            return Ok(Some(object.clone()));
        }
        let converted =
            self.versions.convert(&object.value, api_version).map_err(|error| format!("{context}{error}"))?;
        let Some((value, types)) = converted else { return Ok(None) };
        typed::validate(&value, types, typed::ValidateOptions::default())
            .map_err(|errors| format!("{context}{errors}"))?;
        Ok(Some(Versioned { value: value.into(), types, api_version: Cow::Owned(api_version.to_owned()) }))
    }
}
