//! The field manager: updates `metadata.managedFields` on every kind of write, and implements server-side apply.

use std::{borrow::Cow, sync::LazyLock};

use serde_json::Value;
use windlass_schema::{go_format::is_printable, time::Time};

use super::{
    conflict::Conflicts,
    managed_fields::{ManagedFields, ManagerId, Operation, cap_update_managers},
    path::Path,
    reset_fields::ResetFields,
    schema::TypeRef,
    set::Set,
    typed::{self, ValidateOptions},
    update::{Shared, UpdateError, Updater, Versioned},
};

mod last_applied;
mod object;
mod times;
mod zero;

use object::{
    describe, group_version_kind, managed_fields, set_managed_fields, take_managed_fields, text, uid,
    without_managed_fields,
};

pub use times::keep_times_if_unchanged;
pub use zero::empty_object;

/// Maximum length of a manager name in bytes.
const MANAGER_MAX_BYTES: usize = 128;

/// Manager that owns the fields set before an object was first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Conversion to the other versions of a kind.
pub trait VersionConverter {
    /// Converts an object to another version and returns it with the type of that version. Returns `Ok(None)` if there
    /// is no such version (or no longer); managed fields entries of that version are then dropped. An error fails an
    /// apply with its text, and makes an update lose all of `managedFields`, as is the case for versions that were
    /// removed from a CustomResourceDefinition.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Option<(Value, TypeRef<'_>)>, String>;

    /// Converts the result of an apply to the form in which the server handles objects of the kind: decoded and
    /// defaulted. Not called for an apply that changed nothing.
    fn decode_applied(&self, object: Value) -> Result<Value, String> {
        Ok(object)
    }
}

/// A kind with a single version.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleVersion;

impl VersionConverter for SingleVersion {
    fn convert(&self, _: &Value, _: &str) -> Result<Option<(Value, TypeRef<'_>)>, String> {
        Ok(None)
    }
}

/// The properties of an endpoint that the managed fields of its objects depend on.
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// Type of the kind in the version of the request.
    pub types: TypeRef<'a>,
    /// Version of the request, as in objects: `apps/v1`.
    pub api_version: &'a str,
    /// The kind of the objects.
    pub kind: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that writes through this endpoint cannot change.
    pub reset_fields: &'a ResetFields,
    /// An empty object of the kind: for custom resources, only `apiVersion` and `kind`; for built-in kinds, everything
    /// that Go serializes of a zero value, see [`empty_object`].
    pub empty: &'a Value,
    /// Conversion to the other versions of the kind.
    pub versions: &'a dyn VersionConverter,
}

/// Error that rejects an apply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// 400 BadRequest.
    #[error("{0}")]
    BadRequest(String),
    /// 409 Conflict, with [`Conflicts::causes`] as `details.causes` and no other details.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// 500 without a reason.
    #[error("{0}")]
    Failed(String),
}

impl From<UpdateError> for ApplyError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Conflicts(conflicts) => Self::Conflicts(conflicts),
            UpdateError::Failed(text) => Self::Failed(text),
        }
    }
}

impl From<String> for ApplyError {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl<'a> FieldManager<'a> {
    /// Sets the managed fields of `new`, which replaces `live` (`None` for a create) in any write except an apply.
    ///
    /// Call this with the object that the client requested, decoded and defaulted, but before admission and before the
    /// endpoint's strategy restores fields that must not change; both objects are in the version of the request.
    /// Objects that cannot be compared lose their managed fields, as in kube-apiserver.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, manager: &str, now: Time) {
        let managed = self.try_update(live, new, manager, now);
        set_managed_fields(new, managed.ok().and_then(ManagedFields::encode));
    }

    /// Returns the managed fields after an update; removes the list from `new`.
    fn try_update(
        &self,
        live: Option<&Value>,
        new: &mut Value,
        manager: &str,
        now: Time,
    ) -> Result<ManagedFields, String> {
        let managed = self.managed_fields_before(live, new);
        let is_tracked = !managed.is_empty() || live.is_none_or(|live| uid(live).is_empty());
        if !is_tracked {
            return Ok(managed);
        }
        self.update_managed_fields(live.unwrap_or(self.empty), new, managed, manager, now)
    }

