//! JSON web tokens of local OpenID Connect issuers.

mod issuer;

use std::{fs, path::Path, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use ring::hmac;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_apiserver::{
    BuildError, Server,
    authentication::jwt::{JwtOptions, configuration::AuthenticationConfiguration},
};
use windlass_store::memory::MemoryStore;

use self::issuer::{Signer, TestIssuer, unsigned};

/// Longer than authentication results are cached.
const FORGOTTEN: Duration = Duration::from_secs(11);

/// Returns an AuthenticationConfiguration.
fn file(jwt: Value) -> Value {
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": jwt})
}

/// Returns an authenticator whose user names are the claim `sub`.
fn by_subject(issuer: &TestIssuer) -> Value {
    json!({
        "issuer": issuer.configuration(),
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "oidc:"}, "groups": {"claim": "groups", "prefix": "oidc:"},
        },
    })
}

fn options(configuration: &Value) -> JwtOptions {
    JwtOptions::new(AuthenticationConfiguration::parse(configuration.to_string().as_bytes()).unwrap())
}

async fn build(options: JwtOptions) -> Server {
    Server::builder(Arc::new(MemoryStore::new())).jwt(options).build().await.unwrap()
}

async fn server(jwt: Value) -> Server {
    build(options(&file(jwt))).await
}

/// Returns the user of a token, or the code of the rejection.
pub(crate) async fn whoami(server: &Server, token: &str) -> Result<Value, u16> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(Full::new(review.to_string().into()))
        .unwrap();
    let response = match server.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a complete body").to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    if code == 201 { Ok(answer["status"]["userInfo"].clone()) } else { Err(code) }
}

