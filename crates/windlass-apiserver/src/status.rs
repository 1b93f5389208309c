//! Errors as Kubernetes clients expect them: `metav1.Status` with code, reason, message and details.
//!
//! [`ApiError`] is the only error type of the request path. It contains everything that the client may see; a cause
//! that only the log may see is stored separately.

use std::{collections::HashSet, fmt};

use http::{StatusCode, Uri};
use serde_json::{Map, Value, json};
use windlass_schema::field::{ErrorList, FieldError};

use crate::verb::Verb;

/// A failed request.
#[derive(Debug, Clone)]
pub struct ApiError {
    /// The HTTP status.
    pub code: StatusCode,
    /// The machine-readable reason; empty if kube-apiserver sets none.
    pub reason: &'static str,
    /// The message for the client.
    pub message: String,
    /// `details` of the Status.
    pub details: Option<Box<Value>>,
    /// Details for the log only.
    pub cause: Option<Box<str>>,
    /// The token in `metadata.continue`, for expired lists.
    pub continue_token: Option<Box<str>>,
    /// Whether the response is the plain text of the router instead of a Status.
    pub plain: bool,
    /// Whether the request has taken too long: the response is a Status without its kind, which is not negotiated.
    pub(crate) timed_out: bool,
    /// Whether browsers must not guess the type of the response.
    pub no_sniff: bool,
    /// A Status from a webhook, which is returned unchanged.
    pub foreign: Option<Box<Value>>,
}

/// The result of handling a request.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

/// Returns the qualified name of a resource, as in error messages: `deployments.apps`, `configmaps`.
pub fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

fn details(name: &str, group: &str, kind: &str) -> Map<String, Value> {
    let mut map = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            map.insert(key.to_owned(), value.into());
        }
    }
    map
}

