//! Writes: the way of each to the server, and of its answer to the caches.

use std::{fmt::Debug, sync::Arc};

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde::{Deserialize, Serialize};

use super::{
    ContextError, Kind,
    error::{Target, Verb},
};
use crate::{
    key::ObjectKey,
    object::{Object, is_final},
    objects::AsObject,
};

impl<K: Object> Kind<'_, K> {
    /// Creates an object. With a `generateName` instead of a name, the server makes one.
    pub async fn create(&self, object: K) -> Result<Arc<K>, ContextError> {
        let key = ObjectKey::of(&object);
        let target = self.target(Verb::Create, &key);
        let body = encode(&target, &self.complete(object)?)?;
        let params = PostParams { field_manager: Some(self.field_manager()), ..PostParams::default() };
        let request = self.request(Verb::Create, &key)?.create(&params, body);
        self.write(target, request).await
    }

    /// Replaces an object. It must have the resource version of the state that it was made from: if the object has
    /// changed since, the answer is a [conflict](ContextError::Conflict).
    pub async fn update(&self, object: K) -> Result<Arc<K>, ContextError> {
        let key = ObjectKey::of(&object);
        let target = self.target(Verb::Update, &key);
        if object.meta().resource_version.as_deref().unwrap_or_default().is_empty() {
            return Err(target.lacks("resourceVersion"));
        }
        let body = encode(&target, &self.complete(object)?)?;
        let params = PostParams { field_manager: Some(self.field_manager()), ..PostParams::default() };
        let request = self.request(Verb::Update, &key)?.replace(key.name(), &params, body);
        self.write(target, request).await
    }

    /// Replaces an object's status, and what else the kind lets be written with it, as [`update`](Self::update)
    /// replaces the rest.
    pub async fn update_status(&self, object: K) -> Result<Arc<K>, ContextError> {
        let key = ObjectKey::of(&object);
        let target = self.target(Verb::SetStatus, &key);
        if object.meta().resource_version.as_deref().unwrap_or_default().is_empty() {
            return Err(target.lacks("resourceVersion"));
        }
        let body = encode(&target, &self.complete(object)?)?;
        let params = PostParams { field_manager: Some(self.field_manager()), ..PostParams::default() };
        let request = self.request(Verb::SetStatus, &key)?;
        self.write(target, request.replace_subresource("status", key.name(), &params, body)).await
    }

    /// Patches an object: by JSON patch, merge patch or strategic merge patch. ([`Kind::apply`] is for applying.)
    pub async fn patch<P: Serialize + Debug>(&self, key: &ObjectKey, patch: &Patch<P>) -> Result<Arc<K>, ContextError> {
        let target = self.target(Verb::Patch, key);
        let request = self.request(Verb::Patch, key)?.patch(key.name(), &self.patch_params(patch), patch);
        self.write(target, request).await
    }

    /// Patches an object's status.
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        key: &ObjectKey,
        patch: &Patch<P>,
    ) -> Result<Arc<K>, ContextError> {
        let target = self.target(Verb::SetStatus, key);
        let request = self.request(Verb::SetStatus, key)?;
        let request = request.patch_subresource("status", key.name(), &self.patch_params(patch), patch);
        self.write(target, request).await
    }

    /// Deletes this very object: one that has taken its name in between is left alone, with a
    /// [conflict](ContextError::Conflict). Succeeds if it is gone already. An object with finalizers stays until they
    /// are gone.
    pub async fn delete(&self, object: &impl AsObject<K>, params: &DeleteParams) -> Result<(), ContextError> {
        let object = object.object();
        let key = ObjectKey::of(object);
        let target = self.target(Verb::Delete, &key);
        let uid = object.meta().uid.clone();
        let mut params = params.clone();
        let preconditions = params.preconditions.get_or_insert(Preconditions { resource_version: None, uid: None });
        if preconditions.uid.is_none() {
            preconditions.uid.clone_from(&uid);
        }
        let request = self.request(Verb::Delete, &key)?.delete(key.name(), &params);
        let request = built(&target, request)?;
        let (context, dynamic, about) = (self.context.clone(), self.dynamic.clone(), target.clone());
        let deletion = async move {
            let kind = Kind::<K> { context: &context, dynamic };
            let answer = context.send(&target, request).await;
            kind.register_deletion(target, &key, uid.as_deref().unwrap_or_default(), answer)
        };
        self.context.see_through(about, deletion).await
    }

    fn register_deletion(
        &self,
        target: Target,
        key: &ObjectKey,
        uid: &str,
        answer: Result<String, ContextError>,
    ) -> Result<(), ContextError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.is_not_found() => {
                self.context.parts.caches.deleted::<K>(&self.dynamic, key, uid);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // A status says that it is gone; an object, that it may be on its way.
        #[derive(Deserialize)]
        struct Head {
            kind: Option<String>,
            metadata: Option<serde_json::Value>,
        }
        let head: Head = serde_json::from_str(&answer).map_err(|error| target.clone().shape(error))?;
        let is_object = head.metadata.as_ref().is_some_and(|metadata| metadata.get("uid").is_some());
        if head.kind.as_deref() == Some("Status") && !is_object {
            self.context.parts.caches.deleted::<K>(&self.dynamic, key, uid);
        } else {
            self.register_text(target, &answer)?;
        }
        Ok(())
    }

    /// Sends a write and registers its answer, even if the caller goes away meanwhile.
    pub(super) async fn write(
        &self,
        target: Target,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Arc<K>, ContextError> {
        let request = built(&target, request)?;
        let (context, dynamic, about) = (self.context.clone(), self.dynamic.clone(), target.clone());
        let write = async move {
            let kind = Kind::<K> { context: &context, dynamic };
            let answer = context.send(&target, request).await?;
            kind.register_text(target, &answer)
        };
        self.context.see_through(about, write).await
    }

    fn register_text(&self, target: Target, answer: &str) -> Result<Arc<K>, ContextError> {
        let mut object: K = serde_json::from_str(answer).map_err(|error| target.shape(error))?;
        object.meta_mut().managed_fields = None;
        let object = Arc::new(object);
        let caches = &self.context.parts.caches;
        if is_final(&K::group(&self.dynamic), &K::kind(&self.dynamic), object.as_ref()) {
            let uid = object.meta().uid.as_deref().unwrap_or_default();
            caches.deleted::<K>(&self.dynamic, &ObjectKey::of(object.as_ref()), uid);
        } else {
            caches.wrote(&self.dynamic, &object);
        }
        Ok(object)
    }

    pub(super) fn field_manager(&self) -> String {
        self.context.parts.field_manager.to_string()
    }

    fn patch_params<P: Serialize + Debug>(&self, patch: &Patch<P>) -> PatchParams {
        let force = matches!(patch, Patch::Apply(_));
        PatchParams { force, ..PatchParams::apply(&self.context.parts.field_manager) }
    }

    /// The object as JSON with its kind, which dynamic objects may lack.
    fn complete(&self, object: K) -> Result<serde_json::Value, ContextError> {
        let key = ObjectKey::of(&object);
        let mut value = serde_json::to_value(object).map_err(|error| self.target(Verb::Create, &key).shape(error))?;
        if let Some(object) = value.as_object_mut() {
            object.insert("apiVersion".into(), K::api_version(&self.dynamic).into());
            object.insert("kind".into(), K::kind(&self.dynamic).into());
        }
        Ok(value)
    }
}

fn encode(target: &Target, value: &serde_json::Value) -> Result<Vec<u8>, ContextError> {
    serde_json::to_vec(value).map_err(|error| target.clone().shape(error))
}

fn built(
    target: &Target,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<http::Request<Vec<u8>>, ContextError> {
    request.map_err(|error| target.clone().failed(kube::Error::BuildRequest(error)))
}

#[cfg(test)]
mod tests;