/// Returns the user name of a token once it is accepted.
async fn accepted(server: &Server, token: &str) -> String {
    let waiting = async {
        loop {
            if let Ok(user) = whoami(server, token).await {
                return user["username"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), waiting).await.expect("the token must be accepted")
}

#[tokio::test(start_paused = true)]
async fn a_token_of_an_issuer_is_a_user() {
    let _time = windlass_clock::virtual_time();
    let signers = [Signer::rsa("r"), Signer::p256("e"), Signer::p384("l")];
    let issuer = TestIssuer::start(&signers.each_ref()).await;
    let server = server(json!([by_subject(&issuer)])).await;
    for signer in &signers {
        let token = signer.sign(&issuer.claims(json!({"groups": ["a", "b"], "jti": "7"})));
        assert_eq!(accepted(&server, &token).await, "oidc:jane", "{}", signer.id);
        let user = whoami(&server, &token).await.unwrap();
        assert_eq!(user["groups"], json!(["oidc:a", "oidc:b", "system:authenticated"]));
        assert_eq!(user["extra"], json!({"authentication.kubernetes.io/credential-id": ["JTI=7"]}));
    }
    // A token may have no key ID.
    let plain = signers[1].sign_as(&json!({"alg": "ES256"}), &issuer.claims(json!({})));
    assert_eq!(whoami(&server, &plain).await.unwrap()["username"], "oidc:jane");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_valid_here_and_now_is_rejected() {
    let _time = windlass_clock::virtual_time();
    let (rsa, ec) = (Signer::rsa("r"), Signer::p256("e"));
    let issuer = TestIssuer::start(&[&rsa, &ec]).await;
    let server = server(json!([by_subject(&issuer)])).await;
    let good = issuer.claims(json!({"sub": "other"}));
    accepted(&server, &rsa.sign(&good)).await;
    let now = windlass_clock::now().as_second();
    let with = |more: Value| rsa.sign(&issuer.claims(more));
    let header = |algorithm: &str, id: &str| json!({"alg": algorithm, "kid": id});
    let modulus = URL_SAFE_NO_PAD.decode(rsa.jwk["n"].as_str().unwrap()).unwrap();
    let confused = unsigned(&header("HS256", "r"), &good);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &modulus), confused.as_bytes());
    let signed = rsa.sign(&good);
    let (head, rest) = signed.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let other_payload = unsigned(&header("RS256", "r"), &issuer.claims(json!({"sub": "admin"})));
    for (why, token) in [
        ("audience", with(json!({"aud": ["others"]}))),
        ("no audience", with(json!({"aud": null}))),
        ("expired", with(json!({"exp": now - 1}))),
        ("no expiration", with(json!({"exp": null}))),
        ("not yet valid", with(json!({"nbf": now + 61}))),
        ("other issuer", with(json!({"iss": "https://other.example"}))),
        ("no subject", with(json!({"sub": 1}))),
        ("no signature", format!("{}.", unsigned(&header("none", ""), &good))),
        ("no signature, but an algorithm", format!("{}.", unsigned(&header("RS256", "r"), &good))),
        ("symmetric", format!("{confused}.{}", URL_SAFE_NO_PAD.encode(tag))),
        ("algorithm of another key", rsa.sign_as(&header("ES256", "e"), &good)),
        ("other key with this ID", ec.sign_as(&header("ES256", "r"), &good)),
        ("unknown key", Signer::p256("e").sign(&good)),
        ("extensions", rsa.sign_as(&json!({"alg": "RS256", "kid": "r", "crit": ["b64"]}), &good)),
        ("other claims", format!("{other_payload}.{signature}")),
        ("other header", format!("{}.{rest}", head.to_lowercase())),
        ("four parts", format!("{signed}.AA")),
        ("two parts", head.to_owned() + "." + rest.split_once('.').unwrap().0),
    ] {
        assert_eq!(whoami(&server, &token).await, Err(401), "{why}");
    }
    assert_eq!(whoami(&server, &with(json!({"nbf": now + 60}))).await.unwrap()["username"], "oidc:jane");
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_again_for_an_unknown_key() {
    let _time = windlass_clock::virtual_time();
    let (old, new) = (Signer::p256("old"), Signer::p256("new"));
    let issuer = TestIssuer::start(&[&old]).await;
    let server = server(json!([by_subject(&issuer)])).await;
    accepted(&server, &old.sign(&issuer.claims(json!({})))).await;
    tokio::time::sleep(FORGOTTEN).await;
    assert_eq!(issuer.take_requests("/keys"), 1);
    issuer.publish(&[&new]);
    let claims = issuer.claims(json!({"sub": "after"}));
    assert_eq!(whoami(&server, &new.sign(&claims)).await.unwrap()["username"], "oidc:after");
    assert_eq!(issuer.take_requests("/keys"), 1);
    assert_eq!(whoami(&server, &old.sign(&claims)).await, Err(401), "the old key was withdrawn");
}

#[tokio::test(start_paused = true)]
async fn many_unknown_keys_cause_few_requests() {
    let _time = windlass_clock::virtual_time();
    let signer = Signer::p256("known");
    let issuer = TestIssuer::start(&[&signer]).await;
    let server = server(json!([by_subject(&issuer)])).await;
    accepted(&server, &signer.sign(&issuer.claims(json!({})))).await;
    tokio::time::sleep(FORGOTTEN).await;
    issuer.take_requests("/keys");
    let stranger = Signer::p256("stranger");
    let tokens: Vec<String> = (0..40).map(|id| stranger.sign(&issuer.claims(json!({"sub": id.to_string()})))).collect();
    let all = futures_util::future::join_all(tokens.iter().map(|token| whoami(&server, token))).await;
    assert!(all.iter().all(|answer| *answer == Err(401)));
    let requests = issuer.take_requests("/keys");
    assert!((1..=2).contains(&requests), "{requests}");
    // A failing issuer is not queried for each token either, and known keys remain valid.
    issuer.set_down(true);
    tokio::time::sleep(FORGOTTEN).await;
    for token in &tokens {
        assert_eq!(whoami(&server, token).await, Err(401));
    }
    assert_eq!(issuer.take_requests("/keys"), 1);
    assert!(whoami(&server, &signer.sign(&issuer.claims(json!({})))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn issuers_do_not_depend_on_each_other() {
    let _time = windlass_clock::virtual_time();
    let (one, two) = (Signer::p256("k"), Signer::rsa("k"));
    let (first, second) = (TestIssuer::start(&[&one]).await, TestIssuer::start(&[&two]).await);
    let mut dead = by_subject(&first);
    // Nothing listens there.
    dead["issuer"]["url"] = json!("https://127.0.0.1:1/dead");
    let mut other = by_subject(&second);
    other["claimMappings"]["username"] = json!({"expression": "'second:' + claims.sub"});
    other["issuer"]["discoveryURL"] = json!(second.other_discovery_url());
    let server = server(json!([dead, by_subject(&first), other])).await;
    assert_eq!(accepted(&server, &one.sign(&first.claims(json!({})))).await, "oidc:jane");
    assert_eq!(accepted(&server, &two.sign(&second.claims(json!({})))).await, "second:jane");
    assert_eq!(second.take_requests("/.well-known/openid-configuration"), 0, "it has another URL");
    // The key of one issuer is not that of another.
    assert_eq!(whoami(&server, &one.sign(&second.claims(json!({})))).await, Err(401));
    let before = tokio::time::Instant::now();
    let of_dead = one.sign(&first.claims(json!({"iss": "https://127.0.0.1:1/dead"})));
    assert_eq!(whoami(&server, &of_dead).await, Err(401));
    assert_eq!(before.elapsed(), Duration::ZERO, "nobody waits for a dead issuer");
}

#[tokio::test(start_paused = true)]
async fn an_issuer_may_come_up_after_the_server() {
    let _time = windlass_clock::virtual_time();
    let signer = Signer::p256("k");
    let issuer = TestIssuer::start(&[&signer]).await;
    issuer.set_down(true);
    let server = server(json!([by_subject(&issuer)])).await;
    let token = signer.sign(&issuer.claims(json!({})));
    assert_eq!(whoami(&server, &token).await, Err(401));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(whoami(&server, &token).await, Err(401));
    let attempts = issuer.take_requests("/.well-known/openid-configuration");
    assert!((5..15).contains(&attempts), "{attempts}");
    issuer.set_down(false);
    assert_eq!(accepted(&server, &token).await, "oidc:jane");
}

#[tokio::test(start_paused = true)]
async fn a_document_of_another_issuer_is_not_used() {
    let _time = windlass_clock::virtual_time();
    let signer = Signer::p256("k");
    let issuer = TestIssuer::start(&[&signer]).await;
    let mut wrong = by_subject(&issuer);
    wrong["issuer"]["url"] = json!(format!("{}/", issuer.url));
    let server = server(json!([wrong])).await;
    let token = signer.sign(&issuer.claims(json!({"iss": format!("{}/", issuer.url)})));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(whoami(&server, &token).await, Err(401));
    assert!(issuer.take_requests("/.well-known/openid-configuration") > 1);
}

#[tokio::test(start_paused = true)]
async fn expressions_map_and_validate_claims() {
    let _time = windlass_clock::virtual_time();
    let signer = Signer::p256("k");
    let issuer = TestIssuer::start(&[&signer]).await;
    let server = server(json!([{
        "issuer": issuer.configuration(),
        "claimValidationRules": [
            {"claim": "tenant", "requiredValue": "acme"},
            {"expression": "claims.exp - claims.iat <= 3600", "message": "tokens may be valid for an hour"},
        ],
        "claimMappings": {
            "username": {"expression": "claims.person.name + '@' + claims.tenant"},
            "groups": {"expression": "claims.roles.filter(role, role != 'none')"},
            "uid": {"expression": "claims.sub"},
            "extra": [{"key": "acme.example/site", "valueExpression": "claims.?acme__dot__site.orValue('')"}],
        },
        "userValidationRules": [{"expression": "!user.groups.exists(group, group.startsWith('system:'))"}],
    }]))
    .await;
    let sign = |more: Value| {
        let mut claims = issuer.claims(json!({
            "tenant": "acme", "person": {"name": "jane"}, "roles": ["none", "dev"], "acme.site": "north",
        }));
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        signer.sign(&claims)
    };
    assert_eq!(accepted(&server, &sign(json!({}))).await, "jane@acme");
    let user = whoami(&server, &sign(json!({}))).await.unwrap();
    assert_eq!((&user["uid"], &user["groups"]), (&json!("jane"), &json!(["dev", "system:authenticated"])));
    assert_eq!(user["extra"], json!({"acme.example/site": ["north"]}));
    let later = windlass_clock::now().as_second() + 3601;
    for more in [
        json!({"tenant": "other"}),
        json!({"exp": later, "iat": later - 3601}),
        json!({"person": {}}),
        json!({"roles": "dev"}),
        json!({"roles": ["system:masters"]}),
        json!({"sub": null}),
    ] {
        assert_eq!(whoami(&server, &sign(more.clone())).await, Err(401), "{more}");
    }
}

fn write(file: &Path, configuration: &Value) {
    fs::write(file, configuration.to_string()).unwrap();
}

async fn metrics(server: &Server) -> String {
    let mut request = Request::get("/metrics").body(Full::<bytes::Bytes>::default()).unwrap();
    request.extensions_mut().insert(Arc::new(windlass_apiserver::user::User::admin()));
    let body = server.clone().oneshot(request).await.unwrap().into_body().collect().await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_takes_effect_within_a_minute() {
    let _time = windlass_clock::virtual_time();
    let (one, two) = (Signer::p256("k"), Signer::p256("k"));
    let (first, second) = (TestIssuer::start(&[&one]).await, TestIssuer::start(&[&two]).await);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("authentication.yaml");
    let initial = file(json!([by_subject(&first)]));
    write(&path, &initial);
    let server = build(JwtOptions { file: Some(path.clone()), ..options(&initial) }).await;
    let of_first = |name: &str| one.sign(&first.claims(json!({"sub": name})));
    let of_second = |name: &str| two.sign(&second.claims(json!({"sub": name})));
    let minute = async || tokio::time::sleep(Duration::from_secs(60)).await;
    accepted(&server, &of_first("a")).await;
    minute().await;
    assert_eq!(whoami(&server, &of_second("a")).await, Err(401));

    write(&path, &file(json!([by_subject(&first), by_subject(&second)])));
    minute().await;
    assert_eq!(whoami(&server, &of_second("b")).await.unwrap()["username"], "oidc:b");
    assert_eq!(first.take_requests("/keys"), 1, "an unchanged issuer keeps its keys");

    // Unusable files change nothing.
    let mut dead = by_subject(&first);
    dead["issuer"]["url"] = json!("https://127.0.0.1:1/dead");
    let mut other_anonymous = initial.clone();
    other_anonymous["anonymous"] = json!({"enabled": false});
    for unusable in [json!("text"), file(json!([{}])), other_anonymous, file(json!([dead]))] {
        write(&path, &unusable);
        minute().await;
        minute().await;
        assert!(whoami(&server, &of_first("c")).await.is_ok(), "{unusable}");
        assert!(whoami(&server, &of_second("c")).await.is_ok(), "{unusable}");
    }
    // So do files that are being written, have been removed, or cannot be read, and each is reported.
    let failures = async || {
        let metrics = metrics(&server).await;
        let line = metrics.lines().find(|line| line.contains("automatic_reloads_total{status=\"failure\"}")).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let whole = file(json!([by_subject(&second)])).to_string();
    let interruptions: [&dyn Fn(); 4] = [
        &|| fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
        &|| fs::write(&path, "").unwrap(),
        &|| fs::remove_file(&path).unwrap(),
        &|| fs::create_dir(&path).unwrap(),
    ];
    for (number, interrupt) in interruptions.into_iter().enumerate() {
        let before = failures().await;
        interrupt();
        minute().await;
        assert!(whoami(&server, &of_first("d")).await.is_ok(), "{number}");
        assert!(whoami(&server, &of_second("d")).await.is_ok(), "{number}");
        assert!(failures().await > before, "{number}");
    }
    fs::remove_dir(&path).unwrap();

    write(&path, &file(json!([by_subject(&second)])));
    minute().await;
    assert_eq!(whoami(&server, &of_first("e")).await, Err(401));
    assert!(whoami(&server, &of_second("e")).await.is_ok());
    let metrics = metrics(&server).await;
    let reloads = "apiserver_authentication_config_controller_automatic_reloads_total";
    assert!(metrics.contains(&format!("{reloads}{{status=\"success\"}} 2\n")), "{metrics}");
    assert!(!metrics.contains(&format!("{reloads}{{status=\"failure\"}} 0\n")), "{metrics}");
}

#[tokio::test]
async fn a_server_does_not_start_with_an_invalid_configuration() {
    let mut own = file(json!([{
        "issuer": {"url": "https://kubernetes.default.svc.cluster.local", "audiences": ["a"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
    }]));
    for (field, value, why) in [
        ("audiences", json!(["a"]), "URL must not overlap with disallowed issuers"),
        ("url", json!("http://x"), "URL scheme must be https"),
    ] {
        own["jwt"][0]["issuer"][field] = value;
        let built = Server::builder(Arc::new(MemoryStore::new())).jwt(options(&own)).build().await;
        let Err(error @ BuildError::Jwt(_)) = built else { panic!("{field}") };
        assert!(error.to_string().contains(why), "{error}");
    }
}
