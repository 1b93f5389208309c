//! IP addresses.

use std::net::IpAddr;

use windlass_schema::go_format::quote;
use windlass_schema::names::parse_address;

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

/// Parses an address; zones and IPv4-mapped IPv6 addresses are rejected.
pub(super) fn parse(text: &str) -> Result<IpAddr, EvalError> {
    let (address, zone) = parse_address(text).map_err(|error| {
        EvalError::new(format!("IP Address {} parse error during conversion from string: {error}", quote(text)))
    })?;
    if zone {
        return Err(EvalError::new(format!("IP address {} with zone value is not allowed", quote(text))));
    }
    if is_mapped(address) {
        return Err(EvalError::new(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text))));
    }
    Ok(address)
}

pub(super) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
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
