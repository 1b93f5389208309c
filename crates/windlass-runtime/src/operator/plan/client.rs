//! The client of a plan: reads see planned states, and writes are dry runs.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header, request::Parts};
use http_body_util::{BodyExt as _, Either};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::{
    PlannedAction, PlannedChange,
    answer::{failed, not_found, refused, respond, shown, unnamed},
    current::{Unreadable, shape_of},
    new_kind::{self, NoEvents},
    overlay::{merge, reapply, rebase},
    path::ResourcePath,
    state::{Applier, PlannedObject, PlannedState},
};
use crate::access::Origin;

type Answer = Result<Response<Body>, kube::Error>;

/// Returns a client that changes nothing on the server of `client`.
pub(super) fn planning(client: Client, state: Arc<PlannedState>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let planner = Planner { client: client.clone(), state: state.clone() };
        async move {
            match planner.watch(&request) {
                Some(watch) => Ok(watch.map(Either::Right)),
                None => planner.answer(request).await.map(|answer| answer.map(Either::Left)),
            }
        }
    });
    Client::new(service, namespace)
}

pub(super) struct Planner {
    pub(super) client: Client,
    state: Arc<PlannedState>,
}

/// A write that is evaluated here.
struct WriteHere<'a> {
    path: &'a ResourcePath,
    parts: &'a Parts,
    value: Value,
    /// Whether the response has only the metadata.
    metadata: bool,
    is_trial: bool,
}

impl Planner {
    /// Handles a watch of a kind that exists only in the plan.
    fn watch(&self, request: &Request<Body>) -> Option<Response<NoEvents>> {
        let path = ResourcePath::parse(request.uri().path()).filter(|path| path.name.is_none())?;
        self.is_of_new_kind(&path).then(|| new_kind::watch(request.uri())).flatten()
    }