impl ApiError {
    /// Returns an error with neither details nor cause.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            cause: None,
            continue_token: None,
            plain: false,
            timed_out: false,
            no_sniff: false,
            foreign: None,
        }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401, the same for all failures of authentication.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 500 as kube-apiserver sends it when an authorizer fails: plain text.
    pub(crate) fn undecided(uri: &Uri, error: &str) -> Self {
        let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let message = format!("Internal Server Error: {:?}: {}\n", escape(&uri.to_string()), escape(error));
        Self { plain: true, ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message) }
    }

    /// 403 for a resource, with the reason.
    pub fn forbidden(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let subject = qualified(resource, group);
        let message = if name.is_empty() {
            format!("{subject} is forbidden: {why}")
        } else {
            format!("{subject} \"{name}\" is forbidden: {why}")
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details(details(name, group, resource))
    }

    /// 404 for a missing object.
    pub fn not_found(resource: &str, group: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(resource, group));
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with_details(details(name, group, resource))
    }

    /// 404 for a path in a known group version that is not served.
    pub fn no_such_resource() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
            .with_details(Map::new())
    }

    /// The router's plain `404 page not found`.
    pub fn page_not_found() -> Self {
        Self { plain: true, ..Self::new(StatusCode::NOT_FOUND, "", "404 page not found\n") }
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).with_details(Map::new())
    }

    /// 405 for a verb that a custom resource or its subresource does not have.
    pub fn verb_not_supported(verb: Verb, resource: &str, group: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{}\"", qualified(resource, group));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
            .with_details(details("", group, resource))
    }

    /// 406 with the supported media types.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 409 for an object that already exists.
    pub fn already_exists(resource: &str, group: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(resource, group));
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).with_details(details(name, group, resource))
    }

    /// The error for an object that exists already, if the server could generate another name.
    pub(crate) fn not_unique(mut self) -> Self {
        if let Some(details) = &mut self.details {
            details["retryAfterSeconds"] = 1.into();
        }
        let message = format!("{}, the server was not able to generate a unique name for the object", self.message);
        Self { message, ..self }
    }

    /// 409 for a write that conflicts with another one, or whose preconditions do not hold.
    pub fn conflict(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(resource, group));
        Self::new(StatusCode::CONFLICT, "Conflict", message).with_details(details(name, group, resource))
    }

    /// 503 for a write to a server that does not know recent writes of others.
    pub(crate) fn behind() -> Self {
        let message = "this API server is behind the store and rejects writes until it has caught up";
        let mut details = Map::new();
        details.insert("retryAfterSeconds".to_owned(), 1.into());
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message).with_details(details)
    }

    /// 409 for an update of an outdated object.
    pub fn modified(resource: &str, group: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, group, name, why)
    }

    /// 410 for a resource version that is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 413.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("limit is {limit}");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: {message}"),
        )
    }

    /// 415 with the supported media types.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 422 for an object, with every field error as a cause.
    pub fn invalid(kind: &str, group: &str, name: &str, errors: &ErrorList) -> Self {
        let message = format!("{} \"{name}\" is invalid: {}", qualified(kind, group), aggregate(errors));
        let mut map = details(name, group, kind);
        let causes = errors.iter().map(cause).collect();
        map.insert("causes".to_owned(), Value::Array(causes));
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(map)
    }

    /// 429 as kube-apiserver sends it when it has no capacity for a request: plain text and `Retry-After`.
    pub fn too_many_requests(retry_after_seconds: u64) -> Self {
        let mut details = Map::new();
        details.insert("retryAfterSeconds".to_owned(), retry_after_seconds.into());
        let message = "Too many requests, please try again later.\n";
        Self { plain: true, ..Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message) }
            .with_details(details)
    }

    /// 500 with a reason.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            details: Some(Box::new(json!({"causes": [{"message": message}]}))),
            ..Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                format!("Internal error occurred: {message}"),
            )
        }
    }

    /// 500 without a reason, as kube-apiserver returns for unexpected errors.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 500 for an object that cannot be read from the store.
    pub fn storage_read(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "StorageReadError", message)
    }

    /// 500 for a request whose handler panicked: plain text.
    pub(crate) fn panicked() -> Self {
        let message = "This request caused apiserver to panic. Look in the logs for details.\n";
        Self { plain: true, ..Self::unexpected(message) }
    }

    /// 504 for a request that was not answered within its time limit.
    pub(crate) fn timed_out() -> Self {
        Self { timed_out: true, ..Self::timeout("request did not complete within the allotted timeout") }
    }

    /// 504 for a write that took too long.
    pub(crate) fn unfinished() -> Self {
        Self::timeout("request did not complete within requested timeout - context deadline exceeded")
    }

    /// 504 for something that took too long.
    pub fn timeout(message: impl Into<String>) -> Self {
        let message = format!("Timeout: {}", message.into());
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with_details(Map::new())
    }

    /// Returns the error with `details`.
    #[must_use]
    pub fn with_details(mut self, details: Map<String, Value>) -> Self {
        self.details = Some(Box::new(Value::Object(details)));
        self
    }

    /// Returns the Status object.
    pub fn to_status(&self) -> Value {
        if let Some(status) = &self.foreign {
            return (**status).clone();
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = (**details).clone();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = (**token).into();
        }
        status
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl From<windlass_store::Error> for ApiError {
    fn from(error: windlass_store::Error) -> Self {
        use windlass_store::Error;
        match error {
            // Clients know etcd's messages.
            Error::NoSpace => Self::unexpected(error.to_string()),
            Error::TooLarge { cause } | Error::Unavailable { cause } | Error::Unknown { cause } => {
                Self::unexpected(cause)
            }
            error => Self::internal(error.to_string()),
        }
    }
}

fn cause(error: &FieldError) -> Value {
    json!({"reason": error.kind.reason(), "message": error.body(), "field": error.field})
}

/// Joins field errors to one message: a single error unchanged, several in brackets, duplicates once.
pub(crate) fn aggregate(errors: &ErrorList) -> String {
    let mut messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let keep: Vec<bool> = {
        let mut seen = HashSet::with_capacity(messages.len());
        messages.iter().map(|message| seen.insert(message.as_str())).collect()
    };
    let mut keep = keep.into_iter();
    messages.retain(|_| keep.next().unwrap_or(true));
    match messages.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
