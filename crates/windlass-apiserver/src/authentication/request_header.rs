//! Request headers: users that a front proxy has authenticated and names in headers.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};

use crate::{query::unescape_path, user::User};

/// A front proxy whose headers name users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeaderOptions {
    /// The certificates of the authorities that issue the proxy's client certificate, in PEM.
    pub client_ca: String,
    /// The common names that the proxy's certificate may have; any if empty.
    pub allowed_names: Vec<String>,
    /// The headers with the name of the user; the first that has a value counts.
    pub username_headers: Vec<String>,
    /// The headers with the UID of the user; the first that has a value counts.
    pub uid_headers: Vec<String>,
    /// The headers with the groups of the user.
    pub group_headers: Vec<String>,
    /// The prefixes of headers with extra attributes of the user.
    pub extra_header_prefixes: Vec<String>,
}

impl RequestHeaderOptions {
    /// The usual headers of a proxy: `X-Remote-User` and so on.
    pub fn new(client_ca: impl Into<String>) -> Self {
        let list = |name: &str| vec![name.to_owned()];
        Self {
            client_ca: client_ca.into(),
            allowed_names: Vec::new(),
            username_headers: list("X-Remote-User"),
            uid_headers: list("X-Remote-Uid"),
            group_headers: list("X-Remote-Group"),
            extra_header_prefixes: list("X-Remote-Extra-"),
        }
    }

    /// Returns the user that the headers name; `None` if they name none.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let name = first(headers, &self.username_headers)?;
        let groups = self.group_headers.iter().flat_map(|group| headers.get_all(group.as_str()));
        let groups = groups.map(text).filter(|group| !group.is_empty()).collect();
        let extra = extra(headers, &self.extra_header_prefixes);
        Some(User { name, uid: first(headers, &self.uid_headers).unwrap_or_default(), groups, extra }.authenticated())
    }
}

fn text(value: &http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    names.iter().filter_map(|name| headers.get(name.as_str())).map(text).find(|value| !value.is_empty())
}

/// Returns the extra attributes in headers with these prefixes. Their keys are lower-case and percent-encoded.
pub(super) fn extra(headers: &HeaderMap, prefixes: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for prefix in prefixes {
        let prefix = prefix.to_ascii_lowercase();
        let matching = |name: &&HeaderName| name.as_str().starts_with(&prefix);
        for name in headers.keys().filter(matching) {
            let key = &name.as_str()[prefix.len()..];
            let key = unescape_path(key).map_or_else(|| key.to_owned(), |key| key.into_owned());
            extra.entry(key).or_default().extend(headers.get_all(name).iter().map(text));
        }
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_names_users_with_all_their_attributes() {
        let options = RequestHeaderOptions {
            username_headers: vec!["X-First".to_owned(), "X-Remote-User".to_owned()],
            ..RequestHeaderOptions::new("")
        };
        let mut headers = HeaderMap::new();
        assert_eq!(options.user(&headers), None);
        headers.insert("x-first", "".parse().unwrap());
        headers.insert("x-remote-user", "eve".parse().unwrap());
        headers.insert("x-remote-uid", "u1".parse().unwrap());
        headers.append("x-remote-group", "a".parse().unwrap());
        headers.append("x-remote-group", "".parse().unwrap());
        headers.append("x-remote-group", "b".parse().unwrap());
        headers.append("x-remote-extra-acme.com%2fscope", "view".parse().unwrap());
        headers.append("x-remote-extra-acme.com%2Fscope", "edit".parse().unwrap());
        let user = options.user(&headers).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("eve", "u1"));
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["acme.com/scope"], ["view", "edit"]);
    }
}
