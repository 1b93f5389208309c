//! Audit events (`audit.k8s.io/v1`): their contents and their encodings.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::{go_format::quote, json as go_json};

use crate::{meta, status::ApiError, user::User};

/// Audit level: the parts of a request that its events contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// No events.
    None,
    /// The user, the request, the object, and the status of the response.
    Metadata,
    /// Also the object of the request.
    Request,
    /// Also the object of the response.
    RequestResponse,
}

impl Level {
    /// All levels, in order.
    pub const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// Returns the name that policies use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// The stage of a request that an event records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The request was authenticated, and nothing else has happened.
    RequestReceived,
    /// The headers of a long-running request, such as a watch, are sent; also the only stage of a request whose
    /// authentication failed.
    ResponseStarted,
    /// The response is complete, or the client has disconnected.
    ResponseComplete,
    /// The server panicked.
    Panic,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 4] = [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// Returns the name that policies use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// An audit event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) level: Level,
    pub(crate) id: String,
    pub(crate) stage: Stage,
    pub(crate) uri: String,
    pub(crate) verb: String,
    /// `None` if authentication failed.
    pub(crate) user: Option<Arc<User>>,
    pub(crate) impersonated: Option<Arc<User>>,
    /// The kind of constrained impersonation by which the user was impersonated.
    pub(crate) impersonation_constraint: String,
    pub(crate) source_ips: Vec<String>,
    pub(crate) user_agent: String,
    pub(crate) object: Option<ObjectReference>,
    pub(crate) status: Option<EventStatus>,
    /// JSON.
    pub(crate) request_object: Option<Bytes>,
    /// JSON.
    pub(crate) response_object: Option<Bytes>,
    pub(crate) received: Timestamp,
    pub(crate) stage_time: Timestamp,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The object that a request reads or writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectReference {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource_version: String,
    pub(crate) subresource: String,
}

/// The bounded part of a Status, without its metadata.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct EventStatus {
    pub(crate) status: String,
    pub(crate) message: String,
    pub(crate) reason: String,
    pub(crate) details: Option<Value>,
    pub(crate) code: u16,
}

impl EventStatus {
    /// Returns the status of a response that is a Status object.
    pub(crate) fn of(status: &Value) -> Self {
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        Self {
            status: text("status"),
            message: text("message"),
            reason: text("reason"),
            details: status.get("details").cloned(),
            code: status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default(),
        }
    }

    /// Returns the status of a failure; only its code if it is not answered with a Status object.
    pub(crate) fn of_error(error: &ApiError) -> Self {
        match error.plain {
            true => Self { code: error.code.as_u16(), ..Self::default() },
            false => Self { code: error.code.as_u16(), ..Self::of(&error.to_status()) },
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut fields = Fields::begin(out);
        fields.raw("metadata", b"{}");
        for (name, text) in [("status", &self.status), ("message", &self.message), ("reason", &self.reason)] {
            fields.optional_text(name, text);
        }
        if let Some(details) = &self.details {
            fields.raw("details", &go_json::encode(details));
        }
        if self.code != 0 {
            fields.raw("code", self.code.to_string().as_bytes());
        }
        fields.end();
    }
}

impl ObjectReference {
    fn write(&self, out: &mut Vec<u8>) {
        let mut fields = Fields::begin(out);
        for (name, text) in [
            ("resource", &self.resource),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiGroup", &self.group),
            ("apiVersion", &self.version),
            ("resourceVersion", &self.resource_version),
            ("subresource", &self.subresource),
        ] {
            fields.optional_text(name, text);
        }
        fields.end();
    }
}

impl Event {
    /// Returns the fields of the event as JSON, after the opening brace: [`OBJECT`] or [`ITEM`] begins it.
    pub(crate) fn encode(&self) -> Bytes {
        let objects = [&self.request_object, &self.response_object];
        let size: usize = objects.into_iter().flatten().map(Bytes::len).sum();
        let mut out = Vec::with_capacity(size + 1024);
        let mut fields = Fields { out: &mut out, first: true };
        fields.text("level", self.level.as_str());
        fields.text("auditID", &self.id);
        fields.text("stage", self.stage.as_str());
        fields.text("requestURI", &self.uri);
        fields.text("verb", &self.verb);
        write_user(self.user.as_deref(), fields.name("user"));
        if self.impersonated.is_some() {
            write_user(self.impersonated.as_deref(), fields.name("impersonatedUser"));
        }
        if !self.impersonation_constraint.is_empty() {
            let metadata = json!({"impersonationConstraint": self.impersonation_constraint});
            fields.raw("authenticationMetadata", &go_json::encode(&metadata));
        }
        if !self.source_ips.is_empty() {
            fields.raw("sourceIPs", &go_json::encode(&json!(self.source_ips)));
        }
        fields.optional_text("userAgent", &self.user_agent);
        if let Some(object) = &self.object {
            object.write(fields.name("objectRef"));
        }
        if let Some(status) = &self.status {
            status.write(fields.name("responseStatus"));
        }
        for (name, object) in [("requestObject", &self.request_object), ("responseObject", &self.response_object)] {
            if let Some(object) = object {
                fields.raw(name, object.trim_ascii());
            }
        }
        fields.text("requestReceivedTimestamp", &meta::time(self.received).to_rfc3339_micro());
        fields.text("stageTimestamp", &meta::time(self.stage_time).to_rfc3339_micro());
        if !self.annotations.is_empty() {
            fields.raw("annotations", &go_json::encode(&json!(self.annotations)));
        }
        fields.end();
        out.into()
    }

