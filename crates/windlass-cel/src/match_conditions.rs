//! CEL conditions on an admission request: the `matchConditions` of webhooks.
//!
//! An expression can use `object`, `oldObject` and `request`; the types of the first two are unknown at compile time.
//! `namespaceObject` is always null. `authorizer` and `authorizer.requestResource` ask the request's authorizer, see
//! [`crate::authorizer`].

use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;

use crate::authorizer::{AuthorizationValue, Authorizer, Resource};
use crate::checker::{Environment, TypeProvider};
use crate::condition;
use crate::interpreter::{Bindings, Program};
use crate::rules::PER_CALL_LIMIT;
use crate::types::Type;
use crate::value::{Opaque, Value};

/// Maximum cost of all conditions of one webhook.
pub const CONDITIONS_BUDGET: i64 = 2_500_000;

/// A compiled condition.
#[derive(Debug)]
pub struct MatchCondition {
    text: String,
    program: Program,
}

/// The input of a condition.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The object after the request; null for a delete.
    pub object: &'a Json,
    /// The object before the request; null for a create.
    pub old_object: &'a Json,
    /// The request as sent to a webhook, without the objects.
    pub request: &'a Json,
    /// The authorizer, and the resource of the request; without one, conditions that use it fail.
    pub authorizer: Option<(&'a Arc<dyn Authorizer>, &'a Resource)>,
}

impl MatchCondition {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Returns kube-apiserver's error for an invalid expression.
    pub fn compile(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), program: condition::compile(text, &ENVIRONMENT)? })
    }

    /// Returns whether the condition asks the authorizer.
    pub fn uses_authorizer(&self) -> bool {
        self.program.variables().any(|name| name.starts_with("authorizer"))
    }

    /// Evaluates the condition. Its cost is subtracted from the budget.
    ///
    /// # Errors
    /// Returns an error if the evaluation fails.
    pub fn matches(&self, about: Request<'_>, budget: &mut i64) -> Result<bool, String> {
        let mut bindings = Bindings::new()
            .with("object", Value::untyped(about.object))
            .with("oldObject", Value::untyped(about.old_object))
            .with("request", Value::untyped(about.request))
            .with("namespaceObject", Value::Null);
        if let Some((authorizer, resource)) = about.authorizer
            && self.uses_authorizer()
        {
            let value = |value| Value::opaque(Opaque::Authorization(value));
            bindings.set("authorizer", value(AuthorizationValue::of(authorizer.clone())));
            let check = AuthorizationValue::of_resource(authorizer.clone(), resource.clone());
            bindings.set("authorizer.requestResource", value(check));
        }
        let evaluation = self.program.eval(&bindings, Some(PER_CALL_LIMIT));
        *budget = budget.saturating_sub(i64::try_from(evaluation.cost).unwrap_or(i64::MAX));
        if *budget < 0 {
            return Err("validation failed due to running out of cost budget, no further validation rules will be run"
                .to_owned());
        }
        let failed = |error: String| format!("expression '{}' resulted in error: {error}", self.text);
        let value = evaluation.result.map_err(|error| failed(error.to_string()))?;
        value.as_bool().ok_or_else(|| failed("the result is not a bool".to_owned()))
    }
}

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::standard_kubernetes()
        .clone()
        .with_provider(Arc::new(RequestTypes))
        .with_variable("object", Type::Dyn)
        .with_variable("oldObject", Type::Dyn)
        .with_variable("request", Type::object("kubernetes.AdmissionRequest"))
        .with_variable("namespaceObject", Type::object("kubernetes.Namespace"))
        .with_variable("authorizer", Type::object("kubernetes.authorization.Authorizer"))
        .with_variable("authorizer.requestResource", Type::object("kubernetes.authorization.ResourceCheck"))
});

/// The types of `request` and `namespaceObject`.
struct RequestTypes;

const OBJECTS: &[&str] = &[
    "kubernetes.AdmissionRequest",
    "kubernetes.GroupVersionKind",
    "kubernetes.GroupVersionResource",
    "kubernetes.Namespace",
    "kubernetes.NamespaceCondition",
    "kubernetes.NamespaceMetadata",
    "kubernetes.NamespaceSpec",
    "kubernetes.NamespaceStatus",
    "kubernetes.UserInfo",
];

impl TypeProvider for RequestTypes {
    fn find_type(&self, name: &str) -> Option<Type> {
        OBJECTS.contains(&name).then(|| Type::object(name))
    }

