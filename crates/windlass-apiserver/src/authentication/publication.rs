//! The ConfigMap `kube-system/extension-apiserver-authentication`: how other API servers of the cluster authenticate
//! clients and this server.
//!
//! Entries of other servers are kept: lists are merged, and certificates are dropped once they have expired.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Method, StatusCode};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Map, Value, json};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{AuthenticationError, AuthenticationOptions, RequestHeaderOptions, authorities};
use crate::{
    bootstrap,
    server::Inner,
    status::ApiError,
    storage::{ResourceCache, Storage},
};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// Interval at which the ConfigMap is checked in addition to its changes.
const PERIOD: Duration = Duration::from_secs(60);
/// Time for which an expired certificate is kept, in seconds.
const SLACK: i64 = 300;

/// Authentication settings that a server publishes.
pub(crate) struct Publication {
    client_ca: Option<String>,
    request_header: Option<RequestHeaderOptions>,
    config_maps: Arc<ResourceCache>,
}

/// A list of names in the options.
type ListOf = fn(&RequestHeaderOptions) -> &Vec<String>;

impl Publication {
    /// Returns `None` if there is nothing to publish.
    pub(crate) fn of(options: &AuthenticationOptions, storage: &Storage) -> Result<Option<Self>, AuthenticationError> {
        let AuthenticationOptions { client_ca, request_header, .. } = options;
        if client_ca.is_none() && request_header.is_none() {
            return Ok(None);
        }
        let authorities = client_ca.iter().chain(request_header.iter().map(|options| &options.client_ca));
        for pem in authorities {
            authorities::roots(pem)?;
        }
        let config_maps = storage.cache("/core/configmaps/");
        Ok(Some(Self { client_ca: client_ca.clone(), request_header: request_header.clone(), config_maps }))
    }

    /// Restores the ConfigMap whenever it is changed, until the server is dropped.
    pub(crate) async fn run(self, server: Weak<Inner>) {
        let mut checked = None;
        loop {
            let changed = self.config_maps.changed();
            let revision = self.config_maps.get(&key()).map(|object| object.revision);
            // Other ConfigMaps change as well.
            if revision.is_none() || revision != checked {
                let Some(server) = server.upgrade() else { return };
                if let Err(error) = self.publish(&server).await {
                    tracing::warn!(%error, "failed to publish the configuration of authentication");
                }
                checked = revision;
            }
            if tokio::time::timeout(PERIOD, changed).await.is_err() {
                // Certificates may have expired.
                checked = None;
            }
        }
    }

    /// Creates or completes the ConfigMap, unless it is complete.
    pub(crate) async fn publish(&self, server: &Arc<Inner>) -> Result<(), ApiError> {
        let present = self.config_maps.get(&key()).map(|object| object.to_value());
        let old = present.as_ref().map_or(&Value::Null, |object| &object["data"]);
        let data = self.data(old, server.now().as_second());
        if old.as_object() == Some(&data) {
            return Ok(());
        }
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        let written = match present {
            None => {
                let object = json!({"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": data});
                bootstrap::request(server, Method::POST, &path, &object).await
            }
            Some(mut object) => {
                object["data"] = data.into();
                bootstrap::request(server, Method::PUT, &format!("{path}/{NAME}"), &object).await
            }
        };
        match written {
            // Another writer was faster, and the change is noticed.
            Err(error) if matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(()),
            written => written,
        }
    }

    /// Returns the data, given what was published before.
    fn data(&self, old: &Value, now: i64) -> Map<String, Value> {
        let mut data = Map::new();
        let text = |key: &str| old[key].as_str().unwrap_or_default();
        let clients = merge_certificates(text("client-ca-file"), self.client_ca.as_deref(), now);
        if !clients.is_empty() {
            data.insert("client-ca-file".to_owned(), clients.into());
        }
        let options = self.request_header.as_ref();
        let authority = options.map(|options| options.client_ca.as_str());
        let proxies = merge_certificates(text("requestheader-client-ca-file"), authority, now);
        if proxies.is_empty() {
            return data;
        }
        data.insert("requestheader-client-ca-file".to_owned(), proxies.into());
        let lists: [(&str, ListOf); 5] = [
            ("requestheader-allowed-names", |options| &options.allowed_names),
            ("requestheader-extra-headers-prefix", |options| &options.extra_header_prefixes),
            ("requestheader-group-headers", |options| &options.group_headers),
            ("requestheader-uid-headers", |options| &options.uid_headers),
            ("requestheader-username-headers", |options| &options.username_headers),
        ];
        for (key, own) in lists {
            let mut merged: Vec<String> = serde_json::from_str(text(key)).unwrap_or_default();
            for name in options.map(own).into_iter().flatten() {
                if !merged.contains(name) {
                    merged.push(name.clone());
                }
            }
            if key != "requestheader-uid-headers" || !merged.is_empty() {
                data.insert(key.to_owned(), json!(merged).to_string().into());
            }
        }
        data
    }
}

fn key() -> String {
    format!("{NAMESPACE}/{NAME}")
}

/// Returns the unexpired certificates of both bundles in PEM, without duplicates.
fn merge_certificates(old: &str, own: Option<&str>, now: i64) -> String {
    let mut certificates = Vec::<CertificateDer<'static>>::new();
    for pem in [old, own.unwrap_or_default()] {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()).flatten() {
            let valid = X509Certificate::from_der(&certificate)
                .is_ok_and(|(_, parsed)| parsed.validity().not_after.timestamp() > now - SLACK);
            if valid && !certificates.contains(&certificate) {
                certificates.push(certificate);
            }
        }
    }
    certificates.iter().map(|certificate| pem(certificate)).collect()
}

fn pem(certificate: &[u8]) -> String {
    let encoded = STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in encoded.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(name: &str, year: i32) -> String {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().replace("\r\n", "\n")
    }

    #[tokio::test]
    async fn published_lists_and_certificates_are_merged() {
        let storage = Storage::open(Arc::new(windlass_store::memory::MemoryStore::new())).await.unwrap();
        let now = "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second();
        let (own, proxy) = (certificate("own", 2050), certificate("proxy", 2050));
        let options = AuthenticationOptions {
            client_ca: Some(own.clone()),
            request_header: Some(RequestHeaderOptions {
                allowed_names: vec!["front-proxy-client".to_owned()],
                ..RequestHeaderOptions::new(proxy.clone())
            }),
            ..AuthenticationOptions::default()
        };
        let publication = Publication::of(&options, &storage).unwrap().unwrap();
        let fresh = publication.data(&Value::Null, now);
        assert_eq!(
            Value::Object(fresh.clone()),
            json!({
                "client-ca-file": own,
                "requestheader-allowed-names": "[\"front-proxy-client\"]",
                "requestheader-client-ca-file": proxy,
                "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
                "requestheader-group-headers": "[\"X-Remote-Group\"]",
                "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]",
            })
        );
        assert_eq!(publication.data(&Value::Object(fresh), now)["client-ca-file"], own, "nothing is added twice");
        let (other, expired) = (certificate("other", 2050), certificate("expired", 2020));
        let old = json!({"client-ca-file": format!("{expired}{other}"), "requestheader-group-headers": "[\"G\"]"});
        let merged = publication.data(&old, now);
        assert_eq!(merged["client-ca-file"], format!("{other}{own}"));
        assert_eq!(merged["requestheader-group-headers"], "[\"G\",\"X-Remote-Group\"]");
    }
}
