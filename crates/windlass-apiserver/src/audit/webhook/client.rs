//! The HTTP client of a webhook, from a kubeconfig.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::Full;

use crate::{
    blocking,
    kubeconfig::{Credentials, KubeconfigError, RemoteServer},
    webhooks::Remote,
};

/// The time limit of a call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The part of a response that is read.
const ANSWER_LIMIT: usize = 1 << 20;

/// A client of one webhook.
pub(super) struct Client {
    remote: Remote,
    uri: Uri,
    credentials: Credentials,
}

impl Client {
    /// Returns the client of the current context of a kubeconfig.
    pub(super) fn from_kubeconfig(path: &Path) -> Result<Self, KubeconfigError> {
        let invalid = |why| KubeconfigError::Invalid { path: path.to_owned(), why };
        let RemoteServer { url, tls, credentials } = RemoteServer::load(path)?;
        let uri = format!("{url}?timeout={}s", TIMEOUT.as_secs()).parse::<Uri>();
        let uri = uri.map_err(|_| invalid(format!("server {url:?} must be a URL without a query")))?;
        Ok(Self { remote: blocking::run(|| Remote::new(&tls)).map_err(invalid)?, uri, credentials })
    }

    /// Posts events.
    ///
    /// # Errors
    /// Returns an error if they were not accepted.
    pub(super) async fn post(&self, body: Bytes) -> Result<(), String> {
        let mut request = Request::post(self.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, "kube-apiserver-audit");
        if let Some(credentials) = self.credentials.header().await? {
            request = request.header(header::AUTHORIZATION, credentials);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let answer = self.remote.send(request, TIMEOUT, ANSWER_LIMIT).await?;
        answer.failure().map_or(Ok(()), Err)
    }
}