    fn find_field(&self, object: &str, field: &str) -> Option<Type> {
        let object_type = |name: &str| Type::object(&format!("kubernetes.{name}"));
        let texts = || Type::list(Type::String);
        let text_map = || Type::map(Type::String, Type::String);
        Some(match (object.strip_prefix("kubernetes.")?, field) {
            ("AdmissionRequest", "kind" | "requestKind") => object_type("GroupVersionKind"),
            ("AdmissionRequest", "resource" | "requestResource") => object_type("GroupVersionResource"),
            ("AdmissionRequest", "subResource" | "requestSubResource" | "name" | "namespace" | "operation") => {
                Type::String
            }
            ("AdmissionRequest", "userInfo") => object_type("UserInfo"),
            ("AdmissionRequest", "dryRun") => Type::Bool,
            ("AdmissionRequest", "options") => Type::Dyn,
            ("GroupVersionKind", "group" | "version" | "kind") => Type::String,
            ("GroupVersionResource", "group" | "version" | "resource") => Type::String,
            ("UserInfo", "username" | "uid") => Type::String,
            ("UserInfo", "groups") => texts(),
            ("UserInfo", "extra") => Type::map(Type::String, texts()),
            ("Namespace", "metadata") => object_type("NamespaceMetadata"),
            ("Namespace", "spec") => object_type("NamespaceSpec"),
            ("Namespace", "status") => object_type("NamespaceStatus"),
            ("NamespaceMetadata", "name" | "generateName" | "namespace" | "UID" | "resourceVersion") => Type::String,
            ("NamespaceMetadata", "labels" | "annotations") => text_map(),
            ("NamespaceMetadata", "creationTimestamp" | "deletionTimestamp") => Type::Timestamp,
            ("NamespaceMetadata", "deletionGracePeriodSeconds" | "generation") => Type::Int,
            ("NamespaceMetadata" | "NamespaceSpec", "finalizers") => texts(),
            ("NamespaceStatus", "conditions") => Type::list(object_type("NamespaceCondition")),
            ("NamespaceStatus", "phase") => Type::String,
            ("NamespaceCondition", "status" | "type" | "message" | "reason") => Type::String,
            ("NamespaceCondition", "lastTransitionTime") => Type::Timestamp,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authorizer::{Check, Decision, Target};

    /// Allows to list pods, and to get the path `/x`; the decision about watches is pending.
    #[derive(Debug)]
    struct PodsOnly;

    impl Authorizer for PodsOnly {
        fn decide(&self, check: &Check) -> Option<Decision> {
            let allowed = match &check.target {
                Target::Path(path) => path == "/x" && check.verb == "get",
                Target::Resource(pods) => pods.resource == "pods" && check.verb == "list",
            };
            let who =
                check.account.as_ref().map_or("user".to_owned(), |(namespace, name)| format!("{namespace}/{name}"));
            let error = (check.verb == "fail").then(|| "no idea".to_owned());
            (check.verb != "watch").then(|| Decision { allowed, reason: format!("asked about {who}"), error })
        }
    }

    fn matches(text: &str) -> Result<bool, String> {
        let pods = Resource { resource: "pods".to_owned(), ..Resource::default() };
        let request = json!({"operation": "UPDATE", "userInfo": {"username": "jane", "groups": ["a"]}});
        let about = Request {
            object: &json!({"spec": {"open": true}}),
            old_object: &json!({"spec": {"open": false}}),
            request: &request,
            authorizer: Some((&(Arc::new(PodsOnly) as Arc<dyn Authorizer>), &pods)),
        };
        MatchCondition::compile(text)?.matches(about, &mut CONDITIONS_BUDGET.clone())
    }

    #[test]
    fn conditions_can_use_the_objects_and_the_request() {
        assert_eq!(matches("object.spec.open && !oldObject.spec.open"), Ok(true));
        assert_eq!(matches("request.userInfo.username == 'jane' && 'a' in request.userInfo.groups"), Ok(true));
        assert_eq!(matches("request.operation == 'CREATE'"), Ok(false));
        assert_eq!(matches("has(request.namespace)"), Ok(false));
        assert_eq!(matches("oldObject == null"), Ok(false));
    }

    #[test]
    fn errors_match_kube_apiserver() {
        let failed = "expression 'object.spec.note.startsWith('x')' resulted in error: no such key: note";
        assert_eq!(matches("object.spec.note.startsWith('x')"), Err(failed.to_owned()));
        assert_eq!(matches("'text'"), Err("must evaluate to bool but got string".to_owned()));
        assert_eq!(matches("object.spec.open"), Err("must evaluate to bool but got dyn".to_owned()));
        assert!(matches("request.nothing == 1").unwrap_err().contains("undefined field 'nothing'"));
    }

    #[test]
    fn conditions_can_ask_the_authorizer() {
        for (text, expected) in [
            ("authorizer.path('/x').check('get').allowed()", true),
            ("authorizer.path('/y').check('get').allowed()", false),
            ("authorizer.group('').resource('pods').namespace('a').name('b').check('list').allowed()", true),
            ("authorizer.group('').resource('pods').subresource('log').check('get').allowed()", false),
            ("authorizer.requestResource.check('list').allowed()", true),
            ("authorizer.requestResource.fieldSelector('a=b').labelSelector('c').check('get').allowed()", false),
            ("authorizer.requestResource.check('list').reason() == 'asked about user'", true),
            ("authorizer.serviceAccount('a', 'b').path('/x').check('get').reason() == 'asked about a/b'", true),
            ("authorizer.requestResource.check('fail').errored()", true),
            ("authorizer.requestResource.check('fail').error() == 'no idea'", true),
            ("authorizer.requestResource.check('list').error() == ''", true),
            // A pending decision may turn out not to matter.
            ("authorizer.requestResource.check('watch').allowed() || true", true),
        ] {
            assert_eq!(matches(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn failed_checks_read_as_those_of_kube_apiserver() {
        for (text, why) in [
            ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
            ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
            ("authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()", "Invalid service account name"),
            (
                "authorizer.serviceAccount('A', 'b').path('/').check('get').allowed()",
                "Invalid service account namespace",
            ),
            ("authorizer.requestResource.check('watch').allowed()", "the authorization decision is pending"),
        ] {
            assert_eq!(matches(text), Err(format!("expression '{text}' resulted in error: {why}")));
        }
    }

    #[test]
    fn an_expression_can_afford_two_checks() {
        let check = "authorizer.path('/y').check('get').allowed()";
        assert_eq!(matches(&format!("{check} || {check}")), Ok(false));
        let limit = "operation cancelled: actual cost limit exceeded";
        assert!(matches(&format!("{check} || {check} || {check}")).unwrap_err().ends_with(limit));
    }
}
