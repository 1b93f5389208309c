//! Validating policies: evaluate their validations, and deny, warn about or audit requests that fail them.

mod annotations;
mod evaluate;

use serde_json::Value;
use windlass_cel::policy::{CompileError, Compiler, Expression, Inputs, Returns};

use self::{
    annotations::Collector,
    evaluate::{AnnotationOutcome, Decision, Outcome, evaluate},
};
use super::{
    ActivePolicies,
    compiled::{Action, Binding, Bound, Evaluator, Policy},
    failure,
    inputs::{NULL, Seen, Shared},
    list,
    metrics::Check,
    params,
};
use crate::{call::Call, status::Result, webhooks::Subject};

/// The validations and audit annotations of a policy.
pub(super) struct Validations {
    validations: Vec<Validation>,
    annotations: Vec<Annotation>,
}

/// A validation.
struct Validation {
    expression: Result<Expression, CompileError>,
    /// The source text of the expression.
    text: String,
    message: String,
    message_expression: Option<Result<Expression, CompileError>>,
    reason: &'static str,
}

/// An audit annotation.
struct Annotation {
    key: String,
    expression: Result<Expression, CompileError>,
}

impl Evaluator for Validations {
    fn compile(spec: &Value, compiler: &Compiler) -> Self {
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let validation = |validation: &Value| {
            let message_expression = text(validation, "messageExpression");
            Validation {
                expression: compiler.compile(&text(validation, "expression"), Returns::Bool, true),
                text: text(validation, "expression"),
                message: text(validation, "message"),
                message_expression: (!message_expression.is_empty())
                    .then(|| compiler.compile(&message_expression, Returns::Text, false)),
                reason: match validation["reason"].as_str() {
                    Some("Forbidden") => "Forbidden",
                    Some("Unauthorized") => "Unauthorized",
                    Some("RequestEntityTooLarge") => "RequestEntityTooLarge",
                    _ => "Invalid",
                },
            }
        };
        let annotation = |annotation: &Value| Annotation {
            key: text(annotation, "key"),
            expression: compiler.compile(&text(annotation, "valueExpression"), Returns::TextOrNull, true),
        };
        Self {
            validations: list(spec, "validations").map(validation).collect(),
            annotations: list(spec, "auditAnnotations").map(annotation).collect(),
        }
    }

    fn expressions(&self) -> Vec<&Expression> {
        let validations = self.validations.iter().flat_map(|validation| {
            let message = validation.message_expression.as_ref().and_then(|message| message.as_ref().ok());
            validation.expression.as_ref().ok().into_iter().chain(message)
        });
        let annotations = self.annotations.iter().filter_map(|annotation| annotation.expression.as_ref().ok());
        validations.chain(annotations).collect()
    }
}

/// Reason why a request is denied: the first reason counts.
struct Denial {
    message: String,
    reason: &'static str,
}

/// The state of validating one request.
struct Validating<'a> {
    call: &'a Call<'a>,
    subject: &'a Subject<'a>,
    object: &'a Value,
    old: &'a Value,
    seen: Vec<Seen<'a>>,
    shared: Shared,
    denial: Option<Denial>,
}

