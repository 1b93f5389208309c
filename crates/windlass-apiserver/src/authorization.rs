//! Authorization: whether a user may perform a request.

pub(crate) mod chain;
mod checks;
mod node;
mod options;
mod permission;
pub(crate) mod rbac;
mod rules;
mod webhook;

pub(crate) use self::{chain::Chain, checks::Checks};
pub use self::{
    options::{AuthorizationOptions, AuthorizerOptions, WebhookOptions},
    permission::Permission,
    rules::{PolicyRule, UserRules},
};

use std::sync::Arc;

use futures_util::future::BoxFuture;
use windlass_schema::go_format::quote;

use crate::{query::Query, request_info::ResourceRequest, status::ApiError, user::User, verb::Verb};

/// A request, as authorizers see it.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    /// The user that sent the request, or the user that it impersonates.
    pub user: &'a User,
    /// The requested action.
    pub action: Action<'a>,
}

/// The action that a request performs.
#[derive(Debug, Clone)]
pub enum Action<'a> {
    /// A request for a resource, or for one of its objects.
    Resource(ResourceAction<'a>),
    /// A request for a path that is not a resource's.
    Path {
        /// The HTTP method in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// A request for a resource, or for one of its objects.
#[derive(Debug, Clone, Default)]
pub struct ResourceAction<'a> {
    /// The verb: one of [`Verb`], or another one that roles can grant, such as `bind` and `impersonate`.
    pub verb: &'a str,
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version of the API group; `*` if it is unknown. Roles do not depend on it.
    pub version: &'a str,
    /// The plural name.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty at cluster scope.
    pub namespace: &'a str,
    /// The name, from the path or from a field selector for `metadata.name`; empty for collections.
    pub name: &'a str,
    /// The field selector of a list, watch or deletion of a collection, as in its query.
    pub field_selector: &'a str,
    /// The label selector of a list, watch or deletion of a collection, as in its query.
    pub label_selector: &'a str,
}

/// The decision of an authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub verdict: Verdict,
    /// Reason; part of the 403 message unless it is empty.
    pub reason: Arc<str>,
    /// An error that kept the authorizer from evaluating the whole request; reported by access reviews.
    pub error: Option<String>,
}

/// Whether a request is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The request is allowed.
    Allow,
    /// The request is denied, regardless of other authorizers.
    Deny,
    /// The authorizer does not know the request; it is denied unless another authorizer allows it.
    NoOpinion,
}

impl Decision {
    /// Allows a request.
    pub fn allow(reason: impl Into<Arc<str>>) -> Self {
        Self { verdict: Verdict::Allow, reason: reason.into(), error: None }
    }

    /// Denies a request, regardless of other authorizers.
    pub fn deny(reason: impl Into<Arc<str>>) -> Self {
        Self { verdict: Verdict::Deny, reason: reason.into(), error: None }
    }

    /// Leaves the decision to other authorizers.
    pub fn no_opinion(reason: impl Into<Arc<str>>) -> Self {
        Self { verdict: Verdict::NoOpinion, reason: reason.into(), error: None }
    }

    /// Returns whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allow
    }
}

/// A decision, or a future that makes it: most authorizers decide at once, and only webhooks take time.
pub enum Authorization<'a> {
    /// The decision.
    Decided(Decision),
    /// A future that makes the decision.
    Pending(BoxFuture<'a, Decision>),
}

impl Authorization<'_> {
    /// Waits for the decision.
    pub async fn decide(self) -> Decision {
        match self {
            Self::Decided(decision) => decision,
            Self::Pending(future) => future.await,
        }
    }
}

impl From<Decision> for Authorization<'_> {
    fn from(decision: Decision) -> Self {
        Self::Decided(decision)
    }
}

/// Decides who may do what.
///
/// A `Vec` of authorizers is one too: the first that has an opinion decides.
pub trait Authorizer: Send + Sync {
    /// Decides whether a request is allowed. Called for every request, before its body is read.
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a>;

    /// Returns the rules of a user in a namespace, for a SelfSubjectRulesReview. An authorizer that cannot list them
    /// says so ([`UserRules::unsupported`]).
    fn rules_for(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules::unsupported("custom")
    }
}

