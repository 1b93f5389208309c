//! The server and its builder.

mod builder;
mod error;
mod tasks;

use std::{
    convert::Infallible,
    future::Future,
    sync::Arc,
    task::{Context, Poll},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{sync::watch, task::AbortHandle};
use windlass_store::Store;

pub use self::{builder::ServerBuilder, error::BuildError};
use crate::{
    admission::Admission,
    aggregation::Aggregation,
    audit::Audit,
    authentication::{Authentication, AuthenticationError, RequestHeaderOptions, jwt::JwtTokenAuthenticator},
    authorization::{Attributes, Authorizer, Chain, Decision, rbac::Rbac},
    body::Body,
    bootstrap::endpoint_lease::EndpointLease,
    connections::Connections,
    debug_pages::Process,
    definitions::Definitions,
    flow_control::FlowControl,
    limits::Limits,
    metrics::Metrics,
    node_connections::NodeConnections,
    openapi::OpenApi,
    pod_connections::PodConnections,
    policies::Policies,
    registry::Registry,
    storage::Storage,
    tokens::{LEGACY_ISSUER, LegacyClaims, TokenKey},
    upload::UploadBudget,
    user::User,
    webhooks::{Identity, Webhooks},
    write::{Allocator, QuotaLocks, Units},
};

/// An error of a request's body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A Kubernetes-compatible API server over a [`Store`].
///
/// A cheap handle: clones share the server. It is a [`tower::Service`] of HTTP requests; [`Server::serve`] serves it
/// over TLS, and [`Server::client`] is a kube client without a socket. Callers set the [`User`] of a request in its
/// extensions; a request without one is anonymous. The server stops when the last clone is dropped.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

/// The shared parts of a server.
pub(crate) struct Inner {
    pub(crate) storage: Arc<Storage>,
    pub(crate) registry: ArcSwap<Registry>,
    pub(crate) definitions: Definitions,
    pub(crate) authentication: Authentication,
    pub(crate) jwt: Option<Arc<JwtTokenAuthenticator>>,
    pub(crate) authorizer: Box<dyn Authorizer>,
    pub(crate) rbac: Arc<Rbac>,
    pub(crate) chain: Arc<Chain>,
    pub(crate) admission: Vec<Box<dyn Admission>>,
    /// Whether NodeRestriction is enabled, for requests that do not take the write path.
    pub(crate) restricts_nodes: bool,
    pub(crate) audit: Audit,
    pub(crate) services: Allocator,
    /// The endpoint of this server among those of others over the same store.
    pub(crate) endpoint_lease: Option<EndpointLease>,
    /// `None` if quotas are not charged.
    pub(crate) quota_locks: Option<QuotaLocks>,
    pub(crate) token_key: TokenKey,
    pub(crate) external_address: String,
    pub(crate) metrics: Metrics,
    pub(crate) limits: Limits,
    pub(crate) process: Process,
    /// The groups that clients outside of this process may use; all if `None`.
    pub(crate) only_groups: Option<Vec<String>>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) uploads: UploadBudget,
    pub(crate) flow_control: Arc<FlowControl>,
    pub(crate) openapi: OpenApi,
    pub(crate) pod_connections: Option<Arc<dyn PodConnections>>,
    pub(crate) node_connections: Option<Arc<dyn NodeConnections>>,
    pub(crate) webhooks: Webhooks,
    pub(crate) aggregation: Aggregation,
    pub(crate) policies: Policies,
    pub(crate) units: Units,
    stop: watch::Sender<bool>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.lock().iter().for_each(AbortHandle::abort);
    }
}

impl Server {
    /// Returns a builder of a server over a store.
    pub fn builder(store: Arc<dyn Store>) -> ServerBuilder {
        ServerBuilder::new(store)
    }

    /// Ends all watches, including later ones, so that connections can drain.
    pub fn stop(&self) {
        self.inner.stop.send_replace(true);
    }

    /// Removes the server from the endpoints of the service `default/kubernetes`, if it shares its store with others: to
    /// be called before it stops serving, so that clients connect to the others.
    pub async fn leave(&self) {
        if let Some(lease) = &self.inner.endpoint_lease {
            lease.leave(self).await;
        }
    }

    /// Waits until all writes that have begun are complete, including those whose requests were dropped. A program that
    /// ends earlier may leave a charged quota without its object, as after a crash; control loops repair that.
    pub async fn finish_writes(&self) {
        self.inner.units.finished().await;
    }

    /// Decides whether a request is allowed, without performing it.
    pub async fn authorize(&self, request: &Attributes<'_>) -> Decision {
        self.inner.authorizer.authorize(request).decide().await
    }

    /// Waits until the audit events of all earlier requests are written, for at most two seconds.
    pub async fn flush_audit(&self) {
        self.inner.audit.flush().await;
    }

    /// Returns the token for a Secret of the type `kubernetes.io/service-account-token`. It is valid as long as the
    /// Secret has it and the account exists.
    pub fn sign_secret_token(&self, namespace: &str, secret: &str, account: &str, account_uid: &str) -> String {
        self.inner.token_key.sign(&LegacyClaims {
            iss: LEGACY_ISSUER.to_owned(),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            account: account.to_owned(),
            uid: account_uid.to_owned(),
            sub: format!("system:serviceaccount:{namespace}:{account}"),
        })
    }

    /// Returns the UID of a service account; `None` if it does not exist, or was created only a moment ago.
    pub fn service_account_uid(&self, namespace: &str, name: &str) -> Option<String> {
        self.inner.authentication.account_uid(namespace, name)
    }

    /// Replaces the client certificate that this server presents to other API servers, as [`ServerBuilder::front_proxy`] sets it.
    /// New connections use it.
    pub fn set_front_proxy(&self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) {
        let identity = Identity { certificate: certificate.into(), key: key.into() };
        self.inner.aggregation.set_identity(identity);
    }

    /// Replaces the authorities that issue client certificates and the front proxy, as
    /// [`AuthenticationOptions`](crate::authentication::AuthenticationOptions) sets them. New connections use them.
    ///
    /// # Errors
    /// If the authorities are not certificates; then nothing changes.
    pub fn set_client_authorities(
        &self,
        client_ca: Option<&str>,
        request_header: Option<&RequestHeaderOptions>,
    ) -> Result<(), AuthenticationError> {
        self.inner.authentication.set_authorities(client_ca, request_header)
    }

    /// Returns a client in this process that acts as the administrator, without a socket.
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin())
    }

    /// Returns a client in this process that acts as the given user.
    pub fn client_as(&self, user: User) -> kube::Client {
        let (server, user) = (self.clone(), Arc::new(user));
        let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            let (server, user) = (server.clone(), user.clone());
            async move {
                request.extensions_mut().insert(user);
                Ok::<_, Infallible>(server.inner.handle(request, None).await)
            }
        });
        kube::Client::new(service, "default")
    }
}

impl Inner {
    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        windlass_clock::now()
    }

    /// Resolves when the server is stopped or dropped; does not keep it alive.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stop = self.stop.subscribe();
        async move {
            // An error means that the server was dropped.
            let _ = stop.wait_for(|stopping| *stopping).await;
        }
    }

    /// Resolves when the server is stopped.
    pub(crate) async fn stopping(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives in self, so this cannot fail.
        let _ = stop.wait_for(|stopping| *stopping).await;
    }
}

impl<B> tower::Service<Request<B>> for Server
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        self.inner.clone().handle_boxed(parts, Box::pin(body.map_err(Into::into)))
    }
}
