//! The connection to another API server, and what is known about its API.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    Aggregation, headers,
    openapi::{GroupVersionDocument, KeptParts},
};
use crate::{
    user::User,
    webhooks::{Connections, HttpVersions, Identity, Service, Tls, error_text, hold_time, service_connections},
};

/// The largest accepted document.
const DOCUMENT_LIMIT: usize = 64 << 20;

/// The connection to the server of an APIService, as long as the APIService names it in the same way.
#[derive(Default)]
pub(crate) struct Link {
    pub(super) service: Option<Service>,
    ca_bundle: String,
    insecure: bool,
    pooled: Mutex<Option<Opened>>,
    upgradable: Mutex<Option<Opened>>,
    /// The resources of the group version, as in aggregated discovery.
    pub(super) resources: ArcSwapOption<Value>,
    /// The OpenAPI document of version 3.
    pub(super) openapi: ArcSwapOption<GroupVersionDocument>,
    /// The OpenAPI document of version 2.
    pub(super) document: Mutex<KeptParts>,
}

/// Connections with the certificate that was current when they were opened.
struct Opened {
    identity: Option<Arc<Identity>>,
    connections: Result<Arc<Connections>, String>,
}

impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        let settings = |link: &Self| (link.service.clone(), link.ca_bundle.clone(), link.insecure);
        settings(self) == settings(other)
    }
}

/// A document of the other server.
pub(super) struct Document {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Link {
    pub(super) fn new(service: Service, ca_bundle: &str, insecure: bool) -> Self {
        Self { service: Some(service), ca_bundle: ca_bundle.to_owned(), insecure, ..Self::default() }
    }

    /// Returns the URL of a path.
    pub(super) fn url(&self, path_and_query: &str) -> String {
        format!("https://{}{path_and_query}", self.host())
    }

    /// Returns the host and port, by which the server's certificate is verified.
    pub(super) fn host(&self) -> String {
        let Some(Service { namespace, name, port }) = &self.service else { return String::new() };
        format!("{name}.{namespace}.svc:{port}")
    }

    /// Returns the connections, which are opened when they are used. After a change of the certificate there are new ones;
    /// requests in flight complete on the old ones.
    ///
    /// # Errors
    /// Returns an error if a certificate cannot be used.
    pub(super) fn connections(&self, from: &Aggregation, versions: HttpVersions) -> Result<Arc<Connections>, String> {
        let kept = match versions {
            HttpVersions::All => &self.pooled,
            HttpVersions::Upgradable => &self.upgradable,
        };
        let identity = from.identity.load_full();
        let mut kept = kept.lock();
        let is_current = |opened: &&Opened| match (&opened.identity, &identity) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        if let Some(opened) = kept.as_ref().filter(is_current) {
            return opened.connections.clone();
        }
        let open = || {
            let service = self.service.clone().ok_or_else(|| "the APIService names no service".to_owned())?;
            let tls = Tls {
                authorities: STANDARD.decode(&self.ca_bundle).unwrap_or_default(),
                insecure: self.insecure,
                server_name: None,
                identity: identity.as_deref().cloned(),
            };
            service_connections(service, from.resolver.clone(), &tls, versions)
        };
        let connections = open().map(Arc::new);
        *kept = Some(Opened { identity: identity.clone(), connections: connections.clone() });
        connections
    }

    /// Gets a document as a user of this server, within a time limit.
    ///
    /// # Errors
    /// Returns an error if there is no response, worded as in Go.
    pub(super) async fn get(
        &self,
        from: &Aggregation,
        path: &str,
        user: &User,
        headers: &[(header::HeaderName, &str)],
        limit: Duration,
    ) -> Result<Document, String> {
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = self.url(path).parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        for (name, value) in headers {
            request.headers_mut().insert(name, HeaderValue::try_from(*value).map_err(|error| error.to_string())?);
        }
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static("Go-http-client/2.0"));
        headers::set_user(request.headers_mut(), user);
        let fetch = async {
            let response = self.send(from, request, HttpVersions::All).await?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, DOCUMENT_LIMIT).collect().await.map_err(|error| error.to_string())?;
            Ok(Document { status: parts.status, headers: parts.headers, body: body.to_bytes() })
        };
        let _hold = hold_time(limit);
        tokio::time::timeout(limit, fetch).await.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Returns an error if there is no response, worded as in Go.
    pub(super) async fn send(
        &self,
        from: &Aggregation,
        request: Request<Full<Bytes>>,
        versions: HttpVersions,
    ) -> Result<Response<Incoming>, String> {
        let connections = self.connections(from, versions)?;
        connections.request(request).await.map_err(|error| error_text(&error))
    }

    /// Drops cached API documents, which may be stale.
    pub(super) fn forget(&self) {
        self.resources.store(None);
        self.openapi.store(None);
        *self.document.lock() = KeptParts::default();
    }

    /// Keeps the resources of the group version.
    pub(super) fn remember(&self, resources: Value, openapi: Option<GroupVersionDocument>) {
        self.resources.store(Some(Arc::new(resources)));
        self.openapi.store(openapi.map(Arc::new));
    }
}
