//! The issuers of service account tokens, the audiences of the server, and the documents that others need to verify the
//! tokens.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::TokenKey;
use crate::{
    authentication::AuthenticationOptions,
    body::Body,
    represent,
    server::Inner,
    status::{ApiError, Result},
};

/// The issuer, and the audience of tokens that name none, unless others are configured.
const DEFAULT: &str = "https://kubernetes.default.svc.cluster.local";

/// The path of the discovery document of OpenID Connect.
pub(crate) const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// The path of the public keys.
pub(crate) const KEYS_PATH: &str = "/openid/v1/jwks";

/// Maximum time that clients may keep the documents.
const CACHE: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Returns one of the two documents.
pub(crate) fn answer(server: &Inner, path: &str, headers: &HeaderMap) -> Result<Response<Body>> {
    let configuration = server.authentication.issuers.configuration(&server.token_key, &server.external_address);
    let configuration = configuration.ok_or_else(ApiError::page_not_found)?;
    let (media_type, document) = match path {
        KEYS_PATH => ("application/jwk-set+json", Issuers::keys(&server.token_key)),
        _ => ("application/json", configuration),
    };
    if !accepts(headers, media_type) {
        return Err(not_acceptable(media_type));
    }
    let mut response = represent::bytes(StatusCode::OK, media_type, document.to_string().into());
    response.headers_mut().insert(header::CACHE_CONTROL, CACHE);
    Ok(response)
}

/// 406 for a path with one media type.
pub(crate) fn not_acceptable(media_type: &str) -> ApiError {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {media_type}");
    ApiError::not_acceptable(message).with_details(Map::new())
}

/// Returns whether a client accepts a media type, which it must name exactly or not at all.
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let Some(accept) = headers.get(header::ACCEPT).filter(|accept| !accept.is_empty()) else { return true };
    let ranges = accept.to_str().unwrap_or_default().split(',');
    ranges
        .map(|range| range.split(';').next().unwrap_or_default().trim())
        .any(|range| range == "*/*" || range == media_type)
}

/// The accepted issuers and audiences of tokens.
#[derive(Debug, Clone)]
pub(crate) struct Issuers {
    names: Vec<String>,
    audiences: Vec<String>,
    /// The longest validity of new tokens in seconds.
    max_seconds: Option<i64>,
    /// Whether tokens that kubelets request for pods are valid for a year.
    extends: bool,
    keys_url: Option<String>,
}

impl Issuers {
    /// Returns the configured issuers and audiences, or the default ones. The issuers are the audiences if there are no
    /// others.
    pub(crate) fn new(options: &AuthenticationOptions) -> Self {
        let AuthenticationOptions { service_account_issuers: names, api_audiences: audiences, .. } = options;
        let names = if names.is_empty() { vec![DEFAULT.to_owned()] } else { names.to_vec() };
        let audiences = if audiences.is_empty() { names.clone() } else { audiences.to_vec() };
        let max_seconds =
            options.max_token_expiration.map(|validity| i64::try_from(validity.as_secs()).unwrap_or(i64::MAX));
        Self {
            names,
            audiences,
            max_seconds: max_seconds.filter(|seconds| *seconds > 0),
            extends: !options.exact_token_expiration,
            keys_url: options.jwks_uri.clone().filter(|url| !url.is_empty()),
        }
    }

    /// Returns the issuer of new tokens.
    pub(crate) fn signing(&self) -> &str {
        self.names.first().map_or(DEFAULT, String::as_str)
    }

    /// Returns the longest validity of new tokens in seconds.
    pub(crate) fn max_seconds(&self) -> Option<i64> {
        self.max_seconds
    }

    /// Returns whether tokens that kubelets request for pods are valid for a year.
    pub(crate) fn extends(&self) -> bool {
        self.extends
    }

    /// Returns whether tokens of an issuer are those of this server.
    pub(crate) fn knows(&self, issuer: &str) -> bool {
        self.names.iter().any(|name| name == issuer)
    }

    /// Returns the issuers, the one of new tokens first.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// Returns the audiences of this server.
    pub(crate) fn audiences(&self) -> Vec<&str> {
        self.audiences.iter().map(String::as_str).collect()
    }

    /// Returns the requested audiences that are audiences of this server.
    pub(crate) fn own_of(&self, requested: &[&str]) -> Vec<String> {
        self.audiences.iter().filter(|own| requested.contains(&own.as_str())).cloned().collect()
    }

    /// Returns the discovery document; `None` if the issuer of new tokens is not a URL that OpenID Connect allows.
    pub(crate) fn configuration(&self, key: &TokenKey, address: &str) -> Option<Value> {
        let issuer = self.signing();
        if !issuer.starts_with("https://") || issuer.contains(['?', '#']) {
            return None;
        }
        let mut algorithms: Vec<&str> = key.public_keys().filter_map(|(_, key)| key.algorithm()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let keys_url = self.keys_url.clone().unwrap_or_else(|| format!("https://{address}{KEYS_PATH}"));
        Some(json!({
            "issuer": issuer, "jwks_uri": keys_url,
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        }))
    }

    /// Returns the keys that verify tokens.
    pub(crate) fn keys(key: &TokenKey) -> Value {
        let keys: Vec<Value> = key
            .public_keys()
            .filter_map(|(id, key)| {
                let mut jwk = key.to_jwk();
                jwk["use"] = "sig".into();
                jwk["kid"] = id.into();
                jwk["alg"] = key.algorithm()?.into();
                Some(jwk)
            })
            .collect();
        json!({ "keys": keys })
    }
}
