//! SubjectAccessReviews about a request.

use serde_json::{Map, Value, json};
use windlass_schema::selector::{FieldOperator, FieldSelector, LabelSelector, Operator};
use windlass_schema::sorting::Gather as _;

use crate::authorization::{Action, Attributes, Decision, ResourceAction, Verdict};

/// Returns the review of a request.
pub(super) fn review(request: &Attributes<'_>, version: &str) -> Value {
    let user = request.user;
    let mut spec = Map::new();
    match &request.action {
        Action::Resource(action) => {
            let mut attributes = Map::new();
            for (field, text) in texts(action) {
                if !text.is_empty() {
                    attributes.insert(field.to_owned(), text.into());
                }
            }
            attributes.extend(selectors(action));
            spec.insert("resourceAttributes".to_owned(), attributes.into());
        }
        Action::Path { verb, path } => {
            spec.insert("nonResourceAttributes".to_owned(), json!({"path": path, "verb": verb}));
        }
    }
    for (field, text) in [("user", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            spec.insert(field.to_owned(), text.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        let field = if version == "v1beta1" { "group" } else { "groups" };
        spec.insert(field.to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(user.extra));
    }
    json!({
        "kind": "SubjectAccessReview", "apiVersion": format!("authorization.k8s.io/{version}"),
        "metadata": {}, "spec": spec, "status": {"allowed": false},
    })
}

/// Returns the `request` of match conditions: the spec of a v1 review, in which empty fields are present.
pub(super) fn condition_input(request: &Attributes<'_>) -> Value {
    let user = request.user;
    let mut spec = json!({"user": user.name, "groups": user.groups, "uid": user.uid, "extra": user.extra});
    match &request.action {
        Action::Resource(action) => {
            let mut attributes: Map<String, Value> =
                texts(action).into_iter().map(|(field, text)| (field.to_owned(), text.into())).gather();
            attributes.extend(selectors(action));
            spec["resourceAttributes"] = attributes.into();
        }
        Action::Path { verb, path } => spec["nonResourceAttributes"] = json!({"path": path, "verb": verb}),
    }
    spec
}

fn texts<'a>(action: &ResourceAction<'a>) -> [(&'static str, &'a str); 7] {
    [
        ("namespace", action.namespace),
        ("verb", action.verb),
        ("group", action.group),
        ("version", action.version),
        ("resource", action.resource),
        ("subresource", action.subresource),
        ("name", action.name),
    ]
}

/// Returns the requirements of the selectors. Selectors that cannot be parsed are left out: the request selects more
/// than they say.
fn selectors(action: &ResourceAction<'_>) -> Vec<(String, Value)> {
    let fields = FieldSelector::parse(action.field_selector).unwrap_or_default();
    let fields = fields.terms().iter().map(|term| {
        let operator = if term.operator == FieldOperator::Equals { "In" } else { "NotIn" };
        json!({"key": term.field, "operator": operator, "values": [term.value]})
    });
    let labels = LabelSelector::parse(action.label_selector).unwrap_or_default();
    let labels = labels.requirements().iter().filter_map(|requirement| {
        let operator = match requirement.operator() {
            Operator::In | Operator::Equals | Operator::DoubleEquals => "In",
            Operator::NotIn | Operator::NotEquals => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        let mut described = json!({"key": requirement.key(), "operator": operator});
        if !requirement.values().is_empty() {
            described["values"] = json!(requirement.values());
        }
        Some(described)
    });
    let found: [(&str, Vec<Value>); 2] = [("fieldSelector", fields.collect()), ("labelSelector", labels.collect())];
    let stated = found.into_iter().filter(|(_, requirements)| !requirements.is_empty());
    stated.map(|(name, requirements)| (name.to_owned(), json!({"requirements": requirements}))).collect()
}

/// Returns the size of the attributes that the client chooses.
pub(super) fn size(request: &Attributes<'_>) -> usize {
    match &request.action {
        Action::Resource(action) => texts(action).iter().map(|(_, text)| text.len()).sum(),
        Action::Path { verb, path } => verb.len() + path.len(),
    }
}

/// Returns the decision in the status of a review.
pub(super) fn decision(status: &Value) -> Decision {
    let reason = status["reason"].as_str().unwrap_or_default();
    let (allowed, denied) = (status["allowed"] == true, status["denied"] == true);
    let error =
        (allowed && denied).then(|| "webhook subject access review returned both allow and deny response".to_owned());
    let verdict = match (allowed, denied) {
        (_, true) => Verdict::Deny,
        (true, false) => Verdict::Allow,
        (false, false) => Verdict::NoOpinion,
    };
    Decision { verdict, reason: reason.into(), error }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::user::User;

    fn list_pods(user: &User) -> Attributes<'_> {
        let action = ResourceAction {
            verb: "list",
            version: "v1",
            resource: "pods",
            namespace: "default",
            field_selector: "spec.nodeName=n,status.phase!=Failed",
            label_selector: "app in (b,a),!old,size>3",
            ..ResourceAction::default()
        };
        Attributes { user, action: Action::Resource(action) }
    }

    #[test]
    fn reviews_have_the_attributes_of_the_request() {
        let user = User { uid: "7".to_owned(), ..User::node("n") };
        expect![[r#"{"groups":["system:nodes","system:authenticated"],"resourceAttributes":{"fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"In","values":["n"]},{"key":"status.phase","operator":"NotIn","values":["Failed"]}]},"labelSelector":{"requirements":[{"key":"app","operator":"In","values":["a","b"]},{"key":"old","operator":"DoesNotExist"}]},"namespace":"default","resource":"pods","verb":"list","version":"v1"},"uid":"7","user":"system:node:n"}"#]]
            .assert_eq(&review(&list_pods(&user), "v1")["spec"].to_string());
        let old = review(&list_pods(&user), "v1beta1");
        assert_eq!(old["apiVersion"], "authorization.k8s.io/v1beta1");
        assert_eq!(old["spec"]["group"], json!(["system:nodes", "system:authenticated"]));
        let path = Attributes { user: &user, action: Action::Path { verb: "get", path: "/version" } };
        assert_eq!(review(&path, "v1")["spec"]["nonResourceAttributes"], json!({"path": "/version", "verb": "get"}));
    }

    #[test]
    fn conditions_see_empty_fields() {
        let user = User::anonymous();
        let input = condition_input(&list_pods(&user));
        assert_eq!(input["resourceAttributes"]["group"], "");
        assert_eq!(input["extra"], json!({}));
        assert_eq!(input["nonResourceAttributes"], Value::Null);
    }

    #[test]
    fn a_denial_outweighs_a_permission() {
        assert_eq!(decision(&json!({"allowed": true, "reason": "r"})), Decision::allow("r"));
        assert_eq!(decision(&json!({"allowed": false, "denied": true, "reason": "r"})), Decision::deny("r"));
        assert_eq!(decision(&json!({"allowed": false, "reason": "r"})), Decision::no_opinion("r"));
        let both = decision(&json!({"allowed": true, "denied": true}));
        assert_eq!(both.verdict, Verdict::Deny);
        assert!(both.error.is_some());
    }
}
