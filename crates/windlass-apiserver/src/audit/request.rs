//! The audit of one request: its event, which grows while the request is handled, and the stages that are emitted.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, request::Parts};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use windlass_schema::{go_format::quote, json as go_json, time::format_duration};

use super::{
    Auditor,
    event::{Event, EventStatus, Level, ObjectReference, Stage},
    objects,
    policy::Recording,
    queue::{OnFull, Submitted},
};
use crate::{
    authorization::{Action, Decision},
    body::Body,
    query::{Query, unescape_path},
    request_info::RequestInfo,
    status::{ApiError, Result},
    user::User,
};

const MAX_USER_AGENT: usize = 1024;
/// The duration above which a request is annotated with it.
const SLOW: Duration = Duration::from_millis(500);

/// The audit of one request.
///
/// Shared by everything that may outlive the handler: the body of a streamed response, an upgraded connection. When the
/// last of them is dropped, for whatever reason, the request is complete.
pub(crate) struct RequestAudit {
    auditor: Arc<Auditor>,
    id: HeaderValue,
    /// The address of the client.
    address: Option<IpAddr>,
    received: Timestamp,
    /// Annotations from before the policy is evaluated.
    early: Mutex<BTreeMap<String, String>>,
    panicked: AtomicBool,
    /// Set when the policy is evaluated; `None` if it records no events.
    recorded: OnceLock<Option<Recorded>>,
}

struct Recorded {
    recording: Recording,
    long_running: bool,
    event: Mutex<Event>,
}

impl RequestAudit {
    pub(super) fn new(auditor: Arc<Auditor>, id: HeaderValue, address: Option<IpAddr>) -> Self {
        Self {
            auditor,
            id,
            address,
            received: windlass_clock::now(),
            early: Mutex::default(),
            panicked: AtomicBool::new(false),
            recorded: OnceLock::new(),
        }
    }

    /// Evaluates the policy for an authenticated request, and emits its first stage. In a blocking mode, waits until
    /// the event is written.
    ///
    /// # Errors
    /// In mode `blocking-strict`, if the event cannot be written.
    pub(crate) async fn authenticated(&self, parts: &Parts, user: &Arc<User>) -> Result<()> {
        self.record(parts, Some(user));
        match self.emit(Stage::RequestReceived, OnFull::Wait).written().await {
            true => Ok(()),
            false => {
                self.auditor.counters.rejected();
                let uri = quote(parts.uri.path_and_query().map_or("/", |uri| uri.as_str()));
                let message = format!("Internal Server Error: {uri}: failed to store audit event\n");
                Err(ApiError { plain: true, ..ApiError::unexpected(message) })
            }
        }
    }

    /// Adds the impersonated user.
    pub(crate) fn impersonated(&self, user: &Arc<User>, constraint: &str) {
        self.change(|event| {
            event.impersonated = Some(user.clone());
            event.impersonation_constraint = constraint.to_owned();
        });
    }

    /// Adds the decision of the authorizer.
    pub(crate) fn authorized(&self, decision: &Decision) {
        if !decision.is_allowed() && decision.error.is_some() {
            self.annotate("authorization.k8s.io/reason", "internal error");
            return;
        }
        let verdict = if decision.is_allowed() { "allow" } else { "forbid" };
        self.annotate("authorization.k8s.io/decision", verdict);
        self.annotate("authorization.k8s.io/reason", &decision.reason);
    }

