//! Subresources that need a running pod: logs, exec, attach, port-forward, proxy.
//!
//! Requests are checked here and then handed to the [`PodConnections`] of the server. A server without any has no node
//! to connect to, or only simulated ones.

pub(crate) mod channels;
mod log;
pub(crate) mod pieces;
mod port_forward;
mod proxy;
mod remote;
pub(crate) mod spdy;
pub(crate) mod upgrade;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::{
    admission::Operation,
    authorization::{Action, Attributes, ResourceAction},
    call::{Answer, Call},
    dynamic_admission,
    pod_connections::{PodConnections, Streams},
    status::{ApiError, Result},
    verb::Verb,
    webhooks::{Options, Subject},
};

pub(crate) use self::log::log;

/// A pod with the connections to it.
struct Target {
    pod: Value,
    connections: Arc<dyn PodConnections>,
}

/// Reads the next chunk of about ten kilobytes at most; returns `None` at the end. A terminal whose other side is
/// closed fails to read, which is its end.
async fn next_piece(from: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut) -> Option<Bytes> {
    buffer.reserve(32 << 10);
    match from.read_buf(buffer).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(buffer.split().freeze()),
    }
}

/// Connects to the target of the subresource, with the options that policies and webhooks leave.
pub(crate) async fn connect(call: &Call<'_>, verb: Verb) -> Result<Answer> {
    let subject = Subject { operation: Operation::Connect, name: call.target.name, options: Options::Connect };
    let mut options = options(call);
    dynamic_admission::admit(call, &subject, &mut options).await?;
    if verb != Verb::Create && call.target.subresource != "proxy" {
        may_create(call).await?;
    }
    match call.target.subresource {
        "exec" => exec(call, &options).await,
        "attach" => attach(call, &options).await,
        "portforward" => port_forward(call).await,
        _ => proxy::proxy(call, verb).await,
    }
}

/// Checks that the user may also create the connection: WebSocket clients send a GET, for which `get` was checked, and
/// SPDY clients a POST, for which `create` was checked.
async fn may_create(call: &Call<'_>) -> Result<()> {
    let target = &call.target;
    let action = ResourceAction {
        verb: Verb::Create.as_str(),
        group: target.group,
        version: target.version,
        resource: target.resource,
        subresource: target.subresource,
        namespace: target.namespace,
        name: target.name,
        ..ResourceAction::default()
    };
    let request = Attributes { user: call.user, action: Action::Resource(action) };
    let decision = call.server.authorizer.authorize(&request).decide().await;
    match (decision.is_allowed(), decision.error) {
        (true, _) => Ok(()),
        (false, Some(error)) => Err(ApiError::internal(error)),
        (false, None) => Err(ApiError::forbidden(target.resource, target.group, target.name, &decision.reason)),
    }
}

/// Returns the query as the object that webhooks see.
fn options(call: &Call<'_>) -> Value {
    let (api_version, kind) = call.body_kind();
    let mut options = json!({"apiVersion": api_version, "kind": kind});
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if call.query.flag(flag) {
            options[flag] = true.into();
        }
    }
    let path = match call.target.rest {
        "" if call.target.subresource == "proxy" => "/".to_owned(),
        rest => format!("/{rest}").replacen("//", "/", 1),
    };
    let texts = [("container", call.query.text("container")), ("path", if path == "/" { "" } else { path.as_str() })];
    for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        options[field] = text.into();
    }
    if !call.query.all("command").is_empty() {
        options["command"] = json!(call.query.all("command"));
    }
    let ports = call.query.all("ports");
    let ports: Vec<i64> = ports.iter().flat_map(|list| list.split(',')).filter_map(|port| port.parse().ok()).collect();
    if !ports.is_empty() {
        options["ports"] = json!(ports);
    }
    options
}

