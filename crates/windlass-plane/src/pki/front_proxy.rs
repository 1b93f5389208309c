//! The certificates of front proxies: those that forward requests and name the user in headers, such as this server when it
//! forwards requests to others.

use std::{path::Path, time::Duration};

use super::{
    PairFiles, PkiError, RENEW_BEFORE, check, issue,
    stored::{Verdict, invalid},
};
use crate::{CertificateAndKey, files::Contents};

/// The common name of the server's own certificate as a proxy.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// The authority of front proxies, and the server's own certificate as a proxy.
#[derive(Debug, Clone)]
pub struct FrontProxy {
    /// The authority, in `front-proxy-ca`.
    pub ca: CertificateAndKey,
    /// The client certificate, in `front-proxy-client`.
    pub client: CertificateAndKey,
}

impl FrontProxy {
    /// Loads the certificates, and issues certificates that are missing or due for renewal.
    pub(super) fn load_or_create(directory: &Path, now: Duration) -> Result<Self, PkiError> {
        let client_files = PairFiles::new(directory, "front-proxy-client");
        let ca_files = PairFiles::new(directory, "front-proxy-ca");
        let ca = match load_authority(&ca_files, now)? {
            Some(ca) => ca,
            None => {
                client_files.remove()?;
                let ca = issue::front_proxy_authority(now)?;
                ca_files.write(&ca)?;
                ca
            }
        };
        let issuer = check::Authority::new(&ca_files, &ca)?;
        let client = client_files.load_or_issue(
            |files, pair| issuer.check_client(files, pair, now + RENEW_BEFORE),
            || issue::front_proxy_client(&issuer, now),
        )?;
        Ok(Self { ca, client })
    }

    /// Reissues the client certificate if it is due, and loads one that someone has replaced. The authority stays the same.
    pub(super) fn renew(&mut self, directory: &Path, now: Duration) -> Result<(), PkiError> {
        let ca_files = PairFiles::new(directory, "front-proxy-ca");
        ca_files.check_unchanged(&self.ca)?;
        let issuer = check::Authority::new(&ca_files, &self.ca)?;
        self.client = PairFiles::new(directory, "front-proxy-client").load_or_issue(
            |files, pair| issuer.check_client(files, pair, now + RENEW_BEFORE),
            || issue::front_proxy_client(&issuer, now),
        )?;
        Ok(())
    }
}

/// Loads the authority. Returns `None` if a new one has to be created: there is none, or it is about to expire.
fn load_authority(files: &PairFiles, now: Duration) -> Result<Option<CertificateAndKey>, PkiError> {
    use Contents::{Empty, Missing, Text};
    match files.read()? {
        (Missing | Empty, Missing | Empty) => Ok(None),
        (Text(_), Missing | Empty) => Err(invalid(&files.key, "is missing or empty, but its certificate exists")),
        (Missing | Empty, Text(_)) => Err(invalid(&files.certificate, "is missing or empty, but its key exists")),
        (Text(certificate), Text(key)) => {
            let pair = CertificateAndKey { certificate, key };
            match check::authority(files, &pair, now)? {
                Verdict::Good => Ok(Some(pair)),
                Verdict::Due(reason) => {
                    tracing::warn!(file = %files.certificate.display(), reason, "replacing the authority of front proxies");
                    Ok(None)
                }
            }
        }
    }
}
