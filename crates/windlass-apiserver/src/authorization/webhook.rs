//! The Webhook authorizer: sends a SubjectAccessReview to a server, and caches its decision.

mod cache;
mod review;

use std::time::Duration;

use serde_json::Value;
use tracing::warn;
use windlass_cel::review_conditions::ReviewCondition;

use self::cache::DecisionCache;
use super::{Attributes, Authorization, Authorizer, Decision, UserRules, Verdict, options::WebhookOptions};
use crate::{
    user::User,
    webhooks::{Limits, Target},
};

/// The number of attempts, if failures are transient.
const ATTEMPTS: u32 = 5;
/// Delay before the second attempt; it grows by half with each further attempt.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Maximum size of a request's attributes for which its decision is cached.
const MAX_CACHED_SIZE: usize = 10_000;

/// An authorizer that queries a webhook.
pub(crate) struct WebhookAuthorizer {
    options: WebhookOptions,
    target: Target,
    conditions: Vec<ReviewCondition>,
    cache: DecisionCache,
}

impl WebhookAuthorizer {
    /// Returns the authorizer of a webhook.
    ///
    /// # Errors
    /// Returns an error if its kubeconfig file cannot be used, or a condition is invalid.
    pub(crate) fn new(options: &WebhookOptions) -> Result<Self, String> {
        let unusable =
            |why| format!("cannot use {} for webhook {:?}: {why}", options.kubeconfig.display(), options.name);
        let target = Target::from_kubeconfig(&options.kubeconfig, "kube-apiserver").map_err(unusable)?;
        let conditions =
            options.conditions.iter().map(|text| ReviewCondition::compile(text)).collect::<Result<_, _>>()?;
        Ok(Self { options: options.clone(), target, conditions, cache: DecisionCache::default() })
    }

    /// Returns whether to call the webhook. A match condition that is false takes precedence over errors of others.
    fn matches(&self, request: &Attributes<'_>) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let spec = review::condition_input(request);
        let mut failures = Vec::new();
        for condition in &self.conditions {
            match condition.matches(&spec) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => failures.push(why),
            }
        }
        match &mut failures[..] {
            [] => Ok(true),
            [one] => Err(std::mem::take(one)),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    fn failed(&self, why: String) -> Decision {
        let verdict = if self.options.denies_on_failure { Verdict::Deny } else { Verdict::NoOpinion };
        Decision { error: Some(why), ..Decision { verdict, ..Decision::no_opinion("") } }
    }

    /// Calls the webhook, and retries after transient failures.
    async fn ask(&self, review: &Value, key: Option<String>) -> Decision {
        let limits = Limits { timeout: self.options.timeout, announced: true };
        let mut delay = FIRST_DELAY;
        let mut attempt = 1;
        let answer = loop {
            match self.target.send(review, limits).await {
                Ok(answer) => break answer,
                Err(error) if error.transient && attempt < ATTEMPTS => {
                    tokio::time::sleep(delay).await;
                    delay = delay * 3 / 2;
                    attempt += 1;
                }
                Err(error) => {
                    warn!(webhook = self.options.name, why = error.message, "failed to call a webhook authorizer");
                    return self.failed(error.message);
                }
            }
        };
        let decision = review::decision(&answer["status"]);
        if let Some(key) = key {
            let allowed = answer["status"]["allowed"] == true;
            let lifetime = if allowed { self.options.authorized_ttl } else { self.options.unauthorized_ttl };
            self.cache.insert(key, decision.clone(), lifetime);
        }
        decision
    }
}

impl Authorizer for WebhookAuthorizer {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        match self.matches(request) {
            Ok(true) => {}
            Ok(false) => return Decision::no_opinion("").into(),
            Err(why) => return self.failed(why).into(),
        }
        let review = review::review(request, &self.options.version);
        let key = (review::size(request) < MAX_CACHED_SIZE).then(|| review["spec"].to_string());
        if let Some(decision) = key.as_ref().and_then(|key| self.cache.get(key)) {
            return decision.into();
        }
        Authorization::Pending(Box::pin(async move { self.ask(&review, key).await }))
    }

    fn rules_for(&self, _: &User, _: &str) -> UserRules {
        UserRules::unsupported("webhook")
    }
}
