//! What needs a running pod behind it: logs, exec, attach, port-forward, proxy. There are no nodes to ask.

use http::StatusCode;

use crate::{
    call::{Answer, Call},
    status::{ApiError, Result},
};

/// GET of a pod's log. A pod that no node runs has written nothing.
pub(crate) async fn log(call: &Call<'_>) -> Result<Answer> {
    let pod = call.current().await?.ok_or_else(|| call.not_found())?.to_value();
    match pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        Some(node) => Err(ApiError::not_found("nodes", "", node)),
        None => Ok(Answer::Text { code: StatusCode::OK, text: String::new() }),
    }
}

/// Streams and proxies.
pub(crate) async fn refuse(call: &Call<'_>) -> Result<Answer> {
    let object = call.current().await?.ok_or_else(|| call.not_found())?.to_value();
    let name = call.target.name;
    if !call.is_core("pods") {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            format!("no endpoints available for \"{name}\""),
        ));
    }
    match object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        Some(node) => Err(ApiError::not_found("nodes", "", node)),
        None => Err(ApiError::bad_request(format!("pod {name} does not have a host assigned"))),
    }
}
