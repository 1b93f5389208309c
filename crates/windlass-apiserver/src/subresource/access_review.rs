//! Access reviews: whether a user may perform a request, and everything that the caller may do.

mod selectors;
mod validation;

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Map, Value, json};
use windlass_schema::sorting::Gather as _;

use self::selectors::Selector;
use super::submission::Submission;
use crate::{
    authorization::{Action, Attributes, Decision, PolicyRule, ResourceAction, Verdict},
    call::{Answer, Call},
    status::{ApiError, Result},
    user::User,
};

pub(super) const GROUP: &str = "authorization.k8s.io";

/// The kinds of reviews of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Review {
    /// `SubjectAccessReview`
    Subject,
    /// `LocalSubjectAccessReview`
    Local,
    /// `SelfSubjectAccessReview`
    Own,
}

/// Handles reviews of whether a user may perform a request.
pub(super) async fn access(call: &Call<'_>, kind: Review) -> Result<Answer> {
    let submission = Submission::receive(call).await?;
    let errors = validation::validate(&submission.review, kind);
    if !errors.is_empty() {
        return Err(ApiError::invalid("", GROUP, "", &errors));
    }
    submission.admit(call).await?;
    let mut review = submission.review;
    let spec = &review["spec"];
    let other = subject(spec);
    let user = if kind == Review::Own { call.user } else { &other };
    let status = match spec.get("resourceAttributes").filter(|attributes| !attributes.is_null()) {
        Some(attributes) => {
            let fields = Selector::of_fields(&attributes["fieldSelector"]);
            let labels = Selector::of_labels(&attributes["labelSelector"]);
            let text = |field: &str| attributes[field].as_str().unwrap_or_default();
            let action = ResourceAction {
                verb: text("verb"),
                group: text("group"),
                version: Some(text("version")).filter(|version| !version.is_empty()).unwrap_or("*"),
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
                field_selector: &fields.text,
                label_selector: &labels.text,
            };
            let decision = decide(call, user, Action::Resource(action)).await;
            let ignored = [fields.ignored("fieldSelector"), labels.ignored("labelSelector")];
            status(&decision, ignored.into_iter().flatten())
        }
        None => {
            let text = |field: &str| spec["nonResourceAttributes"][field].as_str().unwrap_or_default();
            let action = Action::Path { verb: text("verb"), path: text("path") };
            status(&decide(call, user, action).await, [])
        }
    };
    review["status"] = status;
    Ok(Answer::Value { code: StatusCode::CREATED, value: review })
}

/// Handles reviews of what the caller may do in a namespace.
pub(super) async fn rules(call: &Call<'_>) -> Result<Answer> {
    let submission = Submission::receive(call).await?;
    let namespace = submission.review["spec"]["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    submission.admit(call).await?;
    let rules = call.server.authorizer.rules_for(call.user, namespace);
    let listed = |has: fn(&PolicyRule) -> bool, fields: &[&str]| -> Value {
        let listed = rules.rules.iter().filter(|rule| has(rule));
        listed.map(|rule| rule_to_value(rule, fields)).collect::<Vec<_>>().into()
    };
    let mut status = json!({
        "resourceRules": listed(
            |rule| !rule.resources.is_empty(), &["verbs", "apiGroups", "resources", "resourceNames"]
        ),
        "nonResourceRules": listed(|rule| !rule.non_resource_urls.is_empty(), &["verbs", "nonResourceURLs"]),
        "incomplete": rules.is_incomplete,
    });
    if let Some(error) = rules.error {
        status["evaluationError"] = error.into();
    }
    let mut review = submission.review;
    // The question is not repeated.
    review["metadata"] = json!({});
    review["spec"] = json!({});
    review["status"] = status;
    Ok(Answer::Value { code: StatusCode::CREATED, value: review })
}

/// Returns the user of a review, who is in no groups but the given ones.
fn subject(spec: &Value) -> User {
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let extra: BTreeMap<_, _> =
        spec["extra"].as_object().into_iter().flatten().map(|(key, values)| (key.clone(), list(values))).gather();
    User { name: text("user"), uid: text("uid"), groups: list(&spec["groups"]), extra }
}

async fn decide(call: &Call<'_>, user: &User, action: Action<'_>) -> Decision {
    let request = Attributes { user, action };
    call.server.authorizer.authorize(&request).decide().await
}

fn status(decision: &Decision, ignored: impl IntoIterator<Item = String>) -> Value {
    let mut status = json!({"allowed": decision.is_allowed()});
    if decision.verdict == Verdict::Deny {
        status["denied"] = true.into();
    }
    if !decision.reason.is_empty() {
        status["reason"] = (*decision.reason).into();
    }
    let errors: Vec<String> = decision.error.iter().cloned().chain(ignored).collect();
    if !errors.is_empty() {
        status["evaluationError"] = errors.join("; ").into();
    }
    status
}

/// Returns the given fields of a rule that are not empty.
fn rule_to_value(rule: &PolicyRule, fields: &[&str]) -> Value {
    let all = rule.fields().into_iter().filter(|(name, list)| fields.contains(name) && !list.is_empty());
    all.map(|(name, list)| (name.to_owned(), list.iter().map(|text| &**text).collect())).gather::<Map<_, _>>().into()
}
