//! IP addresses, parsed like Go's `net/netip`: without leading zeros, and with a zone.

use std::net::{IpAddr, Ipv6Addr};

use crate::go_format::quote;

/// Parses an address; also returns whether it has a zone.
///
/// # Errors
/// Returns Go's message.
pub fn parse_address(text: &str) -> Result<(IpAddr, bool), String> {
    let fail = |message: &str, at: &str| {
        let place = if at.is_empty() { String::new() } else { format!(" (at {})", quote(at)) };
        Err(format!("ParseAddr({}): {message}{place}", quote(text)))
    };
    match text.find(['.', ':', '%']).map(|at| text.as_bytes()[at]) {
        Some(b'.') => match parse_v4(text) {
            Ok(()) => text.parse().map(|address| (address, false)).or_else(|_| fail("unable to parse IP", "")),
            Err((message, at)) => fail(message, at),
        },
        Some(b':') => {
            let (address, zone) = match text.split_once('%') {
                Some((_, "")) => return fail("zone must be a non-empty string", ""),
                Some((address, _)) => (address, true),
                None => (text, false),
            };
            match address.parse::<Ipv6Addr>() {
                Ok(address) => Ok((IpAddr::V6(address), zone)),
                Err(_) => {
                    let (message, at) = explain_v6(address);
                    fail(message, at)
                }
            }
        }
        Some(_) => fail("missing IPv6 address", ""),
        None => fail("unable to parse IP", ""),
    }
}

fn parse_v4(text: &str) -> Result<(), (&'static str, &str)> {
    let (mut fields, mut value, mut digits) = (0, 0u32, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            b'.' => {
                if digits == 0 || at + 1 == text.len() {
                    return Err(("IPv4 field must have at least one digit", &text[at..]));
                }
                if fields == 3 {
                    return Err(("IPv4 address too long", ""));
                }
                fields += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(("unexpected character", &text[at..])),
        }
    }
    if fields < 3 { Err(("IPv4 address too short", "")) } else { Ok(()) }
}

/// Returns the error for an invalid IPv6 address.
fn explain_v6(text: &str) -> (&'static str, &str) {
    let mut rest = text;
    let mut groups = 0;
    let mut ellipsis = false;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = true;
        rest = after;
    }
    while groups < 8 && !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        if digits > 4 {
            return ("each group must have 4 or less digits", rest);
        }
        if digits == 0 {
            return ("each colon-separated field must have at least one digit", rest);
        }
        if rest[digits..].starts_with('.') {
            if !ellipsis && groups != 6 {
                return ("embedded IPv4 address must replace the final 2 fields of the address", rest);
            }
            if groups > 6 {
                return ("too many hex fields to fit an embedded IPv4 at the end of the address", rest);
            }
            match parse_v4(rest) {
                Ok(()) => rest = "",
                Err(error) => return error,
            }
            break;
        }
        groups += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        if !rest.starts_with(':') {
            return ("unexpected character, want colon", rest);
        }
        if rest.len() == 1 {
            return ("colon must be followed by more characters", rest);
        }
        rest = &rest[1..];
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis {
                return ("multiple :: in address", rest);
            }
            ellipsis = true;
            rest = after;
        }
    }
    if !rest.is_empty() {
        return ("trailing garbage after address", rest);
    }
    if ellipsis { ("the :: must expand to at least one field of zeros", "") } else { ("address string too short", "") }
}
