//! The objects of a request in the version that a webhook or policy sees.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;

use crate::{
    call::Call,
    endpoint::{Endpoint, Form},
    status::{ApiError, Result},
    write::decode::decode_value,
};

/// An object and its previous state, in one version.
pub(crate) struct Versions<'a> {
    call: &'a Call<'a>,
    endpoint: Arc<Endpoint>,
    object: Value,
    /// Borrowed until it is converted to another version.
    old: Cow<'a, Value>,
    /// Whether a webhook or policy has changed the object.
    changed: bool,
}

impl<'a> Versions<'a> {
    /// Returns the objects in the version of the request; absent ones are null.
    pub(crate) fn new(call: &'a Call<'a>, object: Value, old: &'a Value) -> Self {
        Self { call, endpoint: call.endpoint.clone(), object, old: Cow::Borrowed(old), changed: false }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn object(&self) -> &Value {
        &self.object
    }

    pub(crate) fn old(&self) -> &Value {
        &self.old
    }

    pub(crate) fn is_in(&self, endpoint: &Arc<Endpoint>) -> bool {
        Arc::ptr_eq(&self.endpoint, endpoint)
    }

    /// Converts the objects to another version.
    pub(crate) async fn convert(&mut self, to: &Arc<Endpoint>) -> Result<()> {
        if self.is_in(to) {
            return Ok(());
        }
        // The kind of a subresource is the same in all versions.
        if self.call.is_own_kind() {
            let from = self.endpoint.clone();
            if !self.object.is_null() {
                self.object = in_version(self.call, self.object.take(), &from, to).await?;
            }
            if !self.old.is_null() {
                let old = std::mem::take(&mut self.old).into_owned();
                self.old = Cow::Owned(in_version(self.call, old, &from, to).await?);
            }
        }
        self.endpoint = to.clone();
        Ok(())
    }

    /// Replaces the object with one that a webhook or policy has patched, decoded into its kind again; returns whether
    /// it differs. A strict decoder rejects unknown fields of built-in kinds.
    pub(crate) fn replace(&mut self, mut object: Value, strict: bool) -> Result<bool> {
        let changed = object != self.object;
        let complaints = settle_patched(self.call, &self.endpoint, &mut object)?;
        if strict && !complaints.is_empty() {
            return Err(ApiError::internal(format!("strict decoding error: {}", complaints.join(", "))));
        }
        self.object = object;
        self.changed = true;
        Ok(changed)
    }

    /// Returns the objects in their present version.
    pub(crate) fn into_objects(self) -> (Value, Value) {
        (self.object, self.old.into_owned())
    }

    /// Returns the object in the version of the request.
    pub(crate) async fn finish(mut self) -> Result<Value> {
        let own = self.call.endpoint.clone();
        if !self.changed && self.is_in(&own) {
            return Ok(self.object);
        }
        self.old = Cow::default();
        self.convert(&own).await?;
        if let Some(custom) = own.custom().filter(|_| self.changed && self.call.is_own_kind()) {
            let fits = self.object["kind"] == *own.resource.kind;
            custom.prune_and_default(&mut self.object, fits).map_err(ApiError::unexpected)?;
        }
        Ok(self.object)
    }
}

/// Converts an object from one version of a resource to another.
async fn in_version(call: &Call<'_>, object: Value, from: &Endpoint, to: &Endpoint) -> Result<Value> {
    match &to.form {
        Form::Custom(custom) => {
            let converted = custom.convert_objects(call.server, vec![object], custom.api_version()).await;
            // kube-apiserver does not expect this error here either.
            Ok(converted.map_err(|error| ApiError::internal(error.message))?.swap_remove(0))
        }
        Form::Stored | Form::View | Form::Converted(_) => Ok(to.to_served_version(from.to_storage_version(object))),
    }
}

/// Decodes an object that a webhook or policy has patched into its kind again. Returns the complaints of a strict
/// decoder.
fn settle_patched(call: &Call<'_>, endpoint: &Endpoint, object: &mut Value) -> Result<Vec<String>> {
    if !object.is_object() {
        return Err(ApiError::internal("the patched object is not a JSON object"));
    }
    if !std::ptr::eq(endpoint, &**call.endpoint) && endpoint.custom().is_none() {
        *object = endpoint.normalize(object.take());
        endpoint.strategy.default(object);
        return Ok(Vec::new());
    }
    match endpoint.custom().filter(|_| call.is_own_kind()) {
        Some(custom) => {
            custom.compiled().schema.apply_defaults(object).map_err(ApiError::internal)?;
            Ok(Vec::new())
        }
        None => decode_value(call, object).map_err(ApiError::internal),
    }
}
