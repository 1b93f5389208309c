//! The certificates of front proxies: those that forward requests and name the user in headers, such as this server when it
//! forwards requests to others.

use std::{path::Path, time::Duration};

use super::{PairFiles, PkiError, RENEW_BEFORE, check, issue};
use crate::CertificateAndKey;

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
    /// Loads the certificates, and issues those that are missing or due for renewal.
    pub(super) fn load_or_create(directory: &Path, now: Duration) -> Result<Self, PkiError> {
        let client_files = PairFiles::new(directory, "front-proxy-client");
        let ca_files = PairFiles::new(directory, "front-proxy-ca");
        let ca = match ca_files.load_authority(now)? {
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
}
