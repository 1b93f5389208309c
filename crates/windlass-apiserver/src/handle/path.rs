//! Requests that are not for resources: discovery, OpenAPI, health, metrics, snapshots and token issuers.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Method, Response, StatusCode};

use super::{context::Context, scope};
use crate::{
    aggregation::{Entry, Listing, RemoteDocuments},
    blocking,
    body::Body,
    debug_pages::{self, FLAGS_PATH, STATUS_PATH},
    discovery, health,
    query::Query,
    represent,
    server::Inner,
    snapshot,
    status::{ApiError, Result},
    tokens::issuers::{self, CONFIGURATION_PATH, KEYS_PATH},
    user::User,
};

impl Inner {
    /// Handles non-resource requests.
    pub(super) async fn path(self: &Arc<Self>, context: Context<'_>, path: &str) -> Result<Response<Body>> {
        let Context { parts, audit, .. } = context;
        if health::is_health_path(path) && !path.ends_with('/') {
            return Ok(health::answer(self, path, &Query::parse(parts.uri.query())).await);
        }
        let registry = self.registry.load_full();
        if !scope::serves_method(path, &parts.method) {
            let listing = Listing::new(&registry, self);
            let unknown = || discovery::answer(&listing, path, &parts.headers, &parts.uri).err();
            return Err(scope::method_error(path, unknown));
        }
        match path.trim_end_matches('/') {
            // Only the paths of a router ignore a slash at the end.
            "/metrics" | "/openapi/v2" | "/openapi/v3" if path.ends_with('/') => Err(ApiError::page_not_found()),
            "/version" => health::version_answer(&parts.headers),
            FLAGS_PATH | STATUS_PATH if path.ends_with('/') => Err(ApiError::page_not_found()),
            FLAGS_PATH => debug_pages::flags(self, &parts.headers),
            STATUS_PATH => debug_pages::status(self, &parts.headers),
            snapshot::PATH if parts.method == Method::GET => snapshot::answer(self).await,
            "/metrics" => Ok(represent::text(StatusCode::OK, self.metrics.render(self))),
            CONFIGURATION_PATH | KEYS_PATH if parts.method == Method::GET => {
                issuers::answer(self, path.trim_end_matches('/'), &parts.headers)
            }
            "" | "/index.html" => {
                Ok(represent::json(StatusCode::OK, &discovery::paths(&Listing::new(&registry, self))))
            }
            path if path.starts_with("/openapi/") => {
                if let Some(remote) = self.remote_document(path) {
                    let user = &User::aggregator();
                    let request = context.forwarded(Bytes::new(), user, false);
                    return Ok(remote.document(self, request).await);
                }
                let remote = match path {
                    "/openapi/v2" => RemoteDocuments::read(self).boxed().await,
                    _ => RemoteDocuments::indexed(&self.aggregation),
                };
                blocking::run(|| {
                    let only = self.only_groups.as_deref();
                    self.openapi.answer(&registry, &remote, only, path, &parts.headers, &parts.uri)
                })
            }
            path if path.starts_with("/api") => {
                let listing = Listing::new(&registry, self);
                let response = discovery::answer(&listing, path, &parts.headers, &parts.uri)?;
                if let Some(audit) = audit {
                    audit.response_body(&response);
                }
                Ok(response)
            }
            _ => Err(ApiError::page_not_found()),
        }
    }

    /// Returns the server of an OpenAPI document of version 3, if another server serves it.
    fn remote_document(&self, path: &str) -> Option<Arc<Entry>> {
        self.aggregation.remote_of_path(path.strip_prefix("/openapi/v3")?)
    }
}
