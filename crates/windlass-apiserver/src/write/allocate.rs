//! Allocate: cluster IPs and node ports of a Service, reserved while it is written.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use windlass_builtins::kinds::service::allocator::{self, AllocationError, ServiceAllocator};

use crate::{
    call::Call,
    endpoint::Endpoint,
    meta,
    server::Inner,
    status::{ApiError, Result},
};

/// The allocator of a server.
pub(crate) type Allocator = Arc<Mutex<ServiceAllocator>>;

/// A reservation that is released when it is dropped, unless it was kept.
#[must_use]
pub(crate) struct Allocation {
    claim: Option<(Allocator, allocator::Allocation)>,
}

impl Allocation {
    /// A reservation of nothing.
    pub(crate) fn none() -> Self {
        Self { claim: None }
    }

    /// Keeps the reservation, because the write succeeded, and releases all values that the new state no longer uses.
    pub(crate) fn keep(mut self) {
        if let Some((allocator, claim)) = self.claim.take() {
            allocator.lock().commit(claim);
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some((allocator, claim)) = self.claim.take() {
            allocator.lock().revert(claim);
        }
    }
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

/// Releases everything that a deleted object had allocated.
pub(super) fn release(server: &Inner, endpoint: &Endpoint, object: &Value) {
    if endpoint.is("", "services") {
        server.services.lock().release(object);
    }
}
