//! The floor: a server that answers with constants, as large as the real responses, over the same TLS and HTTP/2.
//!
//! No server can be faster for this client on this machine, so it shows how much of a number is the client's own cost.

use std::{
    convert::Infallible,
    fs,
    net::Ipv4Addr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use clap::Args;
use futures_util::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    kind::{Kind, SHARDS},
    pki::Pki,
};

/// Maximum number of events in one frame when a watcher has fallen behind.
const BATCH: usize = 32;

/// Serve constants, as the benchmark's floor
#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    /// Directory with the certificates
    #[arg(long)]
    pki: PathBuf,
    /// File to write with the URL once it serves
    #[arg(long)]
    ready_file: PathBuf,
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long)]
    objects: usize,
    #[arg(long)]
    payload: usize,
}

type Answer = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

struct Constants {
    collection: String,
    object: Bytes,
    list: Bytes,
    shard: Bytes,
    event: Bytes,
    deleted: Bytes,
    /// Unbounded: a watcher that reads slowly must not slow down the others, and the load is finite.
    watchers: Mutex<Vec<UnboundedSender<Bytes>>>,
}

/// Serves until the process is killed.
pub(crate) async fn serve(args: FloorArgs) -> anyhow::Result<()> {
    let acceptor = TlsAcceptor::from(Pki::at(&args.pki).server_config()?);
    let constants = Arc::new(Constants::new(&args));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let temporary = args.ready_file.with_extension("tmp");
    fs::write(&temporary, format!("https://{}", listener.local_addr()?))
        .and_then(|()| fs::rename(&temporary, &args.ready_file))
        .with_context(|| format!("cannot write {}", args.ready_file.display()))?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let (acceptor, constants) = (acceptor.clone(), constants.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else { return };
            let service = service_fn(move |request| {
                let constants = constants.clone();
                async move { Ok::<_, Infallible>(constants.answer(request).await) }
            });
            // Fails when the client disconnects, which needs no report.
            let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl Constants {
    fn new(args: &FloorArgs) -> Self {
        let (kind, payload) = (args.kind, args.payload);
        let object = kind.stored(0, payload);
        let event = format!("{}\n", json!({"type": "MODIFIED", "object": &object}));
        Self {
            collection: kind.collection(),
            object: object.to_string().into(),
            list: kind.stored_list(0..args.objects, payload),
            shard: kind.stored_list((0..args.objects).step_by(SHARDS), payload),
            event: event.into(),
            deleted: json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": "w-0000000", "kind": "configmaps", "uid": object["metadata"]["uid"]}})
            .to_string()
            .into(),
            watchers: Mutex::default(),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        let (head, mut body) = request.into_parts();
        while let Some(Ok(_)) = body.frame().await {}
        let query = head.uri.query().unwrap_or_default();
        let whole = |bytes: &Bytes| Either::Left(Full::new(bytes.clone()));
        let answer = match head.method {
            Method::GET if query.starts_with("watch=") => self.watch(),
            Method::GET if query.contains("labelSelector=") => whole(&self.shard),
            Method::GET if head.uri.path() == self.collection => whole(&self.list),
            Method::DELETE => whole(&self.deleted),
            Method::PATCH => {
                self.announce();
                whole(&self.object)
            }
            _ => whole(&self.object),
        };
        let mut response = Response::new(answer);
        if head.method == Method::POST {
            *response.status_mut() = StatusCode::CREATED;
        }
        response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        response
    }

    fn watch(&self) -> Answer {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.watchers.lock().expect("no thread panics with the lock").push(sender);
        let batches = stream::unfold(receiver, async |mut receiver: UnboundedReceiver<Bytes>| {
            let mut batch = Vec::with_capacity(BATCH);
            let data = match receiver.recv_many(&mut batch, BATCH).await {
                0 => return None,
                1 => batch.swap_remove(0),
                _ => batch
                    .iter()
                    .fold(BytesMut::new(), |mut all, event| {
                        all.extend_from_slice(event);
                        all
                    })
                    .freeze(),
            };
            Some((Ok(Frame::data(data)), receiver))
        });
        Either::Right(StreamBody::new(batches).boxed_unsync())
    }

    fn announce(&self) {
        let mut watchers = self.watchers.lock().expect("no thread panics with the lock");
        watchers.retain(|watcher| watcher.send(self.event.clone()).is_ok());
    }
}
