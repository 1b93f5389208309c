//! Descriptions of webhooks for the cluster.

use super::Operation;

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

/// What the API server does when the webhook cannot be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Rejects the request.
    #[default]
    Fail,
    /// Continues without the webhook.
    Ignore,
}

/// Side effects of a webhook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffects {
    /// The webhook has no side effects.
    #[default]
    None,
    /// The webhook has no side effects if [`Request::dry_run`](super::Request::dry_run) is set.
    NoneOnDryRun,
}

/// A CEL expression that must be true for the API server to call the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchCondition {
    /// Name, unique within the webhook.
    pub name: String,
    /// Expression over `object`, `oldObject`, `request` and `authorizer`.
    pub expression: String,
}

/// Description of one endpoint, for a webhook configuration or a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Type of the endpoint.
    pub endpoint: Endpoint,
    /// Name in a webhook configuration, such as `mutate.foos.v1.example.com`.
    pub name: String,
    /// Path of the URL.
    pub path: String,
    /// Group of the resource; empty for the core group.
    pub group: String,
    /// Versions of the resource. For conversion, all versions, the hub first.
    pub versions: Vec<String>,
    /// Kind of the objects.
    pub kind: String,
    /// Plural name of the resource, and its subresources, such as `foos/status`.
    pub resources: Vec<String>,
    /// Operations that are sent; empty for conversion.
    pub operations: Vec<Operation>,
    /// What the API server does when the webhook cannot be called.
    pub failure_policy: FailurePolicy,
    /// Side effects of the webhook.
    pub side_effects: SideEffects,
    /// Timeout of the API server.
    pub timeout_seconds: u8,
    /// Conditions that must all be true.
    pub match_conditions: Vec<MatchCondition>,
}
