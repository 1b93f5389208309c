//! Tokens of service accounts: signed claims about a user, valid for a limited time and only while the objects that
//! they are bound to exist.

pub(crate) mod issuers;
mod key;

use serde::{Deserialize, Serialize};

pub(crate) use self::issuers::Issuers;
pub use self::key::{TokenKey, TokenKeyError};

/// The issuer of tokens in Secrets.
pub(crate) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    /// The audiences.
    pub(crate) aud: Vec<String>,
    /// The expiration time.
    pub(crate) exp: i64,
    /// The time of issue.
    pub(crate) iat: i64,
    pub(crate) iss: String,
    /// The token ID.
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) bound: Bound,
    /// The start of its validity.
    pub(crate) nbf: i64,
    /// The subject.
    pub(crate) sub: String,
}

/// The account, and the objects that must exist for the token to be valid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Reference>,
    pub(crate) serviceaccount: Reference,
    /// The time after which use of the token is reported as late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warnafter: Option<i64>,
}

/// An object by name and uid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

/// The claims of a token in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LegacyClaims {
    pub(crate) iss: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace", default)]
    pub(crate) namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name", default)]
    pub(crate) secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name", default)]
    pub(crate) account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid", default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) sub: String,
}
