//! TLS with the certificates in the files of the options.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio_rustls::TlsConnector;

use crate::{EtcdError, EtcdOptions};

/// The files; they are read for every connection, so that renewed certificates are used.
#[derive(Debug, Clone)]
pub(crate) struct TlsFiles {
    ca: Option<PathBuf>,
    /// Certificate and key.
    pair: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    pub(crate) fn new(options: &EtcdOptions) -> Self {
        Self { ca: options.ca_file.clone(), pair: options.cert_file.clone().zip(options.key_file.clone()) }
    }

    /// Reads the files.
    pub(crate) async fn connector(&self) -> Result<TlsConnector, EtcdError> {
        let files = self.clone();
        let read = tokio::task::spawn_blocking(move || files.config());
        let config = read.await.map_err(|error| EtcdError::Tls { cause: error.to_string() })??;
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn config(&self) -> Result<ClientConfig, EtcdError> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| invalid(path, error))?;
                }
            }
            None => {
                let system = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(system.certs);
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| EtcdError::Tls { cause: error.to_string() })?
            .with_root_certificates(roots);
        let mut config = match &self.pair {
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let parsed = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| invalid(key, error))?;
                builder.with_client_auth_cert(chain, parsed).map_err(|error| invalid(certificate, error))?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// Returns the name that a server's certificate must have.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, EtcdError> {
    ServerName::try_from(host.to_owned()).map_err(|_| EtcdError::Server {
        server: host.to_owned(),
        problem: "the host is neither a name nor an address",
    })
}

fn read(path: &Path) -> Result<Vec<u8>, EtcdError> {
    std::fs::read(path).map_err(|source| EtcdError::File { path: path.to_owned(), source })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, EtcdError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| invalid(path, error))?;
    if found.is_empty() {
        return Err(invalid(path, "it has no certificate"));
    }
    Ok(found)
}

fn invalid(path: &Path, problem: impl ToString) -> EtcdError {
    EtcdError::Certificate { path: path.to_owned(), problem: problem.to_string() }
}
