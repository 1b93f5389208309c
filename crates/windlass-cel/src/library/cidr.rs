//! CIDRs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use windlass_schema::go_format::quote;
use windlass_schema::names::parse_address;

use super::{Call, Table, ip};
use crate::value::{Cidr, EvalError, Opaque, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("cidr", cidr),
    ("isCIDR", is_cidr),
    ("containsIP", contains_ip),
    ("containsCIDR", contains_cidr),
    ("prefixLength", prefix_length),
    ("masked", masked),
];

fn parse(text: &str) -> Result<Cidr, EvalError> {
    const CONTEXT: &str = "network address parse error during conversion from string";
    let fail = |reason: String| {
        Err(EvalError::new(format!("{CONTEXT}: {CONTEXT}: netip.ParsePrefix({}): {reason}", quote(text))))
    };
    let Some((address, bits)) = text.rsplit_once('/') else { return fail("no '/'".to_owned()) };
    let (address, zone) = match parse_address(address) {
        Ok(parsed) => parsed,
        Err(reason) => return fail(reason),
    };
    if zone {
        return fail("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let plain = bits.len() < 2 || matches!(bits.as_bytes()[0], b'1'..=b'9');
    let Some(length) = bits.parse::<i64>().ok().filter(|_| plain && !bits.starts_with('+')) else {
        return fail(format!("bad bits after slash: {}", quote(bits)));
    };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if !(0..=longest).contains(&length) {
        return fail("prefix length out of range".to_owned());
    }
    if ip::is_mapped(address) {
        return Err(EvalError::new(format!("{CONTEXT}: IPv4-mapped IPv6 address {} is not allowed", quote(text))));
    }
    Ok(Cidr { address, bits: length as u8 })
}

/// Returns an address with the bits after a prefix cleared.
fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

fn contains(cidr: Cidr, address: IpAddr) -> bool {
    cidr.address.is_ipv4() == address.is_ipv4() && mask(cidr.address, cidr.bits) == mask(address, cidr.bits)
}

fn of(value: &Value<'_>) -> Option<Cidr> {
    match value {
        Value::Opaque(value) => match &**value {
            Opaque::Cidr(cidr) => Some(*cidr),
            _ => None,
        },
        _ => None,
    }
}

fn cidr<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => parse(text).map(|cidr| Value::opaque(Opaque::Cidr(cidr))),
        _ => Err(call.mismatch()),
    }
}

fn is_cidr<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
        _ => Err(call.mismatch()),
    }
}

fn contains_ip<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [prefix, address] = &*call.arguments else { return Err(call.mismatch()) };
    let Some(prefix) = of(prefix) else { return Err(call.mismatch()) };
    match address {
        // The parse error is not reported.
        Value::String(text) => match ip::parse(text) {
            Ok(address) => Ok(Value::Bool(contains(prefix, address))),
            Err(_) => Err(EvalError::no_such_overload()),
        },
        Value::Opaque(value) if let Opaque::Ip(address) = &**value => Ok(Value::Bool(contains(prefix, *address))),
        _ => Err(call.mismatch()),
    }
}

fn contains_cidr<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [prefix, other] = &*call.arguments else { return Err(call.mismatch()) };
    let Some(prefix) = of(prefix) else { return Err(call.mismatch()) };
    let other = match other {
        Value::String(text) => parse(text)?,
        other => of(other).ok_or_else(|| call.mismatch())?,
    };
    Ok(Value::Bool(prefix.bits <= other.bits && contains(prefix, other.address)))
}

fn prefix_length<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    of(&call.arguments[0]).map(|cidr| Value::Int(cidr.bits.into())).ok_or_else(|| call.mismatch())
}

fn masked<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let cidr = of(&call.arguments[0]).ok_or_else(|| call.mismatch())?;
    Ok(Value::opaque(Opaque::Cidr(Cidr { address: mask(cidr.address, cidr.bits), bits: cidr.bits })))
}