    /// Returns the event without the objects of request and response, for events that are too large.
    pub(crate) fn truncated(&self) -> Self {
        let mut event = Self { request_object: None, response_object: None, ..self.clone() };
        event.annotations.insert("audit.k8s.io/truncated".to_owned(), "true".to_owned());
        event
    }

    /// Returns the event as a line of text, in the format `legacy`.
    pub(crate) fn legacy_line(&self) -> String {
        let list = |groups: &[String]| groups.iter().map(|group| quote(group)).collect::<Vec<_>>().join(",");
        let user = self.user.as_deref().filter(|user| !user.name.is_empty());
        let name = user.map_or("<none>", |user| &user.name);
        let groups = user.filter(|user| !user.groups.is_empty()).map(|user| list(&user.groups));
        let impersonated = self.impersonated.as_deref();
        let as_groups = impersonated.filter(|user| !user.groups.is_empty()).map(|user| list(&user.groups));
        let namespace = self.object.as_ref().map(|object| object.namespace.as_str()).filter(|name| !name.is_empty());
        let response = self.status.as_ref().map_or_else(|| "<deferred>".to_owned(), |status| status.code.to_string());
        format!(
            "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={} asgroups={} user-agent={} namespace={} \
             uri={} response=\"{response}\"",
            self.received,
            quote(&self.id),
            quote(self.stage.as_str()),
            quote(self.source_ips.first().map_or("<unknown>", String::as_str)),
            quote(&self.verb),
            quote(name),
            quote(groups.as_deref().unwrap_or("<none>")),
            quote(impersonated.map_or("<self>", |user| &user.name)),
            quote(as_groups.as_deref().unwrap_or("<lookup>")),
            quote(&self.user_agent),
            quote(namespace.unwrap_or("<none>")),
            quote(&self.uri),
        )
    }
}

/// The beginning of an event as an object of its own, before its encoded fields.
pub(crate) const OBJECT: &[u8] = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#;
/// The beginning of an event as an item of a list, before its encoded fields.
pub(crate) const ITEM: &[u8] = b"{";

/// Writes a UserInfo.
fn write_user(user: Option<&User>, out: &mut Vec<u8>) {
    let mut fields = Fields::begin(out);
    if let Some(user) = user {
        fields.optional_text("username", &user.name);
        fields.optional_text("uid", &user.uid);
        if !user.groups.is_empty() {
            fields.raw("groups", &go_json::encode(&json!(user.groups)));
        }
        if !user.extra.is_empty() {
            fields.raw("extra", &go_json::encode(&json!(user.extra)));
        }
    }
    fields.end();
}

/// Writes the fields of a JSON object.
struct Fields<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Fields<'a> {
    fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    /// Writes the name of a field and returns the writer for its value.
    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn raw(&mut self, name: &str, value: &[u8]) {
        self.name(name).extend_from_slice(value);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.raw(name, &go_json::encode(&Value::from(text)));
    }

    fn optional_text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.text(name, text);
        }
    }

    fn end(self) {
        self.out.push(b'}');
    }
}
