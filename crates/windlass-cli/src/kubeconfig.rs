//! Kubeconfigs for others: users, and operators that run as their service account.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::Config;
use serde_json::{Value, json};
use windlass_schema::yaml;

/// Credentials of a client.
pub(crate) enum Credentials {
    /// A client certificate and its key, in PEM.
    Certificate {
        certificate: Vec<u8>,
        key: String,
    },
    Token(String),
    /// A file with a token, which clients read again while they run.
    TokenFile(PathBuf),
}

/// A kubeconfig to write.
pub(crate) struct NewKubeconfig<'a> {
    /// Connection to the cluster.
    pub(crate) config: &'a Config,
    /// Name of the cluster entry.
    pub(crate) cluster: &'a str,
    /// Name of the user entry.
    pub(crate) user: &'a str,
    /// Default namespace of the context.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) credentials: &'a Credentials,
}

impl NewKubeconfig<'_> {
    /// Returns the kubeconfig as YAML. Certificates are embedded, so that the file works from anywhere.
    pub(crate) fn to_yaml(&self) -> anyhow::Result<String> {
        let Self { cluster, user, .. } = self;
        let context = format!("{user}@{cluster}");
        let mut context_of_user = json!({"cluster": cluster, "user": user});
        if let Some(namespace) = self.namespace {
            context_of_user["namespace"] = namespace.into();
        }
        Ok(yaml::to_yaml(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": cluster_entry(self.config)?}],
            "users": [{"name": user, "user": user_entry(self.credentials)}],
            "contexts": [{"name": context, "context": context_of_user}],
            "current-context": context,
        })))
    }
}

fn cluster_entry(config: &Config) -> anyhow::Result<Value> {
    let mut entry = json!({"server": config.cluster_url.to_string().trim_end_matches('/')});
    let authority = match (&config.root_cert, &config.root_cert_file) {
        (Some(certificates), _) => Some(certificates.iter().map(|der| pem(der)).collect::<String>().into_bytes()),
        (None, Some(file)) => Some(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?),
        (None, None) => None,
    };
    if let Some(authority) = authority {
        entry["certificate-authority-data"] = STANDARD.encode(authority).into();
    }
    if config.accept_invalid_certs {
        entry["insecure-skip-tls-verify"] = true.into();
    }
    if let Some(name) = &config.tls_server_name {
        entry["tls-server-name"] = name.as_str().into();
    }
    if let Some(proxy) = &config.proxy_url {
        entry["proxy-url"] = proxy.to_string().into();
    }
    Ok(entry)
}

fn user_entry(credentials: &Credentials) -> Value {
    match credentials {
        Credentials::Certificate { certificate, key } => json!({
            "client-certificate-data": STANDARD.encode(certificate), "client-key-data": STANDARD.encode(key),
        }),
        Credentials::Token(token) => json!({"token": token}),
        Credentials::TokenFile(path) => json!({"tokenFile": path}),
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use kube::config::{KubeConfigOptions, Kubeconfig};

    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_reaches_the_same_server_with_the_new_credentials() {
        let folder = tempfile::tempdir().unwrap();
        let pki = windlass_plane::Pki::load_or_create(folder.path(), &[]).unwrap();
        let read = async |text: &str| {
            let kubeconfig = Kubeconfig::from_yaml(text).unwrap();
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
        };
        let admin = read(&windlass_plane::kubeconfig(&pki, "https://127.0.0.1:6443")).await;
        let credentials = Credentials::Certificate { certificate: b"CERT".to_vec(), key: "KEY".to_owned() };
        let new = NewKubeconfig {
            config: &admin,
            cluster: "windlass",
            user: "alice",
            namespace: Some("dev"),
            credentials: &credentials,
        };
        let alice = read(&new.to_yaml().unwrap()).await;
        assert_eq!((&alice.cluster_url, &alice.root_cert), (&admin.cluster_url, &admin.root_cert));
        assert_eq!(alice.default_namespace, "dev");
        assert_eq!(alice.auth_info.client_certificate_data, Some(STANDARD.encode("CERT")));
        assert!(alice.auth_info.client_key_data.is_some() && alice.auth_info.token.is_none());

        let credentials = Credentials::TokenFile("/run/token".into());
        let new = NewKubeconfig { namespace: None, credentials: &credentials, ..new };
        let robot = read(&new.to_yaml().unwrap()).await;
        assert_eq!(robot.auth_info.token_file.as_deref(), Some("/run/token"));
        assert!(robot.auth_info.client_certificate_data.is_none());
    }
}
