//! IP addresses of pods. Pure.

use std::{
    collections::{HashMap, HashSet},
    net::Ipv4Addr,
};

use windlass::key::ObjectKey;

/// Network used when a node's own network is exhausted, or when it has none.
const OVERFLOW: (u32, u32) = (u32::from_be_bytes([10, 128, 0, 0]), 1 << 22);

/// The assignment of addresses to pods.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    taken: HashSet<u32>,
    of_pods: HashMap<ObjectKey, u32>,
    /// The next candidate of each network, so that an address is not reused at once.
    cursors: HashMap<u32, u32>,
}

impl Addresses {
    /// Records an address that a pod already has. If two pods have the same one, the first to be deleted frees it.
    pub(super) fn record(&mut self, pod: &ObjectKey, address: &str) {
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            self.taken.insert(address.into());
            self.of_pods.insert(pod.clone(), address.into());
        }
    }

    /// Returns the address of a pod, assigning one if necessary. `network` is that of its node, such as
    /// `10.244.0.0/24`.
    pub(super) fn of(&mut self, pod: &ObjectKey, network: Option<&str>) -> Ipv4Addr {
        if let Some(address) = self.of_pods.get(pod) {
            return (*address).into();
        }
        let own = network.and_then(parse);
        let address = own.and_then(|own| self.free(own)).or_else(|| self.free(OVERFLOW)).unwrap_or(OVERFLOW.0);
        self.taken.insert(address);
        self.of_pods.insert(pod.clone(), address);
        address.into()
    }

    /// Frees the address of a deleted pod.
    pub(super) fn release(&mut self, pod: &ObjectKey) {
        if let Some(address) = self.of_pods.remove(pod) {
            self.taken.remove(&address);
        }
    }

    /// Returns a free address of a network. The first and last are reserved, and the second is the bridge's.
    fn free(&mut self, (base, size): (u32, u32)) -> Option<u32> {
        let usable = size.checked_sub(3).filter(|usable| *usable > 0)?;
        let cursor = self.cursors.entry(base).or_default();
        for _ in 0..usable {
            let address = base.wrapping_add(2 + *cursor);
            *cursor = (*cursor + 1) % usable;
            if !self.taken.contains(&address) {
                return Some(address);
            }
        }
        None
    }
}

/// The base and size of a network.
fn parse(network: &str) -> Option<(u32, u32)> {
    let (base, length) = network.split_once('/')?;
    let base: Ipv4Addr = base.parse().ok()?;
    let length: u32 = length.parse().ok()?;
    let size = 1u32.checked_shl(32u32.checked_sub(length)?)?;
    Some((base.into(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(number: u32) -> ObjectKey {
        ObjectKey::namespaced("default", &format!("pod-{number}"))
    }

    #[test]
    fn addresses_are_of_the_nodes_network_and_not_reused_at_once() {
        let mut addresses = Addresses::default();
        let network = Some("10.244.3.0/24");
        assert_eq!(addresses.of(&pod(1), network).to_string(), "10.244.3.2");
        assert_eq!(addresses.of(&pod(1), network).to_string(), "10.244.3.2");
        addresses.release(&pod(1));
        assert_eq!(addresses.of(&pod(2), network).to_string(), "10.244.3.3");
    }

    #[test]
    fn no_two_pods_have_the_same_address_even_when_the_network_is_full() {
        let mut addresses = Addresses::default();
        addresses.record(&pod(0), "10.244.0.9");
        let all: HashSet<Ipv4Addr> = (0..400).map(|number| addresses.of(&pod(number), Some("10.244.0.0/24"))).collect();
        assert_eq!(all.len(), 400);
        assert!(all.contains(&"10.128.0.2".parse().unwrap()));
    }

    #[test]
    fn invalid_networks_are_ignored() {
        for network in ["", "10.244.0.0", "10.244.0.0/33", "10.244.0.0/31", "10.244.0.0/0", "a/24"] {
            let address = Addresses::default().of(&pod(1), Some(network));
            assert_eq!(address.to_string(), "10.128.0.2", "{network}");
        }
    }
}
