//! Allocation of cluster IPs and node ports.
//!
//! A value is allocated while a stored service uses it ([`ServiceAllocator::observe`]) or a request has reserved it.
//! [`ServiceAllocator::allocate`] completes a service (IP families, cluster IPs, node ports) and reserves the values it
//! needs at once, so that two requests never get the same ones. [`ServiceAllocator::release`] ends the reservation: if
//! the request succeeded, after its service was observed.

mod addresses;
mod allocated_values;
mod families;
mod fields;
mod networks;
mod node_ports;
mod pool;
mod problems;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::sorting::Gather as _;

use self::fields::{address_of, gives_node_ports, has_node_ports, number, number_of, ports_of};
use self::networks::ServiceCidr;
pub use self::networks::{InvalidNetwork, NetworkUsage, ServiceNetwork};
pub use self::node_ports::{InvalidPortRange, NodePortRange};
use self::pool::{Pool, Unavailable};
pub use self::problems::Problem;
use super::{needs_cluster_ip, needs_health_check, node_ports, texts};
use crate::object::{copy, items, set, text};

/// Allocates cluster IPs from the IPv4 networks of the cluster and its ServiceCIDRs, and node ports.
#[derive(Debug, Clone)]
pub struct ServiceAllocator {
    network: ServiceNetwork,
    /// The stored ServiceCIDRs by name.
    cidrs: BTreeMap<Box<str>, ServiceCidr>,
    addresses: Pool,
    ports: Pool,
    node_ports: NodePortRange,
    /// The values that stored services use, by `namespace/name`.
    stored: BTreeMap<Box<str>, Values>,
    /// The addresses that IPAddresses of other users than this allocator occupy, by their names.
    occupied: BTreeMap<Box<str>, u32>,
    random: u64,
}

/// The values that a service uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Values {
    address: Option<u32>,
    /// Each port once, although several ports of a service may share a node port.
    ports: BTreeSet<u32>,
}

impl Values {
    fn of(service: &Value) -> Self {
        Self { address: address_of(service), ports: ports_of(service).into_iter().gather() }
    }
}

/// The values that a request has reserved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "an allocation must be released"]
pub struct Allocation {
    taken_address: Option<u32>,
    taken_ports: Vec<u32>,
    dry_run: bool,
}

impl Allocation {
    /// Returns whether nothing is reserved.
    pub fn is_empty(&self) -> bool {
        self.dry_run || (self.taken_address.is_none() && self.taken_ports.is_empty())
    }

    /// Returns the reserved values.
    pub fn values(&self) -> ServiceValues {
        match self.dry_run {
            true => ServiceValues::default(),
            false => Values { address: self.taken_address, ports: self.taken_ports.iter().copied().gather() }.into(),
        }
    }

    /// Divides the reservation: these values, and the others.
    pub fn split(self, values: &ServiceValues) -> (Self, Self) {
        let address = values.address.map(Ipv4Addr::to_bits);
        let (these_address, other_address) = match self.taken_address == address {
            true => (self.taken_address, None),
            false => (None, self.taken_address),
        };
        let (these, others) = self.taken_ports.into_iter().partition(|port| values.ports.contains(port));
        let dry_run = self.dry_run;
        (
            Self { taken_address: these_address, taken_ports: these, dry_run },
            Self { taken_address: other_address, taken_ports: others, dry_run },
        )
    }
}

/// A cluster IP and node ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceValues {
    /// The cluster IP.
    pub address: Option<Ipv4Addr>,
    /// The node ports, each once.
    pub ports: BTreeSet<u32>,
}

impl ServiceValues {
    /// Returns the values that a service uses.
    pub fn of(service: &Value) -> Self {
        Values::of(service).into()
    }
}

impl From<Values> for ServiceValues {
    fn from(values: Values) -> Self {
        Self { address: values.address.map(Ipv4Addr::from_bits), ports: values.ports }
    }
}

/// Numbers of allocated and free values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocated {
    /// The cluster IPs of each network.
    pub networks: Vec<NetworkUsage>,
    /// The node ports that are allocated.
    pub ports: usize,
    /// The node ports that are free.
    pub free_ports: usize,
}

/// Reasons why no cluster IP or port could be allocated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AllocationError {
    /// The service requests a value that is not available: a 422 with these causes.
    #[error("the service is invalid: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Invalid(ErrorList),
    /// The range is exhausted: a 500 with this message, after `Internal error occurred: `.
    #[error("{0}")]
    Internal(String),
}

impl Default for ServiceAllocator {
    fn default() -> Self {
        Self::new(ServiceNetwork::default())
    }
}

impl ServiceAllocator {
    /// Creates an allocator for a network such as `10.96.0.0/12`.
    pub fn new(network: ServiceNetwork) -> Self {
        let mut allocator = Self {
            network,
            cidrs: BTreeMap::new(),
            addresses: Pool::default(),
            ports: NodePortRange::default().pool(),
            node_ports: NodePortRange::default(),
            stored: BTreeMap::new(),
            occupied: BTreeMap::new(),
            random: RandomState::new().hash_one(network.prefix),
        };
        allocator.update_networks();
        allocator
    }

