//! PEM validation of TLS secrets.
//!
//! kube-apiserver also checks that the key belongs to the certificate. Only the PEM blocks are checked here, which
//! catches the usual mistakes: swapped files, DER instead of PEM, empty values.

use crate::pem::blocks;

/// Returns why a certificate and its key are invalid, worded as in Go's TLS library.
pub(super) fn pem_problem(certificate: &[u8], key: &[u8]) -> Option<String> {
    let found = blocks(certificate);
    if !found.iter().any(|kind| kind == "CERTIFICATE") {
        return Some(match found.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [only] if only.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs \
                 may have been switched"
                    .to_owned()
            }
            many => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
                 following types: [{}]",
                many.join(" ")
            ),
        });
    }
    let found = blocks(key);
    if found.iter().any(|kind| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) {
        return None;
    }
    Some(match found.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        many => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks \
             of the following types: [{}]",
            many.join(" ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapped_and_missing_certificates_and_keys_are_reported() {
        let certificate = b"-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n";
        let key = b"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4\n\nYWJj\n-----END EC PRIVATE KEY-----\n";
        assert_eq!(pem_problem(certificate, key), None);
        for (certificate, key, start) in [
            (&b"abc"[..], &b""[..], "tls: failed to find any PEM data in certificate input"),
            (key, certificate, "tls: failed to find certificate PEM data in certificate input, but did find"),
            (certificate, b"", "tls: failed to find any PEM data in key input"),
            (certificate, certificate, "tls: found a certificate rather than a key in the PEM for the private key"),
        ] {
            let problem = pem_problem(certificate, key).unwrap_or_default();
            assert!(problem.starts_with(start), "{problem}");
        }
    }
}