    /// Adds an annotation; the first value of a key wins.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        if self.recorded.get().is_none() {
            self.early.lock().entry(key.to_owned()).or_insert_with(|| value.to_owned());
            return;
        }
        self.change(|event| {
            event.annotations.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        });
    }

    /// Adds the decoded object of the request, and the object reference derived from it.
    pub(crate) fn request_object(&self, object: &Value) {
        let Some(recorded) = self.recorded() else { return };
        let encoded = (recorded.recording.level >= Level::Request).then(|| recorded.encode(object));
        let mut event = recorded.event.lock();
        if let (Some(metadata), Some(reference)) = (object.get("metadata"), &mut event.object) {
            for (field, known) in [
                ("namespace", &mut reference.namespace),
                ("name", &mut reference.name),
                ("uid", &mut reference.uid),
                ("resourceVersion", &mut reference.resource_version),
            ] {
                if known.is_empty() {
                    *known = metadata[field].as_str().unwrap_or_default().to_owned();
                }
            }
        }
        event.request_object = encoded;
    }

    /// Adds the patch of a request.
    pub(crate) fn request_patch(&self, patch: &Bytes) {
        if self.wants_request() {
            let patch = objects::patch(patch);
            self.change(|event| event.request_object = patch);
        }
    }

    /// Returns whether the object of the request is recorded.
    pub(crate) fn wants_request(&self) -> bool {
        self.recorded().is_some_and(|recorded| recorded.recording.level >= Level::Request)
    }

    /// Returns whether the object of the response is recorded.
    pub(crate) fn wants_response(&self) -> bool {
        self.recorded().is_some_and(|recorded| recorded.recording.level >= Level::RequestResponse)
    }

    /// Adds the object of the response.
    pub(crate) fn response_object(&self, object: &Value) {
        let Some(recorded) = self.recorded() else { return };
        let encoded = self.wants_response().then(|| recorded.encode(object));
        let mut event = recorded.event.lock();
        if object["kind"] == "Status" && object["apiVersion"] == "v1" {
            event.status = Some(EventStatus::of(object));
        }
        event.response_object = encoded.or(event.response_object.take());
    }

    /// Adds the object of a response that is already encoded, unless it is streamed.
    pub(crate) fn response_body(&self, response: &Response<Body>) {
        if self.wants_response()
            && let Some(object) = objects::of_body(response)
        {
            self.response_object(&object);
        }
    }

    /// Adds a failure.
    pub(crate) fn failed(&self, error: &ApiError) {
        if !error.plain && self.wants_response() {
            self.response_object(&error.to_status());
        }
        self.change(|event| event.status = Some(EventStatus::of_error(error)));
    }

    /// Records that the handler has panicked, which is the last stage.
    pub(crate) fn panicked(&self) {
        self.panicked.store(true, Ordering::Relaxed);
    }

    /// Ends the handling of a request: emits its stages, now or when its body ends. In a blocking mode, waits until the
    /// event of a complete response is written.
    pub(crate) async fn respond(self: Arc<Self>, parts: &Parts, response: &mut Response<Body>) {
        let code = response.status();
        if self.panicked.load(Ordering::Relaxed) {
            return;
        }
        if self.recorded.get().is_none() && code == StatusCode::UNAUTHORIZED {
            self.rejected(parts, &ApiError { code, ..ApiError::unauthorized() });
            return;
        }
        let Some(long_running) = self.recorded().map(|recorded| recorded.long_running) else { return };
        self.change(|event| event.status.get_or_insert_default().code = code.as_u16());
        if long_running {
            let _ = self.emit(Stage::ResponseStarted, OnFull::Drop);
        }
        match std::mem::replace(response.body_mut(), Body::empty()) {
            Body::Stream(chunks) => {
                *response.body_mut() = Body::Stream(Box::pin(objects::Kept { chunks, _kept: self }));
            }
            Body::Forwarded(chunks) => {
                *response.body_mut() = Body::Forwarded(Box::pin(objects::Kept { chunks, _kept: self }));
            }
            Body::Timed(chunks) => *response.body_mut() = Body::Timed(chunks.keeping(self)),
            full @ Body::Full(_) => {
                *response.body_mut() = full;
                // The connection is another owner if it is upgraded.
                if let Some(mut audit) = Arc::into_inner(self) {
                    let submitted = audit.complete(false, OnFull::Wait);
                    submitted.written().await;
                }
            }
        }
    }

    /// Emits the only event of a request that is rejected before its user is known.
    pub(crate) fn rejected(&self, parts: &Parts, error: &ApiError) {
        self.record(parts, None);
        self.failed(error);
        let _ = self.emit(Stage::ResponseStarted, OnFull::Drop);
    }

    /// Evaluates the policy, and begins the event if it requires one.
    fn record(&self, parts: &Parts, user: Option<&Arc<User>>) {
        let Some(path) = unescape_path(parts.uri.path()) else { return };
        let query = Query::parse(parts.uri.query());
        let method = parts.method.as_str().to_lowercase();
        let (action, long_running) = match RequestInfo::from_path(&path) {
            RequestInfo::Path(path) => (Action::Path { verb: &method, path }, path.starts_with("/debug/pprof/")),
            RequestInfo::Resource(target) => {
                let verb = target.verb(&parts.method, &query);
                let long_running = verb == crate::Verb::Watch || target.is_long_running();
                (Action::of(verb, &target, &query), long_running)
            }
        };
        let recording = self.auditor.evaluate(user.map(|user| &**user), &action);
        if recording.level == Level::None {
            let _ = self.recorded.set(None);
            return;
        }
        let (verb, object) = match &action {
            Action::Path { verb, .. } => (*verb, None),
            Action::Resource(action) => (action.verb, Some(reference(action))),
        };
        let event = Event {
            level: recording.level,
            id: self.id.to_str().unwrap_or_default().to_owned(),
            stage: Stage::RequestReceived,
            uri: parts.uri.path_and_query().map_or("/", |uri| uri.as_str()).to_owned(),
            verb: verb.to_owned(),
            user: user.cloned(),
            impersonated: None,
            impersonation_constraint: String::new(),
            source_ips: source_ips(parts, self.address),
            user_agent: user_agent(&parts.headers),
            object,
            status: None,
            request_object: None,
            response_object: None,
            received: self.received,
            stage_time: self.received,
            annotations: std::mem::take(&mut *self.early.lock()),
        };
        let recorded = Recorded { recording, long_running, event: Mutex::new(event) };
        // It is set only once, because a request is authenticated once.
        let _ = self.recorded.set(Some(recorded));
    }

    fn recorded(&self) -> Option<&Recorded> {
        self.recorded.get()?.as_ref()
    }

    fn change(&self, change: impl FnOnce(&mut Event)) {
        if let Some(recorded) = self.recorded() {
            change(&mut recorded.event.lock());
        }
    }

    /// Submits the event of a stage, if there is one.
    fn emit(&self, stage: Stage, on_full: OnFull) -> Submitted {
        let Some(recorded) = self.recorded() else { return Submitted::default() };
        if !recorded.recording.has(stage) {
            return Submitted::default();
        }
        let mut event = recorded.event.lock();
        event.stage = stage;
        if stage != Stage::RequestReceived {
            event.stage_time = windlass_clock::now();
        }
        self.auditor.submit(&event, on_full)
    }

    /// Emits the last stage, once.
    fn complete(&mut self, panicked: bool, on_full: OnFull) -> Submitted {
        let stage = self.recorded().and_then(|recorded| recorded.end(panicked));
        let submitted = stage.map(|stage| self.emit(stage, on_full)).unwrap_or_default();
        self.recorded.take();
        submitted
    }
}

