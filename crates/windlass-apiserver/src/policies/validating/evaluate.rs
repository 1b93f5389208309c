//! Evaluates the expressions of a policy: match conditions, validations, messages, audit annotations.

use std::time::{Duration, Instant};

use serde_json::Value as Json;
use windlass_cel::{
    policy::{Activation, CONDITIONS_BUDGET, Expression, Inputs, OutOfBudget, POLICY_BUDGET},
    value::Value,
};

use super::{Annotation, Policy, Validation, Validations};

/// The maximum length of the result of a message expression.
const MAX_MESSAGE: usize = 5 * 1024;

/// The outcome of a policy for one request. Validations that hold are not part of it.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) decisions: Vec<Decision>,
    /// By key.
    pub(super) annotations: Vec<(String, AnnotationOutcome)>,
}

/// A validation that failed, or could not be evaluated.
#[derive(Debug, Clone)]
pub(super) struct Decision {
    pub(super) index: usize,
    pub(super) message: String,
    pub(super) reason: &'static str,
    /// Whether it could not be evaluated, and the policy ignores that.
    pub(super) ignored: bool,
    pub(super) took: Duration,
}

impl Decision {
    /// Returns the type of the error, as in kube-apiserver's metrics.
    pub(super) fn error_type(&self) -> &'static str {
        if self.message.starts_with("compilation") {
            "compile_error"
        } else if self.message.starts_with("validation failed due to running out of cost budget") {
            "out_of_budget"
        } else {
            "invalid_error"
        }
    }
}

/// The outcome of an audit annotation; absent if there is nothing to do.
pub(super) enum AnnotationOutcome {
    Publish(String),
    Failed(Decision),
}

/// Evaluates a policy. Objects are borrowed, and nothing waits.
pub(super) fn evaluate(policy: &Policy<Validations>, inputs: Inputs<'_>) -> Outcome {
    let failed = |message: String| Outcome { decisions: vec![error(policy, 0, message)], ..Outcome::default() };
    if !policy.conditions.is_empty() {
        // Conditions do not see the namespace.
        let activation = Activation::new(Inputs { namespace: &Json::Null, ..inputs }, &policy.variables);
        match activation.all_hold(&policy.conditions, &mut CONDITIONS_BUDGET.clone()) {
            Ok(true) => {}
            Ok(false) => return Outcome::default(),
            Err(_) if policy.ignores_failure => return Outcome::default(),
            Err(why) => return failed(why),
        }
    }
    let Validations { validations, annotations } = &policy.evaluator;
    let decisions = match decide(policy, validations, inputs) {
        Ok(decisions) => decisions,
        Err(error) => return failed(error.to_string()),
    };
    match annotate(policy, annotations, inputs) {
        Ok(annotations) => Outcome { decisions, annotations },
        Err(error) => failed(error.to_string()),
    }
}

/// A decision about something that could not be evaluated.
fn error(policy: &Policy<Validations>, index: usize, message: String) -> Decision {
    Decision { index, message, reason: "Invalid", ignored: policy.ignores_failure, took: Duration::ZERO }
}

fn decide(
    policy: &Policy<Validations>,
    validations: &[Validation],
    inputs: Inputs<'_>,
) -> Result<Vec<Decision>, OutOfBudget> {
    let mut decisions = Vec::new();
    let mut budget = POLICY_BUDGET;
    let activation = Activation::new(inputs, &policy.variables);
    for (index, validation) in validations.iter().enumerate() {
        let begin = Instant::now();
        let value = match &validation.expression {
            Ok(expression) => activation.evaluate(expression, &mut budget)?,
            Err(error) => Err(format!("compilation error: {error}")),
        };
        let decision = match value {
            Ok(Value::Bool(true)) => continue,
            Ok(_) => {
                let reason = validation.reason;
                Decision { index, message: String::new(), reason, ignored: false, took: Duration::ZERO }
            }
            Err(message) => error(policy, index, message),
        };
        decisions.push(Decision { took: begin.elapsed(), ..decision });
    }
    if decisions.iter().any(|decision| decision.message.is_empty()) {
        add_messages(policy, validations, Inputs { authorizer: None, ..inputs }, budget, &mut decisions);
    }
    Ok(decisions)
}

/// Adds the messages of failed validations. All message expressions share what the validations left of the budget;
/// they matter only if a validation fails, so they are not evaluated otherwise.
fn add_messages(
    policy: &Policy<Validations>,
    validations: &[Validation],
    inputs: Inputs<'_>,
    mut budget: i64,
    decisions: &mut [Decision],
) {
    let activation = Activation::new(inputs, &policy.variables);
    for decision in decisions.iter_mut().filter(|decision| decision.message.is_empty()) {
        let validation = &validations[decision.index];
        let custom = match &validation.message_expression {
            Some(Ok(expression)) => evaluated_message(&activation, expression, &mut budget),
            _ => Ok(None),
        };
        let plain = Some(validation.message.trim()).filter(|message| !message.is_empty()).map(str::to_owned);
        *decision = match custom {
            Ok(message) => {
                let message = message.or(plain);
                let message = message.unwrap_or_else(|| format!("failed expression: {}", validation.text.trim()));
                Decision { message, ..decision.clone() }
            }
            Err(exceeded) => {
                let failed = error(policy, decision.index, format!("failed messageExpression: {exceeded}"));
                Decision { took: decision.took, ..failed }
            }
        };
    }
}

/// Returns the result of a message expression; `None` if it cannot be used.
fn evaluated_message(
    activation: &Activation<'_>,
    expression: &Expression,
    budget: &mut i64,
) -> Result<Option<String>, OutOfBudget> {
    let value = activation.evaluate(expression, budget)?;
    let message = value.ok().and_then(|value| value.as_str().map(|text| text.trim().to_owned()));
    Ok(message.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')))
}

fn annotate(
    policy: &Policy<Validations>,
    annotations: &[Annotation],
    inputs: Inputs<'_>,
) -> Result<Vec<(String, AnnotationOutcome)>, OutOfBudget> {
    let mut outcomes = Vec::new();
    if annotations.is_empty() {
        return Ok(outcomes);
    }
    let mut budget = POLICY_BUDGET;
    // Without the authorizer, as in kube-apiserver.
    let activation = Activation::new(Inputs { authorizer: None, ..inputs }, &policy.variables);
    for (index, annotation) in annotations.iter().enumerate() {
        let begin = Instant::now();
        let value = match &annotation.expression {
            Ok(expression) => activation.evaluate(expression, &mut budget)?,
            Err(error) => Err(format!("compilation error: {error}")),
        };
        let outcome = match value {
            Ok(value) => match value.as_str().map(str::trim).filter(|text| !text.is_empty()) {
                Some(text) => AnnotationOutcome::Publish(text.to_owned()),
                None => continue,
            },
            Err(_) if policy.ignores_failure => continue,
            Err(message) => {
                AnnotationOutcome::Failed(Decision { took: begin.elapsed(), ..error(policy, index, message) })
            }
        };
        outcomes.push((annotation.key.clone(), outcome));
    }
    Ok(outcomes)
}