    async fn answer(self, request: Request<Body>) -> Answer {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let Some(path) = ResourcePath::parse(request.uri().path()) else {
            return if reads { self.client.send(request).await } else { Ok(refused("requests other than resources")) };
        };
        if path.subresource.as_deref().is_some_and(connects) {
            return Ok(refused("connections to pods, nodes and services"));
        }
        if reads {
            return match self.read(&path, &request) {
                Some(answer) => Ok(answer),
                None if self.is_of_new_kind(&path) => Ok(match &path.name {
                    Some(name) => not_found(&path, name),
                    None => respond(StatusCode::OK, new_kind::EMPTY_LIST),
                }),
                None => self.client.send(request).await,
            };
        }
        // Reviews store nothing.
        if matches!(&*path.group, "authentication.k8s.io" | "authorization.k8s.io") {
            return self.client.send(request).await;
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if path.resource == "events" {
            return Ok(respond(StatusCode::OK, body.to_vec()));
        }
        self.write(path, parts, body).await
    }

    /// Handles a read of a written object.
    fn read(&self, path: &ResourcePath, request: &Request<Body>) -> Option<Response<Body>> {
        if path.subresource.as_deref().is_some_and(|subresource| subresource != "status") {
            return None;
        }
        let name = path.name.as_deref()?;
        let object = self.state.get(&path.object(name))?;
        Some(match object.planned {
            Some(planned) => shown(&planned, wants_metadata(request.headers())),
            None => not_found(path, name),
        })
    }

    async fn write(self, path: ResourcePath, parts: Parts, body: Bytes) -> Answer {
        let controller = parts.extensions.get::<Origin>().and_then(|origin| origin.controller.clone());
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_trial = is_dry_run(&path, &parts, &value);
        let called = path.subresource.clone().filter(|subresource| subresource != "status");
        let name = match (&path.name, &parts.method) {
            (Some(name), _) => Some(name.clone()),
            (None, &Method::POST) => value["metadata"]["name"].as_str().map(str::to_owned),
            (None, _) => None,
        };
        let call =
            called.or_else(|| (name.is_none() && parts.method == Method::DELETE).then(|| "deletecollection".into()));
        if let Some(call) = call {
            let answer = self.send(&parts, body).await?;
            if answer.status().is_success() && !is_trial {
                self.state.called(PlannedChange {
                    action: PlannedAction::Call(call),
                    api_version: path.group.clone(),
                    kind: path.resource.clone(),
                    namespace: path.namespace.clone(),
                    name: name.unwrap_or_else(|| "*".to_owned()),
                    controller: controller.as_deref().map(str::to_owned),
                    fields: Vec::new(),
                });
            }
            return Ok(answer);
        }
        let mut before = match &name {
            Some(name) => self.before(&path.object(name), &parts, controller).await?,
            None => PlannedObject { controller, ..PlannedObject::default() },
        };
        let metadata = wants_metadata(&parts.headers);
        let is_new_in_plan = before.planned.is_none() && before.live.is_some();
        let is_unknown = self.is_in_planned_namespace(&path) || self.is_of_new_kind(&path);
        if before.is_only_planned() || is_new_in_plan || is_unknown {
            let Some(name) = name.or_else(|| self.generated_name(&value)) else {
                return Ok(unnamed(&path));
            };
            let write = WriteHere { path: &path, parts: &parts, value, metadata, is_trial };
            return Ok(self.write_here(write, name, before));
        }
        let (head, body, mut result) = self.send_current(&path, &parts, body, &value, &mut before).await?;
        let Some(name) = name.or_else(|| result["metadata"]["name"].as_str().map(str::to_owned)) else {
            return Ok(Response::from_parts(head, Body::from(body)));
        };
        if !head.status.is_success() || !result.is_object() {
            return Ok(Response::from_parts(head, Body::from(body)));
        }
        if before.is_unknown && before.live.is_none() {
            before.is_unknown = head.status != StatusCode::CREATED;
            before.live = before.is_unknown.then(|| shape_of(&path, &name, &result));
        }
        let is_gone = parts.method == Method::DELETE && result["metadata"]["deletionTimestamp"].is_null();
        let applier = applier(&path, &parts);
        let planned = match (&before.live, &before.planned) {
            _ if is_gone => None,
            (Some(live), Some(planned)) => {
                if result["kind"] == "PartialObjectMetadata" {
                    let meta = result["metadata"].take();
                    result = live.clone();
                    result["metadata"] = meta;
                }
                // The API server does not know what the plan has applied before.
                let former = applier.as_ref().and_then(|applier| before.applied.get(applier)).unwrap_or(live);
                let planned = rebase(planned, former, &result);
                before.applied.extend(applier.map(|applier| (applier, result)));
                Some(planned)
            }
            (None, None) => {
                before.applied.extend(applier.map(|applier| (applier, configuration(&value))));
                Some(result)
            }
            _ => Some(result),
        };
        if planned.is_none() {
            before.applied.clear();
        }
        match self.keep(&path.object(&name), PlannedObject { planned, ..before }, is_trial) {
            Some(planned) => Ok(shown(&planned, metadata)),
            None => Ok(Response::from_parts(head, Body::from(body))),
        }
    }

    /// Evaluates a write to an object that exists only in the plan. There are no defaults, webhooks and quotas here.
    fn write_here(&self, write: WriteHere<'_>, name: String, before: PlannedObject) -> Response<Body> {
        let WriteHere { path, parts, value, metadata, is_trial } = write;
        let is_status = path.subresource.is_some();
        let mut object = match (&parts.method, before.planned.clone()) {
            (&Method::POST, Some(_)) => {
                return failed(
                    StatusCode::CONFLICT,
                    "AlreadyExists",
                    &format!("{} {name:?} already exists", path.resource),
                );
            }
            (_, Some(planned)) => planned,
            (&Method::POST, None) => json!({}),
            (&Method::PATCH, None) if is_apply(parts) && !is_status => json!({}),
            (_, None) => return not_found(path, &name),
        };
        let is_new = before.planned.is_none();
        let mut after = PlannedObject { detached: before.detached || before.live.is_some(), ..before };
        match parts.method {
            Method::DELETE => {
                let has_finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
                after.planned = has_finalizers.then(|| {
                    object["metadata"]["deletionTimestamp"] = jiff::Timestamp::now().to_string().into();
                    object
                });
            }
            Method::PUT if !is_status => {
                let status = object["status"].take();
                object = value;
                if !status.is_null() {
                    object["status"] = status;
                }
                after.planned = Some(object);
            }
            _ if content_type(parts).contains("json-patch+json") => {
                return failed(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "Invalid",
                    "a plan cannot evaluate a JSON patch of an object that does not exist yet",
                );
            }
            Method::PUT => {
                object["status"] = value["status"].clone();
                after.planned = Some(object);
            }
            _ if let Some(applier) = applier(path, parts) => {
                after.planned = Some(reapplied(&mut after.applied, applier, &object, &value));
            }
            _ if is_status => {
                merge(&mut object["status"], &value["status"]);
                after.planned = Some(object);
            }
            _ => {
                merge(&mut object, &value);
                after.planned = Some(object);
            }
        }
        if after.planned.is_none() {
            after.applied.clear();
        }
        if let Some(planned) = after.planned.as_mut() {
            planned["metadata"]["name"] = name.clone().into();
            if let Some(namespace) = &path.namespace {
                planned["metadata"]["namespace"] = namespace.clone().into();
            }
            if is_new && let Some(meta) = planned["metadata"].as_object_mut() {
                meta.remove("uid");
            }
        }
        match self.keep(&path.object(&name), after, is_trial) {
            Some(planned) => shown(&planned, metadata),
            None => {
                respond(StatusCode::OK, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}).to_string())
            }
        }
    }

    /// Returns the name of an object with `generateName`.
    fn generated_name(&self, object: &Value) -> Option<String> {
        let prefix = object["metadata"]["generateName"].as_str().filter(|prefix| !prefix.is_empty())?;
        Some(format!("{prefix}planned-{}", self.state.next_number()))
    }

    /// Stores the state of an object, unless the program asked for a dry run. Returns the state.
    fn keep(&self, path: &str, object: PlannedObject, is_trial: bool) -> Option<Value> {
        if is_trial { object.planned } else { self.state.store(path, object) }
    }

    /// Returns the state of an object before a write.
    async fn before(
        &self,
        path: &str,
        parts: &Parts,
        controller: Option<Arc<str>>,
    ) -> Result<PlannedObject, kube::Error> {
        if let Some(known) = self.state.get(path) {
            return Ok(known);
        }
        let new = PlannedObject { controller, ..PlannedObject::default() };
        // It succeeds only if there is no such object.
        if parts.method == Method::POST {
            return Ok(new);
        }
        Ok(match self.live(path, parts).await? {
            Ok(live) => PlannedObject { planned: live.clone(), live, ..new },
            Err(Unreadable) => PlannedObject { is_unknown: true, ..new },
        })
    }

    /// Returns whether the namespace of an object exists only in the plan.
    fn is_in_planned_namespace(&self, path: &ResourcePath) -> bool {
        let namespace = path.namespace.as_ref().and_then(|name| self.state.get(&format!("/api/v1/namespaces/{name}")));
        namespace.is_some_and(|namespace| namespace.is_only_planned())
    }

    /// Returns whether the CRD of an object exists only in the plan.
    fn is_of_new_kind(&self, path: &ResourcePath) -> bool {
        let definition = self.state.get(&new_kind::definition(&path.resource, &path.group));
        definition.is_some_and(|definition| definition.is_only_planned())
    }

    /// Sends a write as a dry run.
    pub(super) async fn send(&self, parts: &Parts, body: Bytes) -> Answer {
        let mut body = body.to_vec();
        if parts.method == Method::DELETE
            && let Ok(Value::Object(mut options)) = serde_json::from_slice(&body)
        {
            // The API server ignores the query if there is a body.
            options.insert("dryRun".to_owned(), json!(["All"]));
            body = Value::Object(options).to_string().into_bytes();
        }
        let mut uri = parts.uri.to_string();
        if !asks_for_dry_run(&parts.uri) {
            uri.push_str(if parts.uri.query().is_some() { "&dryRun=All" } else { "?dryRun=All" });
        }
        let mut request = Request::builder().method(parts.method.clone()).uri(uri);
        if let Some(headers) = request.headers_mut() {
            *headers = parts.headers.clone();
            headers.remove(header::CONTENT_LENGTH);
        }
        let mut request = request.body(Body::from(body)).map_err(kube::Error::HttpError)?;
        *request.extensions_mut() = parts.extensions.clone();
        self.client.send(request).await
    }
}

