//! IP addresses.

use std::net::{IpAddr, Ipv6Addr};

use super::{Call, Table};
use crate::value::{EvalError, Opaque, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("ip", ip),
    ("isIP", is_ip),
    ("ip.isCanonical", is_canonical),
    ("family", family),
    ("isUnspecified", is_unspecified),
    ("isLoopback", is_loopback),
    ("isLinkLocalMulticast", is_link_local_multicast),
    ("isLinkLocalUnicast", is_link_local_unicast),
    ("isGlobalUnicast", is_global_unicast),
];

/// Reads an address; zones and addresses of version 4 within version 6 are refused.
pub(super) fn parse(text: &str) -> Result<IpAddr, EvalError> {
    let (address, zone) = parse_addr(text).map_err(|error| {
        EvalError::new(format!("IP Address {text:?} parse error during conversion from string: {error}"))
    })?;
    if zone {
        return Err(EvalError::new(format!("IP address {text:?} with zone value is not allowed")));
    }
    if is_mapped(address) {
        return Err(EvalError::new(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    Ok(address)
}

pub(super) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// Reads an address as Go does, and says whether it has a zone.
///
/// # Errors
/// Go's message.
pub(super) fn parse_addr(text: &str) -> Result<(IpAddr, bool), String> {
    let fail = |message: &str, at: &str| {
        let place = if at.is_empty() { String::new() } else { format!(" (at {at:?})") };
        Err(format!("ParseAddr({text:?}): {message}{place}"))
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

/// What is wrong with an address of version 6.
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
            return match parse_v4(rest) {
                Err(("unexpected character", at)) => ("unexpected character", at),
                Err((message, _)) => (message, rest),
                Ok(()) if !ellipsis && groups != 6 => {
                    ("embedded IPv4 address must replace the final 2 fields of the address", rest)
                }
                Ok(()) => ("too many hex fields to fit an embedded IPv4 at the end of the address", rest),
            };
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

fn address(call: &Call<'_, '_>) -> Result<IpAddr, EvalError> {
    match &*call.arguments {
        [Value::Opaque(value)] if let Opaque::Ip(address) = &**value => Ok(*address),
        _ => Err(call.mismatch()),
    }
}

fn ip<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => parse(text).map(|address| Value::opaque(Opaque::Ip(address))),
        [Value::Opaque(value)] if let Opaque::Cidr(cidr) = &**value => Ok(Value::opaque(Opaque::Ip(cidr.address))),
        _ => Err(call.mismatch()),
    }
}

fn is_ip<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
        _ => Err(call.mismatch()),
    }
}

fn is_canonical<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => parse(text).map(|address| Value::Bool(address.to_string() == **text)),
        _ => Err(call.mismatch()),
    }
}

fn family<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    address(&call).map(|address| Value::Int(if address.is_ipv4() { 4 } else { 6 }))
}

fn is_unspecified<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    address(&call).map(|address| Value::Bool(address.is_unspecified()))
}

fn is_loopback<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    address(&call).map(|address| Value::Bool(address.is_loopback()))
}

fn is_link_local_multicast<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    address(&call).map(|address| {
        Value::Bool(match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        })
    })
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_unicast<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    address(&call).map(|address| Value::Bool(link_local_unicast(address)))
}

fn is_global_unicast<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    address(&call).map(|address| {
        let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        let other = address.is_unspecified() || address.is_loopback() || address.is_multicast();
        Value::Bool(!broadcast && !other && !link_local_unicast(address))
    })
}
