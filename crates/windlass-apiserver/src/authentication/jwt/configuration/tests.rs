use serde_json::Value;

use super::*;

/// The issuer of the server's own tokens.
const RESERVED: &str = "https://kubernetes.default.svc.cluster.local";

/// Files, and the errors of kube-apiserver v1.36.4 for them without the path of the file; null if it accepts them.
fn recorded() -> Vec<Value> {
    serde_json::from_str(include_str!("../../../../tests/data/authentication-configurations.json")).unwrap()
}

#[test]
fn errors_are_those_of_kube_apiserver() {
    let mut rejected = 0;
    for case in recorded() {
        let file = case["file"].as_str().unwrap();
        let ours = AuthenticationConfiguration::parse(file.as_bytes())
            .and_then(|configuration| configuration.validate(&[RESERVED]))
            .map_err(|error| error.to_string());
        let mut theirs = case["error"].as_str().map(str::to_owned);
        if case["name"] == "saissuer" {
            // It compares the server's own issuers only later, without the path.
            theirs = theirs.map(|error| format!("invalid authentication configuration: jwt[0].{error}"));
        }
        assert_eq!(ours.err(), theirs, "{}", case["name"]);
        rejected += usize::from(!case["error"].is_null());
    }
    assert!(rejected > 20, "{rejected}");
}

#[test]
fn all_versions_have_the_same_fields() {
    for version in VERSIONS {
        let file = format!(
            "apiVersion: {GROUP}/{version}
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: https://issuer.example
    discoveryURL: https://inside.example/doc
    audiences: [a, b]
    audienceMatchPolicy: MatchAny
  claimMappings:
    username: {{claim: sub, prefix: ''}}
    groups: {{expression: claims.groups}}
anonymous:
  enabled: true
  conditions: [{{path: /livez}}]
"
        );
        let parsed = AuthenticationConfiguration::parse(file.as_bytes()).unwrap();
        assert_eq!(parsed.validate(&[RESERVED]), Ok(()));
        let JwtAuthenticator { issuer, claim_mappings, .. } = &parsed.jwt[0];
        assert_eq!(issuer.discovery_url, "https://inside.example/doc");
        assert_eq!(issuer.audiences, ["a", "b"]);
        assert_eq!(claim_mappings.username.prefix.as_deref(), Some(""));
        assert_eq!(claim_mappings.groups.prefix, None);
        let anonymous = parsed.anonymous.unwrap();
        assert!(anonymous.enabled);
        assert_eq!(anonymous.conditions, [AnonymousCondition { path: "/livez".to_owned() }]);
    }
}

#[test]
fn sixty_four_issuers_are_accepted() {
    let authenticator = |index: usize| JwtAuthenticator {
        issuer: Issuer { url: format!("https://issuer-{index}"), audiences: vec!["a".to_owned()], ..Issuer::default() },
        claim_mappings: ClaimMappings {
            username: PrefixedClaimOrExpression {
                claim: "sub".to_owned(),
                prefix: Some(String::new()),
                ..PrefixedClaimOrExpression::default()
            },
            ..ClaimMappings::default()
        },
        ..JwtAuthenticator::default()
    };
    let of = |count| AuthenticationConfiguration { jwt: (0..count).map(authenticator).collect(), anonymous: None };
    assert_eq!(of(63).validate(&[]), Ok(()));
    assert_eq!(of(64).validate(&[]), Ok(()));
    assert!(of(65).validate(&[]).is_err());
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in ".{0,200}", bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..100)) {
        let _ = AuthenticationConfiguration::parse(&bytes);
        let head = format!("apiVersion: {GROUP}/v1\nkind: AuthenticationConfiguration\n");
        let quoted = serde_json::to_string(&text).unwrap();
        for file in [
            text.clone(),
            format!("{head}{text}"),
            format!("{head}jwt: [{{issuer: {{url: {quoted}, discoveryURL: {quoted}, audiences: [{quoted}], \
                certificateAuthority: {quoted}}}, claimMappings: {{username: {{expression: {quoted}}}, extra: [{{key: \
                {quoted}, valueExpression: {quoted}}}]}}}}]"),
        ] {
            if let Ok(configuration) = AuthenticationConfiguration::parse(file.as_bytes()) {
                let _ = configuration.validate(&[RESERVED]);
            }
        }
    }
}
