//! Cluster IPs as IPAddress objects.

use std::net::Ipv4Addr;

use super::{ServiceAllocator, number_of};

impl ServiceAllocator {
    /// Records whether an IPAddress that this allocator has not created exists. Its address is not allocated meanwhile.
    pub fn occupy(&mut self, name: &str, exists: bool) {
        let before = self.occupied.remove(name);
        let now = number_of(name).filter(|_| exists);
        if let Some(address) = now {
            self.occupied.insert(name.into(), address);
            self.addresses.add_stored(address);
        }
        if let Some(address) = before {
            self.addresses.remove_stored(address);
        }
    }

    /// Returns the cluster IPs of the observed services, with the services.
    pub fn addresses(&self) -> impl Iterator<Item = (Ipv4Addr, &str)> {
        self.stored.iter().filter_map(|(key, values)| Some((Ipv4Addr::from_bits(values.address?), &**key)))
    }

    /// Returns the node ports of the observed services, with the services.
    pub fn node_ports(&self) -> impl Iterator<Item = (u32, &str)> {
        self.stored.iter().flat_map(|(key, values)| values.ports.iter().map(|port| (*port, &**key)))
    }
}
