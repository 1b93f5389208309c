//! Writes: sending them, and registering their responses with the caches.

use std::{fmt::Debug, sync::Arc};

use kube::{
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::{ObjectMeta, Request},
};
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::{
    ContextError, Kind,
    any_kind::AnyKind,
    error::{RequestSubject, Verb},
    look_up::{LookUp, Subject},
};
use crate::{
    any_object::{AnyObject, json_of, typed},
    key::ObjectKey,
    object::{Object, is_final},
    objects::AsObject,
};

/// A request, if it could be built.
pub(super) type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;
/// Response of the API server to a write.
type WriteResult = Result<Arc<dyn AnyObject>, ContextError>;

impl<K: Object> Kind<'_, K> {
    /// Creates an object. With a `generateName` instead of a name, the API server generates one.
    pub async fn create(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.any().create(Box::new(object)).await.map(typed)
    }

    /// Replaces an object. It must have the resource version of the state that it was derived from: if the object has
    /// changed since, this is a [conflict](ContextError::Conflict).
    pub async fn update(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.any().update(Box::new(object)).await.map(typed)
    }

    /// Replaces an object's status, and everything else that the kind allows to be written with it. See
    /// [`update`](Self::update).
    pub async fn update_status(&self, object: K) -> Result<Arc<K>, ContextError> {
        self.any().update_status(Box::new(object)).await.map(typed)
    }

    /// Patches an object with a JSON patch, merge patch or strategic merge patch. (For server-side apply, use
    /// [`Kind::apply`].)
    pub async fn patch<P: Serialize + Debug>(&self, key: &ObjectKey, patch: &Patch<P>) -> Result<Arc<K>, ContextError> {
        self.any().patch(key, patch).await.map(typed)
    }

    /// Patches an object's status.
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        key: &ObjectKey,
        patch: &Patch<P>,
    ) -> Result<Arc<K>, ContextError> {
        self.any().patch_status(key, patch).await.map(typed)
    }

    /// Deletes this object. If another object has taken its name in the meantime, that one is kept, and this is a
    /// [conflict](ContextError::Conflict). Succeeds if the object is already deleted. An object with finalizers exists
    /// until they are removed.
    pub async fn delete(&self, object: &impl AsObject<K>, params: &DeleteParams) -> Result<(), ContextError> {
        self.any().delete(object.object().meta(), params).await
    }
}

