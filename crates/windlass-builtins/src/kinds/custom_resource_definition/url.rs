//! Reading URLs as the real server's URL parser does, as far as validation looks at them, with its errors.

use windlass_schema::field::quote;

/// The parts of a URL that validation looks at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Url {
    /// In lower case.
    pub(super) scheme: String,
    /// With the port.
    pub(super) host: String,
    /// What stands before the `@` of the host.
    pub(super) user: Option<String>,
    pub(super) query: String,
    pub(super) fragment: String,
}

/// Reads a URL that may have a fragment and need not be absolute.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let wrap = |of: &str, error| format!("parse {}: {error}", quote(of));
    let mut url = parse_parts(rest, false).map_err(|error| wrap(rest, error))?;
    check_escapes(fragment, |_| true).map_err(|error| wrap(text, error))?;
    url.fragment = fragment.to_owned();
    Ok(url)
}

/// Whether a text is a URL that a request could name, with a scheme and a host.
pub(super) fn is_absolute(text: &str) -> bool {
    parse_parts(text, true).is_ok_and(|url| !url.scheme.is_empty() && !url.host.is_empty())
}

fn parse_parts(text: &str, for_request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && for_request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(Url::default());
    }
    let (scheme, rest) = split_scheme(text)?;
    let mut url = Url { scheme: scheme.to_ascii_lowercase(), ..Url::default() };
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            return Ok(url);
        }
        if for_request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let may_have_host = !url.scheme.is_empty() || (!for_request && !rest.starts_with("///"));
    if let Some(after) = rest.strip_prefix("//").filter(|_| may_have_host) {
        let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
        rest = path;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host)?;
        if let Some(user) = user {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
            if !user.bytes().all(plain) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            check_escapes(user, |_| true)?;
        }
        url.user = user.map(str::to_owned);
        url.host = host.to_owned();
    }
    check_escapes(rest, |_| true)?;
    Ok(url)
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

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        match host.rfind(']') {
            Some(end) => &host[end + 1..],
            None => return Err("missing ']' in host".to_owned()),
        }
    } else {
        host.rfind(':').map_or("", |colon| &host[colon..])
    };
    let digits = |rest: &str| rest.bytes().all(|b| b.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(digits) {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    let allowed = |b: u8| b >= 0x80 || b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]<>\"%".contains(&b);
    check_escapes(host, |escaped| escaped >= 0x80 || escaped == b'%')?;
    match host.chars().find(|c| c.is_ascii() && !allowed(*c as u8)) {
        Some(c) => Err(format!("invalid character {} in host name", quote(&c.to_string()))),
        None => Ok(()),
    }
}

/// Every `%` is followed by two hexadecimal digits, for a byte that may be written so.
fn check_escapes(text: &str, allowed: fn(u8) -> bool) -> Result<(), String> {
    for (index, _) in text.match_indices('%') {
        let digits = text.as_bytes().get(index + 1..index + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = digits.filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = byte.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        if !byte.is_some_and(allowed) {
            let shown: String = text[index..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quote(&shown)));
        }
    }
    Ok(())
}
