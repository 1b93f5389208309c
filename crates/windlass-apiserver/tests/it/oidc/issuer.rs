//! An OpenID Connect issuer on a free port: discovery document, keys, and signed tokens.

use std::sync::Arc;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use parking_lot::Mutex;
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256,
        RsaKeyPair,
    },
};
use rustls::pki_types::{PrivatePkcs1KeyDer, pem::PemObject as _};
use serde_json::{Value, json};

use crate::webhook_server::WebhookServer;

/// A key that signs tokens.
pub(super) struct Signer {
    pub(super) id: String,
    algorithm: &'static str,
    pub(super) jwk: Value,
    key: Key,
}

enum Key {
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
}

impl Signer {
    /// A new key for `ES256`.
    pub(super) fn p256(id: &str) -> Self {
        Self::ec(id, "ES256")
    }

    /// A new key for `ES384`.
    pub(super) fn p384(id: &str) -> Self {
        Self::ec(id, "ES384")
    }

    fn ec(id: &str, algorithm: &'static str) -> Self {
        let (signing, curve) = match algorithm {
            "ES256" => (&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256"),
            _ => (&ECDSA_P384_SHA384_FIXED_SIGNING, "P-384"),
        };
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(signing, document.as_ref(), &random).unwrap();
        let (x, y) = pair.public_key().as_ref()[1..].split_at((pair.public_key().as_ref().len() - 1) / 2);
        let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        let jwk = json!({"kty": "EC", "kid": id, "crv": curve, "x": encode(x), "y": encode(y), "use": "sig"});
        Self { id: id.to_owned(), algorithm, jwk, key: Key::Ec(Box::new(pair)) }
    }

    /// The RSA key of the test data, for `RS256`.
    pub(super) fn rsa(id: &str) -> Self {
        let keys: Value = serde_json::from_str(include_str!("../../data/keys.json")).unwrap();
        let found = keys.as_array().unwrap().iter().find(|key| key["name"] == "RSA 2048").unwrap();
        let mut jwk = found["jwk"].clone();
        jwk["kid"] = json!(id);
        let private = found["private"]["PKCS #1"].as_str().unwrap();
        let private = PrivatePkcs1KeyDer::from_pem_slice(private.as_bytes()).unwrap();
        let pair = RsaKeyPair::from_der(private.secret_pkcs1_der()).unwrap();
        Self { id: id.to_owned(), algorithm: "RS256", jwk, key: Key::Rsa(Box::new(pair)) }
    }

    /// Returns a signed token.
    pub(super) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&json!({"alg": self.algorithm, "kid": self.id}), claims)
    }

    /// Returns a token with another header.
    pub(super) fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let said = unsigned(header, claims);
        let signature = match &self.key {
            Key::Ec(pair) => pair.sign(&SystemRandom::new(), said.as_bytes()).unwrap().as_ref().to_vec(),
            Key::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), said.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Returns a token without its signature.
pub(super) fn unsigned(header: &Value, claims: &Value) -> String {
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

/// Documents that an issuer publishes.
#[derive(Default)]
struct Published {
    url: String,
    keys: Vec<Value>,
    down: bool,
}

/// An issuer that stops at the end of the test.
pub(super) struct TestIssuer {
    pub(super) url: String,
    server: WebhookServer,
    published: Arc<Mutex<Published>>,
}

impl TestIssuer {
    pub(super) async fn start(signers: &[&Signer]) -> Self {
        let published = Arc::new(Mutex::new(Published::default()));
        let answering = published.clone();
        let server = WebhookServer::start(&[], move |path, _| {
            let published = answering.lock();
            let url = &published.url;
            match path {
                _ if published.down => (503, json!("down")),
                "/realm/.well-known/openid-configuration" | "/elsewhere" => {
                    (200, json!({"issuer": url, "jwks_uri": format!("{url}/keys"), "more": [1]}))
                }
                "/realm/keys" => (200, json!({"keys": published.keys})),
                _ => (404, json!("not found")),
            }
        })
        .await;
        let url = format!("https://{}/realm", server.address);
        published.lock().url = url.clone();
        let issuer = Self { url, server, published };
        issuer.publish(signers);
        issuer
    }

    /// Replaces the published keys.
    pub(super) fn publish(&self, signers: &[&Signer]) {
        // Unusable keys do not affect others.
        let strange =
            [json!({"kty": "oct", "k": "AAAA"}), json!({"kty": "EC", "crv": "P-521", "x": "", "y": ""}), json!(1)];
        let keys = signers.iter().map(|signer| signer.jwk.clone());
        self.published.lock().keys = strange.into_iter().chain(keys).collect();
    }

    /// Sets whether all requests fail.
    pub(super) fn set_down(&self, down: bool) {
        self.published.lock().down = down;
    }

    /// Returns the certificate authority in PEM.
    pub(super) fn authority(&self) -> String {
        String::from_utf8(STANDARD.decode(&self.server.ca_bundle).unwrap()).unwrap()
    }

    /// Returns how often a path below the issuer was requested since the last call of this function.
    pub(super) fn take_requests(&self, path: &str) -> usize {
        let path = format!("/realm{path}");
        self.server.take_seen().into_iter().filter(|(seen, _)| *seen == path).count()
    }

    /// Returns the URL of a discovery document that is not below the issuer.
    pub(super) fn other_discovery_url(&self) -> String {
        format!("https://{}/elsewhere", self.server.address)
    }

    /// Returns the `issuer` of a configuration, for the audience `cluster`.
    pub(super) fn configuration(&self) -> Value {
        json!({"url": self.url, "audiences": ["cluster"], "certificateAuthority": self.authority()})
    }

    /// Returns claims for the audience `cluster` that are valid for an hour.
    pub(super) fn claims(&self, more: Value) -> Value {
        let now = windlass_clock::now().as_second();
        let mut claims = json!({"iss": self.url, "aud": "cluster", "iat": now, "exp": now + 3600, "sub": "jane"});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claims
    }
}
