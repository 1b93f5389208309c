//! The HTTP client of a webhook, from a kubeconfig.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::Value;
use windlass_schema::yaml;

use crate::webhooks::trust;

/// The time limit of a call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The part of a response that is read.
const ANSWER_LIMIT: usize = 1 << 20;

/// Why a kubeconfig does not name a webhook.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {} for the audit webhook: {why}", path.display())]
pub struct ConfigError {
    path: PathBuf,
    why: String,
}

/// A client of one webhook.
pub(super) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
    credentials: Credentials,
}

enum Credentials {
    None,
    Header(HeaderValue),
    TokenFile(PathBuf),
}

impl Client {
    /// Returns the client of the current context of a kubeconfig.
    pub(super) fn from_kubeconfig(path: &Path) -> Result<Self, ConfigError> {
        let config = || {
            let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
            let config = yaml::to_json_value(&text).map_err(|error| error.to_string())?;
            Self::new(&config, path.parent().unwrap_or(Path::new("")))
        };
        config().map_err(|why| ConfigError { path: path.to_owned(), why })
    }

    fn new(config: &Value, directory: &Path) -> Result<Self, String> {
        let context = config["current-context"].as_str().filter(|name| !name.is_empty());
        let context = named(config, "contexts", "context", context.ok_or("it has no current-context")?)?;
        let cluster = context["cluster"].as_str().ok_or("the context names no cluster")?;
        let cluster = named(config, "clusters", "cluster", cluster)?;
        let user = match context["user"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => named(config, "users", "user", name)?,
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
        let server = cluster["server"].as_str().ok_or("the cluster has no server")?;
        let uri = format!("{server}?timeout={}s", TIMEOUT.as_secs()).parse().ok();
        let uri = uri.filter(|uri: &Uri| uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https")));
        let uri = uri.ok_or_else(|| format!("server {server:?} must be an http or https URL"))?;
        let authority = data(cluster, "certificate-authority", directory)?;
        if uri.scheme_str() == Some("https") && authority.is_none() {
            return Err("the cluster has no certificate-authority".to_owned());
        }
        let certificate = data(user, "client-certificate", directory)?;
        let key = data(user, "client-key", directory)?;
        let tls = tls(authority.as_deref(), certificate.zip(key))?;
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_all_versions().build();
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { http, uri, credentials: credentials(user, directory)? })
    }

    /// Posts events.
    ///
    /// # Errors
    /// If they were not accepted.
    pub(super) async fn post(&self, body: Bytes) -> Result<(), String> {
        let call = async {
            let mut request = Request::post(self.uri.clone())
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, */*")
                .header(header::USER_AGENT, "kube-apiserver-audit");
            if let Some(credentials) = self.credentials.header()? {
                request = request.header(header::AUTHORIZATION, credentials);
            }
            let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
            let response = self.http.request(request).await.map_err(|error| causes(&error))?;
            let status = response.status();
            // The connection can only be used again when the response has been read.
            let _ = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
            if (200..=206).contains(&status.as_u16()) { Ok(()) } else { Err(format!("the webhook answered {status}")) }
        };
        let answer = tokio::time::timeout(TIMEOUT, call).await;
        let failed = |why| format!("failed to post to {}: {why}", self.uri);
        answer.unwrap_or_else(|_| Err("timed out".to_owned())).map_err(failed)
    }
}

impl Credentials {
    fn header(&self) -> Result<Option<HeaderValue>, String> {
        match self {
            Self::None => Ok(None),
            Self::Header(header) => Ok(Some(header.clone())),
            // Read each time, because tokens in files are renewed. It is small, and nobody else waits.
            Self::TokenFile(path) => {
                let token = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                bearer(token.trim()).map(Some)
            }
        }
    }
}

/// Returns an error with its causes, of which only the last says what happened.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    let mut header =
        HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| "the token is not a header value".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

fn credentials(user: &Value, directory: &Path) -> Result<Credentials, String> {
    let text = |field: &str| user[field].as_str().filter(|text| !text.is_empty());
    if let Some(path) = text("tokenFile") {
        return Ok(Credentials::TokenFile(directory.join(path)));
    }
    if let Some(token) = text("token") {
        return bearer(token).map(Credentials::Header);
    }
    match text("username") {
        Some(name) => {
            let pair = STANDARD.encode(format!("{name}:{}", text("password").unwrap_or_default()));
            let mut header = HeaderValue::try_from(format!("Basic {pair}")).map_err(|error| error.to_string())?;
            header.set_sensitive(true);
            Ok(Credentials::Header(header))
        }
        None => Ok(Credentials::None),
    }
}

/// Returns the entry of this name in a list of a kubeconfig.
fn named<'a>(config: &'a Value, list: &str, field: &str, name: &str) -> Result<&'a Value, String> {
    let entries = config[list].as_array().into_iter().flatten();
    let entry = entries.into_iter().find(|entry| entry["name"] == *name);
    entry.map(|entry| &entry[field]).ok_or_else(|| format!("{field} {name:?} does not exist"))
}

/// Returns the contents of a field, which may be in a file.
fn data(object: &Value, field: &str, directory: &Path) -> Result<Option<Vec<u8>>, String> {
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
