//! Settings of a webhook: which requests the API server sends, and how.

use kube::core::Selector;

use super::Webhook;
use crate::{
    object::Object,
    webhook::{CallOptions, FailurePolicy, MatchPolicy, Operation, ReinvocationPolicy, SideEffects},
};

/// Fields of the webhook configurations besides the resource.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) subresources: Vec<String>,
    pub(super) operations: Vec<Operation>,
    pub(super) mutating: CallOptions,
    pub(super) validating: CallOptions,
    pub(super) mutate_path: Option<String>,
    pub(super) validate_path: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            subresources: Vec::new(),
            operations: vec![Operation::Create, Operation::Update],
            mutating: CallOptions::default(),
            validating: CallOptions::default(),
            mutate_path: None,
            validate_path: None,
        }
    }
}

/// Settings. They are for defaulting and validation alike; see [`mutating`](Webhook::mutating) and
/// [`validating`](Webhook::validating) for different ones.
impl<K: Object> Webhook<K> {
    /// Validates deletions, too. Such objects then cannot be deleted while the operator is down, unless the failure
    /// policy is [`FailurePolicy::Ignore`].
    #[must_use]
    pub fn also_on_delete(mut self) -> Self {
        self.settings.operations.push(Operation::Delete);
        self
    }

    /// Handles writes of this subresource, too, for example `status`. Its objects must be of this kind, unlike those of
    /// `scale`.
    #[must_use]
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        self.settings.subresources.push(name.into());
        self
    }

    /// Sets what the API server does when the webhook cannot be called; `Fail` by default.
    #[must_use]
    pub fn failure_policy(self, policy: FailurePolicy) -> Self {
        self.calls(|calls| calls.failure_policy(policy))
    }

    /// Declares side effects of the handlers; `None` by default.
    #[must_use]
    pub fn side_effects(self, effects: SideEffects) -> Self {
        self.calls(|calls| calls.side_effects(effects))
    }

    /// Sets the API server's timeout, 1 to 30 seconds; 10 by default.
    #[must_use]
    pub fn timeout_seconds(self, seconds: u8) -> Self {
        self.calls(|calls| calls.timeout_seconds(seconds))
    }

    /// Restricts the webhook to requests for which this CEL expression is true.
    #[must_use]
    pub fn match_condition(self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        let (name, expression) = (name.into(), expression.into());
        self.calls(|calls| calls.match_condition(name.clone(), expression.clone()))
    }

    /// Sets whether the webhook is called for other versions of the resource; `Equivalent` by default, so that a write
    /// in any version is handled as an object of this version.
    #[must_use]
    pub fn match_policy(self, policy: MatchPolicy) -> Self {
        self.calls(|calls| calls.match_policy(policy))
    }

    /// Sets whether defaulting is called again when a later webhook has changed the object; `Never` by default.
    #[must_use]
    pub fn reinvocation_policy(mut self, policy: ReinvocationPolicy) -> Self {
        self.settings.mutating.reinvocation_policy = policy;
        self
    }

    /// Restricts the webhook to objects whose labels match; see [`CallOptions::object_selector`].
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass_runtime::{cache::parse_selector, webhook::Webhook};
    ///
    /// let webhook = Webhook::<ConfigMap>::new().object_selector(parse_selector("team,tier in (web, api)")?);
    /// # Ok::<(), windlass_runtime::cache::SelectorError>(())
    /// ```
    #[must_use]
    pub fn object_selector(self, selector: impl Into<Selector>) -> Self {
        let selector = selector.into();
        self.calls(|calls| calls.object_selector(selector.clone()))
    }

    /// Restricts the webhook to objects in namespaces whose labels match; see [`CallOptions::namespace_selector`].
    #[must_use]
    pub fn namespace_selector(self, selector: impl Into<Selector>) -> Self {
        let selector = selector.into();
        self.calls(|calls| calls.namespace_selector(selector.clone()))
    }

    /// Changes the settings of defaulting alone. For handlers with settings of their own, add a webhook with a
    /// [path](Self::mutate_path) of its own.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// use windlass_runtime::webhook::{FailurePolicy, Webhook};
    ///
    /// // Defaults are a convenience; rules are not.
    /// let webhook = Webhook::<ConfigMap>::new()
    ///     .timeout_seconds(5)
    ///     .mutating(|calls| calls.failure_policy(FailurePolicy::Ignore));
    /// ```
    #[must_use]
    pub fn mutating(mut self, set: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        self.settings.mutating = set(std::mem::take(&mut self.settings.mutating));
        self
    }

    /// Changes the settings of validation alone; see [`mutating`](Self::mutating).
    #[must_use]
    pub fn validating(mut self, set: impl FnOnce(CallOptions) -> CallOptions) -> Self {
        self.settings.validating = set(std::mem::take(&mut self.settings.validating));
        self
    }

    /// Sets another path than `/mutate-<group>-<version>-<kind>`. The name in the webhook configuration then includes
    /// the path, so that a kind can have several webhooks.
    #[must_use]
    pub fn mutate_path(mut self, path: impl Into<String>) -> Self {
        self.settings.mutate_path = Some(path.into());
        self
    }

    /// Sets another path than `/validate-<group>-<version>-<kind>`; see [`Webhook::mutate_path`].
    #[must_use]
    pub fn validate_path(mut self, path: impl Into<String>) -> Self {
        self.settings.validate_path = Some(path.into());
        self
    }

    fn calls(self, set: impl Fn(CallOptions) -> CallOptions) -> Self {
        self.mutating(&set).validating(&set)
    }
}
