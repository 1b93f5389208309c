//! What a cluster has to know to ask.

use super::Operation;

/// What an endpoint is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// Changes of objects before they are stored: an entry of a `MutatingWebhookConfiguration`.
    Mutating,
    /// Acceptance: an entry of a `ValidatingWebhookConfiguration`.
    Validating,
    /// Other versions of an object: `spec.conversion` of a `CustomResourceDefinition`.
    Conversion,
}

/// What the API server does when it cannot ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It refuses the request.
    #[default]
    Fail,
    /// It goes on as if there were no webhook.
    Ignore,
}

/// Whether a webhook does anything besides answering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SideEffects {
    /// It does nothing else.
    #[default]
    None,
    /// It does nothing else when [`Request::dry_run`](super::Request::dry_run) is set.
    NoneOnDryRun,
}

/// A CEL expression that must hold for the API server to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchCondition {
    /// Tells it from the others of the same webhook.
    pub name: String,
    /// The expression, over `object`, `oldObject`, `request` and `authorizer`.
    pub expression: String,
}

/// One endpoint, as a webhook configuration or a definition describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// What it is asked for.
    pub endpoint: Endpoint,
    /// Its name in a webhook configuration, as `mutate.foos.v1.example.com`.
    pub name: String,
    /// The path of the URL.
    pub path: String,
    /// Group of the resource; empty for the core group.
    pub group: String,
    /// Versions it is asked about. For conversion, all there are, the hub first.
    pub versions: Vec<String>,
    /// Kind of the objects.
    pub kind: String,
    /// Plural of the resource, and its subresources, as `foos/status`.
    pub resources: Vec<String>,
    /// When it is asked; empty for conversion.
    pub operations: Vec<Operation>,
    /// What the API server does when it cannot ask.
    pub failure_policy: FailurePolicy,
    /// Whether it does anything besides answering.
    pub side_effects: SideEffects,
    /// How long the API server waits.
    pub timeout_seconds: u8,
    /// Asked only if all of these hold.
    pub match_conditions: Vec<MatchCondition>,
}
