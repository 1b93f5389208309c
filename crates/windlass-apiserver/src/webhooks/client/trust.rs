//! Trust in webhooks and other servers: only certificates that a CA bundle, or the system, trusts.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::{
    ClientConfig, Error, RootCertStore,
    client::{
        WebPkiServerVerifier,
        danger::{ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};

use crate::handshake::check_signatures;

/// Returns the TLS configuration of a client that trusts a bundle; without a bundle it trusts no certificate.
pub(super) fn config(ca_bundle: &str) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let pem = STANDARD.decode(ca_bundle).unwrap_or_default();
    if pem.trim_ascii().is_empty() {
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    let verifier = verifier(&pem, provider)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Returns the verifier of servers that trusts certificates in PEM.
pub(crate) fn verifier(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let rejected = |why: &str| format!("unable to load root certificates: {why}");
    let bundle: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem).flatten().collect();
    if bundle.is_empty() {
        return Err(rejected("unable to parse bytes as PEM block"));
    }
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(bundle.iter().cloned());
    if added == 0 {
        return Err(rejected("failed to parse certificate: x509: malformed certificate"));
    }
    Ok(Arc::new(Trust::new(roots, bundle, provider).map_err(|error| rejected(&error))?))
}

/// Trusts certificates that the bundle has signed and, as Go does, certificates that are in the bundle: self-signed
/// ones are often marked as authorities, which webpki does not accept from a server.
#[derive(Debug)]
pub(super) struct Trust {
    roots: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trust {
    pub(super) fn new(
        roots: RootCertStore,
        bundle: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let algorithms = provider.signature_verification_algorithms;
        let roots = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build();
        Ok(Self { roots: roots.map_err(|error| error.to_string())?, bundle, algorithms })
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self.roots.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if verdict.is_ok() || !self.bundle.contains(end_entity) || !is_valid_at(end_entity, now) {
            return verdict;
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    check_signatures!(self => &self.algorithms);
}

fn is_valid_at(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else { return false };
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now)
}
