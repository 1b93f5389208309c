//! The addresses of a network, and whether they are valid.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::api::network::NetworkSpec;

/// The addresses of a valid network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The block of addresses.
    pub cidr: IpNet,
    /// The gateway's address.
    pub gateway: IpAddr,
}

/// Reasons why a network is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Not a CIDR block.
    #[error("spec.cidr: {0:?} is not a CIDR block such as 192.168.0.0/16")]
    Cidr(String),
    /// An address with bits set beyond the prefix.
    #[error("spec.cidr: {given} has host bits set; did you mean {network}?")]
    HostBits {
        /// The given block.
        given: IpNet,
        /// The block that was probably meant.
        network: IpNet,
    },
    /// Not an IP address.
    #[error("spec.gateway: {0:?} is not an IP address")]
    Gateway(String),
    /// An address outside of the network.
    #[error("spec.gateway: {gateway} is not in {cidr}")]
    Outside {
        /// The given address.
        gateway: IpAddr,
        /// The given block.
        cidr: IpNet,
    },
    /// The first or last address of an IPv4 network, which no host can have.
    #[error("spec.gateway: {0} is not a host address")]
    NoHost(IpAddr),
}

impl Plan {
    /// Parses the addresses of a spec.
    pub fn new(spec: &NetworkSpec) -> Result<Self, Invalid> {
        let cidr: IpNet = spec.cidr.trim().parse().map_err(|_| Invalid::Cidr(spec.cidr.clone()))?;
        if cidr.trunc() != cidr {
            return Err(Invalid::HostBits { given: cidr, network: cidr.trunc() });
        }
        let gateway: IpAddr = spec.gateway.trim().parse().map_err(|_| Invalid::Gateway(spec.gateway.clone()))?;
        if !cidr.contains(&gateway) {
            return Err(Invalid::Outside { gateway, cidr });
        }
        // Networks with at most two addresses use all of them.
        let narrow = cidr.max_prefix_len() - cidr.prefix_len() < 2;
        if gateway.is_ipv4() && !narrow && (gateway == cidr.network() || gateway == cidr.broadcast()) {
            return Err(Invalid::NoHost(gateway));
        }
        Ok(Self { cidr, gateway })
    }

    /// Returns whether the two networks have an address in common.
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
    fn valid_addresses_are_accepted() {
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
    fn invalid_addresses_are_rejected_with_field_and_reason() {
        for (cidr, gateway, message) in [
            ("192.168.0.0", "192.168.0.1", "spec.cidr: \"192.168.0.0\" is not a CIDR block such as 192.168.0.0/16"),
            ("", "", "spec.cidr: \"\" is not a CIDR block such as 192.168.0.0/16"),
            ("10.0.0.0/33", "10.0.0.1", "spec.cidr: \"10.0.0.0/33\" is not a CIDR block such as 192.168.0.0/16"),
            ("10.0.0.5/24", "10.0.0.1", "spec.cidr: 10.0.0.5/24 has host bits set; did you mean 10.0.0.0/24?"),
            ("10.0.0.0/24", "router", "spec.gateway: \"router\" is not an IP address"),
            ("10.0.0.0/24", "10.0.1.1", "spec.gateway: 10.0.1.1 is not in 10.0.0.0/24"),
            ("10.0.0.0/24", "fd00::1", "spec.gateway: fd00::1 is not in 10.0.0.0/24"),
            ("10.0.0.0/24", "10.0.0.255", "spec.gateway: 10.0.0.255 is not a host address"),
            ("10.0.0.0/24", "10.0.0.0", "spec.gateway: 10.0.0.0 is not a host address"),
        ] {
            assert_eq!(plan(cidr, gateway), Err(message.to_owned()));
        }
    }

    #[test]
    fn networks_overlap_if_one_contains_the_other() {
        let wide = plan("10.0.0.0/8", "10.0.0.1").unwrap();
        let narrow = plan("10.1.0.0/16", "10.1.0.1").unwrap();
        let other = plan("10.2.0.0/16", "10.2.0.1").unwrap();
        assert!(wide.overlaps(&narrow) && narrow.overlaps(&wide) && narrow.overlaps(&narrow));
        assert!(!narrow.overlaps(&other));
    }
}
