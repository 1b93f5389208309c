//! CEL conditions on a SubjectAccessReview: the `matchConditions` of webhook authorizers.
//!
//! An expression can use `request`, the spec of the review.

use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;

use crate::checker::{Environment, TypeProvider};
use crate::condition;
use crate::interpreter::{Bindings, Program};
use crate::rules::PER_CALL_LIMIT;
use crate::types::Type;
use crate::value::Value;

/// A compiled condition.
#[derive(Debug)]
pub struct ReviewCondition {
    text: String,
    program: Program,
}

impl ReviewCondition {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Returns kube-apiserver's error for an invalid expression.
    pub fn compile(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), program: condition::compile(text, &ENVIRONMENT)? })
    }

    /// Evaluates the condition for the spec of a review, whose fields are all present.
    ///
    /// # Errors
    /// Returns an error if the evaluation fails.
    pub fn matches(&self, spec: &Json) -> Result<bool, String> {
        let bindings = Bindings::new().with("request", Value::untyped(spec));
        let failed =
            |error: String| format!("cel evaluation error: expression '{}' resulted in error: {error}", self.text);
        let value =
            self.program.eval(&bindings, Some(PER_CALL_LIMIT)).result.map_err(|error| failed(error.to_string()))?;
        value.as_bool().ok_or_else(|| failed("the result is not a bool".to_owned()))
    }
}

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::standard_kubernetes()
        .clone()
        .with_provider(Arc::new(ReviewTypes))
        .with_variable("request", Type::object("kubernetes.SubjectAccessReviewSpec"))
});

/// The types of `request`.
struct ReviewTypes;

const OBJECTS: &[&str] = &[
    "kubernetes.FieldSelectorAttributes",
    "kubernetes.LabelSelectorAttributes",
    "kubernetes.NonResourceAttributes",
    "kubernetes.ResourceAttributes",
    "kubernetes.SelectorRequirement",
    "kubernetes.SubjectAccessReviewSpec",
];

impl TypeProvider for ReviewTypes {
    fn find_type(&self, name: &str) -> Option<Type> {
        OBJECTS.contains(&name).then(|| Type::object(name))
    }

    fn find_field(&self, object: &str, field: &str) -> Option<Type> {
        let object_type = |name: &str| Type::object(&format!("kubernetes.{name}"));
        let texts = || Type::list(Type::String);
        Some(match (object.strip_prefix("kubernetes.")?, field) {
            ("SubjectAccessReviewSpec", "resourceAttributes") => object_type("ResourceAttributes"),
            ("SubjectAccessReviewSpec", "nonResourceAttributes") => object_type("NonResourceAttributes"),
            ("SubjectAccessReviewSpec", "user" | "uid") => Type::String,
            ("SubjectAccessReviewSpec", "groups") => texts(),
            ("SubjectAccessReviewSpec", "extra") => Type::map(Type::String, texts()),
            (
                "ResourceAttributes",
                "namespace" | "verb" | "group" | "version" | "resource" | "subresource" | "name",
            ) => Type::String,
            ("ResourceAttributes", "fieldSelector") => object_type("FieldSelectorAttributes"),
            ("ResourceAttributes", "labelSelector") => object_type("LabelSelectorAttributes"),
            ("FieldSelectorAttributes" | "LabelSelectorAttributes", "rawSelector") => Type::String,
            ("FieldSelectorAttributes" | "LabelSelectorAttributes", "requirements") => {
                Type::list(object_type("SelectorRequirement"))
            }
            ("SelectorRequirement", "key" | "operator") => Type::String,
            ("SelectorRequirement", "values") => texts(),
            ("NonResourceAttributes", "path" | "verb") => Type::String,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(text: &str) -> Result<bool, String> {
        let spec = json!({
            "user": "jane", "uid": "", "groups": ["a"], "extra": {},
            "resourceAttributes": {
                "namespace": "kube-system", "verb": "list", "group": "", "version": "v1", "resource": "pods",
                "subresource": "", "name": "",
                "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n"]}]},
            },
        });
        ReviewCondition::compile(text)?.matches(&spec)
    }

    #[test]
    fn conditions_can_use_the_attributes_of_a_review() {
        for (text, expected) in [
            ("request.user == 'jane' && 'a' in request.groups", true),
            ("has(request.resourceAttributes)", true),
            ("has(request.nonResourceAttributes)", false),
            ("request.resourceAttributes.namespace == 'kube-system'", true),
            ("request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'spec.nodeName')", true),
            ("has(request.resourceAttributes.labelSelector)", false),
        ] {
            assert_eq!(matches(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_match_kube_apiserver() {
        assert_eq!(matches("'x'"), Err("must evaluate to bool but got string".to_owned()));
        assert!(matches("request.nothing == 1").unwrap_err().contains("undefined field 'nothing'"));
        let missing = "request.nonResourceAttributes.path == '/'";
        let why = "cel evaluation error: expression 'request.nonResourceAttributes.path == '/'' resulted in error: no \
                   such key: nonResourceAttributes";
        assert_eq!(matches(missing), Err(why.to_owned()));
    }
}
