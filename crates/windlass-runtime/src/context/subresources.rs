//! Subresources of objects: scale, eviction, logs.

use futures_util::AsyncBufRead;
use k8s_openapi::api::{autoscaling::v1::Scale, core::v1::Pod};
use kube::{
    api::{EvictParams, LogParams, Patch, PatchParams, PostParams},
    core::Request,
};
use serde_json::json;

use super::{
    Context, ContextError, Kind,
    any_kind::AnyKind,
    error::{RequestSubject, Verb},
    look_up::Subject,
    write::{Built, built},
};
use crate::{client::TimeLimit, key::ObjectKey, object::Object, objects::AsObject};

/// Subresources. Writes are sent only while this process leads. The permissions are declared with
/// [`Controller::scales`](crate::controller::Controller::scales), `evicts`, `reads_logs` and `execs`.
impl Context {
    /// Returns the scale of an object: its desired and actual replicas, and the selector of its pods.
    pub async fn scale<K: Object<DynamicType: Default>>(
        &self,
        object: &impl AsObject<K>,
    ) -> Result<Scale, ContextError> {
        self.kind::<K>().scale(&ObjectKey::of(object.object())).await
    }

    /// Sets the number of replicas of an object, of any kind with a scale.
    pub async fn set_scale<K: Object<DynamicType: Default>>(
        &self,
        object: &impl AsObject<K>,
        replicas: i32,
    ) -> Result<Scale, ContextError> {
        self.kind::<K>().set_scale(&ObjectKey::of(object.object()), replicas).await
    }

    /// Evicts a pod: deletes it if its disruption budgets allow it now. If they do not, this is an error for which
    /// [`is_disruption_budget`](ContextError::is_disruption_budget) returns true.
    pub async fn evict(&self, pod: &impl AsObject<Pod>) -> Result<(), ContextError> {
        self.evict_with(pod, EvictParams::default()).await
    }

    /// Evicts a pod with a grace period or preconditions.
    pub async fn evict_with(&self, pod: &impl AsObject<Pod>, params: EvictParams) -> Result<(), ContextError> {
        let (kind, key) = (self.kind::<Pod>(), ObjectKey::of(pod.object()));
        let any = kind.any();
        let manager = Some(self.handles.field_manager.to_string());
        let post_options = PostParams { field_manager: manager, ..params.post_options };
        let request = any.request(Verb::Evict, &key)?.evict(key.name(), &EvictParams { post_options, ..params });
        any.write_subresource(any.target(Verb::Evict, &key), request).await.map(drop)
    }

    /// Returns the logs of a pod. Set [`LogParams::limit_bytes`] or `tail_lines` if they may be long: without
    /// [`LogParams::follow`], they must arrive within the time limit of a request.
    pub async fn logs(&self, pod: &impl AsObject<Pod>, params: &LogParams) -> Result<String, ContextError> {
        let (target, request) = self.logs_request(pod.object(), params)?;
        let answer = match params.follow {
            true => self.handles.client.request_text(request).await,
            false => self.respond(request).await,
        };
        answer.map_err(|error| self.failed(target, error))
    }

    /// Returns the logs of a pod as a stream; with [`LogParams::follow`], of new lines, too.
    pub async fn log_stream(&self, pod: &Pod, params: &LogParams) -> Result<impl AsyncBufRead + use<>, ContextError> {
        let (target, mut request) = self.logs_request(pod, params)?;
        let limit = TimeLimit::new(self.handles.request_timeout);
        limit.attach(request.extensions_mut());
        let stream = limit.run(self.handles.client.request_stream(request)).await;
        stream.unwrap_or_else(|late| Err(late.into())).map_err(|error| self.failed(target, error))
    }

    fn logs_request(
        &self,
        pod: &Pod,
        params: &LogParams,
    ) -> Result<(RequestSubject, http::Request<Vec<u8>>), ContextError> {
        let key = ObjectKey::of(pod);
        let any = self.kind::<Pod>().any();
        let target = any.target(Verb::Logs, &key);
        let mut request = built(&target, any.request(Verb::Logs, &key)?.logs(key.name(), params))?;
        request.extensions_mut().insert(self.origin(&target));
        Ok((target, request))
    }
}

impl<K: Object> Kind<'_, K> {
    /// Returns the scale of an object.
    pub async fn scale(&self, key: &ObjectKey) -> Result<Scale, ContextError> {
        let any = self.any();
        let target = any.target(Verb::Scale, key);
        let request = any.request(Verb::Scale, key)?.get_subresource("scale", key.name());
        let mut request = built(&target, request)?;
        request.extensions_mut().insert(self.context.origin(&target));
        let answer = self.context.respond(request).await;
        let answer = answer.map_err(|error| self.context.failed(target.clone(), error))?;
        serde_json::from_str(&answer).map_err(|error| target.shape(error))
    }

    /// Sets the number of replicas of an object.
    pub async fn set_scale(&self, key: &ObjectKey, replicas: i32) -> Result<Scale, ContextError> {
        let any = self.any();
        let params = PatchParams {
            field_manager: Some(self.context.handles.field_manager.to_string()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let request: Request = any.request(Verb::Scale, key)?;
        let request = request.patch_subresource("scale", key.name(), &params, &patch);
        let target = any.target(Verb::Scale, key);
        let answer = any.write_subresource(target.clone(), request).await?;
        serde_json::from_str(&answer).map_err(|error| target.shape(error))
    }
}

impl AnyKind<'_> {
    /// Sends a write whose response is not the object, and looks up what it has done to the object.
    async fn write_subresource(&self, target: RequestSubject, request: Built) -> Result<String, ContextError> {
        let request = built(&target, request)?;
        let (context, about) = (self.context.clone(), target.clone());
        let look_up = self.looking_up(about.key.clone(), Subject::Object);
        let seen = look_up.clone();
        let write = async move {
            let answer = context.send(&target, request).await?;
            if !context.is_dry_run() {
                seen.run(&context).await;
            }
            Ok(answer)
        };
        self.context.see_through(about, write, look_up).await
    }
}
