//! JSON web signatures in their compact form (RFC 7515), which JSON web tokens use.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::PublicKey;

/// The header: algorithm and key.
#[derive(Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) alg: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) kid: String,
    /// Extensions that a verifier must understand; there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crit: Option<serde_json::Value>,
}

impl Header {
    pub(crate) fn new(alg: &str, kid: &str) -> Self {
        Self { alg: alg.to_owned(), kid: kid.to_owned(), crit: None }
    }
}

/// A token that is parsed, but not verified.
pub(crate) struct Jws<'a> {
    pub(crate) header: Header,
    signed: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// Parses a token. Returns `None` if it is malformed, or has extensions that must be understood.
    pub(crate) fn parse(token: &'a str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let header: Header = decode(header)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        header.crit.is_none().then_some(Self { header, signed, payload, signature })
    }

    /// Returns the payload if one of the keys has signed it.
    pub(crate) fn verify<'k, T: DeserializeOwned>(&self, keys: impl IntoIterator<Item = &'k PublicKey>) -> Option<T> {
        let mut keys = keys.into_iter();
        keys.any(|key| key.verifies(&self.header.alg, self.signed.as_bytes(), &self.signature)).then_some(())?;
        decode(self.payload)
    }
}

/// Encodes a part of a token.
pub(crate) fn encode(part: &impl Serialize) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(part).expect("a part of a token must be JSON"))
}

fn decode<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
