use serde_json::Value;

use super::*;

/// Keys, tokens and key IDs that Go's library made.
fn fixtures() -> Vec<Value> {
    serde_json::from_str(include_str!("../../tests/data/keys.json")).unwrap()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

fn jwk(fixture: &Value) -> Jwk {
    serde_json::from_value(fixture["jwk"].clone()).unwrap()
}

#[test]
fn a_key_verifies_tokens_of_every_algorithm_for_its_type() {
    let mut verified = Vec::new();
    for fixture in fixtures() {
        let name = text(&fixture, "name");
        let keys = PublicKey::all_from_pem(text(&fixture, "public").as_bytes());
        let expected = match name {
            "P-521" => Some(KeyError::P521),
            "RSA 1024" => Some(KeyError::RsaSize(1024)),
            _ => None,
        };
        if let Some(expected) = expected {
            assert_eq!(keys.unwrap_err(), expected);
            assert_eq!(PublicKey::from_jwk(&jwk(&fixture)).unwrap_err(), expected);
            continue;
        }
        let key = keys.unwrap().remove(0);
        assert_eq!(key.id(), text(&fixture, "kid"), "{name}");
        assert_eq!(PublicKey::from_jwk(&jwk(&fixture)).unwrap(), key, "{name}");
        assert_eq!(PublicKey::from_der(&key.to_der()).unwrap(), key, "{name}");
        for (algorithm, token) in fixture["tokens"].as_object().unwrap() {
            let token = token.as_str().unwrap();
            let parsed = jws::Jws::parse(token).unwrap();
            let claims: Value = parsed.verify([&key]).unwrap_or_else(|| panic!("{name} {algorithm}"));
            assert_eq!(claims["sub"], "someone");
            // One changed byte, and every other algorithm.
            let signature = URL_SAFE_NO_PAD.decode(token.rsplit_once('.').unwrap().1).unwrap();
            let message = token.rsplit_once('.').unwrap().0.as_bytes();
            let mut changed = signature.clone();
            changed[7] ^= 1;
            assert!(!key.verifies(algorithm, message, &changed), "{name} {algorithm}");
            assert!(!key.verifies(algorithm, &message[1..], &signature), "{name} {algorithm}");
            for other in ["none", "HS256", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384"] {
                assert_eq!(key.verifies(other, message, &signature), other == algorithm, "{name} {other}");
            }
            verified.push(algorithm.clone());
        }
    }
    verified.sort_unstable();
    assert_eq!(verified, ["ES256", "ES384", "EdDSA", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"]);
}

#[test]
fn damaged_keys_are_rejected() {
    for fixture in fixtures() {
        let name = text(&fixture, "name");
        let Ok(keys) = PublicKey::all_from_pem(text(&fixture, "public").as_bytes()) else { continue };
        let encoded = keys[0].to_der();
        for end in 0..encoded.len() {
            assert!(PublicKey::from_der(&encoded[..end]).is_err(), "{name} {end}");
        }
        assert!(PublicKey::from_der(&[&*encoded, &[0]].concat()).is_err(), "{name}");
        let whole = jwk(&fixture);
        for damaged in [
            Jwk { n: String::new(), x: String::new(), ..whole.clone() },
            Jwk { n: "*".to_owned(), x: "*".to_owned(), ..whole.clone() },
            Jwk { kty: "oct".to_owned(), ..whole.clone() },
            Jwk { n: format!("AAAA{}", &whole.n[..whole.n.len() / 2]), x: whole.x.clone() + "AAAA", ..whole.clone() },
        ] {
            assert!(PublicKey::from_jwk(&damaged).is_err(), "{name} {damaged:?}");
        }
    }
    assert_eq!(PublicKey::all_from_pem(b"").unwrap_err(), KeyError::NoKey);
}

#[test]
fn a_header_with_extensions_that_must_be_understood_is_rejected() {
    let header = |json: &str| URL_SAFE_NO_PAD.encode(json);
    let token = |json: &str| format!("{}.e30.AAAA", header(json));
    assert!(jws::Jws::parse(&token(r#"{"alg":"RS256"}"#)).is_some());
    assert!(jws::Jws::parse(&token(r#"{"alg":"RS256","crit":["b64"],"b64":false}"#)).is_none());
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)) {
        let _ = PublicKey::from_der(&bytes);
        let _ = PublicKey::all_from_pem(&bytes);
        let part = URL_SAFE_NO_PAD.encode(&bytes);
        for (kty, crv) in [("RSA", ""), ("EC", "P-256"), ("EC", "P-384"), ("OKP", "Ed25519")] {
            let (n, e, x, y) = (part.clone(), part.clone(), part.clone(), part.clone());
            let _ = PublicKey::from_jwk(&Jwk { kty: kty.to_owned(), crv: crv.to_owned(), n, e, x, y });
        }
    }
}