impl Recorded {
    fn encode(&self, object: &Value) -> Bytes {
        match self.recording.omit_managed_fields {
            true => go_json::encode_object(&objects::without_managed_fields(object)).into(),
            false => go_json::encode_object(object).into(),
        }
    }

    /// Completes the event and returns its last stage; `None` if it has none.
    fn end(&self, panicked: bool) -> Option<Stage> {
        let mut event = self.event.lock();
        // The only event of a request that failed to authenticate is already emitted.
        event.user.as_ref()?;
        if panicked {
            event.status = Some(EventStatus {
                status: "Failure".to_owned(),
                message: "APIServer panic'd".to_owned(),
                reason: "InternalError".to_owned(),
                details: None,
                code: 500,
            });
            return Some(Stage::Panic);
        }
        event.status.get_or_insert_with(|| EventStatus {
            status: "Success".to_owned(),
            message: "Connection closed early".to_owned(),
            code: 200,
            ..EventStatus::default()
        });
        let took = windlass_clock::now().duration_since(event.received);
        if !self.long_running && took > jiff::SignedDuration::try_from(SLOW).unwrap_or_default() {
            let took = i64::try_from(took.as_nanos()).unwrap_or(i64::MAX);
            event.annotations.insert("apiserver.latency.k8s.io/total".to_owned(), format_duration(took));
        }
        Some(Stage::ResponseComplete)
    }
}

impl Drop for RequestAudit {
    fn drop(&mut self) {
        // Waiting is not possible here: the request was dropped, or its stream has ended.
        let panicked = thread::panicking() || *self.panicked.get_mut();
        let _ = self.complete(panicked, OnFull::Drop);
    }
}

fn reference(action: &crate::authorization::ResourceAction<'_>) -> ObjectReference {
    ObjectReference {
        resource: action.resource.to_owned(),
        namespace: action.namespace.to_owned(),
        name: action.name.to_owned(),
        group: action.group.to_owned(),
        version: action.version.to_owned(),
        subresource: action.subresource.to_owned(),
        ..ObjectReference::default()
    }
}

fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(http::header::USER_AGENT).map_or(&[][..], HeaderValue::as_bytes);
    match agent.get(..MAX_USER_AGENT) {
        Some(beginning) if agent.len() > MAX_USER_AGENT => {
            format!("{}...TRUNCATED", String::from_utf8_lossy(beginning))
        }
        _ => String::from_utf8_lossy(agent).into_owned(),
    }
}

/// Returns the addresses of the client and of proxies, as far as they are known.
fn source_ips(parts: &Parts, peer: Option<IpAddr>) -> Vec<String> {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let forwarded = header("x-forwarded-for").split(',');
    let mut addresses: Vec<IpAddr> = forwarded.filter_map(|address| address.trim().parse().ok()).collect();
    if let Ok(address) = header("x-real-ip").parse()
        && !addresses.contains(&address)
    {
        addresses.push(address);
    }
    if peer.is_some() && addresses.last() != peer.as_ref() {
        addresses.extend(peer);
    }
    addresses.iter().map(|address| address.to_canonical().to_string()).collect()
}
