//! Go's way of taking addresses apart.

use crate::library::ip;
use crate::value::Url;

/// Reads an address that is absolute, or an absolute path.
///
/// # Errors
/// Go's message.
pub(crate) fn parse_request_uri(text: &str) -> Result<Url, String> {
    parse_parts(text, true).map_err(|error| format!("parse {text:?}: {error}"))
}

/// Reads an address, which may have a fragment.
///
/// # Errors
/// Go's message.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let fail = |error: String| format!("parse {text:?}: {error}");
    let mut url = parse_parts(rest, false).map_err(fail)?;
    unescape(fragment, Part::Other).map_err(fail)?;
    if !fragment.is_empty() {
        url.text.push('#');
        url.text.push_str(fragment);
    }
    Ok(url)
}

fn parse_parts(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        return Ok(Url { escaped_path: "*".to_owned(), text: "*".to_owned(), ..url });
    }
    let (scheme, rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let force_query = rest.ends_with('?') && rest.matches('?').count() == 1;
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    let tail = if force_query || !query.is_empty() { format!("?{query}") } else { String::new() };
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.text = format!("{}:{rest}{tail}", url.scheme);
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut authority_text = String::new();
    if (!url.scheme.is_empty() || (!request && !rest.starts_with("///"))) && rest.starts_with("//") {
        let authority = &rest[2..];
        let (authority, path) = authority.find('/').map_or((authority, ""), |at| authority.split_at(at));
        rest = path;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        url.host = parse_host(&url.scheme, host)?;
        if let Some(user) = user {
            let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(valid) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            unescape(user, Part::Other)?;
            authority_text = format!("//{user}@{}", url.host);
        } else if !url.host.is_empty() || !path.is_empty() {
            authority_text = format!("//{}", url.host);
        }
    }
    let path = unescape(rest, Part::Other)?;
    url.escaped_path = if rest.bytes().all(is_path_byte) { rest.to_owned() } else { escape_path(&path) };
    let colon = if url.scheme.is_empty() { "" } else { ":" };
    url.text = format!("{}{colon}{authority_text}{}{tail}", url.scheme, url.escaped_path);
    Ok(url)
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn valid_port(port: &str) -> bool {
    port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    match host.rfind('[') {
        Some(0) => {
            let Some(end) = host.rfind(']') else { return Err("missing ']' in host".to_owned()) };
            let port = &host[end + 1..];
            if !valid_port(port) {
                return Err(format!("invalid port {port:?} after host"));
            }
            let name = String::from_utf8_lossy(&unescape(&host[1..end], Part::Host)?).into_owned();
            let (address, _) = ip::parse_addr(&name).map_err(|error| format!("invalid host: {error}"))?;
            if address.is_ipv4() {
                return Err("invalid IP-literal".to_owned());
            }
            return Ok(format!("[{name}]{port}"));
        }
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    if let (Some(first), Some(last)) = (host.find(':'), host.rfind(':')) {
        let at = if matches!(scheme, "http" | "https") { first } else { last };
        if !valid_port(&host[at..]) {
            return Err(format!("invalid port {:?} after host", &host[at..]));
        }
    }
    Ok(String::from_utf8_lossy(&unescape(host, Part::Host)?).into_owned())
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Host,
    Query,
    Other,
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digits = bytes.get(at + 1..at + 3).filter(|two| two.iter().all(u8::is_ascii_hexdigit));
                let shown = String::from_utf8_lossy(&bytes[at..(at + 3).min(bytes.len())]).into_owned();
                let Some(digits) = digits else { return Err(format!("invalid URL escape {shown:?}")) };
                let value = digits.iter().fold(0, |value, digit| value << 4 | hex(*digit));
                if part == Part::Host && value < 0x80 && shown != "%25" {
                    return Err(format!("invalid URL escape {shown:?}"));
                }
                out.push(value);
                at += 3;
            }
            b'+' if part == Part::Query => {
                out.push(b' ');
                at += 1;
            }
            byte => {
                if part == Part::Host && byte < 0x80 && !is_host_byte(byte) {
                    return Err(format!("invalid character {:?} in host name", char::from(byte).to_string()));
                }
                out.push(byte);
                at += 1;
            }
        }
    }
    Ok(out)
}

/// A part of a query as it was before it was escaped.
pub(super) fn unescape_query(text: &str) -> Option<String> {
    unescape(text, Part::Query).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

fn is_host_byte(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:[]<>\"".contains(&byte)
}

/// Whether a byte may stand in an escaped path.
fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@[]%/".contains(&byte)
}

fn escape_path(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path {
        if is_unreserved(*byte) || b"$&+,/:;=@".contains(byte) {
            out.push(char::from(*byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
