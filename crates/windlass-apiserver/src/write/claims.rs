//! Claims: keys in the store that decide which of several API servers gets a cluster IP or a node port.
//!
//! The allocator of a server prevents that two of its own requests get the same value. Over a shared store, a write also
//! creates a key per value before it stores the service: the IPAddress of a cluster IP, and a record for a node port.
//! Only one server can create a key. A claim without a service is released by the server that made it, or, if that
//! ended in between, by the repair of any server ([`repair`]).
//!
//! A service is stored at most [`LIMIT`] after its claims were requested, and repair releases a claim only after it has
//! seen it without a service for much longer, so a claim is never released before its service is stored.

pub(crate) mod repair;

use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt as _, future::join_all};
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::warn;
use windlass_builtins::kinds::service::allocator::ServiceValues;
use windlass_store::{Error as StoreError, Revision};

use super::{
    allocate::{ADDRESSES, Allocation},
    persist::PersistError,
};
use crate::{
    bootstrap::service_addresses::{ALLOCATOR, FAMILY, MANAGED_BY},
    meta,
    server::Inner,
    status::ApiError,
    storage::{Storage, encode},
};

/// The prefix of the records of node ports in the store.
pub(crate) const PORTS: &str = "/allocations/nodeports/";
/// Maximum time from the request for a claim to that for the service.
const LIMIT: Duration = Duration::from_secs(15);

/// The claims of a write.
#[must_use = "the claims of a failed write must be released"]
pub(super) struct Claims {
    requested: Instant,
    made: Vec<(String, Revision)>,
}

/// Reasons why values could not be claimed.
pub(super) enum ClaimError {
    /// Another server has these values.
    Taken(ServiceValues),
    /// The store failed.
    Failed(ApiError),
}

impl Claims {
    /// Claims the values that a write has reserved for a service; none if no other server can write to the store.
    pub(super) async fn make(server: &Inner, allocation: &Allocation, service: &Value) -> Result<Self, ClaimError> {
        let mut claims = Self { requested: Instant::now(), made: Vec::new() };
        if !server.storage.store().is_shared() || allocation.is_empty() {
            return Ok(claims);
        }
        let values = allocation.values();
        let now = meta::format_time(server.now());
        let owner = (meta::text(service, "namespace"), meta::text(service, "name"));
        let requests = keys(&values).into_iter().map(|value| {
            let (key, record) = (value.key(), value.record(owner, &now));
            async move { (value, server.storage.store().create(&key, record).await, key) }.boxed()
        });
        let (mut taken, mut failure) = (ServiceValues::default(), None);
        for (value, result, key) in join_all(requests).await {
            match (result, value) {
                (Ok(revision), _) => claims.made.push((key, revision)),
                (Err(StoreError::Exists { .. }), ClaimedValue::Address(address)) => taken.address = Some(address),
                (Err(StoreError::Exists { .. }), ClaimedValue::Port(port)) => drop(taken.ports.insert(port)),
                (Err(error), _) => failure = Some(error),
            }
        }
        let is_taken = taken != ServiceValues::default();
        if failure.is_none() && !is_taken {
            return Ok(claims);
        }
        claims.release(&server.storage).await;
        match failure {
            Some(error) => Err(ClaimError::Failed(error.into())),
            None => Err(ClaimError::Taken(taken)),
        }
    }

    /// Fails if it is too late to store the service.
    pub(super) fn check_in_time(&self) -> Result<(), ApiError> {
        match self.made.is_empty() || self.requested.elapsed() < LIMIT {
            true => Ok(()),
            false => Err(ApiError::timed_out()),
        }
    }

    /// Releases the claims of a write that failed, if it is certain that the service was not and will not be stored.
    pub(super) async fn settle(self, storage: &Storage, error: &PersistError) {
        let certain = match error {
            PersistError::Conflict => true,
            PersistError::Failed(error) => error.reason == "AlreadyExists",
        };
        if certain {
            self.release(storage).await;
        }
    }

    /// Releases the claims.
    pub(super) async fn release(self, storage: &Storage) {
        join_all(self.made.iter().map(|(key, revision)| delete(storage, key, *revision).boxed())).await;
    }
}

/// Releases the values that a stored service no longer uses.
pub(super) async fn release_unused(server: &Inner, before: &Value, after: Option<&Value>) {
    if !server.storage.store().is_shared() {
        return;
    }
    let (mut unused, used) = (ServiceValues::of(before), after.map(ServiceValues::of).unwrap_or_default());
    unused.address = unused.address.filter(|address| used.address != Some(*address));
    unused.ports.retain(|port| !used.ports.contains(port));
    let owner = (meta::text(before, "namespace"), meta::text(before, "name"));
    let releases = keys(&unused).into_iter().filter_map(|value| {
        let key = value.key();
        let (cache, name) = value.location();
        // One that this server does not know yet is released by the repair.
        let record = server.storage.cache(cache).get(&name)?;
        let parent = &record.to_value()["spec"]["parentRef"];
        let is_own = parent["namespace"] == owner.0 && parent["name"] == owner.1;
        is_own.then_some(async move { delete(&server.storage, &key, record.revision).await }.boxed())
    });
    join_all(releases.collect::<Vec<_>>()).await;
}

async fn delete(storage: &Storage, key: &str, revision: Revision) {
    match storage.store().delete(key, revision).await {
        Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Conflict { .. }) => {}
        Err(error) => warn!(key, %error, "failed to release a cluster IP or node port"),
    }
}

/// A value that is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimedValue {
    Address(std::net::Ipv4Addr),
    Port(u32),
}

fn keys(values: &ServiceValues) -> Vec<ClaimedValue> {
    let ports = values.ports.iter().map(|port| ClaimedValue::Port(*port));
    values.address.map(ClaimedValue::Address).into_iter().chain(ports).collect()
}

impl ClaimedValue {
    /// Returns the prefix of the cache, and the key there.
    fn location(self) -> (&'static str, String) {
        match self {
            Self::Address(address) => (ADDRESSES, address.to_string()),
            Self::Port(port) => (PORTS, port.to_string()),
        }
    }

    fn key(self) -> String {
        let (prefix, name) = self.location();
        format!("{prefix}{name}")
    }

    /// Returns the stored form. That of an IPAddress is what a request to create it would store.
    fn record(self, (namespace, name): (&str, &str), now: &str) -> Bytes {
        let parent = json!({"resource": "services", "namespace": namespace, "name": name});
        let mut record = match self {
            Self::Address(address) => {
                let label = |name: &str| format!("f:{name}");
                json!({
                    "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
                    "metadata": {
                        "name": address.to_string(), "uid": meta::new_uid(), "creationTimestamp": now,
                        "labels": {FAMILY: "IPv4", MANAGED_BY: ALLOCATOR},
                        "managedFields": [{
                            "apiVersion": "networking.k8s.io/v1", "fieldsType": "FieldsV1", "manager": "kube-apiserver",
                            "operation": "Update", "time": now,
                            "fieldsV1": {
                                "f:metadata": {"f:labels": {".": {}, label(FAMILY): {}, label(MANAGED_BY): {}}},
                                "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
                            },
                        }],
                    },
                    "spec": {"parentRef": parent},
                })
            }
            // Not served, and only read by API servers.
            Self::Port(port) => json!({
                "apiVersion": "allocations/v1", "kind": "NodePort",
                "metadata": {"name": port.to_string(), "uid": meta::new_uid(), "creationTimestamp": now},
                "spec": {"parentRef": parent},
            }),
        };
        encode(&mut record)
    }
}
