//! Compiled policies and bindings.

use std::sync::Arc;

use serde_json::Value;
use windlass_cel::{
    interpreter::ComposedVariable,
    policy::{CompileError, Compiler, Expression, Returns, uses},
};
use windlass_store::Revision;

use super::{
    list,
    params::{ParamKind, ParamRef},
};
use crate::{meta, storage::StoredObject, webhooks::Criteria};

/// A policy with its bindings, at least one.
pub(super) struct Bound<E> {
    pub(super) policy: Arc<Policy<E>>,
    pub(super) bindings: Vec<Arc<Binding>>,
}

/// The part of a policy that decides or changes something.
pub(super) trait Evaluator: Sized {
    /// Compiles it from the specification of a policy.
    fn compile(spec: &Value, compiler: &Compiler) -> Self;
    /// Returns its expressions.
    fn expressions(&self) -> Vec<&Expression>;
}

/// A compiled policy with its bindings.
pub(super) struct Policy<E> {
    pub(super) name: String,
    /// UID and generation of the object that it was compiled from.
    pub(super) version: (String, i64),
    pub(super) criteria: Criteria,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) ignores_failure: bool,
    pub(super) conditions: Vec<Result<Expression, CompileError>>,
    pub(super) variables: Vec<ComposedVariable>,
    pub(super) uses: Uses,
    pub(super) evaluator: E,
}

/// The inputs that expressions of a policy use, and that take time to compute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uses {
    pub(super) request: bool,
    pub(super) namespace: bool,
    pub(super) authorizer: bool,
}

impl<E: Evaluator> Policy<E> {
    pub(super) fn new(value: &Value, version: (String, i64)) -> Self {
        let spec = &value["spec"];
        let param_kind = ParamKind::new(&spec["paramKind"]);
        let mut compiler = Compiler::new(param_kind.is_some()).with_variables();
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let variables: Vec<ComposedVariable> = list(spec, "variables")
            .map(|variable| {
                let name = text(variable, "name");
                let compiled = compiler.variable(&name, &text(variable, "expression"));
                compiled.unwrap_or_else(|error| ComposedVariable { name, program: Err(error.to_string()) })
            })
            .collect();
        let condition = |condition: &Value| compiler.compile(&text(condition, "expression"), Returns::Bool, true);
        let conditions: Vec<_> = list(spec, "matchConditions").map(condition).collect();
        let evaluator = E::compile(spec, &compiler);
        let used = |name: &str| {
            variables.iter().filter_map(|variable| variable.program.as_ref().ok()).any(|program| uses(program, name))
                || conditions.iter().flatten().any(|condition| condition.uses(name))
                || evaluator.expressions().iter().any(|expression| expression.uses(name))
        };
        let uses =
            Uses { request: used("request"), namespace: used("namespaceObject"), authorizer: used("authorizer") };
        Self {
            name: meta::text(value, "name").to_owned(),
            version,
            criteria: Criteria::of_match_resources(&spec["matchConstraints"]),
            param_kind,
            ignores_failure: spec["failurePolicy"] == "Ignore",
            conditions,
            variables,
            uses,
            evaluator,
        }
    }
}

/// A binding of a policy.
pub(super) struct Binding {
    pub(super) name: String,
    /// The revision at which it was written.
    pub(super) revision: Revision,
    /// The name of the policy.
    pub(super) policy: String,
    pub(super) criteria: Option<Criteria>,
    pub(super) param_ref: Option<ParamRef>,
    /// Actions if a validation fails.
    pub(super) actions: Vec<Action>,
}

/// The consequence of a failed validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Deny,
    Warn,
    Audit,
}

impl Action {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

impl Binding {
    pub(super) fn new(object: &StoredObject) -> Self {
        let value = object.to_value();
        let spec = &value["spec"];
        let action = |action: &Value| match action.as_str()? {
            "Deny" => Some(Action::Deny),
            "Warn" => Some(Action::Warn),
            "Audit" => Some(Action::Audit),
            _ => None,
        };
        let resources = &spec["matchResources"];
        Self {
            name: object.header.name.to_string(),
            revision: object.revision,
            policy: spec["policyName"].as_str().unwrap_or_default().to_owned(),
            criteria: (!resources.is_null()).then(|| Criteria::of_match_resources(resources)),
            param_ref: ParamRef::new(&spec["paramRef"]),
            actions: list(spec, "validationActions").filter_map(action).collect(),
        }
    }
}
