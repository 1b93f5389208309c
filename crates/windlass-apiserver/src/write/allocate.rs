//! Allocate: cluster IPs and node ports of a Service, reserved while it is written.
//!
//! The allocator follows the stored services: a value is allocated when the caches have a service that uses it, and free
//! when they have none. A request reserves the values that it needs until the caches have its service, or it has failed.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use windlass_builtins::kinds::service::allocator::{
    self, AllocationError, NodePortRange, ServiceAllocator, ServiceNetwork, ServiceValues,
};
use windlass_store::Revision;

use crate::{
    bootstrap::service_addresses,
    call::Call,
    meta,
    status::{ApiError, Result},
    storage::{Snapshot, Storage, StoredObject},
};

/// The allocator of a server.
pub(crate) type Allocator = Arc<Mutex<ServiceAllocator>>;

/// The prefix of services in the store.
pub(crate) const SERVICES: &str = "/core/services/";
/// The prefix of IPAddresses in the store.
pub(crate) const ADDRESSES: &str = "/networking.k8s.io/ipaddresses/";
/// The prefix of ServiceCIDRs in the store.
pub(crate) const NETWORKS: &str = "/networking.k8s.io/servicecidrs/";

/// Returns an allocator that follows the services, IPAddresses and ServiceCIDRs in the caches.
pub(crate) fn follow(storage: &Storage, network: ServiceNetwork, node_ports: NodePortRange) -> Allocator {
    let allocator: Allocator = Arc::new(Mutex::new(ServiceAllocator::new(network).with_node_ports(node_ports)));
    follow_networks(storage, &allocator);
    let cache = storage.cache(SERVICES);
    observe_all(&mut allocator.lock(), &cache.snapshot());
    let followed = allocator.clone();
    cache.set_observer(Box::new(move |cache, keys| {
        let mut allocator = followed.lock();
        match keys {
            None => drop(observe_all(&mut allocator, &cache.snapshot())),
            Some(keys) => {
                for key in keys {
                    observe(&mut allocator, key, cache.get(key).as_deref());
                }
            }
        }
    }));
    let addresses = storage.cache(ADDRESSES);
    occupy_all(&mut allocator.lock(), &addresses.snapshot());
    let followed = allocator.clone();
    addresses.set_observer(Box::new(move |cache, keys| {
        let mut allocator = followed.lock();
        match keys {
            None => occupy_all(&mut allocator, &cache.snapshot()),
            Some(keys) => {
                for key in keys {
                    allocator.occupy(key, cache.get(key).is_some_and(|address| is_foreign(&address)));
                }
            }
        }
    }));
    allocator
}

fn follow_networks(storage: &Storage, allocator: &Allocator) {
    let networks = storage.cache(NETWORKS);
    observe_networks(&mut allocator.lock(), &networks.snapshot());
    let followed = allocator.clone();
    networks.set_observer(Box::new(move |cache, keys| {
        let mut allocator = followed.lock();
        match keys {
            None => observe_networks(&mut allocator, &cache.snapshot()),
            Some(keys) => {
                for key in keys {
                    allocator.observe_network(key, cache.get(key).map(|network| network.to_value()).as_ref());
                }
            }
        }
    }));
}

/// Records all ServiceCIDRs.
fn observe_networks(allocator: &mut ServiceAllocator, networks: &Snapshot) {
    let gone = allocator.observed_networks().filter(|name| networks.get(name).is_none());
    for name in gone.map(str::to_owned).collect::<Vec<_>>() {
        allocator.observe_network(&name, None);
    }
    for network in networks.objects() {
        allocator.observe_network(&network.header.name, Some(&network.to_value()));
    }
}

/// Records the IPAddresses that are not those of services.
fn occupy_all(allocator: &mut ServiceAllocator, addresses: &Snapshot) {
    for address in addresses.objects().filter(|address| is_foreign(address)) {
        allocator.occupy(&address.header.name, true);
    }
}

fn is_foreign(address: &StoredObject) -> bool {
    !service_addresses::is_managed(&address.to_value())
}

/// Records all services; returns those about which the allocator was wrong.
pub(crate) fn observe_all(allocator: &mut ServiceAllocator, services: &Snapshot) -> Vec<String> {
    let stored = services.objects().map(|service| format!("{}/{}", service.header.namespace, service.header.name));
    let mut keys: Vec<String> = stored.collect();
    keys.extend(allocator.observed().filter(|key| services.get(key).is_none()).map(str::to_owned));
    keys.retain(|key| observe(allocator, key, services.get(key).map(|service| &**service)));
    keys
}

fn observe(allocator: &mut ServiceAllocator, key: &str, service: Option<&StoredObject>) -> bool {
    allocator.observe(key, service.map(StoredObject::to_value).as_ref())
}

/// A reservation that ends when it is dropped.
#[must_use]
pub(crate) struct Allocation {
    claim: Option<(Allocator, allocator::Allocation)>,
}

impl Allocation {
    /// A reservation of nothing.
    pub(crate) fn none() -> Self {
        Self { claim: None }
    }

    /// Returns whether nothing is reserved.
    pub(super) fn is_empty(&self) -> bool {
        self.claim.as_ref().is_none_or(|(_, claim)| claim.is_empty())
    }

    /// Returns the reserved values.
    pub(super) fn values(&self) -> ServiceValues {
        self.claim.as_ref().map(|(_, claim)| claim.values()).unwrap_or_default()
    }

    /// Returns the reservation of these values, and ends that of the others.
    pub(super) fn keep_only(mut self, values: &ServiceValues) -> Self {
        let Some((allocator, claim)) = self.claim.take() else { return Self::none() };
        let (kept, others) = claim.split(values);
        allocator.lock().release(others);
        Self { claim: Some((allocator, kept)) }
    }

    /// Ends the reservation when the allocator knows the service that was written at a revision.
    pub(crate) async fn end_after(self, storage: &Storage, written: Revision) {
        if !self.is_empty() {
            storage.reached(written).await;
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some((allocator, claim)) = self.claim.take() {
            allocator.lock().release(claim);
        }
    }
}

/// Returns the error of a write whose values other servers have claimed again and again.
pub(super) fn too_many_attempts() -> ApiError {
    ApiError::internal("failed to allocate a cluster IP or node port: other API servers have claimed too many of them")
}

/// Allocates the cluster IPs and node ports of a Service and writes them into the object; does nothing for other kinds.
pub(super) fn allocate(call: &Call<'_>, object: &mut Value, old: Option<&Value>, dry_run: bool) -> Result<Allocation> {
    if !call.is_core("services") {
        return Ok(Allocation::none());
    }
    let allocator = &call.server.services;
    match allocator.lock().allocate(object, old, dry_run) {
        Ok(claim) => Ok(Allocation { claim: Some((allocator.clone(), claim)) }),
        Err(AllocationError::Invalid(errors)) => {
            Err(ApiError::invalid("Service", "", meta::text(object, "name"), &errors))
        }
        Err(AllocationError::Internal(message)) => Err(ApiError::internal(message)),
    }
}
