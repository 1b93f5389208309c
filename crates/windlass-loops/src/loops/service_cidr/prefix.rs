//! Containment of addresses and networks in networks.

use std::net::IpAddr;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use windlass_schema::names::parse_cidr_sloppy;

/// The networks of a ServiceCIDR.
pub(super) struct Networks {
    name: String,
    prefixes: Vec<(IpAddr, u8)>,
}

impl Networks {
    pub(super) fn of(cidr: &ServiceCIDR) -> Self {
        let cidrs = cidr.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
        Self {
            name: cidr.metadata.name.clone().unwrap_or_default(),
            prefixes: cidrs.filter_map(|cidr| parse_cidr_sloppy(cidr)).collect(),
        }
    }

    /// Returns whether services can have this address: the first address of a network and the last one of an IPv4 network
    /// are not allocated.
    fn has_address(&self, address: IpAddr) -> bool {
        self.prefixes.iter().any(|(base, bits)| {
            let Some((number, start, size)) = place(address, *base, *bits) else { return false };
            let is_last = address.is_ipv4() && number - start == size - 1;
            number != start && !is_last
        })
    }

    fn contains(&self, (base, bits): (IpAddr, u8)) -> bool {
        self.prefixes
            .iter()
            .any(|(outer, outer_bits)| *outer_bits <= bits && place(base, *outer, *outer_bits).is_some())
    }
}

/// Returns whether an address would be in no ServiceCIDR if this one of `all` were deleted.
pub(super) fn would_orphan(deleted: &Networks, all: &[Networks], addresses: &[IpAddr]) -> bool {
    let others = || all.iter().filter(|other| other.name != deleted.name);
    if deleted.prefixes.iter().all(|prefix| others().any(|other| other.contains(*prefix))) {
        return false;
    }
    let is_orphan =
        |address: &&IpAddr| deleted.has_address(**address) && !others().any(|other| other.has_address(**address));
    addresses.iter().find(is_orphan).is_some()
}

/// Returns an address and the first address of a network as numbers, and the size of the network (0 for all addresses of
/// IPv6); `None` if the address is not in the network.
fn place(address: IpAddr, base: IpAddr, bits: u8) -> Option<(u128, u128, u128)> {
    let (address, base, width) = match (address, base) {
        (IpAddr::V4(address), IpAddr::V4(base)) => (address.to_bits().into(), base.to_bits().into(), 32),
        (IpAddr::V6(address), IpAddr::V6(base)) => (address.to_bits(), base.to_bits(), 128),
        _ => return None,
    };
    let size = 1u128.checked_shl(width - u32::from(bits)).unwrap_or_default();
    let start = base & !size.wrapping_sub(1);
    let is_inside = size == 0 || (address >= start && address - start < size);
    is_inside.then_some((address, start, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(name: &str, cidrs: &[&str]) -> Networks {
        Networks {
            name: name.to_owned(),
            prefixes: cidrs.iter().map(|cidr| parse_cidr_sloppy(cidr).unwrap()).collect(),
        }
    }

    #[test]
    fn a_network_is_in_use_if_an_address_is_in_no_other_one() {
        let all = [
            networks("a", &["10.0.0.0/24", "2001:db8::/64"]),
            networks("b", &["10.1.0.0/16"]),
            networks("c", &["10.1.2.0/24"]),
            networks("d", &["10.0.0.0/25"]),
        ];
        for (index, addresses, expected) in [
            (0, vec![], false),
            (0, vec!["10.0.0.200"], true),
            (0, vec!["10.0.0.7"], false),
            (0, vec!["10.0.0.127"], true),
            (0, vec!["10.0.0.255", "10.0.0.0"], false),
            (0, vec!["2001:db8::1"], true),
            (0, vec!["2001:db9::1", "10.9.0.1"], false),
            (1, vec!["10.1.2.3"], false),
            (1, vec!["10.1.3.3"], true),
            (2, vec!["10.1.2.3"], false),
            (3, vec!["10.0.0.7"], false),
        ] {
            let parsed: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            assert_eq!(would_orphan(&all[index], &all, &parsed), expected, "{} {addresses:?}", all[index].name);
        }
    }

    #[test]
    fn a_network_may_have_every_address() {
        let all = [networks("a", &["::/0"]), networks("b", &["0.0.0.0/0"])];
        assert!(would_orphan(&all[0], &all, &["2001:db8::1".parse().unwrap()]));
        assert!(would_orphan(&all[1], &all, &["10.0.0.1".parse().unwrap()]));
    }
}
