//! Client certificates: which authorities issue them, and which users they identify.
//!
//! TLS only requests a certificate and checks that the client has its key. The chain is verified here, once per
//! connection, so that a client whose certificate is not accepted gets a response: 401, unless it also has a valid
//! token.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::HeaderMap;
use rustls::{
    DistinguishedName, Error,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{
    AuthenticationError, RequestHeaderOptions,
    authorities::{Authorities, provider, roots},
};
use crate::{handshake::check_signatures, user::User};

/// The attribute of a subject that is the UID of a user, in DER: 1.3.6.1.4.1.57683.2.
const UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];

/// Verifies client certificates.
pub(super) struct ClientCertificates {
    clients: Option<Authorities>,
    proxies: Option<(Authorities, RequestHeaderOptions)>,
}

/// The certificate of a connection.
pub(crate) struct ClientCertificate {
    /// The user of the certificate.
    user: Option<Arc<User>>,
    /// Whether it belongs to a front proxy.
    is_proxy: bool,
    /// Reason why an authenticator has rejected it.
    error: Option<String>,
    /// The common name, for the accounting of connections, if the certificate was accepted.
    pub(crate) owner: Option<Arc<User>>,
    /// Time at which it expires, in seconds since the Unix epoch.
    pub(crate) not_after: i64,
    expired: AtomicBool,
}

impl ClientCertificates {
    pub(super) fn new(
        client_ca: Option<&str>,
        request_header: Option<&RequestHeaderOptions>,
    ) -> Result<Self, AuthenticationError> {
        let proxies = match request_header {
            Some(options) => Some((Authorities::new(&options.client_ca)?, options.clone())),
            None => None,
        };
        Ok(Self { clients: client_ca.map(Authorities::new).transpose()?, proxies })
    }

    /// Verifies the certificate of a connection; `None` if it has none.
    pub(super) fn verify(&self, chain: Option<&[CertificateDer<'_>]>, now: i64) -> Option<ClientCertificate> {
        let (leaf, intermediates) = chain?.split_first()?;
        let mut identity = ClientCertificate {
            user: None,
            is_proxy: false,
            error: None,
            owner: None,
            not_after: i64::MAX,
            expired: AtomicBool::new(false),
        };
        let Ok((_, parsed)) = X509Certificate::from_der(leaf) else {
            identity.error = Some("the client certificate is malformed".to_owned());
            return Some(identity);
        };
        identity.not_after = parsed.validity().not_after.timestamp();
        let verify = |authorities: &Authorities| authorities.verify(leaf, &parsed, intermediates, now);
        let name = || Some(parsed.subject().iter_common_name().last()?.as_str().ok()?.to_owned());
        if let Some((authorities, options)) = &self.proxies {
            match verify(authorities).and_then(|()| allowed(options, &name().unwrap_or_default())) {
                Ok(()) => {
                    identity.is_proxy = true;
                    let owner = User { name: name().unwrap_or_default(), ..User::default() };
                    identity.owner = Some(Arc::new(owner));
                }
                Err(error) => identity.error = Some(error),
            }
        }
        if let Some(authorities) = &self.clients {
            match verify(authorities).and_then(|()| user_of(leaf, &parsed, name())) {
                Ok(user) => {
                    identity.user = user.map(Arc::new);
                    identity.owner = identity.user.clone().or(identity.owner);
                }
                Err(error) => identity.error = Some(error),
            }
        }
        Some(identity)
    }

    /// Returns the user that a request over a connection with this certificate is from. After an error, another
    /// authenticator may still know the user.
    pub(super) fn authenticate(
        &self,
        certificate: &ClientCertificate,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<User>>, String> {
        if certificate.expired.load(Ordering::Relaxed) {
            return Err("the client certificate has expired".to_owned());
        }
        if certificate.is_proxy
            && let Some((_, options)) = &self.proxies
            && let Some(user) = options.user(headers)
        {
            return Ok(Some(Arc::new(user)));
        }
        match (&certificate.user, &certificate.error) {
            (Some(user), _) => Ok(Some(user.clone())),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Ok(None),
        }
    }
}

impl ClientCertificate {
    /// Rejects all later requests.
    pub(crate) fn expire(&self) {
        self.expired.store(true, Ordering::Relaxed);
    }
}

fn allowed(options: &RequestHeaderOptions, name: &str) -> Result<(), String> {
    if options.allowed_names.is_empty() || options.allowed_names.iter().any(|allowed| allowed == name) {
        return Ok(());
    }
    Err(format!("x509: subject with cn={name} is not in the allowed list"))
}

/// Returns the user of a verified client certificate; `None` if it has no common name.
fn user_of(
    certificate: &CertificateDer<'_>,
    parsed: &X509Certificate<'_>,
    name: Option<String>,
) -> Result<Option<User>, String> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
    let subject = parsed.subject();
    let groups = subject.iter_organization().filter_map(|name| name.as_str().ok().map(str::to_owned)).collect();
    let mut uids = Vec::new();
    for attribute in subject.iter_attributes().filter(|attribute| attribute.attr_type().as_bytes() == UID) {
        uids.push(attribute.as_str().map_err(|_| "unable to parse UID into a string")?);
    }
    let uid = match uids[..] {
        [] => String::new(),
        [""] => return Err("UID cannot be an empty string".to_owned()),
        [uid] => uid.to_owned(),
        _ => return Err(format!("expected 1 UID, but found multiple: [{}]", uids.join(" "))),
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let credential = ("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("X509SHA256={hex}")]);
    Ok(Some(User { name, uid, groups, extra: [credential].into() }.authenticated()))
}

/// Requests a client certificate during the handshake, and accepts any, or none: the server verifies it afterwards.
/// Never use it without [`ServerBuilder::authentication`](crate::ServerBuilder::authentication).
#[derive(Debug)]
pub(super) struct RequestCertificate {
    subjects: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl RequestCertificate {
    /// Requests certificates of these authorities.
    pub(super) fn new(authorities: &[&str]) -> Result<Self, AuthenticationError> {
        let mut subjects = Vec::new();
        for pem in authorities {
            subjects.extend(roots(pem)?.subjects());
        }
        Ok(Self { subjects, provider: provider() })
    }
}

impl ClientCertVerifier for RequestCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    check_signatures!(self => &self.provider.signature_verification_algorithms);
}
