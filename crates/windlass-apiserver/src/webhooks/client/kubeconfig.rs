//! The address of a webhook in a kubeconfig file, with the credentials for it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Uri};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{client::legacy, rt::TokioExecutor};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::Value;
use windlass_schema::yaml;

use super::{Dial, Target, trust};
use crate::webhooks::ServiceResolver;

/// The credentials that a client sends.
pub(super) enum Credentials {
    None,
    Header(HeaderValue),
    /// A file with a token, which may be renewed.
    TokenFile(PathBuf),
}

impl Credentials {
    /// Returns the value of the `Authorization` header.
    pub(super) fn header(&self) -> Result<Option<HeaderValue>, String> {
        match self {
            Self::None => Ok(None),
            Self::Header(header) => Ok(Some(header.clone())),
            // A file of a few hundred bytes, read for every call.
            Self::TokenFile(path) => {
                let token = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                secret(format!("Bearer {}", token.trim())).map(Some)
            }
        }
    }

    fn of(user: &Value, directory: &Path) -> Result<Self, String> {
        let text = |field: &str| user[field].as_str().filter(|text| !text.is_empty());
        if let Some(path) = text("tokenFile") {
            return Ok(Self::TokenFile(directory.join(path)));
        }
        if let Some(token) = text("token") {
            return secret(format!("Bearer {token}")).map(Self::Header);
        }
        match text("username") {
            Some(name) => {
                let pair = format!("{name}:{}", text("password").unwrap_or_default());
                secret(format!("Basic {}", STANDARD.encode(pair))).map(Self::Header)
            }
            None => Ok(Self::None),
        }
    }
}

fn secret(text: String) -> Result<HeaderValue, String> {
    let mut header = HeaderValue::try_from(text).map_err(|_| "the credentials are not a header value".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

impl Target {
    /// Returns the target that the current context of a kubeconfig file names. `agent` is the client's name.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(crate) fn from_kubeconfig(path: &Path, agent: &'static str) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let config = yaml::to_json_value(&text).map_err(|error| error.to_string())?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let context = config["current-context"].as_str().filter(|name| !name.is_empty());
        let context = named(&config, "contexts", "context", context.ok_or("it has no current-context")?)?;
        let cluster = context["cluster"].as_str().ok_or("the context names no cluster")?;
        let cluster = named(&config, "clusters", "cluster", cluster)?;
        let user = match context["user"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => named(&config, "users", "user", name)?,
            None => &Value::Null,
        };
        for (object, field) in [(cluster, "proxy-url"), (cluster, "tls-server-name"), (user, "exec")] {
            if object.get(field).is_some() {
                return Err(format!("{field} is not supported"));
            }
        }
        if cluster["insecure-skip-tls-verify"] == true {
            return Err("insecure-skip-tls-verify is not supported; add the certificate-authority".to_owned());
        }
        let url = cluster["server"].as_str().ok_or("the cluster has no server")?;
        let uri: Uri = url.parse().map_err(|error| format!("server {url:?}: {error}"))?;
        let scheme = uri.scheme_str().unwrap_or_default();
        if uri.host().is_none() || !matches!(scheme, "http" | "https") {
            return Err(format!("server {url:?} must be an http or https URL"));
        }
        let authority = contents(cluster, "certificate-authority", directory)?;
        if scheme == "https" && authority.is_none() {
            return Err("the cluster has no certificate-authority".to_owned());
        }
        let identity = contents(user, "client-certificate", directory)?.zip(contents(user, "client-key", directory)?);
        let tls = tls(authority.as_deref(), identity)?;
        let dial = Dial { service: None, resolver: Arc::new(NoServices) };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(dial);
        let connections = Arc::new(legacy::Client::builder(TokioExecutor::new()).build(connector));
        Ok(Self { connections, url: url.to_owned(), agent, credentials: Credentials::of(user, directory)? })
    }
}

/// Targets of a kubeconfig are hosts, never services.
struct NoServices;

#[async_trait]
impl ServiceResolver for NoServices {
    async fn resolve(&self, _: &str, name: &str, _: u16) -> Result<Vec<SocketAddr>, String> {
        Err(format!("service {name:?} not found"))
    }
}

/// Returns the entry of this name in a list of a kubeconfig.
fn named<'a>(config: &'a Value, list: &str, field: &str, name: &str) -> Result<&'a Value, String> {
    let mut entries = config[list].as_array().into_iter().flatten();
    let entry = entries.find(|entry| entry["name"] == *name);
    entry.map(|entry| &entry[field]).ok_or_else(|| format!("{field} {name:?} does not exist"))
}

/// Returns the contents of a field, which may be in a file.
fn contents(object: &Value, field: &str, directory: &Path) -> Result<Option<Vec<u8>>, String> {
    let text = |field: &str| object[field].as_str().filter(|text| !text.is_empty());
    let inline = format!("{field}-data");
    if let Some(encoded) = text(&inline) {
        return STANDARD.decode(encoded).map(Some).map_err(|error| format!("{inline}: {error}"));
    }
    let Some(path) = text(field) else { return Ok(None) };
    let path = directory.join(path);
    fs::read(&path).map(Some).map_err(|error| format!("{field} {}: {error}", path.display()))
}

fn tls(authority: Option<&[u8]>, identity: Option<(Vec<u8>, Vec<u8>)>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match authority {
        Some(pem) => builder.dangerous().with_custom_certificate_verifier(trust::verifier(pem, provider)?),
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    let Some((certificate, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&certificate).flatten().collect();
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| format!("client-key: {error}"))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| format!("client-certificate: {error}"))
}
