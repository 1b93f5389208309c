//! Dry runs relative to the stored state that the plan knows, which others may change in the meantime.

use bytes::Bytes;
use http::{Method, Request, StatusCode, header, request::Parts};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::{
    client::Planner,
    overlay::rebase,
    path::ResourcePath,
    state::{PlannedObject, revision},
};

/// Number of times that a write is sent if the stored state changes in the meantime.
const TRIES: u32 = 5;

/// The operator may not read an object.
pub(super) struct Unreadable;

impl Planner {
    /// Sends a write as a dry run. Its result is one on the stored state that is known: if that has changed in the meantime,
    /// it is read again. Returns the response, also as a value.
    pub(super) async fn send_current(
        &self,
        path: &ResourcePath,
        parts: &Parts,
        mut body: Bytes,
        value: &Value,
        before: &mut PlannedObject,
    ) -> Result<(http::response::Parts, Bytes, Value), kube::Error> {
        let mut value = value.clone();
        for tries in 1.. {
            if let Some((planned, live)) = before.revisions()
                && replace_revision(&mut value, planned, live)
            {
                // The API server knows only the stored state.
                body = value.to_string().into();
            }
            let (head, answer) = self.send(parts, body.clone()).await?.into_parts();
            let answer = answer.collect().await?.to_bytes();
            let result: Value = serde_json::from_slice(&answer).unwrap_or_default();
            let known = before.live.as_ref().and_then(revision);
            let is_outdated = match known {
                None => false,
                Some(_) if head.status == StatusCode::CONFLICT => true,
                Some(known) => head.status.is_success() && revision(&result).is_some_and(|revision| revision != known),
            };
            if !is_outdated || tries == TRIES || !self.refresh(path, parts, &mut value, before).await? {
                return Ok((head, answer, result));
            }
            if !value.is_null() {
                body = value.to_string().into();
            }
        }
        unreachable!("the last try returns")
    }

    /// Reads the stored state of an object again. Returns whether it has changed. Changes of others become part of the planned
    /// state, and of the body of a PUT.
    async fn refresh(
        &self,
        path: &ResourcePath,
        parts: &Parts,
        body: &mut Value,
        before: &mut PlannedObject,
    ) -> Result<bool, kube::Error> {
        let (Some(live), Some(planned)) = (&before.live, &before.planned) else { return Ok(false) };
        let Some(name) = live["metadata"]["name"].as_str() else { return Ok(false) };
        let Ok(Some(now)) = self.live(&path.object(name), parts).await? else { return Ok(false) };
        if revision(&now) == revision(live) || now["metadata"]["uid"] != live["metadata"]["uid"] {
            return Ok(false);
        }
        if let (Some(known), Some(newest)) = (revision(planned), revision(&now)) {
            replace_revision(body, known, newest);
        }
        if let (Some(known), Some(newest)) = (revision(live), revision(&now)) {
            replace_revision(body, known, newest);
        }
        if parts.method == Method::PUT {
            *body = rebase(body, live, &now);
        }
        let planned = rebase(planned, live, &now);
        before.applied.values_mut().for_each(|applied| *applied = rebase(applied, live, &now));
        before.planned = Some(planned);
        before.live = Some(now);
        Ok(true)
    }

    /// Returns the stored state of an object, as far as the operator may read it. An operator that only patches objects may
    /// not get them: a patch without content returns the same.
    pub(super) async fn live(
        &self,
        path: &str,
        parts: &Parts,
    ) -> Result<Result<Option<Value>, Unreadable>, kube::Error> {
        let get = Request::get(path).header(header::ACCEPT, "application/json").body(Vec::new());
        let mut answer = self.object(get).await;
        if let Err(kube::Error::Api(status)) = &answer
            && status.code == 403
        {
            if parts.method != Method::PATCH {
                return Ok(Err(Unreadable));
            }
            let patch = Request::patch(format!("{}?dryRun=All", parts.uri.path()))
                .header(header::ACCEPT, "application/json")
                .header(header::CONTENT_TYPE, "application/merge-patch+json")
                .body(b"{}".to_vec());
            answer = self.object(patch).await;
        }
        match answer {
            Ok(live) => Ok(Ok(live)),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Err(Unreadable)),
            // Whether it exists is unknown, and so is the effect of a write.
            Err(error) => Err(error),
        }
    }

    /// Sends a request for an object; returns `None` if it does not exist.
    async fn object(&self, request: http::Result<Request<Vec<u8>>>) -> Result<Option<Value>, kube::Error> {
        match self.client.request_text(request.map_err(kube::Error::HttpError)?).await {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(kube::Error::SerdeError),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns what is known of an object that may not be read: the parts that a response has in any case.
pub(super) fn shape_of(path: &ResourcePath, name: &str, result: &Value) -> Value {
    let mut meta = json!({ "name": name });
    if let Some(namespace) = &path.namespace {
        meta["namespace"] = namespace.clone().into();
    }
    if result["kind"] != "Status" {
        return json!({ "apiVersion": result["apiVersion"], "kind": result["kind"], "metadata": meta });
    }
    let api_version = match (&*path.group, path.collection.split('/').nth(3)) {
        ("", _) => "v1".to_owned(),
        (group, version) => format!("{group}/{}", version.unwrap_or_default()),
    };
    json!({ "apiVersion": api_version, "kind": path.resource, "metadata": meta })
}

/// Replaces a resource version that a write depends on. Returns whether it was there.
fn replace_revision(body: &mut Value, known: &str, newest: &str) -> bool {
    let mut replaced = false;
    let mut replace = |revision: Option<&mut Value>| {
        if let Some(revision) = revision.filter(|revision| **revision == known) {
            *revision = newest.into();
            replaced = true;
        }
    };
    for place in ["/metadata/resourceVersion", "/preconditions/resourceVersion"] {
        replace(body.pointer_mut(place));
    }
    for step in body.as_array_mut().into_iter().flatten() {
        if step["path"] == "/metadata/resourceVersion" {
            replace(step.get_mut("value"));
        }
    }
    replaced
}
