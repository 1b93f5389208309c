//! The keys that sign and verify tokens.
//!
//! A key file is one or more sections of PEM, as kube-apiserver reads them: the first private key signs, and tokens of
//! all keys are accepted, so that a key can be replaced while tokens of the old one are in use.

use base64::{Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256,
        RsaKeyPair,
    },
};
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use serde::{Serialize, de::DeserializeOwned};

use crate::public_key::{
    KeyError, KeyType, PublicKey, der,
    jws::{Header, Jws, encode},
};

/// The tags of the optional parts of an elliptic curve key.
const CURVE: u8 = 0xa0;
const PUBLIC_PART: u8 = 0xa1;

/// The keys of tokens: RS256, ES256 or ES384.
pub struct TokenKey {
    pair: PrivateKey,
    /// The ID of the private key.
    id: String,
    /// The keys that verify tokens, by ID. The first belongs to the private key.
    public: Vec<(String, PublicKey)>,
    pem: String,
}

/// The string is not a token key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenKeyError {
    /// The string is not PEM.
    #[error("is not PEM")]
    NotPem,
    /// There is no private key in it.
    #[error("contains no private key in PEM (PKCS #8, PKCS #1 or SEC 1)")]
    NoPrivateKey,
    /// A key cannot be used.
    #[error("contains a key that cannot be used: {0}")]
    Key(#[from] KeyError),
}

enum PrivateKey {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
}

impl TokenKey {
    /// Generates a key of the curve P-256.
    pub fn generate() -> Self {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.expect("the system must have random numbers");
        Self::from_pem(&pem(made.as_ref())).expect("a generated key must be valid")
    }

