//! The registration of a connection and the body of a response, which end the accounting when they are dropped.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use windlass_tls::BoxError;

use super::{ActiveRequest, Connection};
use crate::body::Body;

/// Removes a connection from the register when dropped.
pub(crate) struct Registration(Arc<Connection>);

impl Registration {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self(connection)
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.connections.open.lock().remove(self.0.id);
    }
}

/// The body of a response, whose request is active until the body is sent.
pub(crate) struct TrackedBody {
    body: Body,
    _request: ActiveRequest,
}

impl TrackedBody {
    pub(crate) fn new(body: Body, request: ActiveRequest) -> Self {
        Self { body, _request: request }
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
