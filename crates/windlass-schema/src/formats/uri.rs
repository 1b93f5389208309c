//! What Go's `url.ParseRequestURI` accepts: an absolute URI or an absolute path.

use std::net::Ipv6Addr;

/// Whether a request could be made to it.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let path = match rest.strip_prefix("//") {
        Some(rest) if !scheme.is_empty() => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            if !is_authority(&scheme.to_ascii_lowercase(), authority) {
                return false;
            }
            path
        }
        _ => rest,
    };
    escapes_are_good(path)
}

/// The scheme, maybe empty, and the rest. Nothing for a text that starts with a colon.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (index, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return None,
            b':' => return Some((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

fn is_authority(scheme: &str, authority: &str) -> bool {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    is_host(scheme, host) && user.is_none_or(|user| user.chars().all(is_user_character) && escapes_are_good(user))
}

fn is_user_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c)
}

fn is_host(scheme: &str, host: &str) -> bool {
    match host.rfind('[') {
        Some(0) => {
            let Some(end) = host.rfind(']') else { return false };
            return is_port(&host[end + 1..]) && is_address(&host[1..end]);
        }
        Some(_) => return false,
        None => {}
    }
    if let Some(first) = host.find(':') {
        let strict = matches!(scheme, "http" | "https");
        let colon = if strict { first } else { host.rfind(':').unwrap_or(first) };
        if !is_port(&host[colon..]) {
            return false;
        }
    }
    host_unescaped(host, false).is_some()
}

/// An IPv6 address, maybe with a zone after `%25`.
fn is_address(host: &str) -> bool {
    let unescaped = match host.find("%25") {
        Some(at) => match (host_unescaped(&host[..at], false), host_unescaped(&host[at..], true)) {
            (Some(mut address), Some(zone)) => {
                address.extend(zone);
                address
            }
            _ => return false,
        },
        None => match host_unescaped(host, false) {
            Some(address) => address,
            None => return false,
        },
    };
    let text = String::from_utf8_lossy(&unescaped);
    let (address, zone) = text.split_once('%').map_or((&*text, None), |(address, zone)| (address, Some(zone)));
    address.parse::<Ipv6Addr>().is_ok() && zone != Some("")
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

fn escapes_are_good(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|rest| matches!(rest.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()))
}

/// The bytes of a host. Only bytes beyond ASCII may be escaped, and the percent sign; in a zone, what a host may have.
fn host_unescaped(host: &str, zone: bool) -> Option<Vec<u8>> {
    let bytes = host.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        if b == b'%' {
            let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            let value = u8::from_str_radix(digits, 16).ok()?;
            let percent = value == b'%';
            let allowed = if zone { percent || value == b' ' || is_host_byte(value) } else { percent || value >= 0x80 };
            if !allowed {
                return None;
            }
            out.push(value);
            at += 3;
        } else {
            if b < 0x80 && !is_host_byte(b) {
                return None;
            }
            out.push(b);
            at += 1;
        }
    }
    Some(out)
}

/// Whether a byte may stand in a host as it is.
fn is_host_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&b)
}