fn is_apply(parts: &Parts) -> bool {
    parts.method == Method::PATCH && content_type(parts).contains("apply-patch")
}

/// Returns who applies a configuration, if the request is an apply.
fn applier(path: &ResourcePath, parts: &Parts) -> Option<Applier> {
    let mut query = parts.uri.query().unwrap_or_default().split('&');
    let manager = query.find_map(|parameter| parameter.strip_prefix("fieldManager=")).unwrap_or_default();
    is_apply(parts).then(|| (manager.to_owned(), path.subresource.clone()))
}

/// Returns the fields of an applied configuration that belong to the object.
fn configuration(body: &Value) -> Value {
    let mut configuration = body.clone();
    if let Some(meta) = configuration.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.retain(|name, _| !matches!(name.as_str(), "resourceVersion" | "uid" | "managedFields"));
    }
    configuration
}

/// Returns a planned state after an apply, and remembers its configuration.
fn reapplied(applied: &mut BTreeMap<Applier, Value>, applier: Applier, planned: &Value, body: &Value) -> Value {
    let configuration = configuration(body);
    let former = applied.remove(&applier).unwrap_or_default();
    let after = reapply(planned, &former, applied.values(), &configuration);
    applied.insert(applier, configuration);
    after
}

/// Returns whether the program itself has asked for a dry run, whose result later reads do not see.
fn is_dry_run(path: &ResourcePath, parts: &Parts, body: &Value) -> bool {
    let in_options = |options: &Value| options["dryRun"].as_array().is_some_and(|all| !all.is_empty());
    match parts.method {
        // The API server ignores the query if there is a body.
        Method::DELETE if body.is_object() => in_options(body),
        _ if path.subresource.as_deref() == Some("eviction") && in_options(&body["deleteOptions"]) => true,
        _ => asks_for_dry_run(&parts.uri),
    }
}

fn asks_for_dry_run(uri: &Uri) -> bool {
    uri.query().unwrap_or_default().split('&').any(|parameter| parameter == "dryRun=All")
}

/// Returns whether a subresource connects to something that a dry run does not protect.
fn connects(subresource: &str) -> bool {
    let first = subresource.split('/').next().unwrap_or_default();
    matches!(first, "exec" | "attach" | "portforward" | "proxy")
}

fn wants_metadata(headers: &http::HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("PartialObjectMetadata"))
}

fn content_type(parts: &Parts) -> &str {
    parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
