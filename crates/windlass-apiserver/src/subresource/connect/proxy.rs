//! Forwards requests to pods, services and nodes: their subresource `proxy`.
//!
//! As with kube-apiserver, a name may be `[scheme:]name[:port]`, requests of all methods are forwarded with their path and
//! query, and absolute links to the pod (in `Location` and in HTML) lead through the proxy. Three things differ: the body
//! of a request is read before it is forwarded, and limited like that of any other request; an HTML page of more than
//! 4 MiB is passed on unchanged; and the query of a request that upgrades its connection is forwarded, too.

mod forward;
mod links;
mod location;
mod paths;

use http::StatusCode;
use serde_json::Value;

use self::location::Name;
use crate::{
    call::{Answer, Call},
    represent,
    status::{ApiError, Result},
    verb::Verb,
};

/// The port of kubelets.
const KUBELET: &str = "10250";

/// Forwards a request.
pub(super) async fn proxy(call: &Call<'_>, verb: Verb) -> Result<Answer> {
    let kind = match &*call.endpoint.resource.plural {
        "pods" => "pod",
        "services" => "service",
        _ => "node",
    };
    let id = call.target.name;
    let name = Name::parse(id).ok_or_else(|| ApiError::bad_request(format!("invalid {kind} request {id:?}")))?;
    call.server.storage.fresh().await?;
    let location = match kind {
        "pod" => location::pod(call, &name)?,
        "service" => location::service(call, &name)?,
        _ => return node(call, &name, verb).await,
    };
    forward::forward(call, &location).await
}

/// Answers a request to a node, as its kubelet does.
async fn node(call: &Call<'_>, name: &Name<'_>, verb: Verb) -> Result<Answer> {
    let object = location::object(call, "nodes", name.name)?;
    check_address(&object)?;
    let Some(nodes) = &call.server.node_connections else {
        return Err(unreachable(format!("node {} does not accept connections", name.name)));
    };
    if !matches!(name.port, "" | KUBELET) {
        return Err(unreachable(format!("node {} has no server on port {}", name.name, name.port)));
    }
    // As kubelets answer, in plain text.
    let plain = |code, text: &str| Ok(Answer::Text { code, text: text.to_owned() });
    if verb != Verb::Get {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
    }
    match nodes.get(name.name, call.target.rest.trim_start_matches('/')).await? {
        Some(document) => Ok(Answer::Response(Box::new(represent::bytes(
            StatusCode::OK,
            document.content_type,
            document.text.into(),
        )))),
        None => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// Rejects a request to a node without an address that kube-apiserver could use.
fn check_address(node: &Value) -> Result<()> {
    const USABLE: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
    let addresses = node["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if addresses.iter().any(|address| USABLE.contains(&&*text(&address["type"]))) {
        return Ok(());
    }
    let known = addresses.iter().map(|address| format!("{{{} {}}}", text(&address["type"]), text(&address["address"])));
    let known: Vec<String> = known.collect();
    Err(ApiError::unexpected(format!("no preferred addresses found; known addresses: [{}]", known.join(" "))))
}

/// 503 for something that does not answer.
fn unreachable(why: impl std::fmt::Display) -> ApiError {
    unavailable(format!("error trying to reach service: {why}"))
}

fn unavailable(message: String) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
}
