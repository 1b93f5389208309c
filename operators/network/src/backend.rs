//! Backends that create networks.

pub mod linux;
pub mod memory;

use async_trait::async_trait;
use windlass::prelude::ObjectKey;

use crate::plan::Plan;

/// A failed operation of a backend.
#[derive(Debug, thiserror::Error)]
#[error("failed to {operation} network {network}: {message}")]
pub struct BackendError {
    /// The operation.
    pub operation: &'static str,
    /// The network.
    pub network: ObjectKey,
    /// The message of the system.
    pub message: String,
}

/// Creates and deletes networks. Both operations are idempotent.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Creates the network as planned, or changes an existing one.
    async fn ensure(&self, network: &ObjectKey, plan: &Plan) -> Result<(), BackendError>;

    /// Deletes the network.
    async fn release(&self, network: &ObjectKey) -> Result<(), BackendError>;
}
