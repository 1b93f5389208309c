//! What a network's addresses are, and whether they can be had.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::api::network::NetworkSpec;

/// The addresses of a network that makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All of them.
    pub cidr: IpNet,
    /// The gateway's.
    pub gateway: IpAddr,
}

/// Why a network cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Not addresses with a prefix length.
    #[error("spec.cidr: {0:?} is not a network, as 192.168.0.0/16 is")]
    Cidr(String),
    /// An address within a network, with bits behind the prefix.
    #[error("spec.cidr: {given} is an address in the network {network}")]
    HostBits {
        /// As given.
        given: IpNet,
        /// What was probably meant.
        network: IpNet,
    },
    /// Not an address.
    #[error("spec.gateway: {0:?} is not an IP address")]
    Gateway(String),
    /// An address of another network.
    #[error("spec.gateway: {gateway} is not in {cidr}")]
    Outside {
        /// As given.
        gateway: IpAddr,
        /// As given.
        cidr: IpNet,
    },
    /// The first or last address of an IPv4 network, which no host can have.
    #[error("spec.gateway: {0} is not an address for a host")]
    NoHost(IpAddr),
}

impl Plan {
    /// The addresses that a specification means.
    pub fn new(spec: &NetworkSpec) -> Result<Self, Invalid> {
        let cidr: IpNet = spec.cidr.trim().parse().map_err(|_| Invalid::Cidr(spec.cidr.clone()))?;
        if cidr.trunc() != cidr {
            return Err(Invalid::HostBits { given: cidr, network: cidr.trunc() });
        }
        let gateway: IpAddr = spec.gateway.trim().parse().map_err(|_| Invalid::Gateway(spec.gateway.clone()))?;
        if !cidr.contains(&gateway) {
            return Err(Invalid::Outside { gateway, cidr });
        }
        // Networks of two addresses and less use all of them.
        let narrow = cidr.max_prefix_len() - cidr.prefix_len() < 2;
        if gateway.is_ipv4() && !narrow && (gateway == cidr.network() || gateway == cidr.broadcast()) {
            return Err(Invalid::NoHost(gateway));
        }
        Ok(Self { cidr, gateway })
    }

    /// Whether some address is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.cidr.contains(&other.cidr) || other.cidr.contains(&self.cidr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(cidr: &str, gateway: &str) -> Result<Plan, String> {
        let spec = NetworkSpec { cidr: cidr.to_owned(), gateway: gateway.to_owned() };
        Plan::new(&spec).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_that_make_sense_are_taken() {
        for (cidr, gateway) in [
            ("192.168.0.0/16", "192.168.0.1"),
            ("10.0.0.0/31", "10.0.0.0"),
            ("10.0.0.7/32", "10.0.0.7"),
            ("fd00::/64", "fd00::"),
            (" 10.1.0.0/24 ", "10.1.0.254 "),
        ] {
            assert!(plan(cidr, gateway).is_ok(), "{cidr} {gateway}");
        }
    }

    #[test]
    fn the_rest_is_refused_with_the_field_and_the_reason() {
        for (cidr, gateway, message) in [
            ("192.168.0.0", "192.168.0.1", "spec.cidr: \"192.168.0.0\" is not a network, as 192.168.0.0/16 is"),
            ("", "", "spec.cidr: \"\" is not a network, as 192.168.0.0/16 is"),
            ("10.0.0.0/33", "10.0.0.1", "spec.cidr: \"10.0.0.0/33\" is not a network, as 192.168.0.0/16 is"),
            ("10.0.0.5/24", "10.0.0.1", "spec.cidr: 10.0.0.5/24 is an address in the network 10.0.0.0/24"),
            ("10.0.0.0/24", "router", "spec.gateway: \"router\" is not an IP address"),
            ("10.0.0.0/24", "10.0.1.1", "spec.gateway: 10.0.1.1 is not in 10.0.0.0/24"),
            ("10.0.0.0/24", "fd00::1", "spec.gateway: fd00::1 is not in 10.0.0.0/24"),
            ("10.0.0.0/24", "10.0.0.255", "spec.gateway: 10.0.0.255 is not an address for a host"),
            ("10.0.0.0/24", "10.0.0.0", "spec.gateway: 10.0.0.0 is not an address for a host"),
        ] {
            assert_eq!(plan(cidr, gateway), Err(message.to_owned()));
        }
    }

    #[test]
    fn networks_overlap_if_one_holds_the_other() {
        let wide = plan("10.0.0.0/8", "10.0.0.1").unwrap();
        let narrow = plan("10.1.0.0/16", "10.1.0.1").unwrap();
        let other = plan("10.2.0.0/16", "10.2.0.1").unwrap();
        assert!(wide.overlaps(&narrow) && narrow.overlaps(&wide) && narrow.overlaps(&narrow));
        assert!(!narrow.overlaps(&other));
    }
}
