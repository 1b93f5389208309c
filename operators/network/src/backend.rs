//! What networks are made with.

pub mod linux;
pub mod memory;

use async_trait::async_trait;
use windlass::prelude::ObjectKey;

use crate::plan::Plan;

/// Why a backend could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("could not {operation} the network {network}: {message}")]
pub struct BackendError {
    /// What it was asked.
    pub operation: &'static str,
    /// Of which network.
    pub network: ObjectKey,
    /// What the system said.
    pub message: String,
}

/// Makes networks. Both operations can be repeated.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Makes the network as planned, whatever there was of it before.
    async fn ensure(&self, network: &ObjectKey, plan: &Plan) -> Result<(), BackendError>;

    /// Removes all that there is of the network.
    async fn release(&self, network: &ObjectKey) -> Result<(), BackendError>;
}
