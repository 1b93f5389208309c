//! The kubeconfig file of a webhook: where its server is, and the credentials for it.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderValue;
use serde_json::Value;
use windlass_schema::{go_url, yaml};

use crate::webhooks::{Identity, Tls};

/// The server of a kubeconfig's current context.
#[derive(Debug)]
pub(crate) struct RemoteServer {
    pub(crate) url: String,
    pub(crate) tls: Tls,
    pub(crate) credentials: Credentials,
}

/// Credentials for requests, in addition to a client certificate.
#[derive(Clone, Default)]
pub(crate) enum Credentials {
    /// No authentication.
    #[default]
    None,
    /// By a fixed header.
    Header(HeaderValue),
    /// By a token in a file, which is read for each request.
    TokenFile(PathBuf),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Returns the value of the Authorization header.
    ///
    /// # Errors
    /// Returns an error if the token's file cannot be read.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, String> {
        match self {
            Self::None => Ok(None),
            Self::Header(header) => Ok(Some(header.clone())),
            Self::TokenFile(file) => {
                let failed = |error: io::Error| format!("failed to read token file {:?}: {error}", file.display());
                let token = tokio::fs::read_to_string(file).await.map_err(failed)?;
                secret(&format!("Bearer {}", token.trim())).map(Some)
            }
        }
    }
}

/// Reasons why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// A file could not be read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file has unusable contents.
    #[error("cannot use kubeconfig {}: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

impl KubeconfigError {
    /// Returns the reason, for messages that name the kubeconfig themselves.
    pub(crate) fn reason(self) -> String {
        match self {
            Self::Read { path, source } => format!("failed to read {}: {source}", path.display()),
            Self::Invalid { why, .. } => why,
        }
    }
}

