//! Client certificates, front proxies, and connections of unknown clients, over TLS.

use std::time::Duration;

use http_body_util::BodyExt as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use windlass_apiserver::{
    Limits,
    authentication::{AuthenticationOptions, RequestHeaderOptions, TokenFile},
};

use crate::tls_server::{Connected, TIMEOUT, TlsServer};

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn named(name: &str, groups: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if !name.is_empty() {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    params
}

fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = named("another authority", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), Issuer::new(params, key))
}

/// Returns the code, and the name of the user that a request with these headers is from.
async fn whoami(connection: &mut Connected, headers: &[(&str, &str)]) -> (u16, Value) {
    let response = connection.post(REVIEW, headers, "{}").await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    (code, body["status"]["userInfo"].clone())
}

fn tokens() -> AuthenticationOptions {
    let file = TokenFile::parse("good,token-user,u1\n").unwrap();
    AuthenticationOptions { token_file: Some(file), ..AuthenticationOptions::default() }
}

#[tokio::test]
async fn a_certificate_with_an_unknown_critical_extension_is_answered_with_401() {
    let server = TlsServer::start(Limits::default()).await;
    for (critical, code) in [(false, 201), (true, 401)] {
        let mut params = named("eve", &["ops"]);
        let mut extension = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57683, 99], vec![5, 0]);
        extension.set_criticality(critical);
        params.custom_extensions.push(extension);
        let mut eve = server.http2_with(Some((&params, None))).await;
        assert_eq!(whoami(&mut eve, &[]).await.0, code);
    }
}

#[tokio::test]
async fn a_certificate_is_a_user_with_uid_groups_and_credential_id() {
    let server = TlsServer::start(Limits::default()).await;
    let mut params = named("eve", &["ops"]);
    params.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "u1");
    let mut eve = server.http2_with(Some((&params, None))).await;
    let (code, user) = whoami(&mut eve, &[]).await;
    assert_eq!((code, &user["username"], &user["uid"]), (201, &json!("eve"), &json!("u1")));
    assert_eq!(user["groups"], json!(["ops", "system:authenticated"]));
    let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    let digest = credential.strip_prefix("X509SHA256=").unwrap();
    assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
}

#[tokio::test]
async fn a_valid_certificate_counts_more_than_a_token_and_a_token_more_than_an_invalid_one() {
    let server = TlsServer::start_with(Limits::default(), tokens()).await;
    let (_, other) = authority();
    let mut expired = named("eve", &[]);
    expired.not_before = rcgen::date_time_ymd(2020, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let mut for_servers = named("eve", &[]);
    for_servers.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let valid = named("eve", &[]);
    let good = [("authorization", "Bearer good")];
    let bad = [("authorization", "Bearer bad")];
    let mut eve = server.http2_with(Some((&valid, None))).await;
    assert_eq!(whoami(&mut eve, &good).await.1["username"], "eve");
    assert_eq!(whoami(&mut eve, &bad).await.1["username"], "eve");
    for (what, params, issuer) in
        [("foreign", &valid, Some(&other)), ("expired", &expired, None), ("for servers", &for_servers, None)]
    {
        let mut eve = server.http2_with(Some((params, issuer))).await;
        let (code, user) = whoami(&mut eve, &good).await;
        assert_eq!((code, &user["username"]), (201, &json!("token-user")), "{what}");
        assert_eq!(whoami(&mut eve, &[]).await.0, 401, "{what}");
    }
}

#[tokio::test]
async fn a_certificate_without_a_name_is_not_a_credential() {
    let server = TlsServer::start(Limits::default()).await;
    let mut nobody = server.http2_with(Some((&named("", &["dev"]), None))).await;
    assert_eq!(nobody.get("/version").await.unwrap().status(), 200);
    let mut nobody = server.http2_with(None).await;
    assert_eq!(nobody.get("/api").await.unwrap().status(), 403);
}

#[tokio::test]
async fn only_front_proxies_can_name_users() {
    let (pem, issuer) = authority();
    let proxy = RequestHeaderOptions { allowed_names: vec!["proxy".to_owned()], ..RequestHeaderOptions::new(pem) };
    let options = AuthenticationOptions { request_header: Some(proxy), ..tokens() };
    let server = TlsServer::start_with(Limits::default(), options).await;
    let headers = [
        ("x-remote-user", "eve"),
        ("x-remote-uid", "u1"),
        ("x-remote-group", "dev"),
        ("x-remote-extra-acme.com%2fscope", "view"),
    ];
    let eve = json!({"username": "eve", "uid": "u1", "groups": ["dev", "system:authenticated"],
        "extra": {"acme.com/scope": ["view"]}});
    let mut proxy = server.http2_with(Some((&named("proxy", &[]), Some(&issuer)))).await;
    assert_eq!(whoami(&mut proxy, &headers).await, (201, eve));
    // Its certificate is not that of a user.
    assert_eq!(whoami(&mut proxy, &[]).await.0, 401);
    let mut other = server.http2_with(Some((&named("other", &[]), Some(&issuer)))).await;
    assert_eq!(whoami(&mut other, &headers).await.0, 401, "its name is not allowed");
    let mut user = server.http2_with(Some((&named("bob", &[]), None))).await;
    assert_eq!(whoami(&mut user, &headers).await.1["username"], "bob");
    let mut nobody = server.http2_with(None).await;
    assert_eq!(nobody.post(REVIEW, &headers, "{}").await.status(), 403);
}

#[tokio::test]
async fn unauthenticated_clients_get_one_response_per_http2_connection() {
    let server = TlsServer::start_with(Limits::default(), tokens()).await;
    for headers in [&[][..], &[("authorization", "Bearer bad")]] {
        let mut nobody = server.http2_with(None).await;
        let response = nobody.post(REVIEW, headers, "{}").await;
        assert_eq!(response.status(), if headers.is_empty() { 403 } else { 401 });
        response.into_body().collect().await.unwrap();
        tokio::time::timeout(TIMEOUT, nobody.ended.join_next()).await.expect("the server closes the connection");
    }
    let mut known = server.http2_with(None).await;
    for _ in 0..2 {
        assert_eq!(whoami(&mut known, &[("authorization", "Bearer good")]).await.0, 201);
    }
    assert!(tokio::time::timeout(Duration::from_millis(10), known.ended.join_next()).await.is_err());
}