impl ActivePolicies {
    /// Runs the validating policies; the object is null for a deletion.
    pub(crate) async fn validate(
        &self,
        call: &Call<'_>,
        subject: &Subject<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<()> {
        let (seen, shared) = Default::default();
        let old = old.unwrap_or(&NULL);
        let mut validating = Validating { call, subject, object, old, seen, shared, denial: None };
        for bound in &self.validating {
            validating.run(bound).await?;
        }
        match validating.denial {
            None => Ok(()),
            Some(Denial { message, reason }) => Err(failure::denied(call, subject, object, &message, reason)),
        }
    }
}

impl Validating<'_> {
    /// Runs a policy with its bindings.
    async fn run(&mut self, bound: &Bound<Validations>) -> Result<()> {
        let Self { call, subject, object, old, .. } = *self;
        let policy = &*bound.policy;
        let endpoint = match policy.criteria.version_for(call, subject, object, old) {
            Ok(Some(endpoint)) => endpoint,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.misconfigured(policy, None, &error.message);
                return Ok(());
            }
        };
        let kind = policy.param_kind.as_ref().map(|kind| kind.resolve(&call.server.registry.load())).transpose();
        let kind = match kind {
            Ok(kind) => kind,
            Err(why) => {
                self.misconfigured(policy, None, &why);
                return Ok(());
            }
        };
        let mut collector = Collector::default();
        for binding in &bound.bindings {
            let matches = binding.criteria.as_ref().map(|criteria| criteria.matches(call, subject, object, old));
            match matches.unwrap_or(Ok(true)) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    self.misconfigured(policy, Some(binding), &error.message);
                    continue;
                }
            }
            let params = match params::collect(
                call,
                policy.param_kind.as_ref(),
                kind.as_ref(),
                binding.param_ref.as_ref(),
            )
            .await
            {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            if params.is_empty() {
                continue;
            }
            let position = match self.seen.iter().position(|seen| seen.is_in(&endpoint)) {
                Some(position) => position,
                None => match Seen::new(call, &endpoint, object, old).await {
                    Ok(seen) => {
                        self.seen.push(seen);
                        self.seen.len() - 1
                    }
                    Err(error) => {
                        let why = format!("failed to convert object version: {}", error.message);
                        self.misconfigured(policy, Some(binding), &why);
                        continue;
                    }
                },
            };
            self.shared.prepare(call, subject, policy.uses)?;
            for params in &params {
                let outcome = self.evaluate(policy, position, params).await;
                self.enforce(policy, binding, outcome, &mut collector);
            }
        }
        collector.publish(call, &policy.name);
        Ok(())
    }

    /// Evaluates a policy, again if the authorizer has to wait for a decision.
    async fn evaluate(&self, policy: &Policy<Validations>, position: usize, params: &Value) -> Outcome {
        let seen = &self.seen[position];
        let request = seen.request(self.call, self.subject, policy.uses);
        loop {
            let inputs = Inputs {
                object: &seen.object,
                old_object: &seen.old,
                request,
                namespace: self.shared.namespace(),
                params,
                authorizer: self.shared.authorizer(),
            };
            let outcome = evaluate(policy, inputs);
            if !policy.uses.authorizer || !self.shared.resolve().await {
                return outcome;
            }
        }
    }

    /// Enforces the outcome of a policy, by the actions of its binding.
    fn enforce(
        &mut self,
        policy: &Policy<Validations>,
        binding: &Binding,
        outcome: Outcome,
        collector: &mut Collector,
    ) {
        let metrics = &self.call.server.policies.metrics;
        let check = |decision: &Decision, action: &'static str| {
            let error = decision.error_type();
            metrics
                .validating
                .observe(Check { policy: &policy.name, binding: &binding.name, error, action }, decision.took);
        };
        for decision in outcome.decisions {
            if decision.ignored {
                check(&decision, "allow");
                continue;
            }
            for action in &binding.actions {
                match action {
                    Action::Deny => {
                        check(&decision, "deny");
                        self.deny(policy, Some(binding), &decision.message, decision.reason);
                    }
                    Action::Warn => {
                        check(&decision, "warn");
                        self.call.warnings.add(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                            policy.name, binding.name, decision.message
                        ));
                    }
                    Action::Audit => {
                        check(&decision, "audit");
                        annotations::record_failure(self.call, binding, &decision);
                    }
                }
            }
        }
        for (key, outcome) in outcome.annotations {
            match outcome {
                AnnotationOutcome::Publish(value) => collector.add(key, value),
                AnnotationOutcome::Failed(decision) => {
                    check(&decision, "deny");
                    self.deny(policy, Some(binding), &decision.message, decision.reason);
                }
            }
        }
    }

    /// Denies the request because of a policy or binding that cannot be evaluated, unless failures are ignored.
    fn misconfigured(&mut self, policy: &Policy<Validations>, binding: Option<&Binding>, why: &str) {
        if !policy.ignores_failure {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.deny(policy, binding, &format!("failed to configure {what}: {why}"), "Invalid");
        }
    }

    fn deny(&mut self, policy: &Policy<Validations>, binding: Option<&Binding>, why: &str, reason: &'static str) {
        if self.denial.is_some() {
            return;
        }
        let policy = &policy.name;
        let message = match binding.map(|binding| &binding.name) {
            Some(binding) => {
                format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {why}")
            }
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {why}"),
        };
        self.denial = Some(Denial { message, reason });
    }
}
