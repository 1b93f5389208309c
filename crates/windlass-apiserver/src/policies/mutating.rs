//! Mutating policies: apply their mutations to the object of a request.

mod patch;

use std::{sync::Arc, time::Instant};

use serde_json::Value;
use windlass_cel::policy::{
    Activation, CONDITIONS_BUDGET, CompileError, Compiler, Expression, Inputs, POLICY_BUDGET, Returns,
};

use self::patch::{Patch, patched};
use super::{
    ActivePolicies, PolicyRounds,
    compiled::{Binding, Bound, Evaluator, Policy},
    failure::{self, Failed},
    inputs::{NULL, Shared},
    list,
    metrics::Check,
    params,
    rounds::InvocationKey,
};
use crate::{
    call::Call,
    endpoint::Endpoint,
    meta,
    status::{ApiError, Result},
    webhooks::{Subject, Versions, request},
};

/// The mutations of a policy.
pub(super) struct Mutations {
    mutations: Vec<Mutation>,
    /// Whether it runs again if a later mutation changes the object.
    is_reinvoked: bool,
}

/// A mutation.
struct Mutation {
    returns: Returns,
    expression: Result<Expression, CompileError>,
}

impl Evaluator for Mutations {
    fn compile(spec: &Value, compiler: &Compiler) -> Self {
        let mutation = |mutation: &Value| {
            let (field, returns) = match mutation["patchType"].as_str() {
                Some("JSONPatch") => ("jsonPatch", Returns::JsonPatch),
                _ => ("applyConfiguration", Returns::ApplyConfiguration),
            };
            let text = mutation[field]["expression"].as_str().unwrap_or_default();
            Mutation { returns, expression: compiler.compile(text, returns, true) }
        };
        Self {
            mutations: list(spec, "mutations").map(mutation).collect(),
            is_reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
        }
    }

    fn expressions(&self) -> Vec<&Expression> {
        self.mutations.iter().filter_map(|mutation| mutation.expression.as_ref().ok()).collect()
    }
}

/// A policy with a binding and parameters that match a request.
struct Invocation<'p> {
    policy: &'p Policy<Mutations>,
    binding: &'p Binding,
    endpoint: Arc<Endpoint>,
    params: Arc<Value>,
}

impl Invocation<'_> {
    fn key(&self) -> InvocationKey {
        let params = format!("{}/{}", meta::text(&self.params, "namespace"), meta::text(&self.params, "name"));
        (self.policy.name.clone(), self.binding.name.clone(), params)
    }
}

/// The failures of the policies that do not ignore them.
#[derive(Default)]
struct Failures(Vec<Failed>);

impl Failures {
    fn misconfigured(&mut self, policy: &Policy<Mutations>, binding: Option<&Binding>, why: &str) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.add(policy, binding, &format!("failed to configure {what}: {why}"), "Forbidden");
    }

    fn add(&mut self, policy: &Policy<Mutations>, binding: Option<&Binding>, why: &str, reason: &'static str) {
        if policy.ignores_failure {
            return;
        }
        let name = &policy.name;
        let message = match binding {
            Some(binding) => format!("policy '{name}' with binding '{}' denied request: {why}", binding.name),
            None => format!("policy {name:?} denied request: {why}"),
        };
        self.0.push(Failed { message, reason });
    }
}

impl ActivePolicies {
    /// Runs a round of the mutating policies.
    pub(crate) async fn mutate(
        &self,
        call: &Call<'_>,
        subject: &Subject<'_>,
        object: &mut Value,
        old: Option<&Value>,
        rounds: &mut PolicyRounds,
    ) -> Result<()> {
        if self.mutating.is_empty() {
            return Ok(());
        }
        let mut failures = Failures::default();
        let mut invocations = Vec::new();
        for bound in &self.mutating {
            bound.invocations(call, subject, object, old.unwrap_or(&NULL), &mut invocations, &mut failures).await;
        }
        if !invocations.is_empty() {
            rounds.begin(object);
            let versions = Versions::new(call, object.take(), old.unwrap_or(&NULL));
            *object = run(call, subject, versions, &invocations, rounds, &mut failures).await?;
            rounds.end(object);
        }
        match failure::failed(call, subject, object, &failures.0) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Bound<Mutations> {
    /// Adds the invocations of a policy that match a request, as it is before any policy changes it.
    async fn invocations<'p>(
        &'p self,
        call: &Call<'_>,
        subject: &Subject<'_>,
        object: &Value,
        old: &Value,
        invocations: &mut Vec<Invocation<'p>>,
        failures: &mut Failures,
    ) {
        let policy = &*self.policy;
        let endpoint = match policy.criteria.version_for(call, subject, object, old) {
            Ok(Some(endpoint)) => endpoint,
            Ok(None) => return,
            Err(error) => return failures.misconfigured(policy, None, &error.message),
        };
        let kind = policy.param_kind.as_ref().map(|kind| kind.resolve(&call.server.registry.load())).transpose();
        let kind = match kind {
            Ok(kind) => kind,
            Err(why) => return failures.misconfigured(policy, None, &why),
        };
        for binding in &self.bindings {
            let matches = binding.criteria.as_ref().map(|criteria| criteria.matches(call, subject, object, old));
            match matches.unwrap_or(Ok(true)) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    failures.misconfigured(policy, Some(binding), &error.message);
                    continue;
                }
            }
            match params::collect(call, policy.param_kind.as_ref(), kind.as_ref(), binding.param_ref.as_ref()).await {
                Ok(params) => invocations.extend(params.into_iter().map(|params| Invocation {
                    policy,
                    binding,
                    endpoint: endpoint.clone(),
                    params,
                })),
                Err(why) => failures.misconfigured(policy, Some(binding), &why),
            }
        }
    }
}

