//! IP addresses and CIDRs: parsing as lenient as kube-apiserver's, with its errors and warnings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::field::{ErrorList, FieldError, Path, quote};

/// Parses leading decimal digits; returns their value and length, or `None` if there are none or the value is too
/// large.
fn decimal(text: &[u8]) -> Option<(u32, usize)> {
    let mut n = 0_u32;
    let mut len = 0;
    while let Some(digit) = text.get(len).filter(|b| b.is_ascii_digit()) {
        n = n * 10 + u32::from(digit - b'0');
        if n >= 0xFF_FFFF {
            return None;
        }
        len += 1;
    }
    (len > 0).then_some((n, len))
}

fn hexadecimal(text: &[u8]) -> Option<(u32, usize)> {
    let mut n = 0_u32;
    let mut len = 0;
    while let Some(digit) = text.get(len).and_then(|b| (*b as char).to_digit(16)) {
        n = n * 16 + digit;
        if n >= 0xFF_FFFF {
            return None;
        }
        len += 1;
    }
    (len > 0).then_some((n, len))
}

fn parse_v4(mut text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    for (index, octet) in octets.iter_mut().enumerate() {
        if index > 0 {
            text = text.strip_prefix(b".")?;
        }
        let (n, len) = decimal(text)?;
        *octet = u8::try_from(n).ok()?;
        text = &text[len..];
    }
    text.is_empty().then(|| octets.into())
}

fn parse_v6(mut text: &[u8]) -> Option<Ipv6Addr> {
    let mut bytes = [0_u8; 16];
    let mut ellipsis = None;
    if let Some(rest) = text.strip_prefix(b"::") {
        if rest.is_empty() {
            return Some(bytes.into());
        }
        ellipsis = Some(0);
        text = rest;
    }
    let mut at = 0;
    while at < 16 {
        let (n, len) = hexadecimal(text)?;
        let chunk = u16::try_from(n).ok()?;
        if text.get(len) == Some(&b'.') {
            if (ellipsis.is_none() && at != 12) || at + 4 > 16 {
                return None;
            }
            bytes[at..at + 4].copy_from_slice(&parse_v4(text)?.octets());
            text = &[];
            at += 4;
            break;
        }
        bytes[at..at + 2].copy_from_slice(&chunk.to_be_bytes());
        at += 2;
        text = &text[len..];
        if text.is_empty() {
            break;
        }
        text = text.strip_prefix(b":").filter(|rest| !rest.is_empty())?;
        if let Some(rest) = text.strip_prefix(b":") {
            if ellipsis.is_some() {
                return None;
            }
            ellipsis = Some(at);
            text = rest;
            if text.is_empty() {
                break;
            }
        }
    }
    if !text.is_empty() {
        return None;
    }
    match (ellipsis, at < 16) {
        (None, true) | (Some(_), false) => None,
        (None, false) => Some(bytes.into()),
        (Some(start), true) => {
            bytes.copy_within(start..at, start + 16 - at);
            bytes[start..start + 16 - at].fill(0);
            Some(bytes.into())
        }
    }
}

/// Parses an IP address; octets may have leading zeros, as in kube-apiserver.
pub fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    match text.bytes().find(|b| matches!(b, b'.' | b':'))? {
        b'.' => parse_v4(text.as_bytes()).map(IpAddr::V4),
        _ => parse_v6(text.as_bytes()).map(IpAddr::V6),
    }
}

/// Parses an IP address with a prefix length; leading zeros and bits beyond the prefix are allowed.
pub fn parse_cidr_sloppy(text: &str) -> Option<(IpAddr, u8)> {
    let (address, mask) = text.split_once('/')?;
    let ip = match parse_v4(address.as_bytes()) {
        Some(v4) => IpAddr::V4(v4),
        None => IpAddr::V6(parse_v6(address.as_bytes())?),
    };
    let (bits, len) = decimal(mask.as_bytes())?;
    let widest = if ip.is_ipv4() { 32 } else { 128 };
    (len == mask.len() && bits <= widest).then_some((ip, bits as u8))
}

