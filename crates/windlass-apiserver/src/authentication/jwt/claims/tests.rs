use super::{super::configuration::AuthenticationConfiguration, *};

/// Maps claims with the mappings and rules of a configuration, in YAML.
fn mapped(configuration: &str, claims: Value) -> Result<User, String> {
    let issuer = "{url: 'https://issuer.example', audiences: [a]}";
    let indented = configuration.replace('\n', "\n  ");
    let file = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {issuer}\n  {indented}"
    );
    let parsed = AuthenticationConfiguration::parse(file.as_bytes()).unwrap();
    user(&parsed.compile(&[]).unwrap()[0], claims.as_object().unwrap())
}

#[test]
fn claims_get_prefixes() {
    let configuration = "claimMappings:
  username: {claim: sub, prefix: 'oidc:'}
  groups: {claim: roles, prefix: 'role:'}
  uid: {claim: id}";
    let user = mapped(configuration, json!({"sub": "jane", "roles": ["a", "b"], "id": "7", "jti": "j"})).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("oidc:jane", "7"));
    assert_eq!(user.groups, ["role:a", "role:b"]);
    assert_eq!(user.extra["authentication.kubernetes.io/credential-id"], ["JTI=j"]);
    assert_eq!(mapped(configuration, json!({"sub": "jane", "roles": "a", "id": "7"})).unwrap().groups, ["role:a"]);
    assert!(mapped(configuration, json!({"sub": "jane", "id": "7"})).unwrap().groups.is_empty());
    for (claims, why) in [
        (json!({"id": "7"}), "oidc: parse username claims \"sub\": claim not present"),
        (
            json!({"sub": 1, "id": "7"}),
            "oidc: parse username claims \"sub\": json: cannot unmarshal number into Go value of type string",
        ),
        (json!({"sub": "x"}), "oidc: parse uid claim \"id\": claim not present"),
        (
            json!({"sub": "x", "id": "7", "roles": ["a", 1]}),
            "oidc: parse groups claim \"roles\": json: cannot unmarshal array into Go value of type string",
        ),
        (
            json!({"sub": "x", "id": "7", "_claim_names": {"roles": "s"}, "_claim_sources": {"s": {}}}),
            "oidc: could not expand distributed claims: distributed claims are not supported",
        ),
    ] {
        assert_eq!(mapped(configuration, claims), Err(why.to_owned()));
    }
}

#[test]
fn an_unverified_email_is_not_a_name() {
    let configuration = "claimMappings:\n  username: {claim: email, prefix: ''}";
    let name = |claims| mapped(configuration, claims).map(|user| user.name);
    assert_eq!(name(json!({"email": "j@x"})), Ok("j@x".to_owned()));
    assert_eq!(name(json!({"email": "j@x", "email_verified": true})), Ok("j@x".to_owned()));
    let unverified = Err("oidc: email not verified".to_owned());
    assert_eq!(name(json!({"email": "j@x", "email_verified": false})), unverified);
    let error = "oidc: parse 'email_verified' claim: json: cannot unmarshal string into Go value of type bool";
    assert_eq!(name(json!({"email": "j@x", "email_verified": "true"})), Err(error.to_owned()));
}

#[test]
fn expressions_map_claims() {
    let configuration = "claimMappings:
  username: {expression: 'claims.name.first + \".\" + claims.name.last'}
  groups: {expression: 'claims.roles.split(\",\") + [\"\"]'}
  uid: {expression: 'claims.sub'}
  extra:
  - {key: example.com/tenant, valueExpression: 'claims.tenant'}
  - {key: example.com/none, valueExpression: '\"\"'}
  - {key: example.com/nothing, valueExpression: 'claims.?absent.orValue(null)'}";
    let claims = json!({"name": {"first": "j", "last": "d"}, "roles": "a,b", "sub": "7", "tenant": ["x", "y"]});
    let user = mapped(configuration, claims.clone()).unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("j.d", "7"));
    assert_eq!(user.groups, ["a", "b"]);
    assert_eq!(user.extra, BTreeMap::from([("example.com/tenant".to_owned(), vec!["x".to_owned(), "y".to_owned()])]));
    let with = |field: &str, value: Value| {
        let mut claims = claims.clone();
        claims[field] = value;
        mapped(configuration, claims).unwrap_err()
    };
    assert_eq!(
        with("tenant", json!(1)),
        "oidc: error evaluating extra claim expression: claims.tenant: expression must return a string or a list of strings"
    );
    assert_eq!(
        with("sub", json!(1)),
        "oidc: error evaluating uid claim expression: uid claim expression must return a string"
    );
    let missing = with("name", json!({}));
    assert!(missing.starts_with("oidc: error evaluating username claim expression: expression '"), "{missing}");
    assert!(missing.ends_with("resulted in error: no such key: first"), "{missing}");
}

#[test]
fn a_name_from_an_expression_is_not_empty() {
    let configuration = "claimMappings:\n  username: {expression: claims.sub}";
    let error = |claims| mapped(configuration, claims).unwrap_err();
    assert_eq!(error(json!({"sub": ""})), "oidc: empty username via CEL expression is not allowed");
    let wrong = "oidc: error evaluating username claim expression: username claim expression must return a string";
    assert_eq!(error(json!({"sub": null})), wrong);
}

#[test]
fn rules_reject_claims_and_users() {
    let configuration = "claimValidationRules:
- {claim: hd, requiredValue: example.com}
- {expression: 'claims.exp - claims.iat <= 3600', message: too long}
claimMappings:
  username: {claim: sub, prefix: ''}
userValidationRules:
- {expression: '!user.username.startsWith(\"system:\")', message: reserved}";
    let error = |claims| mapped(configuration, claims).unwrap_err();
    let good = json!({"hd": "example.com", "exp": 3600, "iat": 0, "sub": "jane"});
    assert_eq!(mapped(configuration, good.clone()).unwrap().name, "jane");
    let with = |field: &str, value: Value| {
        let mut claims = good.clone();
        claims[field] = value;
        error(claims)
    };
    assert_eq!(with("hd", json!("x")), "oidc: required claim hd value does not match. Got = x, want = example.com");
    assert_eq!(
        with("hd", json!(1)),
        "oidc: parse claim hd: json: cannot unmarshal number into Go value of type string"
    );
    assert_eq!(error(json!({"sub": "x"})), "oidc: required claim hd not present in ID token");
    assert_eq!(
        with("exp", json!(3601)),
        "oidc: error evaluating claim validation expression: validation expression 'claims.exp - claims.iat <= 3600' \
         failed: too long"
    );
    assert_eq!(
        with("sub", json!("system:admin")),
        "oidc: error evaluating user info validation rule: validation expression \
         '!user.username.startsWith(\"system:\")' failed: reserved"
    );
}