/// Runs invocations one after the other; returns the object in the version of the request.
async fn run(
    call: &Call<'_>,
    subject: &Subject<'_>,
    mut versions: Versions<'_>,
    invocations: &[Invocation<'_>],
    rounds: &mut PolicyRounds,
    failures: &mut Failures,
) -> Result<Value> {
    let mut shared = Shared::default();
    let mut any = false;
    for invocation in invocations {
        let Invocation { policy, binding, endpoint, .. } = invocation;
        versions.convert(endpoint).await?;
        shared.prepare(call, subject, policy.uses)?;
        let running = Running { call, subject, invocation, shared: &shared };
        match running.conditions_hold(&versions).await {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                failures.add(policy, Some(binding), &why, "Invalid");
                continue;
            }
        }
        let key = invocation.key();
        if !rounds.includes(&key) {
            continue;
        }
        let mut changed = false;
        // A connection or deletion may have no object to change.
        let mutations = if versions.object().is_null() { &[] } else { &*policy.evaluator.mutations };
        for mutation in mutations {
            let begin = Instant::now();
            let outcome = running.apply(mutation, &mut versions).await;
            let error = match &outcome {
                Ok(_) => "no_error",
                Err(failure) => failure.error_type(),
            };
            let check = Check { policy: &policy.name, binding: &binding.name, error, action: "" };
            call.server.policies.metrics.mutating.observe(check, begin.elapsed());
            match outcome {
                Ok(differs) => (any, changed) = (true, changed || differs),
                Err(Failure::Answer(error)) => return Err(*error),
                Err(Failure::Policy(why)) => failures.add(policy, Some(binding), &why, "Invalid"),
            }
        }
        if changed {
            rounds.note_change();
        }
        if policy.evaluator.is_reinvoked {
            rounds.note_run(key);
        }
    }
    // Every patch counts as a change here, as in kube-apiserver.
    if any {
        rounds.note_change();
    }
    versions.finish().await
}

/// Reasons why a mutation could not be applied.
enum Failure {
    /// The response to the request, regardless of the failure policy.
    Answer(Box<ApiError>),
    /// The failure policy decides.
    Policy(String),
}

impl Failure {
    fn error_type(&self) -> &'static str {
        match self {
            Self::Policy(why) if why.starts_with("compilation") => "compile_error",
            Self::Policy(why) if why.starts_with("validation failed due to running out of cost budget") => {
                "out_of_budget"
            }
            _ => "invalid_error",
        }
    }
}

/// An invocation and the inputs of its expressions.
struct Running<'a> {
    call: &'a Call<'a>,
    subject: &'a Subject<'a>,
    invocation: &'a Invocation<'a>,
    shared: &'a Shared,
}

impl Running<'_> {
    /// Runs an evaluation on the object, and repeats it if the authorizer had to wait for a decision.
    async fn evaluate<T>(&self, versions: &Versions<'_>, work: impl Fn(Inputs<'_>) -> T) -> T {
        let uses = self.invocation.policy.uses;
        let request = if uses.request { request(self.call, self.subject, versions.endpoint()) } else { Value::Null };
        loop {
            let outcome = work(Inputs {
                object: versions.object(),
                old_object: versions.old(),
                request: &request,
                namespace: self.shared.namespace(),
                params: &self.invocation.params,
                authorizer: self.shared.authorizer(),
            });
            if !uses.authorizer || !self.shared.resolve().await {
                return outcome;
            }
        }
    }

    /// Returns whether the match conditions hold.
    async fn conditions_hold(&self, versions: &Versions<'_>) -> Result<bool, String> {
        let policy = self.invocation.policy;
        if policy.conditions.is_empty() {
            return Ok(true);
        }
        let outcome = self.evaluate(versions, |inputs| {
            // Conditions do not see the namespace.
            let activation = Activation::new(Inputs { namespace: &Value::Null, ..inputs }, &policy.variables);
            activation.all_hold(&policy.conditions, &mut CONDITIONS_BUDGET.clone())
        });
        match outcome.await {
            Err(_) if policy.ignores_failure => Ok(false),
            outcome => outcome,
        }
    }

    /// Applies a mutation; returns whether the object differs after it.
    async fn apply(&self, mutation: &Mutation, versions: &mut Versions<'_>) -> Result<bool, Failure> {
        let variables = &self.invocation.policy.variables;
        let expression = mutation.expression.as_ref().map_err(|error| Failure::Policy(error.to_string()))?;
        let evaluated = self.evaluate(versions, |inputs| {
            let activation = Activation::new(inputs, variables);
            let value = activation.evaluate(expression, &mut POLICY_BUDGET.clone());
            Patch::new(&value.map_err(|error| error.to_string())??, mutation.returns)
        });
        let patch = evaluated.await.map_err(Failure::Policy)?;
        let strict = matches!(patch, Patch::Json(_));
        match patched(self.call, versions, patch).map_err(Failure::Policy)? {
            Some(object) => versions.replace(object, strict).map_err(|error| Failure::Answer(Box::new(error))),
            None => Ok(false),
        }
    }
}
