//! URLs, parsed like Go's `net/url`, with its error messages.

use crate::go_format::quote;
use crate::names::parse_address;

mod escape;

use escape::{Part, escape, is_encoded, lossy, unescape};

/// A parsed URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// The scheme, in lower case.
    pub scheme: String,
    /// The user name, and optionally a password, escaped.
    pub user: Option<String>,
    /// The host and port.
    pub host: String,
    /// The path, escaped.
    pub escaped_path: String,
    /// The query, escaped.
    pub query: String,
    /// The fragment.
    pub fragment: String,
    /// The complete URL.
    pub text: String,
}

/// Parses a URL, which may have a fragment and may be relative.
///
/// # Errors
/// Returns Go's message.
pub fn parse(text: &str) -> Result<Url, String> {
    let fail = |of: &str, error| format!("parse {}: {error}", quote(of));
    let (rest, escaped) = text.split_once('#').unwrap_or((text, ""));
    let mut url = parse_parts(rest, false).map_err(|error| fail(rest, error))?;
    if !escaped.is_empty() {
        let fragment = unescape(escaped, Part::Fragment).map_err(|error| fail(text, error))?;
        url.text.push('#');
        url.text.push_str(&escaped_as(escaped, &fragment, Part::Fragment));
        url.fragment = lossy(fragment);
    }
    Ok(url)
}

/// Parses a URL as in an HTTP request: an absolute one, or an absolute path.
///
/// # Errors
/// Returns Go's message.
pub fn parse_request_uri(text: &str) -> Result<Url, String> {
    parse_parts(text, true).map_err(|error| format!("parse {}: {error}", quote(text)))
}

/// Unescapes a part of a query.
pub fn unescape_query(text: &str) -> Option<String> {
    unescape(text, Part::Query).ok().map(lossy)
}

fn parse_parts(text: &str, for_request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && for_request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        return Ok(Url { escaped_path: "*".to_owned(), text: "*".to_owned(), ..url });
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (mut rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    url.query = query.unwrap_or_default().to_owned();
    if !scheme.is_empty() {
        url.text = format!("{}:", url.scheme);
    }
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            url.text.push_str(rest);
            write_query(&mut url.text, query);
            return Ok(url);
        }
        if for_request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let may_have_host = !scheme.is_empty() || (!for_request && !rest.starts_with("///"));
    if let Some(after) = rest.strip_prefix("//").filter(|_| may_have_host) {
        let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
        rest = path;
        url.read_authority(authority, !path.is_empty())?;
    }
    let path = unescape(rest, Part::Path)?;
    url.escaped_path = escaped_as(rest, &path, Part::Path);
    if url.text.is_empty() && url.escaped_path.split('/').next().is_some_and(|segment| segment.contains(':')) {
        url.text.push_str("./");
    }
    url.text.push_str(&url.escaped_path);
    write_query(&mut url.text, query);
    Ok(url)
}

impl Url {
    fn read_authority(&mut self, authority: &str, has_path: bool) -> Result<(), String> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let host = parse_host(&self.scheme, host)?;
        self.user = user.map(parse_user).transpose()?;
        let has_host = !host.is_empty() || self.user.is_some();
        if has_host || (has_path && !self.scheme.is_empty()) {
            self.text.push_str("//");
        }
        if let Some(user) = &self.user {
            self.text.push_str(user);
            self.text.push('@');
        }
        self.text.push_str(&escape(&host, Part::Host));
        self.host = lossy(host);
        Ok(())
    }
}

fn write_query(out: &mut String, query: Option<&str>) {
    if let Some(query) = query {
        out.push('?');
        out.push_str(query);
    }
}

/// Returns a part in its original form if that is a valid encoding, otherwise escaped again.
fn escaped_as(text: &str, unescaped: &[u8], part: Part) -> String {
    if is_encoded(text, part) { text.to_owned() } else { escape(unescaped, part) }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_user(user: &str) -> Result<String, String> {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
    if !user.bytes().all(valid) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let parts: Result<Vec<_>, _> = user.splitn(2, ':').map(|part| unescape(part, Part::User)).collect();
    Ok(parts?.iter().map(|part| escape(part, Part::User)).collect::<Vec<_>>().join(":"))
}

fn check_port(port: &str) -> Result<(), String> {
    let is_port = port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if port.is_empty() || is_port { Ok(()) } else { Err(format!("invalid port {} after host", quote(port))) }
}

fn parse_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    match (host.rfind('['), host.find(':'), host.rfind(':')) {
        (Some(0), ..) => return parse_literal(host),
        (Some(_), ..) => return Err("invalid IP-literal".to_owned()),
        (None, Some(first), Some(last)) => {
            let port = if matches!(scheme, "http" | "https") { first } else { last };
            check_port(&host[port..])?;
        }
        _ => {}
    }
    unescape(host, Part::Host)
}

/// Parses an IPv6 address in brackets, with an optional zone after `%25` and an optional port.
fn parse_literal(host: &str) -> Result<Vec<u8>, String> {
    let Some(end) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
    let (name, port) = (&host[1..end], &host[end + 1..]);
    check_port(port)?;
    let (address, zone) = name.split_at(name.find("%25").unwrap_or(name.len()));
    let mut name = unescape(address, Part::Host)?;
    name.extend(unescape(zone, Part::Zone)?);
    let (address, _) = parse_address(&lossy(name.clone())).map_err(|error| format!("invalid host: {error}"))?;
    if address.is_ipv4() {
        return Err("invalid IP-literal".to_owned());
    }
    Ok([b"[", &*name, b"]", port.as_bytes()].concat())
}

#[cfg(test)]
mod tests;
