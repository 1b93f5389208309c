//! Conditions and settings for calls of a webhook.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;

use super::Operation;

/// Behavior of the API server when the webhook cannot be called.
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

/// Whether a webhook is called for other versions of its resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchPolicy {
    /// Only for the versions of its rules.
    Exact,
    /// Matches requests in any version: the API server converts the objects to a version that the rules list.
    #[default]
    Equivalent,
}

/// Whether a defaulting webhook is called again when a later webhook has changed the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReinvocationPolicy {
    /// It is called once per request.
    #[default]
    Never,
    /// It may be called again.
    IfNeeded,
}

/// A CEL expression that must be true for the API server to call the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchCondition {
    /// Name, unique within the webhook.
    pub name: String,
    /// Expression over `object`, `oldObject`, `request` and `authorizer`.
    pub expression: String,
}

/// When and how the API server calls a webhook. See [`Webhook::mutating`](super::Webhook::mutating) and
/// [`Webhook::validating`](super::Webhook::validating).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallOptions {
    /// Behavior of the API server when the webhook cannot be called.
    pub failure_policy: FailurePolicy,
    /// Side effects of the webhook.
    pub side_effects: SideEffects,
    /// Timeout of the API server.
    pub timeout_seconds: u8,
    /// Conditions that must all be true.
    pub match_conditions: Vec<MatchCondition>,
    /// Whether the webhook is called for other versions of its resources.
    pub match_policy: MatchPolicy,
    /// Whether the webhook is called again after a change by another. Only for defaulting.
    pub reinvocation_policy: ReinvocationPolicy,
    /// Labels of the objects, old or new, for which the webhook is called.
    pub object_selector: Option<LabelSelector>,
    /// Labels of the namespaces of the objects for which the webhook is called.
    pub namespace_selector: Option<LabelSelector>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            failure_policy: FailurePolicy::Fail,
            side_effects: SideEffects::None,
            timeout_seconds: 10,
            match_conditions: Vec::new(),
            match_policy: MatchPolicy::Equivalent,
            reinvocation_policy: ReinvocationPolicy::Never,
            object_selector: None,
            namespace_selector: None,
        }
    }
}

impl CallOptions {
    /// Sets what the API server does when the webhook cannot be called; `Fail` by default.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.failure_policy = policy;
        self
    }

    /// Declares side effects of the handlers; `None` by default.
    #[must_use]
    pub fn side_effects(mut self, effects: SideEffects) -> Self {
        self.side_effects = effects;
        self
    }

    /// Sets the API server's timeout, 1 to 30 seconds; 10 by default.
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: u8) -> Self {
        self.timeout_seconds = seconds.clamp(1, 30);
        self
    }

    /// Restricts the webhook to requests for which this CEL expression is true, in addition to other conditions.
    #[must_use]
    pub fn match_condition(mut self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        self.match_conditions.push(MatchCondition { name: name.into(), expression: expression.into() });
        self
    }

    /// Sets whether the webhook is called for other versions of its resources; `Equivalent` by default.
    #[must_use]
    pub fn match_policy(mut self, policy: MatchPolicy) -> Self {
        self.match_policy = policy;
        self
    }

    /// Sets whether a defaulting webhook is called again when a later webhook has changed the object; `Never` by
    /// default.
    #[must_use]
    pub fn reinvocation_policy(mut self, policy: ReinvocationPolicy) -> Self {
        self.reinvocation_policy = policy;
        self
    }

    /// Restricts the webhook to objects whose labels match, before or after the change. Users who may set labels can
    /// avoid such a webhook.
    #[must_use]
    pub fn object_selector(mut self, selector: impl Into<Selector>) -> Self {
        self.object_selector = Some(selector.into().into());
        self
    }

    /// Restricts the webhook to objects in namespaces whose labels match. For a Namespace itself, its own labels count;
    /// other cluster-scoped objects always match. Every namespace has its name as the label
    /// `kubernetes.io/metadata.name`.
    #[must_use]
    pub fn namespace_selector(mut self, selector: impl Into<Selector>) -> Self {
        self.namespace_selector = Some(selector.into().into());
        self
    }
}

/// Resources and operations for which a webhook is called.
///
/// ```
/// use windlass_runtime::webhook::{Operation, Rule};
///
/// let deletions = Rule::new("apps", "deployments").operations([Operation::Delete]);
/// let commands = Rule::new("", "pods/exec").operations([Operation::Connect]);
/// let everything = Rule::new("*", "*");
/// # let _ = (deletions, commands, everything);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Groups; empty text for the core group, `*` for all.
    pub groups: Vec<String>,
    /// Versions; `*` for all.
    pub versions: Vec<String>,
    /// Plural names of resources, with a subresource after a slash; `*` for all without subresources, `*/*` for all.
    pub resources: Vec<String>,
    /// Operations.
    pub operations: Vec<Operation>,
    /// Restricts the rule to namespaced or cluster-scoped objects.
    pub scope: RuleScope,
}

/// The objects that a [`Rule`] covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleScope {
    /// All objects.
    #[default]
    All,
    /// Objects in a namespace.
    Namespaced,
    /// Cluster-scoped objects.
    Cluster,
}

impl Rule {
    /// Creates a rule for creates and updates of a resource in all versions. The core group is empty.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            groups: vec![group.into()],
            versions: vec!["*".to_owned()],
            resources: vec![resource.into()],
            operations: vec![Operation::Create, Operation::Update],
            scope: RuleScope::All,
        }
    }

    /// Adds another resource, or a subresource such as `deployments/scale`.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resources.push(resource.into());
        self
    }

    /// Sets the versions.
    #[must_use]
    pub fn versions<V: Into<String>>(mut self, versions: impl IntoIterator<Item = V>) -> Self {
        self.versions = versions.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the operations.
    #[must_use]
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations = operations.into_iter().collect();
        self
    }

    /// Restricts the rule to namespaced or cluster-scoped objects.
    #[must_use]
    pub fn scope(mut self, scope: RuleScope) -> Self {
        self.scope = scope;
        self
    }
}