fn secret(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text).map_err(|_| "the token has invalid characters".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

impl RemoteServer {
    /// Reads a kubeconfig and the files that it names, which are relative to its directory.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or the kubeconfig needs something that is not supported.
    pub(crate) fn load(file: &Path) -> Result<Self, KubeconfigError> {
        let read =
            |path: &Path| fs::read(path).map_err(|source| KubeconfigError::Read { path: path.to_owned(), source });
        let invalid = |why: String| KubeconfigError::Invalid { path: file.to_owned(), why };
        let config = yaml::parse(&read(file)?).map_err(|error| invalid(error.to_string()))?.value;
        let context = named(&config, "contexts", "context", text(&config, "current-context")).map_err(invalid)?;
        let cluster = named(&config, "clusters", "cluster", text(context, "cluster")).map_err(invalid)?;
        let user = match text(context, "user") {
            "" => &Value::Null,
            name => named(&config, "users", "user", name).map_err(invalid)?,
        };
        for (part, field) in [(cluster, "proxy-url"), (user, "exec"), (user, "auth-provider"), (user, "as")] {
            if !part[field].is_null() {
                return Err(invalid(format!("{field} is not supported")));
            }
        }
        let directory = file.parent().unwrap_or(Path::new(""));
        // The contents of a field with data, or otherwise of the file that another field names.
        let bytes = |part: &Value, field: &str| -> Result<Vec<u8>, KubeconfigError> {
            match (text(part, &format!("{field}-data")), text(part, field)) {
                ("", "") => Ok(Vec::new()),
                ("", path) => read(&directory.join(path)),
                (data, _) => STANDARD.decode(data).map_err(|_| invalid(format!("{field}-data is not base64"))),
            }
        };
        let url = text(cluster, "server").to_owned();
        let parsed = go_url::parse(&url).map_err(invalid)?;
        if !matches!(parsed.scheme.as_str(), "https" | "http") || parsed.host.is_empty() {
            return Err(invalid(format!("server {url:?} is not a URL of http or https")));
        }
        let (certificate, key) = (bytes(user, "client-certificate")?, bytes(user, "client-key")?);
        let tls = Tls {
            authorities: bytes(cluster, "certificate-authority")?,
            insecure: cluster["insecure-skip-tls-verify"].as_bool() == Some(true),
            server_name: Some(text(cluster, "tls-server-name").to_owned()).filter(|name| !name.is_empty()),
            identity: (!certificate.is_empty()).then_some(Identity { certificate, key }),
        };
        // A file takes precedence, as in client-go: its token may be renewed.
        let credentials = match (text(user, "tokenFile"), text(user, "token"), text(user, "username")) {
            ("", "", "") => Credentials::None,
            ("", "", name) => {
                let pair = STANDARD.encode(format!("{name}:{}", text(user, "password")));
                Credentials::Header(secret(&format!("Basic {pair}")).map_err(invalid)?)
            }
            ("", token, _) => Credentials::Header(secret(&format!("Bearer {token}")).map_err(invalid)?),
            (path, _, _) => Credentials::TokenFile(directory.join(path)),
        };
        Ok(Self { url, tls, credentials })
    }
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Returns the entry of a list with a name.
fn named<'v>(config: &'v Value, list: &str, field: &str, name: &str) -> Result<&'v Value, String> {
    if name.is_empty() {
        return Err(format!("no {field} is selected"));
    }
    let mut entries = config[list].as_array().into_iter().flatten();
    let found = entries.find(|entry| text(entry, "name") == name).map(|entry| &entry[field]);
    found.ok_or_else(|| format!("there is no {field} {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<RemoteServer, String> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.crt"), "authorities").unwrap();
        let file = directory.path().join("config");
        fs::write(&file, text).unwrap();
        RemoteServer::load(&file).map_err(|error| match error {
            KubeconfigError::Invalid { why, .. } => why,
            KubeconfigError::Read { path, .. } => path.file_name().unwrap().to_string_lossy().into_owned(),
        })
    }

    const CONTEXT: &str = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n";

    #[test]
    fn files_are_relative_to_the_kubeconfig() {
        let cluster = "clusters: [{name: k, cluster: {server: 'https://h/p', certificate-authority: ca.crt}}]\n";
        let server = load(&format!("{CONTEXT}{cluster}users: [{{name: u, user: {{token: t}}}}]")).unwrap();
        assert_eq!((server.url.as_str(), server.tls.authorities.as_slice()), ("https://h/p", &b"authorities"[..]));
        assert!(matches!(server.credentials, Credentials::Header(header) if header == "Bearer t"));
        let other = cluster.replace("ca.crt", "other.crt");
        assert_eq!(load(&format!("{CONTEXT}{other}users: [{{name: u}}]")).unwrap_err(), "other.crt");
    }

    #[test]
    fn a_token_in_a_file_takes_precedence() {
        let cluster = "clusters: [{name: k, cluster: {server: 'https://h'}}]\n";
        let server =
            load(&format!("{CONTEXT}{cluster}users: [{{name: u, user: {{token: t, tokenFile: f}}}}]")).unwrap();
        assert!(matches!(server.credentials, Credentials::TokenFile(path) if path.ends_with("f")));
    }

    #[test]
    fn an_unusable_kubeconfig_is_rejected() {
        let cluster = "clusters: [{name: k, cluster: {server: 'https://h'}}]\n";
        for (text, why) in [
            (String::new(), "no context is selected"),
            ("current-context: x".to_owned(), "there is no context \"x\""),
            (CONTEXT.to_owned(), "there is no cluster \"k\""),
            (format!("{CONTEXT}{cluster}"), "there is no user \"u\""),
            (format!("{CONTEXT}{cluster}users: [{{name: u, user: {{exec: {{}}}}}}]"), "exec is not supported"),
            (
                format!("{CONTEXT}{}users: [{{name: u}}]", cluster.replace("https://h", "ftp://h")),
                "server \"ftp://h\" is \
             not a URL of http or https",
            ),
        ] {
            assert_eq!(load(&text).unwrap_err(), why);
        }
    }
}
