//! CEL conditions on an admission request: the `matchConditions` of webhooks.
//!
//! An expression can use `object`, `oldObject` and `request`; the types of the first two are unknown at compile time.
//! `namespaceObject` is always null. `authorizer` and `authorizer.requestResource` ask the request's authorizer, see
//! [`crate::authorizer`].

pub use crate::policy::CONDITIONS_BUDGET;
use crate::policy::{CompileError, Compiler, Expression, Returns};

/// Compiles a condition.
///
/// # Errors
/// Returns kube-apiserver's error for an invalid expression.
pub fn compile(text: &str) -> Result<Expression, CompileError> {
    Compiler::new(false).compile(text, Returns::Bool, true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::authorizer::{Authorizer, Check, Decision, Resource, Target};
    use crate::policy::{Activation, Inputs};

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
        let authorizer = Arc::new(PodsOnly) as Arc<dyn Authorizer>;
        let inputs = Inputs {
            object: &json!({"spec": {"open": true}}),
            old_object: &json!({"spec": {"open": false}}),
            request: &request,
            namespace: &json!(null),
            params: &json!(null),
            authorizer: Some((&authorizer, &pods)),
        };
        let condition = compile(text).map_err(|error| error.to_string())?;
        Activation::new(inputs, &[]).all_hold(&[Ok(condition)], &mut CONDITIONS_BUDGET.clone())
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
    fn failed_checks_have_the_text_of_kube_apiserver() {
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