/// Returns the canonical text of an address: IPv4-mapped addresses as IPv4, all others as in RFC 5952.
pub fn format_ip(ip: IpAddr) -> String {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string()),
        IpAddr::V4(v4) => v4.to_string(),
    }
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Returns whether the strict parser accepts the address: no leading zeros in octets.
fn is_strict(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

fn invalid(path: &Path, value: &str, detail: impl Into<String>) -> FieldError {
    FieldError::invalid(path, &Value::from(value), detail)
}

/// Validates an address in a field older than strict validation; `strict` is kube-apiserver's current behavior.
pub fn is_valid_ip_legacy(path: &Path, value: &str, strict: bool) -> ErrorList {
    let Some(ip) = parse_ip_sloppy(value) else {
        return vec![invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")];
    };
    let mut errors = Vec::new();
    if strict {
        if !is_strict(value) {
            errors.push(invalid(path, value, "must not have leading 0s"));
        } else if is_mapped(ip) {
            errors.push(invalid(path, value, "must not be an IPv4-mapped IPv6 address"));
        }
    }
    errors
}

/// Validates an address in canonical form.
pub fn is_valid_ip(path: &Path, value: &str) -> ErrorList {
    let mut errors = is_valid_ip_legacy(path, value, true);
    if let (true, Some(ip)) = (errors.is_empty(), parse_ip_sloppy(value)) {
        let canonical = format_ip(ip);
        if canonical != value {
            errors.push(invalid(path, value, format!("must be in canonical form ({})", quote(&canonical))));
        }
    }
    errors
}

/// Returns the warnings for an address that [`is_valid_ip_legacy`] accepts but that should not be used.
pub fn ip_warnings(path: &Path, value: &str) -> Vec<String> {
    let Some(ip) = parse_ip_sloppy(value) else { return Vec::new() };
    let canonical = format_ip(ip);
    if !is_strict(value) || is_mapped(ip) {
        let (value, canonical) = (quote(value), quote(&canonical));
        return vec![format!("{path}: non-standard IP address {value} is invalid: use {canonical}")];
    }
    if ip.is_ipv6() && canonical != value {
        let (value, canonical) = (quote(value), quote(&canonical));
        return vec![format!("{path}: IPv6 address {value} should be in RFC 5952 canonical format ({canonical})")];
    }
    Vec::new()
}

/// Returns whether the strict parser accepts the prefix length: no sign, no leading zeros.
fn is_strict_cidr(value: &str) -> bool {
    value.split_once('/').is_some_and(|(ip, bits)| is_strict(ip) && (bits == "0" || !bits.starts_with('0')))
}

/// Returns the canonical text of a CIDR's network.
fn format_network(ip: IpAddr, bits: u8) -> String {
    let network = masked(ip, bits);
    if is_mapped(network) && bits >= 96 {
        return format!("{}/{}", format_ip(network), bits - 96);
    }
    match network {
        IpAddr::V6(v6) => format!("{v6}/{bits}"),
        IpAddr::V4(v4) => format!("{v4}/{bits}"),
    }
}

/// Validates a CIDR in a field older than strict validation; `strict` is kube-apiserver's current behavior.
pub fn is_valid_cidr_legacy(path: &Path, value: &str, strict: bool) -> ErrorList {
    let Some((ip, bits)) = parse_cidr_sloppy(value) else {
        return vec![invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")];
    };
    let mut errors = Vec::new();
    if strict {
        if !is_strict_cidr(value) {
            errors.push(invalid(path, value, "must not have leading 0s in IP or prefix length"));
        } else if is_mapped(ip) {
            errors.push(invalid(path, value, "must not have an IPv4-mapped IPv6 address"));
        } else if masked(ip, bits) != ip {
            errors.push(invalid(path, value, "must not have bits set beyond the prefix length"));
        }
    }
    errors
}

/// Validates a network in canonical form: no bits set beyond the prefix.
pub fn is_valid_cidr(path: &Path, value: &str) -> ErrorList {
    let mut errors = is_valid_cidr_legacy(path, value, true);
    if let (true, Some((ip, bits))) = (errors.is_empty(), parse_cidr_sloppy(value)) {
        let canonical = format_network(ip, bits);
        if canonical != value {
            errors.push(invalid(path, value, format!("must be in canonical form ({})", quote(&canonical))));
        }
    }
    errors
}

/// Returns the warnings for a CIDR that [`is_valid_cidr_legacy`] accepts but that should not be used.
pub fn cidr_warnings(path: &Path, value: &str) -> Vec<String> {
    let Some((ip, bits)) = parse_cidr_sloppy(value) else { return Vec::new() };
    let mut warnings = Vec::new();
    let (quoted, network) = (quote(value), format_network(ip, bits));
    if masked(ip, bits) != ip {
        let single = format!("{}/{}", format_ip(ip), if ip.is_ipv4() { 32 } else { 128 });
        let (network, single) = (quote(&network), quote(&single));
        let text = format!("CIDR value {quoted} is ambiguous in this context (should be {network} or {single}?)");
        warnings.push(format!("{path}: {text}"));
    }
    if !is_strict_cidr(value) || is_mapped(ip) {
        let network = quote(&network);
        warnings.push(format!("{path}: non-standard CIDR value {quoted} is invalid: use {network}"));
    }
    let canonical = match ip {
        IpAddr::V6(v6) => format!("{v6}/{bits}"),
        IpAddr::V4(_) => value.to_owned(),
    };
    if warnings.is_empty() && canonical != value {
        let canonical = quote(&canonical);
        warnings.push(format!("{path}: IPv6 CIDR value {quoted} should be in RFC 5952 canonical format ({canonical})"));
    }
    warnings
}

/// Validates an interface address: an address with its prefix length, in canonical form.
pub fn is_valid_interface_address(path: &Path, value: &str) -> ErrorList {
    let Some((ip, mut bits)) = parse_cidr_sloppy(value) else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return vec![invalid(path, value, detail)];
    };
    if is_mapped(ip) && bits > 32 {
        bits = bits.saturating_sub(96);
    }
    let canonical = format!("{}/{bits}", format_ip(ip));
    if canonical == value {
        return Vec::new();
    }
    vec![invalid(path, value, format!("must be in canonical form ({})", quote(&canonical)))]
}