    fn update_managed_fields(
        &self,
        live: &Value,
        new: &Value,
        mut managed: ManagedFields,
        manager: &str,
        now: Time,
    ) -> Result<ManagedFields, String> {
        typed::validate(new, self.types, ValidateOptions { allow_duplicates: true })
            .map_err(|errors| format!("failed to convert new object ({}) to smd typed: {errors}", describe(new)))?;
        if !self.fits(live, new) {
            return Err(format!("failed to convert live object ({}) to smd typed", describe(live)));
        }
        let updater = Updater { versions: self.versions, reset_fields: self.reset_fields };
        let owned = updater.update(&self.versioned(live), &self.versioned(new), &mut managed);
        let owned = owned.map_err(|error| {
            let error = match error {
                UpdateError::Conflicts(conflicts) => conflicts.to_string(),
                UpdateError::Failed(text) => text,
            };
            format!("failed to update ManagedFields ({}): {error}", describe(new))
        })?;
        let owned = owned.difference(stripped());
        if !owned.is_empty() {
            let id = ManagerId::new(manager, Operation::Update, self.api_version, self.subresource);
            managed.add(id, self.api_version, owned, now)?;
        }
        cap_update_managers(&mut managed)?;
        Ok(managed)
    }

    /// Returns whether a stored object still matches its schema, given that a valid one replaces it. Fields that are
    /// equal in both need no second check, and metadata has no schema that could have changed.
    fn fits(&self, live: &Value, new: &Value) -> bool {
        let options = ValidateOptions { allow_duplicates: true };
        let (Value::Object(fields), Some(map)) = (live, self.types.map()) else {
            return typed::validate(live, self.types, options).is_ok();
        };
        fields.iter().all(|(name, value)| {
            name == "metadata"
                || new.get(name) == Some(value)
                || typed::validate(value, map.any_field(name), options).is_ok()
        })
    }

    /// Applies a configuration to `live` (`None` creates the object) and returns the result with its managed fields.
    ///
    /// `live` is in the version of the request. The server must check on the result that the configuration names the
    /// object of the request.
    pub fn apply(
        &self,
        live: Option<&Value>,
        patch: &Value,
        manager: &str,
        force: bool,
        now: Time,
    ) -> Result<Value, ApplyError> {
        let live = live.unwrap_or(self.empty);
        let managed = match managed_fields(live) {
            Some(entries) => ManagedFields::decode(entries.clone())
                .map_err(|error| ApplyError::Failed(format!("failed to decode managed fields: {error}")))?,
            None => ManagedFields::default(),
        };
        let live = without_managed_fields(live);
        let (api_version, kind) = (text(patch, "apiVersion"), text(patch, "kind"));
        if (api_version, kind) != (self.api_version, self.kind) {
            return Err(ApplyError::BadRequest(format!(
                "invalid object type: {}",
                group_version_kind(api_version, kind)
            )));
        }
        let (object, managed) = if manager == last_applied::MANAGER && !force {
            self.apply_as_kubectl(&live, patch, managed, now)?
        } else {
            self.apply_to(&live, patch, managed, manager, force, now)?
        };
        let mut object = object.unwrap_or(live);
        if manager == last_applied::MANAGER {
            last_applied::update_annotation(&mut object, patch);
        }
        set_managed_fields(&mut object, managed.encode());
        Ok(object)
    }

    /// Applies for a user who migrates from client-side apply: fields applied that way cause no conflicts.
    fn apply_as_kubectl(
        &self,
        live: &Value,
        patch: &Value,
        managed: ManagedFields,
        now: Time,
    ) -> Result<(Option<Value>, ManagedFields), ApplyError> {
        let apply = |managed, force| self.apply_to(live, patch, managed, last_applied::MANAGER, force, now);
        let conflicts = match apply(managed.clone(), false) {
            Err(ApplyError::Conflicts(conflicts)) => conflicts,
            result => return result,
        };
        let rest = match last_applied::fields(self, live) {
            Some(allowed) => conflicts.outside(&allowed),
            None => Some(conflicts),
        };
        match rest {
            Some(conflicts) => Err(ApplyError::Conflicts(conflicts)),
            None => apply(managed, true),
        }
    }

