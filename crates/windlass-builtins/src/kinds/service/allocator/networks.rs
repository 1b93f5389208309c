//! The networks that cluster IPs are allocated from: that of the cluster, and those of further ServiceCIDRs.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde_json::Value;

use super::ServiceAllocator;
use super::pool::Section;
use crate::object::{is_set, items, text};

/// The ServiceCIDR with the network of the cluster.
const DEFAULT: &str = "kubernetes";

/// An IPv4 network of cluster IPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceNetwork {
    pub(super) base: Ipv4Addr,
    pub(super) prefix: u8,
}

/// The CIDR is not a network of cluster IPs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IPv4 network of at least two addresses in CIDR form")]
pub struct InvalidNetwork(String);

impl Default for ServiceNetwork {
    /// The default network of kube-apiserver: `10.0.0.0/24`.
    fn default() -> Self {
        Self { base: Ipv4Addr::new(10, 0, 0, 0), prefix: 24 }
    }
}

impl FromStr for ServiceNetwork {
    type Err = InvalidNetwork;

    fn from_str(cidr: &str) -> Result<Self, InvalidNetwork> {
        // The first and the last address are never allocated.
        Self::parse(cidr).filter(|network| network.prefix <= 30).ok_or_else(|| InvalidNetwork(cidr.to_owned()))
    }
}

impl ServiceNetwork {
    /// Parses a CIDR; `None` if it is not an IPv4 network.
    pub(super) fn parse(cidr: &str) -> Option<Self> {
        let (base, prefix) = cidr.split_once('/')?;
        let (base, prefix): (Ipv4Addr, u8) = (base.parse().ok()?, prefix.parse().ok()?);
        let size = 1u64 << 32u8.checked_sub(prefix)?;
        u64::from(base.to_bits()).is_multiple_of(size).then_some(Self { base, prefix })
    }

    /// Returns the addresses to allocate: neither the first of the network nor the last.
    fn section(self, is_open: bool) -> Section {
        let size = 1u64 << (32 - self.prefix);
        let base = u64::from(self.base.to_bits());
        let (first, last) = (base + 1, base + size - 1);
        let number = |address: u64| u32::try_from(address).expect("a network must fit the address space");
        if first >= last {
            return Section::new(0..0, 0, false);
        }
        let reserved = if size <= 16 { 0 } else { (size / 16).clamp(16, 256) };
        Section::new(number(first)..number(last), number(reserved), is_open)
    }
}

impl fmt::Display for ServiceNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// The networks of a stored ServiceCIDR, and whether addresses are allocated from them.
#[derive(Debug, Clone)]
pub(super) struct ServiceCidr {
    networks: Vec<ServiceNetwork>,
    is_ready: bool,
}

impl ServiceCidr {
    fn of(object: &Value) -> Self {
        let cidrs = items(object, "/spec/cidrs").iter().filter_map(Value::as_str);
        let mut conditions = items(object, "/status/conditions").iter();
        let ready = conditions.find(|condition| text(condition, "/type") == "Ready");
        Self {
            networks: cidrs.filter_map(ServiceNetwork::parse).collect(),
            // Without a control loop, there is no condition.
            is_ready: ready.is_none_or(|ready| text(ready, "/status") == "True")
                && !is_set(object, "/metadata/deletionTimestamp"),
        }
    }
}

/// The cluster IPs of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkUsage {
    /// The network, such as `10.0.0.0/24`.
    pub cidr: String,
    /// The number of allocated addresses.
    pub allocated: usize,
    /// The number of free addresses.
    pub free: usize,
}

impl ServiceAllocator {
    /// Records the state of a stored ServiceCIDR; `None` if it was deleted. Addresses are allocated from its IPv4 network
    /// unless it is not ready or is being deleted. Without the ServiceCIDR `kubernetes`, the network of the cluster is ready.
    pub fn observe_network(&mut self, name: &str, cidr: Option<&Value>) {
        match cidr {
            Some(cidr) => drop(self.cidrs.insert(name.into(), ServiceCidr::of(cidr))),
            None => drop(self.cidrs.remove(name)),
        }
        self.update_networks();
    }

    /// Returns the names of the ServiceCIDRs that were observed.
    pub fn observed_networks(&self) -> impl Iterator<Item = &str> {
        self.cidrs.keys().map(|name| &**name)
    }

    pub(super) fn update_networks(&mut self) {
        let sections = self.networks().into_iter().map(|(network, is_ready)| network.section(is_ready)).collect();
        self.addresses.set_sections(sections);
    }

    /// Returns each network once, that of the cluster first, and whether one of its ServiceCIDRs is ready.
    fn networks(&self) -> Vec<(ServiceNetwork, bool)> {
        let own = (!self.cidrs.contains_key(DEFAULT)).then_some((self.network, true));
        let default = self.cidrs.get(DEFAULT).into_iter();
        let others = self.cidrs.iter().filter(|(name, _)| &***name != DEFAULT).map(|(_, cidr)| cidr);
        let stored = default.chain(others);
        let stored = stored.flat_map(|cidr| cidr.networks.iter().map(|network| (*network, cidr.is_ready)));
        let mut networks: Vec<(ServiceNetwork, bool)> = Vec::new();
        for (network, is_ready) in own.into_iter().chain(stored) {
            match networks.iter_mut().find(|(known, _)| *known == network) {
                Some((_, known)) => *known |= is_ready,
                None => networks.push((network, is_ready)),
            }
        }
        networks
    }

    pub(super) fn network_usage(&self) -> Vec<NetworkUsage> {
        let usage = |(network, is_ready): (ServiceNetwork, bool)| {
            let (allocated, free) = self.addresses.allocated_and_free_in(&network.section(is_ready));
            NetworkUsage { cidr: network.to_string(), allocated, free }
        };
        self.networks().into_iter().map(usage).collect()
    }
}