    /// Sets the ports from which node ports are allocated, before any service is observed.
    #[must_use]
    pub fn with_node_ports(mut self, range: NodePortRange) -> Self {
        self.ports = range.pool();
        self.node_ports = range;
        self
    }

    /// Sets the seed of the random choices.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.random = seed;
        self
    }

    /// Completes a service that is created (`old` is `None`) or updated, and reserves the values it needs. To be called
    /// after defaulting and before `prepare_for_create` or `prepare_for_update`. A dry run reserves nothing and sets
    /// placeholders, as in kube-apiserver.
    pub fn allocate(
        &mut self,
        service: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Allocation, AllocationError> {
        let mut allocation = Allocation { dry_run, ..Allocation::default() };
        match self.allocate_into(&mut allocation, service, old) {
            Ok(()) => Ok(allocation),
            Err(error) => {
                self.release(allocation);
                Err(error)
            }
        }
    }

    /// Ends the reservation of a request. Values that stored services use by now stay allocated.
    pub fn release(&mut self, allocation: Allocation) {
        if allocation.dry_run {
            return;
        }
        if let Some(address) = allocation.taken_address {
            self.addresses.end_reservation(address);
        }
        for port in allocation.taken_ports {
            self.ports.end_reservation(port);
        }
    }

    /// Records the state of a stored service by its `namespace/name`; `None` if it was deleted. Returns whether the
    /// values that it uses have changed. Addresses and ports out of range are ignored.
    pub fn observe(&mut self, key: &str, service: Option<&Value>) -> bool {
        let values = service.map(Values::of).unwrap_or_default();
        let before = match values == Values::default() {
            true => self.stored.remove(key).unwrap_or_default(),
            false => self.stored.insert(key.into(), values.clone()).unwrap_or_default(),
        };
        if before == values {
            return false;
        }
        values.address.into_iter().for_each(|address| self.addresses.add_stored(address));
        values.ports.iter().for_each(|port| self.ports.add_stored(*port));
        before.address.into_iter().for_each(|address| self.addresses.remove_stored(address));
        before.ports.iter().for_each(|port| self.ports.remove_stored(*port));
        true
    }

    /// Returns the services that were observed and use an address or a port.
    pub fn observed(&self) -> impl Iterator<Item = &str> {
        self.stored.keys().map(|key| &**key)
    }

    /// Returns the numbers of allocated and free values.
    pub fn allocated(&self) -> Allocated {
        let (ports, free_ports) = self.ports.allocated_and_free();
        Allocated { networks: self.network_usage(), ports, free_ports }
    }

    /// Returns the network of the cluster as a CIDR: `10.0.0.0/24`.
    pub fn network(&self) -> String {
        self.network.to_string()
    }

    fn allocate_into(
        &mut self,
        allocation: &mut Allocation,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), AllocationError> {
        if let Some(old) = old {
            allocated_values::patch(service, old);
        }
        allocated_values::cluster_ips(service, old);
        families::complete(service, old)?;
        self.allocate_address(allocation, service, old)?;
        match old {
            None if has_node_ports(service) => self.new_ports(allocation, service)?,
            None => {}
            Some(old) => self.changed_ports(allocation, service, old)?,
        }
        self.health_check_port(allocation, service, old)
    }

    fn allocate_address(
        &mut self,
        allocation: &mut Allocation,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), AllocationError> {
        if old.is_some_and(needs_cluster_ip) {
            return Ok(());
        }
        let ips = texts(service, "/spec/clusterIPs");
        if !needs_cluster_ip(service) || ips.first() == Some(&"None") {
            return Ok(());
        }
        let address = match ips.first() {
            Some(ip) if !ip.is_empty() => self.certain_address(allocation, ip, service)?,
            _ if allocation.dry_run => self.network.base.to_string(),
            _ => {
                let random = self.next_random();
                let Some(address) = self.addresses.reserve_any(random) else {
                    let name = text(service, "/metadata/name");
                    return Err(AllocationError::Internal(format!(
                        "failed to allocate a serviceIP for Service {name:?}: range is full"
                    )));
                };
                allocation.taken_address = Some(address);
                Ipv4Addr::from_bits(address).to_string()
            }
        };
        set(service, "/spec/clusterIP", address.clone());
        set(service, "/spec/clusterIPs", vec![Value::from(address)]);
        Ok(())
    }

    fn certain_address(
        &mut self,
        allocation: &mut Allocation,
        ip: &str,
        service: &Value,
    ) -> Result<String, AllocationError> {
        let invalid = |reason: String| {
            let path = Path::new("spec").child("clusterIPs");
            let detail = format!("failed to allocate IP {ip}: {reason}");
            AllocationError::Invalid(vec![FieldError::invalid(&path, &copy(service, "/spec/clusterIPs"), detail)])
        };
        let Some(number) = number_of(ip) else {
            return Err(AllocationError::Internal(format!("failed to parse service IP {ip:?}")));
        };
        if allocation.dry_run {
            return if self.addresses.contains(number) {
                Ok(ip.to_owned())
            } else {
                let shown = Ipv4Addr::from_bits(number);
                let network = self.network();
                Err(invalid(format!(
                    "the provided IP ({shown}) is not in the valid range. The range of valid IPs is {network}"
                )))
            };
        }
        match self.addresses.reserve(number) {
            Ok(()) => {
                allocation.taken_address = Some(number);
                Ok(ip.to_owned())
            }
            Err(Unavailable::Taken) => Err(invalid("provided IP is already allocated".to_owned())),
            Err(Unavailable::OutOfRange) => {
                Err(invalid("the provided network does not match the current range".to_owned()))
            }
        }
    }

    /// Allocates the node ports of a new service. Ports with the same number and different protocols share a node port.
    fn new_ports(&mut self, allocation: &mut Allocation, service: &mut Value) -> Result<(), AllocationError> {
        let list = items(service, "/spec/ports").to_vec();
        let mut by_port: Vec<(i64, i64)> = Vec::new();
        for (i, entry) in list.iter().enumerate() {
            let (number, wanted) = (number(entry, "/port"), number(entry, "/nodePort"));
            if wanted == 0 && !gives_node_ports(service) {
                continue;
            }
            let shared = by_port.iter().find(|(port, _)| *port == number).map(|(_, node)| *node);
            let node = match shared {
                Some(shared) if wanted == 0 || wanted == shared => shared,
                Some(_) => self.certain_port(allocation, i, wanted)?,
                None => {
                    let asked = list
                        .iter()
                        .find(|other| self::number(other, "/port") == number && self::number(other, "/nodePort") != 0);
                    let node = match asked {
                        Some(asked) => self.certain_port(allocation, i, self::number(asked, "/nodePort"))?,
                        None => self.any_port(allocation)?,
                    };
                    by_port.push((number, node));
                    node
                }
            };
            set(service, &format!("/spec/ports/{i}/nodePort"), node);
        }
        Ok(())
    }

    fn changed_ports(
        &mut self,
        allocation: &mut Allocation,
        service: &mut Value,
        old: &Value,
    ) -> Result<(), AllocationError> {
        let had: Vec<_> = node_ports(old).collect();
        if !has_node_ports(service) {
            return Ok(());
        }
        let mut taken = Vec::new();
        for i in 0..items(service, "/spec/ports").len() {
            let pointer = format!("/spec/ports/{i}/nodePort");
            match number(service, &pointer) {
                0 if !gives_node_ports(service) => {}
                0 => {
                    let node = self.any_port(allocation)?;
                    set(service, &pointer, node);
                }
                wanted if !had.contains(&wanted) && !taken.contains(&wanted) => {
                    self.certain_port(allocation, i, wanted)?;
                    taken.push(wanted);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn health_check_port(
        &mut self,
        allocation: &mut Allocation,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), AllocationError> {
        let pointer = "/spec/healthCheckNodePort";
        if old.is_some_and(needs_health_check) || !needs_health_check(service) {
            return Ok(());
        }
        match number(service, pointer) {
            0 => {
                let port = self.any_port(allocation).map_err(|_| {
                    AllocationError::Internal("failed to allocate a HealthCheck NodePort 0: range is full".to_owned())
                })?;
                set(service, pointer, port);
                Ok(())
            }
            wanted => self.take_port(allocation, wanted).map_err(|reason| {
                AllocationError::Internal(format!(
                    "failed to allocate requested HealthCheck NodePort {wanted}: {reason}"
                ))
            }),
        }
    }

    fn certain_port(&mut self, allocation: &mut Allocation, index: usize, port: i64) -> Result<i64, AllocationError> {
        self.take_port(allocation, port).map_err(|reason| {
            let path = Path::new("spec").child("ports").index(index).child("nodePort");
            AllocationError::Invalid(vec![FieldError::invalid(&path, &port.into(), reason)])
        })?;
        Ok(port)
    }

    fn take_port(&mut self, allocation: &mut Allocation, port: i64) -> Result<(), String> {
        let taken = "provided port is already allocated";
        let number = u32::try_from(port).unwrap_or_default();
        if allocation.dry_run {
            if self.ports.is_taken(number) || allocation.taken_ports.contains(&number) {
                return Err(taken.to_owned());
            }
            allocation.taken_ports.push(number);
            return Ok(());
        }
        self.ports.reserve(number).map_err(|error| match error {
            Unavailable::Taken => taken.to_owned(),
            Unavailable::OutOfRange => {
                let range = self.node_ports;
                format!("provided port is not in the valid range. The range of valid ports is {range}")
            }
        })?;
        allocation.taken_ports.push(number);
        Ok(())
    }

    fn any_port(&mut self, allocation: &mut Allocation) -> Result<i64, AllocationError> {
        let port = if allocation.dry_run {
            // Placeholders outside of the range.
            allocation.taken_ports.iter().max().map_or(self.node_ports.placeholder(), |port| port + 1)
        } else {
            let random = self.next_random();
            self.ports
                .reserve_any(random)
                .ok_or_else(|| AllocationError::Internal("failed to allocate a nodePort: range is full".to_owned()))?
        };
        allocation.taken_ports.push(port);
        Ok(i64::from(port))
    }

    /// SplitMix64: cheap and deterministic.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests;
