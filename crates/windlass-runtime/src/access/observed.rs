//! Clients whose denied requests are recorded, and the sender of a request.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, client::Body, core::Status};

use super::{Denial, Denials};
use crate::context::Verb;

/// Maximum length of a response that is read for its message, in bytes.
const LONGEST_STATUS: usize = 64 << 10;

/// The sender of a request, stored in its extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) controller: Option<Arc<str>>,
    /// The operation, and the Rust type that it was called with.
    pub(crate) operation: Option<(Verb, String)>,
}

impl Origin {
    /// Adds the sender to a denial.
    pub(super) fn of(self, mut denial: Denial) -> Denial {
        (denial.controller, denial.operation) = (self.controller, self.operation);
        denial
    }
}

impl Denials {
    /// Returns a client that sends requests with `client`, and records denied ones. Responses are unchanged.
    pub fn observe(&self, client: Client) -> Client {
        let (denials, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, denials) = (client.clone(), denials.clone());
            async move {
                let origin = request.extensions().get::<Origin>().cloned().unwrap_or_default();
                let answer = client.send(request).await?;
                if answer.status() != StatusCode::FORBIDDEN {
                    return Ok::<_, kube::Error>(answer);
                }
                let (head, body) = answer.into_parts();
                let body = read(body).await?;
                if let Ok(status) = serde_json::from_slice::<Status>(&body)
                    && let Some(denial) = Denial::of(&status)
                {
                    denials.add(origin.of(denial));
                }
                Ok(Response::from_parts(head, Body::from(body)))
            }
        });
        Client::new(service, namespace)
    }
}

async fn read(body: Body) -> Result<Bytes, kube::Error> {
    let body = Limited::new(body, LONGEST_STATUS).collect().await;
    body.map(|body| body.to_bytes()).map_err(kube::Error::Service)
}
