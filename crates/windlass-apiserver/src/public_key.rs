//! Public keys that verify signatures of JSON web tokens.
//!
//! A key comes from PKIX (DER, or PEM with certificates), or from the members of a JSON web key. Nothing here is specific
//! to the tokens of service accounts.

pub(crate) mod der;
pub(crate) mod jws;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
        RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
        RSA_PSS_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
    },
};
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use serde::Deserialize;
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Object identifiers of key types and curves, without tag and length.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const ED25519_OID: &[u8] = &[0x2b, 0x65, 0x70];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x2b, 0x81, 4, 0, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 4, 0, 0x23];

/// The sizes of RSA keys in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Reasons why bytes or text cannot be used as a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The encoding is damaged.
    #[error("the key is damaged")]
    Malformed,
    /// The curve P-521.
    #[error("keys of the curve P-521 are not supported")]
    P521,
    /// A type or curve that JSON web tokens do not use.
    #[error("the key is neither an RSA key nor an ECDSA key on curve P-256 or P-384")]
    UnsupportedType,
    /// The size of an RSA key.
    #[error("RSA keys must have 2048 to 8192 bits, not {0}")]
    RsaSize(usize),
    /// An elliptic curve key without its public part.
    #[error("the private key does not contain its public key")]
    NoPublicPart,
    /// The cryptographic library rejects the private key.
    #[error("the private key cannot be used: {0}")]
    Rejected(String),
    /// The string has no key.
    #[error("no key in PEM found")]
    NoKey,
}

/// The type and curve of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyType {
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl KeyType {
    /// Returns the type for an algorithm identifier: the identifier of the type, and the encoded parameters.
    pub(crate) fn of_algorithm(algorithm: &[u8]) -> Result<Self, KeyError> {
        let mut algorithm = der::Reader::new(algorithm);
        match algorithm.read(der::OBJECT_IDENTIFIER).ok_or(KeyError::Malformed)? {
            RSA => Ok(Self::Rsa),
            EC => Self::of_curve(algorithm.read(der::OBJECT_IDENTIFIER).ok_or(KeyError::UnsupportedType)?),
            ED25519_OID => Ok(Self::Ed25519),
            _ => Err(KeyError::UnsupportedType),
        }
    }

    /// Returns the type for the identifier of a curve.
    pub(crate) fn of_curve(curve: &[u8]) -> Result<Self, KeyError> {
        match curve {
            P256 => Ok(Self::P256),
            P384 => Ok(Self::P384),
            P521 => Err(KeyError::P521),
            _ => Err(KeyError::UnsupportedType),
        }
    }

    /// The length of a coordinate, a private scalar or a key, in bytes; `None` if it varies.
    pub(crate) fn len(self) -> Option<usize> {
        match self {
            Self::Rsa => None,
            Self::P256 | Self::Ed25519 => Some(32),
            Self::P384 => Some(48),
        }
    }
}

/// Members of a JSON web key (RFC 7517) that describe a public key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Jwk {
    /// The type: `RSA`, `EC` or `OKP`.
    pub kty: String,
    /// The curve.
    pub crv: String,
    /// The modulus of an RSA key.
    pub n: String,
    /// The exponent of an RSA key.
    pub e: String,
    /// The first coordinate of an elliptic curve key.
    pub x: String,
    /// The second coordinate.
    pub y: String,
}

/// A public key that verifies signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: KeyType,
    /// The uncompressed point, the key of Ed25519, or the RSAPublicKey of PKCS #1.
    key: Vec<u8>,
}

impl PublicKey {
    /// Parses a key in PKIX DER (SubjectPublicKeyInfo).
    ///
    /// # Errors
    /// Returns an error if it is damaged, or of an unsupported type.
    pub fn from_der(encoded: &[u8]) -> Result<Self, KeyError> {
        let mut outer = der::Reader::new(encoded);
        let mut parts = der::Reader::new(outer.read(der::SEQUENCE).ok_or(KeyError::Malformed)?);
        let kind = KeyType::of_algorithm(parts.read(der::SEQUENCE).ok_or(KeyError::Malformed)?)?;
        let key = parts.read(der::BIT_STRING).ok_or(KeyError::Malformed)?;
        match key.split_first() {
            Some((0, key)) if outer.is_empty() && parts.is_empty() => Self::new(kind, key),
            _ => Err(KeyError::Malformed),
        }
    }

