//! The field manager: `metadata.managedFields` after every kind of write, and server-side apply.

use std::{borrow::Cow, sync::LazyLock};

use serde_json::Value;
use windlass_schema::{go_format::is_printable, time::Time};

use super::{
    conflict::Conflicts,
    managers::{Managed, ManagerId, Operation, cap_update_managers},
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

/// The most bytes of a manager's name.
const MANAGER_MAX_BYTES: usize = 128;

/// Who owns what was there before an object was first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Other versions of a kind.
pub trait Versions {
    /// The object in another version, and the type of that version. `Ok(None)`: there is no such version (any more),
    /// and entries that name fields in it are dropped. An error fails an apply with its text, and makes an update lose
    /// all of `managedFields`: so it is with versions that were removed from a custom resource's definition.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Option<(Value, TypeRef<'_>)>, String>;

    /// Takes what an apply made into the form in which the server handles objects of the kind: decoded and defaulted.
    /// Not called for an apply that changed nothing.
    fn decode_applied(&self, object: Value) -> Result<Value, String> {
        Ok(object)
    }
}

/// A kind with a single version.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneVersion;

impl Versions for OneVersion {
    fn convert(&self, _: &Value, _: &str) -> Result<Option<(Value, TypeRef<'_>)>, String> {
        Ok(None)
    }
}

/// What an endpoint knows about the objects written through it.
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// The type of the kind in the version of the request.
    pub types: TypeRef<'a>,
    /// The version of the request, as in objects: `apps/v1`.
    pub api_version: &'a str,
    /// The kind of the objects.
    pub kind: &'a str,
    /// The subresource, empty for the object itself.
    pub subresource: &'a str,
    /// What writes through this endpoint cannot change.
    pub reset_fields: &'a ResetFields,
    /// An object of the kind of which nothing is set: for custom resources `apiVersion` and `kind`, for built-in kinds
    /// with all that Go writes of a zero value, see [`empty_object`].
    pub empty: &'a Value,
    /// The other versions of the kind.
    pub versions: &'a dyn Versions,
}

/// Why an apply is refused.
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
    /// Sets the managed fields of `new`, which replaces `live` (nothing for a create) by any write but an apply.
    ///
    /// To be called with the object as the client wants it, decoded and defaulted but before admission and before the
    /// endpoint's strategy puts back what it does not let change; both objects in the version of the request. Objects
    /// that cannot be compared lose their managed fields, as on the real server.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, manager: &str, now: Time) {
        let managed = self.try_update(live, new, manager, now);
        set_managed_fields(new, managed.ok().and_then(Managed::encode));
    }

    /// The owners after an update; takes the managed fields out of `new`.
    fn try_update(&self, live: Option<&Value>, new: &mut Value, manager: &str, now: Time) -> Result<Managed, String> {
        let managed = self.owners_before(live, new);
        let is_tracked = !managed.is_empty() || live.is_none_or(|live| uid(live).is_empty());
        if !is_tracked {
            return Ok(managed);
        }
        self.update_owners(live.unwrap_or(self.empty), new, managed, manager, now)
    }

    fn update_owners(
        &self,
        live: &Value,
        new: &Value,
        mut managed: Managed,
        manager: &str,
        now: Time,
    ) -> Result<Managed, String> {
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

    /// Whether a stored object still fits its schema, given that a valid one is to replace it. What both have need not
    /// be looked at again, and metadata has no schema that could have changed.
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

    /// Applies a configuration to `live` (nothing: creates it): the object that results, with its managed fields.
    ///
    /// `live` is in the version of the request. That the configuration names the object of the request is for the
    /// server to check, on the result.
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
            Some(entries) => Managed::decode(entries.clone())
                .map_err(|error| ApplyError::Failed(format!("failed to decode managed fields: {error}")))?,
            None => Managed::default(),
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
            last_applied::renew(&mut object, patch);
        }
        set_managed_fields(&mut object, managed.encode());
        Ok(object)
    }

    /// Applies for somebody who comes from client-side apply: no conflict counts with what was applied that way.
    fn apply_as_kubectl(
        &self,
        live: &Value,
        patch: &Value,
        managed: Managed,
        now: Time,
    ) -> Result<(Option<Value>, Managed), ApplyError> {
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

    /// The object that results, `None` if it stays as it is, and its owners.
    fn apply_to(
        &self,
        live: &Value,
        patch: &Value,
        mut managed: Managed,
        manager: &str,
        force: bool,
        now: Time,
    ) -> Result<(Option<Value>, Managed), ApplyError> {
        if managed.is_empty() {
            managed = self
                .update_owners(self.empty, live, managed, BEFORE_FIRST_APPLY, now)
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
            let owner = &mut managed.owners[position];
            let set = owner.set()?.difference(stripped());
            owner.replace(set);
            if applied.is_some() {
                owner.time = Some(now);
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

    /// The owners that a write starts from: those that the client sent, if it may and they are valid, else those of the
    /// stored object. Takes the list out of `new`.
    fn owners_before(&self, live: Option<&Value>, new: &mut Value) -> Managed {
        let sent = take_managed_fields(new);
        let stored = live.and_then(managed_fields);
        if self.subresource.is_empty() && sent.as_deref().is_some_and(is_reset) {
            return Managed::default();
        }
        match sent {
            // What comes back as it was stored is known to be valid, and need not be copied.
            Some(sent) if stored == Some(&sent) => return Managed::decode(sent).unwrap_or_default(),
            Some(sent) if self.subresource.is_empty() && are_entries(&sent) => match Managed::decode_and_parse(sent) {
                Ok(managed) if !managed.is_empty() => return managed,
                _ => {}
            },
            _ => {}
        }
        stored.and_then(|stored| Managed::decode(stored.clone()).ok()).unwrap_or_default()
    }
}

/// The name of a manager that a client did not give: what its user agent begins with, up to the first slash.
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

/// Whether a list of managed fields is one that the server would store; the error says what is wrong with it.
///
/// A list that is not valid after admission is put back to what it was before, with the warning
/// `.metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating
/// admission controller; please fix your requests: <error>`.
pub fn validate_managed_fields(entries: &[Value]) -> Result<(), String> {
    Managed::decode_and_parse(entries.to_vec()).map(drop)
}

/// The fields of metadata that nobody owns, because the server sets them.
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

/// Whether a client asks to forget all owners: an empty list, or one with an empty entry.
fn is_reset(entries: &[Value]) -> bool {
    let is_zero = |value: &Value| value.is_null() || value.as_str() == Some("");
    match entries {
        [] => true,
        [Value::Object(entry)] => entry.values().all(is_zero),
        _ => false,
    }
}

/// Whether these are entries at all, if not valid ones.
fn are_entries(entries: &[Value]) -> bool {
    let is_text = |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value.is_string());
    entries.iter().all(|entry| {
        let Value::Object(entry) = entry else { return false };
        ["manager", "operation", "apiVersion", "time", "fieldsType", "subresource"]
            .iter()
            .all(|name| is_text(entry.get(*name)))
    })
}
