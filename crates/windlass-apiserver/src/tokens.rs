//! Tokens of service accounts: signed claims about a user, valid for a limited time and only while the objects that
//! they are bound to exist.

mod authenticate;

use base64::{Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
    },
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The issuer, and the audience of tokens that name none.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The DER prefix that turns a P-256 point into a public key.
const PUBLIC_KEY: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The key that signs tokens, for ES256.
pub struct TokenKey {
    pair: EcdsaKeyPair,
    pkcs8: Vec<u8>,
    id: String,
}

/// The text is not a token key.
#[derive(Debug, thiserror::Error)]
#[error("not a private key of the curve P-256 in PKCS #8")]
pub struct TokenKeyError;

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

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

impl TokenKey {
    /// Generates a key.
    pub fn generate() -> Self {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.expect("the system must have random numbers");
        Self::from_pkcs8(made.as_ref()).expect("a generated key must be valid")
    }

    /// Parses a key that was written with [`TokenKey::to_pem`].
    ///
    /// # Errors
    /// If the text is not such a key.
    pub fn from_pem(text: &str) -> Result<Self, TokenKeyError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| TokenKeyError)?;
        Self::from_pkcs8(key.secret_pkcs8_der())
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, TokenKeyError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new());
        let pair = pair.map_err(|_| TokenKeyError)?;
        let public = [&PUBLIC_KEY, pair.public_key().as_ref()].concat();
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &public));
        Ok(Self { pair, pkcs8: pkcs8.to_vec(), id })
    }

    /// Returns the private key as PEM, to be saved.
    pub fn to_pem(&self) -> String {
        let encoded = STANDARD.encode(&self.pkcs8);
        let lines: Vec<&str> =
            (0..encoded.len()).step_by(64).map(|at| &encoded[at..encoded.len().min(at + 64)]).collect();
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
    }

    /// Returns a token with these claims.
    pub(crate) fn sign(&self, claims: &Claims) -> String {
        let header = Header { alg: "ES256".to_owned(), kid: self.id.clone() };
        self.sign_parts(&encode(&header), &encode(claims))
    }

    /// Returns a token with these parts, which are JSON.
    pub(crate) fn sign_parts(&self, header: &[u8], claims: &[u8]) -> String {
        let said = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), said.as_bytes());
        let signature = signature.expect("the system must have random numbers");
        format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns the claims of a token, if this key has signed it.
    pub(crate) fn verify(&self, token: &str) -> Option<Claims> {
        let (said, signature) = token.rsplit_once('.')?;
        let (header, claims) = said.split_once('.')?;
        let header: Header = decode(header)?;
        if header.alg != "ES256" {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key());
        public.verify(said.as_bytes(), &signature).ok()?;
        decode(claims)
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

fn encode(part: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(part).expect("a part of a token must be JSON")
}

fn decode<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            aud: vec!["a".to_owned()],
            exp: 10,
            iat: 1,
            iss: ISSUER.to_owned(),
            jti: "j".to_owned(),
            bound: Bound { namespace: "n".to_owned(), ..Bound::default() },
            nbf: 1,
            sub: "system:serviceaccount:n:bot".to_owned(),
        }
    }

    #[test]
    fn a_token_is_verified_only_by_the_key_that_signed_it() {
        let key = TokenKey::generate();
        let token = key.sign(&claims());
        assert_eq!(key.verify(&token), Some(claims()));
        assert_eq!(TokenKey::generate().verify(&token), None);
        let again = TokenKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(again.verify(&token), Some(claims()));
    }

    #[test]
    fn a_token_that_was_changed_is_invalid() {
        let key = TokenKey::generate();
        let token = key.sign(&claims());
        let parts: Vec<&str> = token.split('.').collect();
        let other = URL_SAFE_NO_PAD.encode(encode(&Claims { exp: 99, ..claims() }));
        let unsigned = URL_SAFE_NO_PAD.encode(encode(&Header { alg: "none".to_owned(), kid: String::new() }));
        for changed in [
            format!("{}.{other}.{}", parts[0], parts[2]),
            format!("{unsigned}.{}.", parts[1]),
            format!("{}.{}", parts[0], parts[1]),
            "..".to_owned(),
            String::new(),
        ] {
            assert_eq!(key.verify(&changed), None, "{changed}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_token_or_makes_it_panic(
            text in ".{0,200}",
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        ) {
            let key = TokenKey::generate();
            let part = URL_SAFE_NO_PAD.encode(&bytes);
            for token in [text.clone(), format!("{text}.{part}.{part}"), format!("{part}.{part}.{text}")] {
                proptest::prop_assert_eq!(key.verify(&token), None);
            }
        }
    }

    #[test]
    fn anything_but_a_key_is_rejected_as_token_key() {
        assert!(TokenKey::from_pem("").is_err());
        assert!(TokenKey::from_pem("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").is_err());
    }
}
