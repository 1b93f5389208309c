//! Headers of forwarded requests: the user, in headers that the other server trusts, and no credentials. Requests that are
//! forwarded to pods have the same ones without the user.

use std::net::IpAddr;

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, Entry},
    request::Parts,
};

use crate::user::User;

/// The prefix of the headers that name a user.
const REMOTE: &str = "x-remote-";
const FORWARDED_FOR: &str = "x-forwarded-for";
/// The headers of one connection, which a proxy does not forward.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Returns whether a request asks for an upgrade of its connection.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.into_iter().any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

/// Removes the headers of one connection.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Returns the headers of a request from an address that is forwarded, without the user. Those of an upgrade are kept.
pub(crate) fn without_credentials(parts: &Parts, address: Option<IpAddr>) -> HeaderMap {
    let mut headers = parts.headers.clone();
    let upgrade = headers.get(header::UPGRADE).cloned().filter(|_| is_upgrade(&headers));
    remove_hop_by_hop(&mut headers);
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, protocol);
    }
    // This server is the client of the other one. The length is that of the forwarded body.
    for name in [header::HOST, header::AUTHORIZATION, header::CONTENT_LENGTH, header::EXPECT] {
        headers.remove(name);
    }
    remove_prefixed(&mut headers, "impersonate-");
    remove_user(&mut headers);
    if let Some(address) = address.and_then(|address| HeaderValue::try_from(address.to_canonical().to_string()).ok()) {
        append_address(&mut headers, &address);
    }
    headers
}

/// Returns the headers of a request of a user that is forwarded to the server at a host.
pub(super) fn forwarded(parts: &Parts, address: Option<IpAddr>, user: &User, host: &str) -> HeaderMap {
    let mut headers = without_credentials(parts, address);
    if let Ok(uri) = HeaderValue::try_from(parts.uri.path()) {
        headers.insert("x-forwarded-uri", uri);
    }
    if let Ok(host) = HeaderValue::try_from(host) {
        headers.insert("x-forwarded-host", host);
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
    set_user(&mut headers, user);
    headers
}

/// Appends the address of the client to those of earlier proxies.
fn append_address(headers: &mut HeaderMap, address: &HeaderValue) {
    match headers.entry(FORWARDED_FOR) {
        Entry::Vacant(vacant) => drop(vacant.insert(address.clone())),
        Entry::Occupied(mut known) => {
            let earlier: Vec<&[u8]> = known.iter().map(HeaderValue::as_bytes).collect();
            let all = [earlier.join(&b", "[..]), address.as_bytes().to_vec()].join(&b", "[..]);
            if let Ok(all) = HeaderValue::from_bytes(&all) {
                known.insert(all);
            }
        }
    }
}

fn remove_prefixed(headers: &mut HeaderMap, prefix: &str) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

fn remove_user(headers: &mut HeaderMap) {
    for name in ["user", "uid", "group"] {
        headers.remove(format!("{REMOTE}{name}"));
    }
    remove_prefixed(headers, "x-remote-extra-");
}

/// Sets the headers that name the user; those of the client are removed.
pub(super) fn set_user(headers: &mut HeaderMap, user: &User) {
    remove_user(headers);
    let mut add = |name: String, value: &str| {
        // A value with a line break is not a valid header.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    };
    add(format!("{REMOTE}user"), &user.name);
    if !user.uid.is_empty() {
        add(format!("{REMOTE}uid"), &user.uid);
    }
    for group in &user.groups {
        add(format!("{REMOTE}group"), group);
    }
    for (key, values) in &user.extra {
        for value in values {
            add(format!("{REMOTE}extra-{}", escape(key)), value);
        }
    }
}

/// Percent-encodes the characters that a header name cannot have, and `%`.
fn escape(key: &str) -> String {
    let mut escaped = String::new();
    for byte in key.bytes() {
        let legal = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        match legal {
            true => escaped.push(byte.into()),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use http::Request;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/apis/example.com/v1/things");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut shown: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        shown.sort();
        shown
    }

    #[test]
    fn a_client_cannot_name_another_user() {
        let parts = parts(&[
            ("authorization", "Bearer secret"),
            ("impersonate-user", "eve"),
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "0"),
            ("x-remote-extra-scope", "all"),
            ("connection", "keep-alive, x-private"),
            ("x-private", "1"),
            ("accept", "application/json"),
        ]);
        let user = User {
            name: "eve".to_owned(),
            uid: String::new(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: BTreeMap::from([("acme.com/Scope".to_owned(), vec!["view".to_owned()])]),
        };
        assert_eq!(
            shown(&forwarded(&parts, None, &user, "s.n.svc:443")),
            [
                "accept: \"application/json\"",
                "x-forwarded-host: \"s.n.svc:443\"",
                "x-forwarded-proto: \"https\"",
                "x-forwarded-uri: \"/apis/example.com/v1/things\"",
                "x-remote-extra-acme.com%2fscope: \"view\"",
                "x-remote-group: \"a\"",
                "x-remote-group: \"b\"",
                "x-remote-user: \"eve\"",
            ]
        );
    }

    #[test]
    fn an_upgrade_is_kept() {
        let upgrade = parts(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        let headers = forwarded(&upgrade, None, &User::anonymous(), "h");
        assert_eq!(headers["connection"], "Upgrade");
        assert_eq!(headers["upgrade"], "websocket");
        let plain = forwarded(&parts(&[("upgrade", "h2c")]), None, &User::anonymous(), "h");
        assert!(!plain.contains_key("upgrade"));
    }
}