impl Authorizer for Vec<Box<dyn Authorizer>> {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        let mut opinions = Opinions::default();
        let mut rest = self.iter();
        while let Some(authorizer) = rest.next() {
            match authorizer.authorize(request) {
                Authorization::Decided(decision) => {
                    if let Some(decision) = opinions.add(decision) {
                        return decision.into();
                    }
                }
                Authorization::Pending(first) => {
                    return Authorization::Pending(Box::pin(async move {
                        if let Some(decision) = opinions.add(first.await) {
                            return decision;
                        }
                        for authorizer in rest {
                            if let Some(decision) = opinions.add(authorizer.authorize(request).decide().await) {
                                return decision;
                            }
                        }
                        opinions.none()
                    }));
                }
            }
        }
        opinions.none().into()
    }

    fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        all_rules(self.iter().map(|authorizer| authorizer.rules_for(user, namespace)))
    }
}

/// Returns the rules of all authorizers.
fn all_rules(of_each: impl Iterator<Item = UserRules>) -> UserRules {
    let mut all = UserRules::default();
    let mut errors = Vec::new();
    for UserRules { rules, is_incomplete, error } in of_each {
        all.rules.extend(rules);
        all.is_incomplete |= is_incomplete;
        errors.extend(error);
    }
    all.error = (!errors.is_empty()).then(|| rbac::aggregate(errors.into_iter()));
    all
}

/// Results of the authorizers that were consulted so far.
#[derive(Default)]
struct Opinions {
    reasons: Vec<Arc<str>>,
    errors: Vec<String>,
}

impl Opinions {
    /// Adds a decision; returns the final one if it is an opinion.
    fn add(&mut self, mut decision: Decision) -> Option<Decision> {
        self.errors.extend(decision.error.take());
        if decision.verdict != Verdict::NoOpinion {
            return Some(Decision { error: self.error(), ..decision });
        }
        if !decision.reason.is_empty() {
            self.reasons.push(decision.reason);
        }
        None
    }

    fn none(&mut self) -> Decision {
        Decision { error: self.error(), ..Decision::no_opinion(self.reasons.join("\n")) }
    }

    /// Returns the errors as one, in the form of Go's aggregates.
    fn error(&mut self) -> Option<String> {
        match &mut self.errors[..] {
            [] => None,
            [one] => Some(std::mem::take(one)),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }
}

/// Allows everything to members of the group `system:masters`, and has no opinion about others.
pub struct MastersOnly;

impl Authorizer for MastersOnly {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        if request.user.is_master() { Decision::allow("") } else { Decision::no_opinion("") }.into()
    }

    fn rules_for(&self, _: &User, _: &str) -> UserRules {
        UserRules::default()
    }
}

impl<'a> Action<'a> {
    pub(crate) fn of(verb: Verb, target: &ResourceRequest<'a>, query: &'a Query<'a>) -> Self {
        let selects = matches!(verb, Verb::List | Verb::Watch | Verb::DeleteCollection) && !target.old_watch;
        let selector = |name| if selects { query.text(name) } else { "" };
        let field_selector = selector("fieldSelector");
        let selected = if verb == Verb::DeleteCollection { None } else { permission::selected_name(field_selector) };
        Self::Resource(ResourceAction {
            verb: verb.as_str(),
            group: target.group,
            version: target.version,
            resource: target.resource,
            subresource: target.subresource,
            namespace: target.namespace,
            name: if target.name.is_empty() { selected.unwrap_or_default() } else { target.name },
            field_selector,
            label_selector: selector("labelSelector"),
        })
    }
}

/// 403 worded as in kube-apiserver, with the reason of the authorizer. What users choose must not look like HTML.
pub(crate) fn forbidden(request: &Attributes<'_>, reason: &str) -> ApiError {
    let user = quote(&request.user.name);
    let message = match &request.action {
        Action::Path { verb, path } => format!("User {user} cannot {verb} path {}", quote(path)),
        Action::Resource(ResourceAction { verb, group, resource, subresource, namespace, .. }) => {
            let slash = if subresource.is_empty() { "" } else { "/" };
            let what = quote(&format!("{resource}{slash}{subresource}"));
            let scope = match *namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quote(namespace)),
            };
            format!("User {user} cannot {verb} resource {what} in API group {} {scope}", quote(group))
        }
    };
    let mut message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    let error = match &request.action {
        Action::Path { .. } => ApiError::new(http::StatusCode::FORBIDDEN, "Forbidden", format!("forbidden: {message}"))
            .with_details(serde_json::Map::new()),
        Action::Resource(ResourceAction { group, resource, name, .. }) => {
            ApiError::forbidden(resource, group, name, &message)
        }
    };
    ApiError { no_sniff: true, ..error }
}
