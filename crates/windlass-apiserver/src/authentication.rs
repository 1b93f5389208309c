//! Authentication: who sent a request.
//!
//! The authenticators are tried in the order of kube-apiserver: a front proxy's headers, the client certificate, the
//! bearer token, and the token in a WebSocket subprotocol. The first that knows the user decides. If none does, a
//! request without credentials is anonymous, and one whose credentials were rejected gets 401.

mod anonymous;
mod authorities;
mod bearer;
mod bootstrap_token;
mod certificate;
mod csv;
mod extensions;
mod failures;
pub(crate) mod impersonation;
pub mod jwt;
mod legacy_tokens;
pub(crate) mod names;
mod notices;
mod publication;
mod remembered;
mod request_header;
mod service_accounts;
mod token_counters;
mod token_file;
pub mod webhook_token;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures_util::{FutureExt as _, future::BoxFuture};
use http::{header, request::Parts};
use rustls::{pki_types::CertificateDer, server::danger::ClientCertVerifier};

use self::{
    anonymous::Anonymous,
    bearer::Bearer,
    certificate::{ClientCertificates, RequestCertificate},
    failures::Failures,
    impersonation::Modes,
    service_accounts::{Accepted, ServiceAccountTokens},
};
pub use self::{
    anonymous::AnonymousOptions,
    request_header::RequestHeaderOptions,
    token_file::{TokenFile, TokenFileError},
};
pub(crate) use self::{
    bearer::remove_subprotocol_tokens, certificate::ClientCertificate, extensions::TokenAuthenticators,
    notices::Notices, publication::Publication,
};
use crate::{
    connections::Peer,
    server::Inner,
    status::{ApiError, Result},
    storage::Storage,
    tokens::Issuers,
    user::User,
};

/// The error for anything that is not a known token.
const NO_TOKEN: &str = "invalid bearer token";

/// The result of a token authenticator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The user, without the group `system:authenticated`, which all users get.
    pub user: User,
    /// The requested audiences that the token is valid for; `None` if the authenticator does not support audiences, so
    /// that its tokens are for this server.
    pub audiences: Option<Vec<String>>,
}

/// Authenticates bearer tokens of one kind.
pub trait TokenAuthenticator: Send + Sync {
    /// Returns the user of a token that is valid for one of the audiences; `None` if the token is of another kind. The
    /// error is logged and shown to users who may review tokens; other authenticators are tried nevertheless.
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [&'a str],
    ) -> BoxFuture<'a, std::result::Result<Option<Authenticated>, String>>;
}

/// Authenticators of clients, in addition to service account tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthenticationOptions {
    /// Whether requests may be anonymous.
    pub anonymous: AnonymousOptions,
    /// The certificates of the authorities that issue client certificates, in PEM; without them, certificates of
    /// clients are ignored.
    pub client_ca: Option<String>,
    /// A front proxy that names users in headers.
    pub request_header: Option<RequestHeaderOptions>,
    /// Static tokens.
    pub token_file: Option<TokenFile>,
    /// Whether Secrets in `kube-system` of the type `bootstrap.kubernetes.io/token` are accepted.
    pub bootstrap_tokens: bool,
    /// The issuers of service account tokens: the first one issues new tokens, and tokens of all are accepted. If there
    /// are none, it is `https://kubernetes.default.svc.cluster.local`.
    pub service_account_issuers: Vec<String>,
    /// The audiences of this server; if there are none, the issuers of service account tokens.
    pub api_audiences: Vec<String>,
    /// Maximum lifetime of new service account tokens; longer requests are shortened to it.
    pub max_token_expiration: Option<Duration>,
    /// Whether tokens that kubelets request for pods expire as requested, instead of after a year.
    pub exact_token_expiration: bool,
    /// The URL of the public keys in the discovery document; if there is none, it is that of this server.
    pub jwks_uri: Option<String>,
}

/// Reasons why clients cannot be authenticated as configured.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    /// The certificates of authorities cannot be used.
    #[error("invalid certificates of client authorities: {0}")]
    Authority(String),
}

