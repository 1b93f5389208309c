//! Descriptions of webhooks for the cluster.

use super::{CallOptions, Rule};

/// Type of a webhook endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// Changes objects before they are stored: an entry of a `MutatingWebhookConfiguration`.
    Mutating,
    /// Allows or denies requests: an entry of a `ValidatingWebhookConfiguration`.
    Validating,
    /// Converts objects between versions: `spec.conversion` of a `CustomResourceDefinition`.
    Conversion,
}

/// Description of one endpoint, for a webhook configuration or a CRD.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Type of the endpoint.
    pub endpoint: Endpoint,
    /// Name in a webhook configuration, such as `mutate.foos.v1.example.com`.
    pub name: String,
    /// Path of the URL.
    pub path: String,
    /// Group of the resource; empty for the core group, and for raw webhooks.
    pub group: String,
    /// Versions of the resource. For conversion, all versions, the hub first.
    pub versions: Vec<String>,
    /// Kind of the objects; empty for raw webhooks.
    pub kind: String,
    /// Resources and operations that are sent; empty for conversion.
    pub rules: Vec<Rule>,
    /// Conditions and settings for calls of the webhook.
    pub calls: CallOptions,
}