    /// Parses the keys in PEM: public keys, and those of certificates. Other sections are skipped.
    ///
    /// # Errors
    /// Returns an error if there is no key, or one is damaged or of an unsupported type.
    pub fn all_from_pem(text: &[u8]) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            let (kind, bytes) = section.map_err(|_| KeyError::Malformed)?;
            keys.extend(Self::from_section(kind, &bytes)?);
        }
        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(keys) }
    }

    /// Parses a section of PEM. Returns `None` if it is neither a public key nor a certificate.
    pub(crate) fn from_section(kind: SectionKind, bytes: &[u8]) -> Result<Option<Self>, KeyError> {
        match kind {
            SectionKind::PublicKey => Self::from_der(bytes).map(Some),
            SectionKind::Certificate => {
                let (_, certificate) = X509Certificate::from_der(bytes).map_err(|_| KeyError::Malformed)?;
                Self::from_der(certificate.public_key().raw).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Builds a key from the members of a JSON web key.
    ///
    /// # Errors
    /// Returns an error if a member is missing or damaged, or the type or curve is unsupported.
    pub fn from_jwk(jwk: &Jwk) -> Result<Self, KeyError> {
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyError::Malformed);
        match (jwk.kty.as_str(), jwk.crv.as_str()) {
            ("RSA", _) => {
                let parts = [der::integer(&bytes(&jwk.n)?), der::integer(&bytes(&jwk.e)?)];
                Self::new(KeyType::Rsa, &der::sequence(&parts))
            }
            ("EC", "P-256") => Self::new(KeyType::P256, &[&[4], &*bytes(&jwk.x)?, &*bytes(&jwk.y)?].concat()),
            ("EC", "P-384") => Self::new(KeyType::P384, &[&[4], &*bytes(&jwk.x)?, &*bytes(&jwk.y)?].concat()),
            ("EC", "P-521") => Err(KeyError::P521),
            ("OKP", "Ed25519") => Self::new(KeyType::Ed25519, &bytes(&jwk.x)?),
            _ => Err(KeyError::UnsupportedType),
        }
    }

    /// Builds a key from its raw form: an uncompressed point, 32 bytes for Ed25519, an RSAPublicKey for RSA.
    pub(crate) fn new(kind: KeyType, key: &[u8]) -> Result<Self, KeyError> {
        match (kind, kind.len()) {
            (KeyType::Ed25519, Some(length)) if key.len() == length => {}
            (KeyType::P256 | KeyType::P384, Some(length)) if key.len() == 1 + 2 * length && key[0] == 4 => {}
            (KeyType::Rsa, _) => {
                let mut outer = der::Reader::new(key);
                let mut parts = der::Reader::new(outer.read(der::SEQUENCE).ok_or(KeyError::Malformed)?);
                let modulus = parts.read(der::INTEGER).ok_or(KeyError::Malformed)?;
                let exponent = parts.read(der::INTEGER).ok_or(KeyError::Malformed)?;
                if !outer.is_empty() || !parts.is_empty() || exponent.is_empty() {
                    return Err(KeyError::Malformed);
                }
                let leading = modulus.iter().take_while(|byte| **byte == 0).count();
                let bits = modulus
                    .get(leading)
                    .map_or(0, |first| (modulus.len() - leading) * 8 - first.leading_zeros() as usize);
                if !RSA_BITS.contains(&bits) {
                    return Err(KeyError::RsaSize(bits));
                }
            }
            _ => return Err(KeyError::Malformed),
        }
        Ok(Self { kind, key: key.to_vec() })
    }

    /// Returns the key in PKIX DER.
    pub fn to_der(&self) -> Vec<u8> {
        let identifier = |bytes| der::tagged(der::OBJECT_IDENTIFIER, bytes);
        let algorithm = match self.kind {
            KeyType::Rsa => vec![identifier(RSA), der::tagged(der::NULL, &[])],
            KeyType::P256 => vec![identifier(EC), identifier(P256)],
            KeyType::P384 => vec![identifier(EC), identifier(P384)],
            KeyType::Ed25519 => vec![identifier(ED25519_OID)],
        };
        der::sequence(&[der::sequence(&algorithm), der::bit_string(&self.key)])
    }

    /// Returns the key's ID, as kube-apiserver computes it: the digest of its PKIX DER.
    pub fn id(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &self.to_der()))
    }

    /// Returns the algorithm of tokens that this key signs; `None` if it signs none.
    pub(crate) fn algorithm(&self) -> Option<&'static str> {
        match self.kind {
            KeyType::Rsa => Some("RS256"),
            KeyType::P256 => Some("ES256"),
            KeyType::P384 => Some("ES384"),
            KeyType::Ed25519 => None,
        }
    }

    /// Returns the members of a JSON web key that describe this key.
    pub(crate) fn to_jwk(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let point = |curve: &str| {
            let (x, y) = self.key[1..].split_at((self.key.len() - 1) / 2);
            json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
        };
        match self.kind {
            KeyType::P256 => point("P-256"),
            KeyType::P384 => point("P-384"),
            KeyType::Ed25519 => json!({"kty": "OKP", "crv": "Ed25519", "x": encode(&self.key)}),
            KeyType::Rsa => {
                let mut parts = der::Reader::new(der::Reader::new(&self.key).read(der::SEQUENCE).unwrap_or_default());
                let mut number = || {
                    let digits = parts.read(der::INTEGER).unwrap_or_default();
                    encode(&digits[digits.iter().take_while(|digit| **digit == 0).count()..])
                };
                json!({"kty": "RSA", "n": number(), "e": number()})
            }
        }
    }

    /// Returns whether this key has signed a message with this algorithm of JSON web signatures.
    pub fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let verification: &'static dyn VerificationAlgorithm = match (self.kind, algorithm) {
            (KeyType::Rsa, "RS256") => &RSA_PKCS1_2048_8192_SHA256,
            (KeyType::Rsa, "RS384") => &RSA_PKCS1_2048_8192_SHA384,
            (KeyType::Rsa, "RS512") => &RSA_PKCS1_2048_8192_SHA512,
            (KeyType::Rsa, "PS256") => &RSA_PSS_2048_8192_SHA256,
            (KeyType::Rsa, "PS384") => &RSA_PSS_2048_8192_SHA384,
            (KeyType::Rsa, "PS512") => &RSA_PSS_2048_8192_SHA512,
            (KeyType::P256, "ES256") => &ECDSA_P256_SHA256_FIXED,
            (KeyType::P384, "ES384") => &ECDSA_P384_SHA384_FIXED,
            (KeyType::Ed25519, "EdDSA") => &ED25519,
            _ => return false,
        };
        UnparsedPublicKey::new(verification, &self.key).verify(message, signature).is_ok()
    }
}

#[cfg(test)]
mod tests;
