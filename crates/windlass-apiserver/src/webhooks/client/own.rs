//! Calls of webhooks behind the service of this server itself, which are requests that it sends to itself.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt as _, Full, Limited};

use super::{ANSWER_LIMIT, Reply, dial::Service};
use crate::{server::Inner, user::User};

/// This server, as soon as it exists.
#[derive(Clone, Default)]
pub(super) struct OwnServer(Arc<OnceLock<Weak<Inner>>>);

impl OwnServer {
    /// Returns whether a service is that of this server: its webhooks need neither endpoints nor a trusted certificate.
    pub(super) fn is_behind(service: &Service) -> bool {
        (&*service.namespace, &*service.name, service.port) == ("default", "kubernetes", 443)
    }

    pub(super) fn set(&self, server: &Weak<Inner>) {
        // The server is set once, when it is built.
        let _ = self.0.set(server.clone());
    }

    /// Sends a request as the server's own user. Boxed, because the handler of a request sends others through this function.
    pub(super) fn send(&self, mut request: Request<Full<Bytes>>) -> BoxFuture<'static, Result<Reply, String>> {
        let server = self.0.get().and_then(Weak::upgrade);
        request.extensions_mut().insert(Arc::new(User::apiserver()));
        Box::pin(async move {
            let server = server.ok_or_else(|| "the server is stopping".to_owned())?;
            let (parts, body) = request.into_parts();
            let Ok(response) = server.clone().handle_boxed(parts, Box::pin(body.map_err(Into::into))).await;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_LIMIT).collect().await.map_err(|error| error.to_string())?;
            Ok((parts.status, parts.headers, body.to_bytes()))
        })
    }
}
