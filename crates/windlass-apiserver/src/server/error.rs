//! Reasons why a server could not be built.

use crate::{
    audit::AuditError,
    authentication::{AuthenticationError, jwt::configuration::ConfigurationError, webhook_token::KubeconfigError},
};

/// Reasons why a server could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The store could not be loaded.
    #[error("failed to load the store")]
    Load(#[source] windlass_store::Error),
    /// Auditing could not start.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Clients cannot be authenticated as configured.
    #[error("failed to configure authentication")]
    Authentication(#[from] AuthenticationError),
    /// The configuration of issuers of JSON web tokens cannot be used.
    #[error(transparent)]
    Jwt(#[from] ConfigurationError),
    /// The webhook that authenticates tokens cannot be used.
    #[error(transparent)]
    TokenWebhook(#[from] KubeconfigError),
    /// An authorizer cannot be used.
    #[error("failed to set up authorization: {0}")]
    Authorization(String),
    /// A kind whose objects are computed cannot be served.
    #[error("cannot serve {name}: {why}")]
    Computed {
        /// The resource with its group.
        name: String,
        /// The reason.
        why: String,
    },
    /// Another API server over the same store has options that do not fit.
    #[error("the API server at {address} uses the same store with other options: {differences}")]
    Disagreement {
        /// The address of the other server.
        address: String,
        /// The options that differ.
        differences: String,
    },
    /// An object that every cluster has could not be created.
    #[error("failed to create {what}: {message}")]
    Bootstrap {
        /// The object.
        what: String,
        /// The message of the server.
        message: String,
    },
}