impl AuthenticationOptions {
    /// Returns the verifier for the TLS configuration of [`Server::serve`](crate::Server::serve): it requests a client
    /// certificate and accepts any, which the server then verifies.
    ///
    /// # Errors
    /// Returns an error if the authorities are not certificates.
    pub fn certificate_verifier(&self) -> std::result::Result<Arc<dyn ClientCertVerifier>, AuthenticationError> {
        let proxy = self.request_header.as_ref().map(|options| options.client_ca.as_str());
        let authorities: Vec<&str> = self.client_ca.as_deref().into_iter().chain(proxy).collect();
        Ok(Arc::new(RequestCertificate::new(&authorities)?))
    }
}

/// The authenticators of a server.
pub(crate) struct Authentication {
    anonymous: Anonymous,
    certificates: ArcSwap<ClientCertificates>,
    token_file: TokenFile,
    service_accounts: ServiceAccountTokens,
    bootstrap_tokens: bool,
    extensions: TokenAuthenticators,
    pub(crate) issuers: Issuers,
    pub(crate) impersonation: Modes,
    pub(crate) failures: Failures,
}

impl Authentication {
    pub(crate) fn new(
        options: &AuthenticationOptions,
        extensions: TokenAuthenticators,
        storage: &Storage,
    ) -> std::result::Result<Self, AuthenticationError> {
        Ok(Self {
            anonymous: Anonymous::new(options.anonymous.clone()),
            certificates: ArcSwap::from_pointee(ClientCertificates::new(
                options.client_ca.as_deref(),
                options.request_header.as_ref(),
            )?),
            token_file: options.token_file.clone().unwrap_or_default(),
            service_accounts: ServiceAccountTokens::new(storage),
            bootstrap_tokens: options.bootstrap_tokens,
            extensions,
            issuers: Issuers::new(options),
            impersonation: Modes::default(),
            failures: Failures::default(),
        })
    }

    /// Returns the UID of a service account in the cache.
    pub(crate) fn account_uid(&self, namespace: &str, name: &str) -> Option<String> {
        let account = self.service_accounts.accounts.get(&format!("{namespace}/{name}"))?;
        Some(account.header.uid.to_string())
    }

    /// Replaces the authorities of client certificates, for new connections.
    pub(crate) fn set_authorities(
        &self,
        client_ca: Option<&str>,
        request_header: Option<&RequestHeaderOptions>,
    ) -> std::result::Result<(), AuthenticationError> {
        self.certificates.store(Arc::new(ClientCertificates::new(client_ca, request_header)?));
        Ok(())
    }

    /// Appends the metrics.
    pub(crate) fn render(&self, out: &mut String) {
        self.service_accounts.counters.render(out);
    }