    /// Parses the text of a key file: RSA keys of 2048, 3072 or 4096 bits, and keys of the curves P-256 and P-384. The first
    /// private key signs. Further private keys, public keys and certificates verify.
    ///
    /// # Errors
    /// Returns an error if there is no private key, or a key is damaged or of another type.
    pub fn from_pem(text: &str) -> Result<Self, TokenKeyError> {
        let (mut pair, mut public) = (None, Vec::new());
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes()) {
            let (kind, bytes) = section.map_err(|_| TokenKeyError::NotPem)?;
            match PrivateKey::from_section(kind, &bytes)? {
                Some(key) if pair.is_none() => {
                    public.insert(0, key.public()?);
                    pair = Some(key);
                }
                Some(key) => public.push(key.public()?),
                None => public.extend(PublicKey::from_section(kind, &bytes)?),
            }
        }
        let pair = pair.ok_or(TokenKeyError::NoPrivateKey)?;
        let public: Vec<(String, PublicKey)> = public.into_iter().map(|key| (key.id(), key)).collect();
        let id = public.first().map(|(id, _)| id.clone()).unwrap_or_default();
        Ok(Self { pair, id, public, pem: text.to_owned() })
    }

    /// Returns the keys as PEM, to be saved.
    pub fn to_pem(&self) -> &str {
        &self.pem
    }

    /// Returns a token with these claims.
    pub(crate) fn sign(&self, claims: &impl Serialize) -> String {
        let header = Header::new(self.pair.algorithm(), &self.id);
        self.sign_encoded(&encode(&header), &encode(claims))
    }

    /// Returns a token with these parts, which are JSON.
    pub(crate) fn sign_parts(&self, header: &[u8], claims: &[u8]) -> String {
        self.sign_encoded(&URL_SAFE_NO_PAD.encode(header), &URL_SAFE_NO_PAD.encode(claims))
    }

    fn sign_encoded(&self, header: &str, claims: &str) -> String {
        let signed = format!("{header}.{claims}");
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// Returns the keys that verify tokens, by ID.
    pub(crate) fn public_keys(&self) -> impl Iterator<Item = (&str, &PublicKey)> {
        self.public.iter().map(|(id, key)| (id.as_str(), key))
    }

    /// Returns the ID of the key that signs.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns whether one of these keys may have signed a token that names this key.
    pub(crate) fn knows(&self, id: &str) -> bool {
        id.is_empty() || self.public.iter().any(|(known, _)| known == id)
    }

    /// Returns the claims of a token, if one of the keys has signed it: the one that it names, or any if it names none.
    pub(crate) fn verify<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        let token = Jws::parse(token)?;
        let named = &token.header.kid;
        let keys = self.public.iter().filter(|(id, _)| named.is_empty() || id == named);
        token.verify(keys.map(|(_, key)| key))
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl PrivateKey {
    /// Parses a section of PEM. Returns `None` if it is not a private key.
    fn from_section(kind: SectionKind, bytes: &[u8]) -> Result<Option<Self>, KeyError> {
        match kind {
            SectionKind::PrivateKey => Self::from_pkcs8(bytes).map(Some),
            SectionKind::RsaPrivateKey => Self::rsa(bytes).map(Some),
            SectionKind::EcPrivateKey => Self::elliptic(bytes, None).map(Some),
            _ => Ok(None),
        }
    }

    /// A PrivateKeyInfo: version, algorithm, key.
    fn from_pkcs8(bytes: &[u8]) -> Result<Self, KeyError> {
        let mut outer = der::Reader::new(bytes);
        let mut parts = der::Reader::new(outer.read(der::SEQUENCE).ok_or(KeyError::Malformed)?);
        parts.read(der::INTEGER).ok_or(KeyError::Malformed)?;
        let kind = KeyType::of_algorithm(parts.read(der::SEQUENCE).ok_or(KeyError::Malformed)?)?;
        let key = parts.read(der::OCTET_STRING).ok_or(KeyError::Malformed)?;
        match kind {
            KeyType::Rsa => Self::rsa(key),
            KeyType::P256 | KeyType::P384 => Self::elliptic(key, Some(kind)),
            KeyType::Ed25519 => Err(KeyError::UnsupportedType),
        }
    }

    /// An RSAPrivateKey of PKCS #1.
    fn rsa(bytes: &[u8]) -> Result<Self, KeyError> {
        RsaKeyPair::from_der(bytes).map(Self::Rsa).map_err(|rejected| KeyError::Rejected(rejected.to_string()))
    }

    /// An ECPrivateKey of SEC 1: version, private key, curve, public key. In PKCS #8 the curve may be outside.
    fn elliptic(bytes: &[u8], outside: Option<KeyType>) -> Result<Self, KeyError> {
        let mut outer = der::Reader::new(bytes);
        let mut parts = der::Reader::new(outer.read(der::SEQUENCE).ok_or(KeyError::Malformed)?);
        parts.read(der::INTEGER).ok_or(KeyError::Malformed)?;
        let scalar = parts.read(der::OCTET_STRING).ok_or(KeyError::Malformed)?;
        let inside = match parts.read(CURVE) {
            Some(curve) => {
                let curve = der::Reader::new(curve).read(der::OBJECT_IDENTIFIER).ok_or(KeyError::UnsupportedType)?;
                Some(KeyType::of_curve(curve)?)
            }
            None => None,
        };
        let public = parts.read(PUBLIC_PART).ok_or(KeyError::NoPublicPart)?;
        let public = der::Reader::new(public).read(der::BIT_STRING).ok_or(KeyError::Malformed)?;
        let (0, point) = public.split_first().ok_or(KeyError::Malformed)? else { return Err(KeyError::Malformed) };
        let kind = outside.or(inside).ok_or(KeyError::Malformed)?;
        // Some programs omit leading zeros, others add one.
        let digits = &scalar[scalar.iter().take_while(|digit| **digit == 0).count()..];
        let length = kind.len().filter(|length| digits.len() <= *length).ok_or(KeyError::Malformed)?;
        let scalar = [&vec![0; length - digits.len()], digits].concat();
        let (algorithm, variant): (_, fn(EcdsaKeyPair) -> Self) = match kind {
            KeyType::P384 => (&ECDSA_P384_SHA384_FIXED_SIGNING, Self::P384),
            _ => (&ECDSA_P256_SHA256_FIXED_SIGNING, Self::P256),
        };
        EcdsaKeyPair::from_private_key_and_public_key(algorithm, &scalar, point, &SystemRandom::new())
            .map(variant)
            .map_err(|rejected| KeyError::Rejected(rejected.to_string()))
    }

    fn public(&self) -> Result<PublicKey, KeyError> {
        match self {
            Self::Rsa(pair) => PublicKey::new(KeyType::Rsa, pair.public_key().as_ref()),
            Self::P256(pair) => PublicKey::new(KeyType::P256, pair.public_key().as_ref()),
            Self::P384(pair) => PublicKey::new(KeyType::P384, pair.public_key().as_ref()),
        }
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.expect("a signature must have the length of its key");
                signature
            }
            Self::P256(pair) | Self::P384(pair) => {
                let signature = pair.sign(&random, message).expect("the system must have random numbers");
                signature.as_ref().to_vec()
            }
        }
    }
}

/// Encodes PKCS #8 as PEM.
fn pem(pkcs8: &[u8]) -> String {
    let encoded = STANDARD.encode(pkcs8);
    let lines: Vec<&str> = (0..encoded.len()).step_by(64).map(|at| &encoded[at..encoded.len().min(at + 64)]).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests;
