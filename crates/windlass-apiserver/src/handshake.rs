//! Signatures of TLS handshakes, for verifiers that check certificates by their own rules.

use rustls::{
    DigitallySignedStruct, Error,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, SubjectPublicKeyInfoDer},
};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Writes the methods of a certificate verifier that check signatures. They differ only in the algorithms.
macro_rules! check_signatures {
    ($self:ident => $algorithms:expr) => {
        fn verify_tls12_signature(
            &$self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls12_signature(message, certificate, signature, $algorithms)
        }

        fn verify_tls13_signature(
            &$self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            crate::handshake::verify_tls13(message, certificate, signature, $algorithms)
        }

        fn supported_verify_schemes(&$self) -> Vec<rustls::SignatureScheme> {
            $algorithms.supported_schemes()
        }
    };
}

pub(crate) use check_signatures;

/// Checks the signature of a TLS 1.3 handshake. Like Go, it needs only the key: a certificate with an unknown critical
/// extension is rejected by the verifier of the certificate, not by the handshake.
pub(crate) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    match X509Certificate::from_der(certificate) {
        Ok((_, parsed)) => {
            let key = SubjectPublicKeyInfoDer::from(parsed.public_key().raw);
            verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
        }
        Err(_) => verify_tls13_signature(message, certificate, signature, algorithms),
    }
}