    /// Verifies the client certificate of a new connection.
    pub(crate) fn verify_certificate(
        &self,
        chain: Option<&[CertificateDer<'_>]>,
        now: i64,
    ) -> Option<ClientCertificate> {
        self.certificates.load().verify(chain, now)
    }
}

impl Inner {
    /// Returns the user that sent a request.
    pub(crate) async fn authenticate(
        self: &Arc<Self>,
        parts: &Parts,
        peer: Option<&Peer>,
        path: &str,
        notices: &mut Notices<'_>,
    ) -> Result<Arc<User>> {
        let mut errors = Vec::new();
        if let Some(certificate) = peer.and_then(|peer| peer.certificate.as_ref()) {
            match self.authentication.certificates.load().authenticate(certificate, &parts.headers) {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        let headers = &parts.headers;
        if headers.contains_key(header::AUTHORIZATION) || headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL) {
            // Boxed to keep requests without a token small.
            match self.request_token(parts, notices).boxed().await {
                Ok(Some(user)) => {
                    attribute(peer, &user)?;
                    return Ok(user);
                }
                Ok(None) => {}
                Err(token_errors) => errors.extend(token_errors),
            }
        }
        if !errors.is_empty() {
            return Err(ApiError { cause: Some(aggregate(errors).into()), ..ApiError::unauthorized() });
        }
        let in_process = parts.extensions.get::<Arc<User>>().filter(|_| peer.is_none());
        let user = in_process.cloned().or_else(|| self.authentication.anonymous.authenticate(path));
        user.ok_or_else(ApiError::unauthorized)
    }

    /// Returns the user of a request's token; `None` if it has no token.
    async fn request_token(
        self: &Arc<Self>,
        parts: &Parts,
        notices: &mut Notices<'_>,
    ) -> std::result::Result<Option<Arc<User>>, Vec<String>> {
        let audiences = self.authentication.issuers.audiences();
        let mut errors = Vec::new();
        match Bearer::of(&parts.headers) {
            Bearer::None => {}
            Bearer::ExtraSpace => notices.warn(bearer::EXTRA_SPACE),
            Bearer::Token(token) => match self.token_user(token, &audiences, notices).await {
                Ok((user, _)) => return Ok(Some(user)),
                Err(why) => errors.extend(why),
            },
        }
        match bearer::subprotocol_token(&parts.headers) {
            Ok(None) => {}
            Ok(Some(token)) => match self.token_user(&token, &audiences, notices).await {
                Ok((user, _)) => return Ok(Some(user)),
                Err(why) => errors.extend(why),
            },
            Err(why) => errors.push(why.to_owned()),
        }
        if errors.is_empty() { Ok(None) } else { Err(errors) }
    }

    /// Returns the user of a token and the matching audiences. The errors may be shown to users who may review tokens.
    async fn token_user(
        self: &Arc<Self>,
        token: &str,
        audiences: &[&str],
        notices: &mut Notices<'_>,
    ) -> std::result::Result<Accepted, Vec<String>> {
        let authentication = &self.authentication;
        let meant_for_server = authentication.issuers.own_of(audiences);
        let for_server = !meant_for_server.is_empty();
        let own = || meant_for_server.clone();
        if let Some(user) = authentication.token_file.user(token).filter(|_| for_server) {
            return Ok((user, own()));
        }
        let mut errors = Vec::new();
        match self.service_account(token, audiences, notices).await {
            Ok(Some(accepted)) => return Ok(accepted),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
        if authentication.bootstrap_tokens && for_server {
            let secrets = &authentication.service_accounts.secrets;
            if let Some(user) = bootstrap_token::user(secrets, token, self.now()) {
                return Ok((Arc::new(user), own()));
            }
        }
        match authentication.extensions.authenticate(token, audiences).await {
            Ok(Some(Authenticated { user, audiences: None })) if for_server => {
                return Ok((Arc::new(user.authenticated()), own()));
            }
            Ok(Some(Authenticated { user, audiences: Some(meant) })) => {
                return Ok((Arc::new(user.authenticated()), meant));
            }
            Ok(_) => {}
            Err(more) => errors.extend(more),
        }
        if errors.is_empty() {
            errors.push(NO_TOKEN.to_owned());
        }
        Err(errors)
    }

    /// Returns the user of a token for a TokenReview, as of a request that has only this token. The error combines
    /// those of all authenticators, as in kube-apiserver.
    pub(crate) async fn review_token(
        self: &Arc<Self>,
        token: &str,
        audiences: &[&str],
        notices: &mut Notices<'_>,
    ) -> std::result::Result<Accepted, String> {
        match Bearer::parse(&format!("Bearer {token}")) {
            Bearer::Token(token) => self.token_user(token, audiences, notices).await.map_err(|errors| {
                // The authenticator of the server's own requests knows no token of others.
                aggregate(std::iter::once(NO_TOKEN.to_owned()).chain(errors))
            }),
            Bearer::None | Bearer::ExtraSpace => match self.authentication.anonymous.authenticate("") {
                Some(user) => Ok((user, audiences.iter().map(|one| (*one).to_owned()).collect())),
                None => Err(String::new()),
            },
        }
    }
}

/// Counts the connection as one of the user whose token it sent; fails if the user has too many.
fn attribute(peer: Option<&Peer>, user: &User) -> Result<()> {
    match peer {
        Some(peer) if !peer.has_owner() && !peer.connection.identify(Some(user)) => {
            peer.connection.close();
            Err(ApiError::too_many_requests(1))
        }
        _ => Ok(()),
    }
}

/// Compares secrets in a time that does not depend on where they differ.
fn same_secret(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

/// Joins errors to one, in the form of Go's aggregates: equal ones once, several in brackets.
fn aggregate(errors: impl IntoIterator<Item = String>) -> String {
    let mut distinct = Vec::<String>::new();
    for error in errors {
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    match &mut distinct[..] {
        [one] => std::mem::take(one),
        several => format!("[{}]", several.join(", ")),
    }
}