impl AnyKind<'_> {
    /// See [`Kind::create`].
    pub(super) async fn create(&self, object: Box<dyn AnyObject>) -> WriteResult {
        let key = ObjectKey::of_meta(object.metadata());
        let target = self.target(Verb::Create, &key);
        let body = self.complete(&target, &*object)?;
        let request = self.request(Verb::Create, &key)?.create(&self.post_params(), body);
        let prefix = object.metadata().generate_name.clone().filter(|_| key.name().is_empty());
        self.write_named(target, request, prefix).await
    }

    /// See [`Kind::update`].
    async fn update(&self, object: Box<dyn AnyObject>) -> WriteResult {
        self.replace(Verb::Update, &*object, |request, name, params, body| request.replace(name, params, body)).await
    }

    /// See [`Kind::update_status`].
    async fn update_status(&self, object: Box<dyn AnyObject>) -> WriteResult {
        let put =
            |request: &Request, name: &str, params: &_, body| request.replace_subresource("status", name, params, body);
        self.replace(Verb::SetStatus, &*object, put).await
    }

    async fn replace(
        &self,
        verb: Verb,
        object: &dyn AnyObject,
        put: fn(&Request, &str, &PostParams, Vec<u8>) -> Built,
    ) -> WriteResult {
        let meta = object.metadata();
        let key = ObjectKey::of_meta(meta);
        let target = self.target(verb, &key);
        if meta.resource_version.as_deref().unwrap_or_default().is_empty() {
            return Err(target.lacks("resourceVersion"));
        }
        let body = self.complete(&target, object)?;
        let request = put(&self.request(verb, &key)?, key.name(), &self.post_params(), body);
        self.write(target, request).await
    }

    /// See [`Kind::patch`].
    pub(super) async fn patch<P: Serialize + Debug>(&self, key: &ObjectKey, patch: &Patch<P>) -> WriteResult {
        let request = self.request(Verb::Patch, key)?.patch(key.name(), &self.patch_params(patch), patch);
        self.write(self.target(Verb::Patch, key), request).await
    }

    /// See [`Kind::patch_status`].
    pub(super) async fn patch_status<P: Serialize + Debug>(&self, key: &ObjectKey, patch: &Patch<P>) -> WriteResult {
        let request = self.request(Verb::SetStatus, key)?;
        let request = request.patch_subresource("status", key.name(), &self.patch_params(patch), patch);
        self.write(self.target(Verb::SetStatus, key), request).await
    }

    /// See [`Kind::delete`].
    pub(super) async fn delete(&self, object: &ObjectMeta, params: &DeleteParams) -> Result<(), ContextError> {
        let key = ObjectKey::of_meta(object);
        let target = self.target(Verb::Delete, &key);
        let uid = object.uid.clone();
        let mut params = params.clone();
        params.dry_run |= self.context.is_dry_run();
        let preconditions = params.preconditions.get_or_insert(Preconditions { resource_version: None, uid: None });
        if preconditions.uid.is_none() {
            preconditions.uid.clone_from(&uid);
        }
        let request = built(&target, self.request(Verb::Delete, &key)?.delete(key.name(), &params))?;
        let (context, kind_info, about) = (self.context.clone(), self.kind_info.clone(), target.clone());
        let deletion = async move {
            let answer = context.send(&target, request).await;
            if params.dry_run {
                return match answer {
                    Err(error) if !error.is_not_found() => Err(error),
                    _ => Ok(()),
                };
            }
            let kind = AnyKind::new(&context, kind_info);
            kind.register_deletion(target, &key, uid.as_deref().unwrap_or_default(), answer)
        };
        let look_up = self.looking_up(about.key.clone(), Subject::Object);
        self.context.see_through(about, deletion, look_up).await
    }

    fn register_deletion(
        &self,
        target: RequestSubject,
        key: &ObjectKey,
        uid: &str,
        answer: Result<String, ContextError>,
    ) -> Result<(), ContextError> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.is_not_found() => {
                self.is_gone(key, uid);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        #[derive(Deserialize)]
        struct Head {
            #[serde(default)]
            metadata: Deleted,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Deleted {
            uid: Option<String>,
            deletion_timestamp: Option<IgnoredAny>,
        }
        let head: Head = serde_json::from_str(&answer).map_err(|error| target.clone().shape(error))?;
        match head.metadata {
            // The deletion has begun; this may be the last state or not.
            Deleted { uid: Some(_), deletion_timestamp: Some(_) } => {
                // The deletion itself has succeeded, even if the type cannot hold the object.
                if let Err(error) = self.register_text(target, &answer) {
                    tracing::debug!(%error, "the state of a deleted object is unreadable");
                }
                Ok(())
            }
            // Some kinds, such as ServiceAccount, respond with the object as it was before.
            Deleted { uid: Some(deleted), .. } => {
                self.is_gone(key, &deleted);
                Ok(())
            }
            // A Status.
            Deleted { uid: None, .. } => {
                self.is_gone(key, uid);
                Ok(())
            }
        }
    }

    /// Sends a write and registers its response, even if the caller is dropped.
    pub(super) async fn write(&self, target: RequestSubject, request: Built) -> WriteResult {
        self.write_named(target, request, None).await
    }

    /// Like `write`, for an object with a generated name if there is a `prefix`.
    async fn write_named(&self, target: RequestSubject, request: Built, prefix: Option<String>) -> WriteResult {
        let request = built(&target, request)?;
        let (context, kind_info, about) = (self.context.clone(), self.kind_info.clone(), target.clone());
        let write = async move {
            let answer = context.send(&target, request).await?;
            if context.is_dry_run() {
                return kind_info.read(answer.as_bytes()).map_err(|error| target.shape(error));
            }
            let object = AnyKind::new(&context, kind_info).register_text(target, &answer)?;
            context.attempt.record.wrote(object.metadata());
            Ok(object)
        };
        let look_up = self.looking_up(about.key.clone(), prefix.map_or(Subject::Object, Subject::Generated));
        self.context.see_through(about, write, look_up).await
    }

    /// Returns how to look up what a write has done.
    pub(super) fn looking_up(&self, key: ObjectKey, subject: Subject) -> LookUp {
        LookUp { kind_info: self.kind_info.clone(), key, subject }
    }

    pub(super) fn register_text(&self, target: RequestSubject, answer: &str) -> WriteResult {
        let mut object = self.kind_info.read(answer.as_bytes()).map_err(|error| target.shape(error))?;
        if let Some(object) = Arc::get_mut(&mut object) {
            object.metadata_mut().managed_fields = None;
        }
        let (resource, meta) = (self.kind_info.resource(), object.metadata());
        if is_final(&resource.group, &resource.kind, meta) {
            self.is_gone(&ObjectKey::of_meta(meta), meta.uid.as_deref().unwrap_or_default());
        } else {
            self.kind_info.wrote(&self.context.handles.caches, object.clone());
        }
        Ok(object)
    }

    fn post_params(&self) -> PostParams {
        PostParams { field_manager: Some(self.context.handles.field_manager.to_string()), ..PostParams::default() }
    }

    fn patch_params<P: Serialize + Debug>(&self, patch: &Patch<P>) -> PatchParams {
        let force = matches!(patch, Patch::Apply(_));
        PatchParams { force, ..PatchParams::apply(&self.context.handles.field_manager) }
    }

    /// Serializes an object with its kind, which dynamic objects may lack.
    fn complete(&self, target: &RequestSubject, object: &dyn AnyObject) -> Result<Vec<u8>, ContextError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head {
            api_version: String,
            kind: String,
        }
        let shape = |error| target.clone().shape(error);
        let json = json_of(object).map_err(shape)?;
        let resource = self.kind_info.resource();
        let head = serde_json::from_slice::<Head>(&json);
        if head.is_ok_and(|head| head.api_version == resource.api_version && head.kind == resource.kind) {
            return Ok(json);
        }
        let mut value: serde_json::Value = serde_json::from_slice(&json).map_err(shape)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("apiVersion".into(), resource.api_version.into());
            object.insert("kind".into(), resource.kind.into());
        }
        serde_json::to_vec(&value).map_err(shape)
    }
}

pub(super) fn built(target: &RequestSubject, request: Built) -> Result<http::Request<Vec<u8>>, ContextError> {
    request.map_err(|error| target.clone().failed(kube::Error::BuildRequest(error)))
}

#[cfg(test)]
mod tests;
