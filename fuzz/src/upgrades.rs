//! Connections that a request upgrades: exec, attach and port-forward.

use std::{cell::RefCell, convert::Infallible, sync::Arc};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tower::ServiceExt as _;
use windlass_apiserver::user::User;

use crate::{
    runtime::talk,
    shared_server::{self, SharedServer},
    streams::{spdy_wire, websocket_message, websocket_wire},
};

thread_local! {
    static SERVER: RefCell<Option<SharedServer>> = const { RefCell::new(None) };
}

const POD: &str = "/api/v1/namespaces/default/pods";

/// Sends a request for an upgrade, and then bytes in the new protocol. The lines are: the subresource with its query;
/// `w` (WebSocket), `t` (SPDY in a WebSocket) or `s` (SPDY), in upper case to send the rest as raw bytes, and the
/// offered protocol; then frames as in [`spdy`](super::spdy) or [`websocket`](super::websocket). The server disconnects
/// when it is done.
pub fn upgrades(data: &[u8]) {
    let [target, protocol, frames] = super::parts(data);
    let (Some(target), Some(protocol)) = (super::text(target), super::text(protocol)) else { return };
    let mut protocol = protocol.chars();
    let mode = protocol.next().unwrap_or('w');
    let offered: String = protocol.filter(|c| !c.is_control()).collect();
    let target: String = target.chars().filter(|c| c.is_ascii_graphic()).collect();
    let (upgrade, header) = match mode.to_ascii_lowercase() {
        's' => ("SPDY/3.1", "X-Stream-Protocol-Version"),
        _ => ("websocket", "Sec-WebSocket-Protocol"),
    };
    let mut wire = format!(
        "POST {POD}/echo/{target} HTTP/1.1\r\nHost: fuzz\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{header}: {offered}\r\n\r\n"
    )
    .into_bytes();
    wire.extend(match mode {
        's' => spdy_wire(frames),
        'w' => websocket_wire(frames),
        't' => {
            let mut message = Vec::new();
            websocket_message(2, true, &spdy_wire(frames), &mut message);
            message
        }
        _ => frames.to_vec(),
    });
    shared_server::with(&SERVER, create_pod, async |shared| serve(shared, &wire).await);
}

/// Creates the pod that requests connect to.
async fn create_pod(shared: &SharedServer) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "echo"},
        "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]},
    });
    for (path, object) in [("/api/v1/nodes", node), (POD, pod)] {
        let created = shared.send(shared_server::post(path, &object)).await;
        assert_eq!(created.code, 201, "{:?}", created.body);
    }
}

async fn serve(shared: &SharedServer, wire: &[u8]) {
    let (client, server) = tokio::io::duplex(16 << 10);
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::new(User::admin()));
        let server = shared.server.clone();
        async move {
            match server.oneshot(request).await {
                Ok(response) => Ok::<_, Infallible>(response),
                Err(never) => match never {},
            }
        }
    });
    let mut builder = http1::Builder::new();
    // The client closes its side at once, and still gets its response.
    let connection = builder
        .half_close(true)
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(server), service)
        .with_upgrades();
    let (_, answer) = tokio::join!(connection, talk(client, wire));
    assert!(answer.starts_with(b"HTTP/1.1 "), "there must be a response");
}
