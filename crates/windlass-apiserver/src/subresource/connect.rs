//! What needs a running pod behind it: logs, exec, attach, port-forward, proxy. There are no nodes to ask.

use http::StatusCode;
use serde_json::Value;

use crate::{
    call::{Answer, Call},
    status::{ApiError, Result},
};

/// GET of a pod's log. A pod that no node runs has written nothing.
pub(crate) async fn log(call: &Call<'_>) -> Result<Answer> {
    let pod = call.current().await?.ok_or_else(|| call.not_found())?.to_value();
    check_container(&pod, call.query.text("container"), call.target.name)?;
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

/// A log is of one container: the one that is named, or the only one there is.
fn check_container(pod: &Value, container: &str, name: &str) -> Result<()> {
    let named = |list: &str| -> Vec<String> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str().map(str::to_owned)).collect()
    };
    let (containers, init) = (named("containers"), named("initContainers"));
    if container.is_empty() {
        if containers.len() == 1 {
            return Ok(());
        }
        let mut message =
            format!("a container name must be specified for pod {name}, choose one of: [{}]", containers.join(" "));
        if !init.is_empty() {
            message += &format!(" or one of the init containers: [{}]", init.join(" "));
        }
        return Err(ApiError::bad_request(message));
    }
    let known = [containers, init, named("ephemeralContainers")].concat();
    if known.iter().any(|have| have == container) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("container {container} is not valid for pod {name}")))
}
