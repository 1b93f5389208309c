//! Responses of a plan.

use http::{Response, StatusCode, header};
use kube::client::Body;
use serde_json::{Value, json};

use super::path::ResourcePath;

pub(super) fn shown(object: &Value, metadata: bool) -> Response<Body> {
    let text = match metadata {
        true => {
            let meta = &object["metadata"];
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}).to_string()
        }
        false => object.to_string(),
    };
    respond(StatusCode::OK, text)
}

pub(super) fn not_found(path: &ResourcePath, name: &str) -> Response<Body> {
    let code = StatusCode::NOT_FOUND;
    let mut status = failure(code, "NotFound", &format!("{} {name:?} not found", path.resource));
    // Without details, it would be the kind that is missing.
    status["details"] = json!({"name": name, "group": path.group, "kind": path.resource});
    respond(code, status.to_string())
}

pub(super) fn unnamed(path: &ResourcePath) -> Response<Body> {
    let message =
        format!("{} \"\" is invalid: metadata.name: Required value: name or generateName is required", path.resource);
    failed(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", &message)
}

pub(super) fn refused(what: &str) -> Response<Body> {
    failed(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", &format!("a plan rejects {what}"))
}

pub(super) fn failed(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    respond(code, failure(code, reason, message).to_string())
}

fn failure(code: StatusCode, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "message": message, "code": code.as_u16()})
}

pub(super) fn respond(code: StatusCode, body: impl Into<Vec<u8>>) -> Response<Body> {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
