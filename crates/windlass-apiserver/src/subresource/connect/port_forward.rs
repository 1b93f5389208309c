//! Connections to ports of a pod, over SPDY streams or WebSocket channels.

use std::{collections::HashMap, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use tokio::{io::AsyncWriteExt as _, sync::mpsc, task::JoinSet};

use super::{Target, channels::Outgoing, next_piece, pieces::Piece, spdy::session::Stream};
use crate::{meta, status::ApiError};

/// The number of connections that may wait for their second stream.
const HALVES_MAX: usize = 1024;

/// Serves the streams of a connection: each request has one stream for errors and one for data.
pub(crate) async fn over_streams(target: Target, mut opened: mpsc::Receiver<Stream>) {
    let target = Arc::new(target);
    let mut halves: HashMap<String, Stream> = HashMap::new();
    let mut running = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = opened.recv() => match stream {
                Some(stream) => stream,
                None => break,
            },
            Some(_) = running.join_next() => continue,
        };
        let request = stream.header("requestid").to_owned();
        let Some(other) = halves.remove(&request) else {
            if halves.len() < HALVES_MAX {
                halves.insert(request, stream);
            }
            continue;
        };
        let (error, data) = if other.header("streamtype") == "error" { (other, stream) } else { (stream, other) };
        // Clients send nothing on the stream for errors; dropping its queue discards what they send anyway.
        let Stream { id: error, .. } = error;
        let target = target.clone();
        let task = async move {
            let port = data.header("port").parse().unwrap_or(0);
            let Stream { id, incoming, outgoing, .. } = data;
            forward(&target, port, incoming, &outgoing, id, error).await;
        };
        running.spawn(task.boxed());
    }
    // Pending requests end with the connection.
}

/// Serves ports over channels: two per port, the first for data and the second for errors.
pub(crate) async fn over_channels(
    target: Target,
    ports: Vec<u16>,
    incoming: Vec<mpsc::Receiver<Piece>>,
    outgoing: mpsc::Sender<Outgoing>,
) {
    let target = Arc::new(target);
    let mut running = JoinSet::new();
    for ((index, port), incoming) in ports.into_iter().enumerate().zip(incoming) {
        let (target, outgoing) = (target.clone(), outgoing.clone());
        let (data, error) = (index as u32 * 2, index as u32 * 2 + 1);
        let task = async move {
            // Both channels begin with the number of their port.
            for channel in [data, error] {
                let number = Bytes::copy_from_slice(&port.to_le_bytes());
                let _ = outgoing.send(Outgoing::Data(channel, number)).await;
            }
            forward(&target, port, incoming, &outgoing, data, error).await;
        };
        running.spawn(task.boxed());
    }
    drop(outgoing);
    while running.join_next().await.is_some() {}
}

/// Forwards one connection, until both sides are done or one of them fails.
async fn forward(
    target: &Target,
    port: u16,
    mut incoming: mpsc::Receiver<Piece>,
    outgoing: &mpsc::Sender<Outgoing>,
    data: u32,
    error: u32,
) {
    let connected = match port {
        0 => Err(ApiError::bad_request("the port of a stream must be a number above 0")),
        port => target.connections.port_forward(&target.pod, port).await,
    };
    let connection = match connected {
        Ok(connection) => connection,
        Err(failure) => {
            let uid = meta::text(&target.pod, "uid");
            let message = format!("error forwarding port {port} to pod {uid}, uid : {}", failure.message);
            let _ = outgoing.send(Outgoing::Data(error, message.into())).await;
            let _ = outgoing.send(Outgoing::Close(error)).await;
            let _ = outgoing.send(Outgoing::Close(data)).await;
            return;
        }
    };
    let (mut read, mut write) = tokio::io::split(connection);
    let inwards = async {
        while let Some(piece) = incoming.recv().await {
            if write.write_all(&piece.bytes).await.is_err() {
                return;
            }
        }
        let _ = write.shutdown().await;
    };
    let outwards = async {
        let mut buffer = BytesMut::new();
        while let Some(piece) = next_piece(&mut read, &mut buffer).await {
            if outgoing.send(Outgoing::Data(data, piece)).await.is_err() {
                break;
            }
        }
        let _ = outgoing.send(Outgoing::Close(data)).await;
    };
    tokio::pin!(outwards);
    // The pod's side decides when the connection ends; the client may close its half earlier.
    tokio::select! {
        () = &mut outwards => {}
        () = inwards => outwards.await,
    }
    let _ = outgoing.send(Outgoing::Close(error)).await;
}
