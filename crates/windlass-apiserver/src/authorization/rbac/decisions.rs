//! A policy with cached decisions. Another request that differs only in the name of its object costs a comparison.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::policy::Policy;
use crate::{
    authorization::{Action, Attributes, Decision, ResourceAction},
    fingerprint::fingerprint,
    user::User,
};

/// The number of decisions that are kept.
const KEPT: usize = 256;

/// A policy, and its cached decisions. A changed policy starts without any.
#[derive(Default)]
pub(super) struct DecidedPolicy {
    pub(super) policy: Policy,
    /// By fingerprint of the request; a decision replaces the one in its place.
    decided: OnceLock<Box<[ArcSwapOption<Decided>]>>,
}

/// A request and its decision, which does not depend on the name of its object.
struct Decided {
    user: String,
    groups: Vec<String>,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    decision: Decision,
}

impl From<Policy> for DecidedPolicy {
    fn from(policy: Policy) -> Self {
        Self { policy, decided: OnceLock::new() }
    }
}

impl DecidedPolicy {
    /// Decides about a request.
    pub(super) fn decide(&self, request: &Attributes<'_>) -> Decision {
        let Action::Resource(action) = &request.action else { return self.policy.decide(request) };
        let place = place(request.user, action);
        if let Some(decided) = self.decided.get()
            && let Some(decided) = &*decided[place].load()
            && decided.is_about(request.user, action)
        {
            return decided.decision.clone();
        }
        let (decision, depends_on_name) = self.policy.decide_any(request);
        if !depends_on_name {
            let decided = self.decided.get_or_init(|| (0..KEPT).map(|_| ArcSwapOption::empty()).collect());
            decided[place].store(Some(Arc::new(Decided::new(request.user, action, &decision))));
        }
        decision
    }
}

impl Decided {
    fn new(user: &User, action: &ResourceAction<'_>, decision: &Decision) -> Self {
        Self {
            user: user.name.clone(),
            groups: user.groups.clone(),
            verb: action.verb.to_owned(),
            group: action.group.to_owned(),
            resource: action.resource.to_owned(),
            subresource: action.subresource.to_owned(),
            namespace: action.namespace.to_owned(),
            decision: decision.clone(),
        }
    }

    fn is_about(&self, user: &User, action: &ResourceAction<'_>) -> bool {
        self.user == user.name
            && self.namespace == action.namespace
            && self.resource == action.resource
            && self.verb == action.verb
            && self.group == action.group
            && self.subresource == action.subresource
            && self.groups == user.groups
    }
}

/// Returns the place of the decision about a request.
fn place(user: &User, action: &ResourceAction<'_>) -> usize {
    let ResourceAction { verb, group, resource, subresource, namespace, .. } = action;
    let names = [user.name.as_str(), verb, group, resource, subresource, namespace];
    let mix = |sum: u64, name: &str| (sum.rotate_left(5) ^ fingerprint(name)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // The upper bits depend on all lower ones.
    (names.into_iter().fold(user.groups.len() as u64, mix) >> 32) as usize % KEPT
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(rules: &serde_json::Value) -> DecidedPolicy {
        let mut policy = Policy::default();
        policy.set_role("r", Some(json!({ "rules": rules }).to_string().into()));
        let subjects = json!([{"kind": "User", "name": "eve"}]);
        let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects}).to_string();
        policy.set_binding("b", Some(binding.as_bytes()));
        policy.into()
    }

    fn is_kept(policy: &DecidedPolicy) -> bool {
        policy.decided.get().is_some_and(|decided| decided.iter().any(|decided| decided.load().is_some()))
    }

    #[test]
    fn only_decisions_for_all_names_are_kept() {
        let eve = User { name: "eve".to_owned(), ..User::default() };
        let pod = |name| {
            let action = ResourceAction { verb: "get", resource: "pods", namespace: "a", name, ..Default::default() };
            Attributes { user: &eve, action: Action::Resource(action) }
        };
        let all = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let mut one = all.clone();
        one["resourceNames"] = json!(["x"]);
        let policy_of_all = policy(&json!([all]));
        assert!(policy_of_all.decide(&pod("x")).is_allowed() && is_kept(&policy_of_all));
        assert!(policy_of_all.decide(&pod("y")).is_allowed());
        let policy_of_others = policy(&json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]));
        for name in ["x", "y"] {
            assert!(!policy_of_others.decide(&pod(name)).is_allowed() && is_kept(&policy_of_others));
        }
        let policy_of_one = policy(&json!([one]));
        assert!(policy_of_one.decide(&pod("x")).is_allowed() && !is_kept(&policy_of_one));
        assert!(!policy_of_one.decide(&pod("y")).is_allowed());
    }
}