/// Runs a command in a container.
async fn exec(call: &Call<'_>, options: &Value) -> Result<Answer> {
    let pod = current(call).await?;
    let container = container(&pod, options["container"].as_str().unwrap_or_default(), call.target.name)?;
    let target = target(call, &pod)?;
    let streams = streams(options)?;
    let command = options["command"].as_array().into_iter().flatten();
    let command: Vec<String> = command.filter_map(|word| word.as_str().map(str::to_owned)).collect();
    if command.is_empty() {
        return Err(ApiError::bad_request("you must specify at least 1 command for the container"));
    }
    upgrade::remote_command(call, streams, async move {
        target.connections.exec(&target.pod, &container, command, streams).await
    })
}

/// Connects to a container's process.
async fn attach(call: &Call<'_>, options: &Value) -> Result<Answer> {
    let pod = current(call).await?;
    let container = container(&pod, options["container"].as_str().unwrap_or_default(), call.target.name)?;
    let target = target(call, &pod)?;
    let streams = streams(options)?;
    upgrade::remote_command(
        call,
        streams,
        async move { target.connections.attach(&target.pod, &container, streams).await },
    )
}

/// Connects to ports of a pod.
async fn port_forward(call: &Call<'_>) -> Result<Answer> {
    let pod = current(call).await?;
    let target = target(call, &pod)?;
    upgrade::port_forward(call, target)
}

async fn current(call: &Call<'_>) -> Result<Value> {
    Ok(call.current().await?.ok_or_else(|| call.not_found())?.to_value())
}

fn node(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())
}

/// Returns the pod with the connections to it. It must be on a node that runs containers.
fn target(call: &Call<'_>, pod: &Value) -> Result<Target> {
    let name = call.target.name;
    let node = node(pod).ok_or_else(|| ApiError::bad_request(format!("pod {name} does not have a host assigned")))?;
    let connections = call.server.pod_connections.clone().ok_or_else(|| no_connections(call, node))?;
    Ok(Target { pod: pod.clone(), connections })
}

/// The error for a pod that has nothing to connect to: its node is simulated, or does not exist.
fn no_connections(call: &Call<'_>, node: &str) -> ApiError {
    if call.server.storage.cache("/core/nodes/").get(node).is_none() {
        // kube-apiserver reports the node as a resource of this path.
        let resource = &*call.endpoint.resource;
        return ApiError::not_found(&resource.plural, &resource.group, node);
    }
    let action = match call.target.subresource {
        "log" => "get logs of",
        "exec" => "execute a command in",
        "attach" => "attach to",
        _ => "forward ports to",
    };
    ApiError::bad_request(simulated(action, call.target.name, node))
}

/// Says that a pod cannot be used because its node is simulated.
fn simulated(action: &str, pod: &str, node: &str) -> String {
    format!(
        "cannot {action} pod {pod}: node {node} is simulated, and simulated pods run no containers; start the cluster \
         with \"windlass up --runtime process\" to run pods as processes that have logs and accept connections"
    )
}

/// Returns the streams that the options request.
fn streams(options: &Value) -> Result<Streams> {
    let flag = |name: &str| options[name].as_bool() == Some(true);
    let tty = flag("tty");
    let streams = Streams { stdin: flag("stdin"), stdout: flag("stdout"), stderr: flag("stderr"), tty };
    if !streams.stdin && !streams.stdout && !streams.stderr {
        return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    // A terminal has a single output.
    Ok(Streams { stderr: streams.stderr && !tty, ..streams })
}

/// Returns the requested container: the named one, or the only one of the pod.
fn container(pod: &Value, container: &str, name: &str) -> Result<String> {
    let named = |list: &str| -> Vec<String> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str().map(str::to_owned)).collect()
    };
    let mut containers = named("containers");
    if container.is_empty() && containers.len() == 1 {
        return Ok(containers.remove(0));
    }
    let known = [named("initContainers"), containers, named("ephemeralContainers")].concat();
    if container.is_empty() {
        let choice = known.join(" ");
        let message = format!("a container name must be specified for pod {name}, choose one of: [{choice}]");
        return Err(ApiError::bad_request(message));
    }
    match known.iter().any(|have| have == container) {
        true => Ok(container.to_owned()),
        false => Err(ApiError::bad_request(format!("container {container} is not valid for pod {name}"))),
    }
}
