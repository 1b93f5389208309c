//! What a Service claims for itself while it is written: cluster IPs and node ports.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use windlass_builtins::kinds::service::allocator::{self, AllocationError, ServiceAllocator};

use crate::{
    call::Call,
    meta,
    status::{ApiError, Result},
};

/// The allocator of a server.
pub(crate) type Allocator = Arc<Mutex<ServiceAllocator>>;

/// A claim that is given back unless it is kept.
#[must_use]
pub(crate) struct Allocation {
    claim: Option<(Allocator, allocator::Allocation)>,
}

impl Allocation {
    /// Nothing claimed.
    pub(crate) fn none() -> Self {
        Self { claim: None }
    }

    /// The write succeeded: the claim stays, what the new state no longer uses is given back.
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

impl Call<'_> {
    /// Claims what the object needs and writes it into the object.
    pub(crate) fn allocate(&self, object: &mut Value, old: Option<&Value>, dry_run: bool) -> Result<Allocation> {
        if !self.is_core("services") {
            return Ok(Allocation::none());
        }
        let allocator = &self.server.services;
        match allocator.lock().allocate(object, old, dry_run) {
            Ok(claim) => Ok(Allocation { claim: Some((allocator.clone(), claim)) }),
            Err(AllocationError::Invalid(errors)) => {
                Err(ApiError::invalid("Service", "", meta::text(object, "name"), &errors))
            }
            Err(AllocationError::Internal(message)) => Err(ApiError::internal(message)),
        }
    }

    /// Gives back what a deleted object had claimed.
    pub(crate) fn release(&self, object: &Value) {
        if self.is_core("services") {
            self.server.services.lock().release(object);
        }
    }
}
