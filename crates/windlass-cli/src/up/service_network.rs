//! The networks of cluster IPs that a command line names, with the errors of kube-apiserver.

use std::net::IpAddr;

use windlass_plane::ServiceNetwork;
use windlass_schema::names::parse_cidr_sloppy;

/// Minimum number of addresses that kube-apiserver accepts, as a number of bits.
const SMALLEST: u8 = 3;

/// The networks of `--service-cluster-ip-range`: one, or one of each IP family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceNetworks {
    /// The one from which addresses are allocated.
    pub(crate) used: ServiceNetwork,
    /// The other one, which has no effect.
    pub(crate) unused: Option<String>,
}

impl ServiceNetworks {
    /// Parses the value of the flag; the default network if it is empty.
    pub(crate) fn parse(ranges: &str) -> Result<Self, String> {
        if ranges.is_empty() {
            return Ok(Self { used: ServiceNetwork::default(), unused: None });
        }
        let ranges: Vec<&str> = ranges.split(',').collect();
        let (address, prefix) =
            parse_cidr_sloppy(ranges[0]).ok_or("service-cluster-ip-range[0] is not a valid cidr")?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if bits - prefix < SMALLEST {
            return Err("error determining service IP ranges for primary service cidr: the service cluster IP range \
                        must be at least 8 IP addresses"
                .to_owned());
        }
        let second = ranges.get(1).map(|range| parse_cidr_sloppy(range));
        let second = second.map(|range| range.ok_or("service-cluster-ip-range[1] is not an ip net")).transpose()?;
        if ranges.len() > 2 {
            return Err("--service-cluster-ip-range must not contain more than two entries".to_owned());
        }
        if second.is_some_and(|(other, _)| other.is_ipv4() == address.is_ipv4()) {
            return Err(
                "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family"
                    .to_owned(),
            );
        }
        let IpAddr::V4(base) = address else {
            return Err(format!(
                "--service-cluster-ip-range[0] is {}: windlass has no cluster IPs of IPv6, the first range must be one \
                 of IPv4",
                ranges[0]
            ));
        };
        let mask = u32::MAX.checked_shl(u32::from(bits - prefix)).unwrap_or(0);
        let network = format!("{}/{prefix}", std::net::Ipv4Addr::from_bits(base.to_bits() & mask));
        let used = network.parse().map_err(|error| format!("--service-cluster-ip-range: {error}"))?;
        Ok(Self { used, unused: ranges.get(1).map(|range| (*range).to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_range_is_used() {
        for (ranges, used, unused) in [
            ("", "10.0.0.0/24", None),
            ("10.96.0.0/12", "10.96.0.0/12", None),
            ("10.1.2.3/29", "10.1.2.0/29", None),
            ("0.0.0.0/0", "0.0.0.0/0", None),
            ("172.20.0.0/16,fd00::/108", "172.20.0.0/16", Some("fd00::/108")),
        ] {
            let unused = unused.map(str::to_owned);
            let expected = ServiceNetworks { used: used.parse().unwrap(), unused };
            assert_eq!(ServiceNetworks::parse(ranges), Ok(expected), "{ranges}");
        }
    }

    #[test]
    fn wrong_ranges_are_errors_of_kube_apiserver() {
        for (ranges, expected) in [
            ("abc", "service-cluster-ip-range[0] is not a valid cidr"),
            ("10.0.0.0/33", "service-cluster-ip-range[0] is not a valid cidr"),
            ("10.0.0.0/24,abc", "service-cluster-ip-range[1] is not an ip net"),
            ("10.0.0.0/24, fd00::/108", "service-cluster-ip-range[1] is not an ip net"),
            (
                "10.0.0.0/30",
                "error determining service IP ranges for primary service cidr: the service cluster IP range must be \
                 at least 8 IP addresses",
            ),
            (
                "10.0.0.0/24,10.1.0.0/24",
                "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family",
            ),
            ("10.0.0.0/24,fd00::/112,fd01::/112", "--service-cluster-ip-range must not contain more than two entries"),
            (
                "fd00::/112,10.0.0.0/24",
                "--service-cluster-ip-range[0] is fd00::/112: windlass has no cluster IPs of IPv6, the first range must \
                 be one of IPv4",
            ),
        ] {
            assert_eq!(ServiceNetworks::parse(ranges), Err(expected.to_owned()), "{ranges}");
        }
    }
}