    /// Returns the resulting object (`None` if it is unchanged) and its managed fields.
    fn apply_to(
        &self,
        live: &Value,
        patch: &Value,
        mut managed: ManagedFields,
        manager: &str,
        force: bool,
        now: Time,
    ) -> Result<(Option<Value>, ManagedFields), ApplyError> {
        if managed.is_empty() {
            managed = self
                .update_managed_fields(self.empty, live, managed, BEFORE_FIRST_APPLY, now)
                .map_err(|error| format!("failed to create manager for existing fields: {error}"))?;
        }
        if patch.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        typed::validate(patch, self.types, ValidateOptions::default())
            .map_err(|errors| format!("failed to create typed patch object ({}): {errors}", describe(patch)))?;
        typed::validate(live, self.types, ValidateOptions { allow_duplicates: true })
            .map_err(|errors| format!("failed to create typed live object ({}): {errors}", describe(live)))?;
        let updater = Updater { versions: self.versions, reset_fields: self.reset_fields };
        let id = ManagerId::new(manager, Operation::Apply, self.api_version, self.subresource);
        let applied = updater.apply(&self.versioned(live), &self.versioned(patch), &mut managed, &id, force)?;
        if let Some(position) = managed.position(&id) {
            let entry = &mut managed.entries[position];
            let set = entry.set()?.difference(stripped());
            entry.replace(set);
            if applied.is_some() {
                entry.time = Some(now);
            }
        }
        managed.drop_if_empty(Some(&id))?;
        let Some(applied) = applied else { return Ok((None, managed)) };
        let object = self.versions.decode_applied(applied).map_err(|error| {
            format!("failed to convert new object ({}) to proper version: {error}", describe(patch))
        })?;
        Ok((Some(object), managed))
    }

    fn versioned<'v>(&self, value: &'v Value) -> Versioned<'v>
    where
        'a: 'v,
    {
        Versioned { value: Shared::Borrowed(value), types: self.types, api_version: Cow::Borrowed(self.api_version) }
    }

    /// Returns the managed fields that a write starts from: the list that the client sent, if it is allowed and valid,
    /// otherwise the one of the stored object. Removes the list from `new`.
    fn managed_fields_before(&self, live: Option<&Value>, new: &mut Value) -> ManagedFields {
        let sent = take_managed_fields(new);
        let stored = live.and_then(managed_fields);
        if self.subresource.is_empty() && sent.as_deref().is_some_and(is_reset) {
            return ManagedFields::default();
        }
        match sent {
            // A list equal to the stored one is known to be valid and need not be copied.
            Some(sent) if stored == Some(&sent) => return ManagedFields::decode(sent).unwrap_or_default(),
            Some(sent) if self.subresource.is_empty() && are_entries(&sent) => {
                match ManagedFields::decode_and_parse(sent) {
                    Ok(managed) if !managed.is_empty() => return managed,
                    _ => {}
                }
            }
            _ => {}
        }
        stored.and_then(|stored| ManagedFields::decode(stored.clone()).ok()).unwrap_or_default()
    }
}

/// Returns the manager name for a client that did not specify one: its user agent up to the first slash.
pub fn default_manager(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut out = String::new();
    for c in name.chars().filter(|c| is_printable(*c)) {
        if out.len() + c.len_utf8() > MANAGER_MAX_BYTES {
            break;
        }
        out.push(c);
    }
    out
}

/// Checks whether the server would store a list of managed fields; the error states the reason if not.
///
/// If the list is invalid after admission, the previous one is restored, with the warning `.metadata.managedFields was
/// in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix
/// your requests: <error>`.
pub fn validate_managed_fields(entries: &[Value]) -> Result<(), String> {
    ManagedFields::decode_and_parse(entries.to_vec()).map(drop)
}

/// Fields that no manager owns, because the server sets them.
fn stripped() -> &'static Set {
    static STRIPPED: LazyLock<Set> = LazyLock::new(|| {
        let metadata = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let top = ["apiVersion", "kind", "metadata"].map(|name| Path::fields([name]));
        top.into_iter().chain(metadata.map(|name| Path::fields(["metadata", name]))).collect()
    });
    &STRIPPED
}

/// Returns whether a client requests to clear all managed fields: an empty list, or one with a single empty entry.
fn is_reset(entries: &[Value]) -> bool {
    let is_zero = |value: &Value| value.is_null() || value.as_str() == Some("");
    match entries {
        [] => true,
        [Value::Object(entry)] => entry.values().all(is_zero),
        _ => false,
    }
}

/// Returns whether these values have the types of entries, valid or not.
fn are_entries(entries: &[Value]) -> bool {
    let is_text = |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value.is_string());
    entries.iter().all(|entry| {
        let Value::Object(entry) = entry else { return false };
        ["manager", "operation", "apiVersion", "time", "fieldsType", "subresource"]
            .iter()
            .all(|name| is_text(entry.get(*name)))
    })
}
