use serde_json::Value;

use super::*;
use crate::tokens::{Bound, Claims};

fn claims() -> Claims {
    Claims {
        aud: vec!["a".to_owned()],
        exp: 10,
        iat: 1,
        iss: "https://issuer.example.com".to_owned(),
        jti: "j".to_owned(),
        bound: Bound { namespace: "n".to_owned(), ..Bound::default() },
        nbf: 1,
        sub: "system:serviceaccount:n:bot".to_owned(),
    }
}

/// The private keys that Go's library made: name, form, PEM, and their fixture.
fn fixtures() -> Vec<(String, String, String, Value)> {
    let all: Vec<Value> = serde_json::from_str(include_str!("../../../tests/data/keys.json")).unwrap();
    let mut keys = Vec::new();
    for fixture in all {
        for (form, text) in fixture["private"].as_object().unwrap() {
            let name = fixture["name"].as_str().unwrap().to_owned();
            keys.push((name, form.clone(), text.as_str().unwrap().to_owned(), fixture.clone()));
        }
    }
    keys
}

#[test]
fn keys_of_kube_apiserver_sign_and_verify_in_every_form() {
    let mut signed = Vec::new();
    for (name, form, text, fixture) in fixtures() {
        let algorithm = match name.as_str() {
            "RSA 2048" => "RS256",
            "P-256" => "ES256",
            "P-384" => "ES384",
            _ => continue,
        };
        let key = TokenKey::from_pem(&text).unwrap_or_else(|error| panic!("{name} in {form}: {error}"));
        let token = key.sign(&claims());
        assert_eq!(key.verify::<Claims>(&token), Some(claims()), "{name} in {form}");
        let header = Jws::parse(&token).unwrap().header;
        assert_eq!((header.alg.as_str(), header.kid.as_str()), (algorithm, fixture["kid"].as_str().unwrap()));
        // Others verify it with the public key alone.
        let public = PublicKey::all_from_pem(fixture["public"].as_str().unwrap().as_bytes()).unwrap();
        assert_eq!(Jws::parse(&token).unwrap().verify::<Claims>(&public), Some(claims()), "{name} in {form}");
        assert_eq!(TokenKey::generate().verify::<Claims>(&token), None);
        assert_eq!(key.to_pem(), text);
        signed.push(format!("{name} in {form}"));
    }
    signed.sort_unstable();
    let expected = ["P-256 in PKCS #8", "P-256 in SEC 1", "P-384 in PKCS #8", "P-384 in SEC 1"];
    assert_eq!(signed, [&expected[..], &["RSA 2048 in PKCS #1", "RSA 2048 in PKCS #8"]].concat());
}

#[test]
fn keys_that_cannot_be_used_are_rejected_with_the_reason() {
    let mut rejected = Vec::new();
    for (name, form, text, _) in fixtures() {
        if let Err(error) = TokenKey::from_pem(&text) {
            rejected.push(format!("{name} in {form} {error}"));
        }
    }
    rejected.sort_unstable();
    assert_eq!(
        rejected,
        [
            "Ed25519 in PKCS #8 contains a key that cannot be used: the key is neither an RSA key nor an ECDSA key on curve P-256 or P-384",
            "P-521 in PKCS #8 contains a key that cannot be used: keys of the curve P-521 are not supported",
            "P-521 in SEC 1 contains a key that cannot be used: keys of the curve P-521 are not supported",
            "RSA 1024 in PKCS #1 contains a key that cannot be used: the private key cannot be used: TooSmall",
            "RSA 1024 in PKCS #8 contains a key that cannot be used: the private key cannot be used: TooSmall",
        ]
    );
    let generated = TokenKey::generate();
    let cut = &generated.to_pem()[..generated.to_pem().len() / 2];
    assert_eq!(TokenKey::from_pem("").unwrap_err(), TokenKeyError::NoPrivateKey);
    assert_eq!(TokenKey::from_pem("hello").unwrap_err(), TokenKeyError::NoPrivateKey);
    assert_eq!(TokenKey::from_pem(cut).unwrap_err(), TokenKeyError::NotPem);
    let (_, _, _, fixture) = fixtures().remove(0);
    let public_only = fixture["public"].as_str().unwrap();
    assert_eq!(TokenKey::from_pem(public_only).unwrap_err(), TokenKeyError::NoPrivateKey);
    for (_, _, text, _) in fixtures() {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.remove(1);
        assert!(TokenKey::from_pem(&lines.join("\n")).is_err(), "a line is missing");
    }
}

#[test]
fn the_first_private_key_signs_and_tokens_of_the_others_stay_valid() {
    let old = TokenKey::generate();
    let (_, _, rsa, fixture) = fixtures().into_iter().find(|(name, ..)| name == "RSA 2048").unwrap();
    let rsa = TokenKey::from_pem(&rsa).unwrap();
    // `openssl ecparam -genkey` begins with such a section.
    let parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    let public = fixture["public"].as_str().unwrap();
    let new = TokenKey::generate();
    let file = [public, parameters, new.to_pem(), old.to_pem()].concat();
    let all = TokenKey::from_pem(&file).unwrap();
    for key in [&new, &old, &rsa] {
        assert_eq!(all.verify::<Claims>(&key.sign(&claims())), Some(claims()));
    }
    let token = all.sign(&claims());
    assert_eq!(new.verify::<Claims>(&token), Some(claims()));
    assert_eq!((old.verify::<Claims>(&token), rsa.verify::<Claims>(&token)), (None, None));
}

#[test]
fn a_token_is_verified_only_by_the_key_that_signed_it() {
    let key = TokenKey::generate();
    let token = key.sign(&claims());
    assert_eq!(key.verify::<Claims>(&token), Some(claims()));
    assert_eq!(TokenKey::generate().verify::<Claims>(&token), None);
    let again = TokenKey::from_pem(key.to_pem()).unwrap();
    assert_eq!(again.verify::<Claims>(&token), Some(claims()));
}

#[test]
fn a_token_is_verified_by_the_key_that_it_names_or_by_any_if_it_names_none() {
    let key = TokenKey::generate();
    for (kid, expected) in [(String::new(), true), (key.id.clone(), true), ("another".to_owned(), false)] {
        let signed = format!("{}.{}", encode(&Header::new("ES256", &kid)), encode(&claims()));
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.pair.sign(signed.as_bytes())));
        assert_eq!(key.verify::<Claims>(&token).is_some(), expected, "{kid:?}");
    }
}

#[test]
fn a_token_that_was_changed_is_invalid() {
    let key = TokenKey::generate();
    let token = key.sign(&claims());
    let parts: Vec<&str> = token.split('.').collect();
    let other = encode(&Claims { exp: 99, ..claims() });
    let unsigned = encode(&Header::new("none", ""));
    for changed in [
        format!("{}.{other}.{}", parts[0], parts[2]),
        format!("{unsigned}.{}.", parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        "..".to_owned(),
        String::new(),
    ] {
        assert_eq!(key.verify::<Claims>(&changed), None, "{changed}");
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
            proptest::prop_assert_eq!(key.verify::<Claims>(&token), None);
        }
        let damaged = format!("-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n", STANDARD.encode(&bytes));
        proptest::prop_assert!(TokenKey::from_pem(&damaged).is_err());
    }
}
