//! Evaluates rules on an object.

use serde_json::Value;
use windlass_schema::field::{ErrorKind, FieldError, Path, quote};
use windlass_schema::structural::{Additional, Kind, Structural};

use super::compiled::CompiledRule;
use super::correlation::{Correlated, KeyedList};
use super::evaluate::Scope;
use super::trail::Trail;
use super::tree::Node;
use super::{Outcome, show};
use crate::interpreter::Evaluation;
use crate::value::{self, EvalError};

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// Maximum length of a message from a message expression, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// Evaluates rules. `old` is the value to compare with, `before` determines whether an error already existed.
pub(super) fn run(
    node: &Node,
    schema: &Structural,
    path: &Path,
    new: &Value,
    old: Option<&Value>,
    before: Option<&Value>,
    budget: &mut i64,
) -> Outcome {
    let mut walk = Walk { outcome: Outcome::default(), budget };
    let root = before.map(|before| Correlated::new(new, before, schema));
    let ratchet = Ratchet { current: root.as_ref(), parent: None };
    let old = old.filter(|old| !old.is_null());
    // An exhausted budget has been reported where it happened.
    let _ = walk.node(node, schema, Trail::Start(path), new, old, ratchet);
    walk.outcome
}

/// Evaluation stopped early: the budget is used up.
struct Stopped;

/// The values that determine whether an error already existed.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    /// The value and its old value, if they can be correlated.
    current: Option<&'a Correlated<'a>>,
    /// The nearest correlated value above.
    parent: Option<&'a Correlated<'a>>,
}

impl Ratchet<'_> {
    fn is_unchanged(self) -> bool {
        self.current.or(self.parent).is_some_and(Correlated::is_unchanged)
    }
}

struct Walk<'b> {
    outcome: Outcome,
    budget: &'b mut i64,
}

impl Walk<'_> {
    fn node(
        &mut self,
        node: &Node,
        schema: &Structural,
        trail: Trail<'_>,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stopped> {
        if new.is_null() {
            return Ok(());
        }
        self.rules(node, schema, trail, new, old, ratchet)?;
        for part in &node.all_of {
            // Errors in `allOf` count as new unless everything around them is unchanged.
            self.node(part, schema, trail, new, old, Ratchet { current: None, parent: ratchet.parent })?;
        }
        match new {
            Value::Array(items) => self.items(node, schema, trail, items, old, ratchet),
            Value::Object(fields) => {
                let before = old.and_then(Value::as_object);
                if let (Some(child), Additional::Schema(values)) = (&node.additional, &schema.additional) {
                    for (name, value) in fields {
                        let old = present(before.and_then(|before| before.get(name)));
                        self.field(child, values, Trail::Key(&trail, name), name, value, old, ratchet)?;
                    }
                }
                for (name, child) in &node.properties {
                    let (Some(value), Some(property)) = (fields.get(name), schema.properties.get(name)) else {
                        continue;
                    };
                    let old = present(before.and_then(|before| before.get(name)));
                    self.field(child, property, Trail::Field(&trail, name), name, value, old, ratchet)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each step of the walk needs all of this state")]
    fn field(
        &mut self,
        node: &Node,
        schema: &Structural,
        trail: Trail<'_>,
        name: &str,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stopped> {
        let Some(current) = ratchet.current else { return self.node(node, schema, trail, new, old, ratchet) };
        if ratchet.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            // Old and new objects were converted to the same version, so a change of these fields is not visible.
            return self.node(node, schema, trail, new, old, Ratchet::default());
        }
        let child = current.key(name);
        self.node(node, schema, trail, new, old, Ratchet { current: child.as_ref(), parent: Some(current) })
    }

    fn items(
        &mut self,
        node: &Node,
        schema: &Structural,
        trail: Trail<'_>,
        new: &[Value],
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stopped> {
        let (Some(child), Some(items)) = (&node.items, &schema.items) else { return Ok(()) };
        let before = KeyedList::new(schema, old);
        for (index, item) in new.iter().enumerate() {
            let old = present(before.get(item));
            let element = ratchet.current.and_then(|current| current.element(item, old));
            let ratchet = match ratchet.current {
                Some(current) => Ratchet { current: element.as_ref(), parent: Some(current) },
                None => ratchet,
            };
            self.node(child, items, Trail::Index(&trail, index), item, old, ratchet)?;
        }
        Ok(())
    }

    fn rules(
        &mut self,
        node: &Node,
        schema: &Structural,
        trail: Trail<'_>,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stopped> {
        if node.hidden {
            let detail = "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            self.outcome.errors.push(cannot_evaluate(schema, &trail.path(), detail));
            return Ok(());
        }
        if node.rules.is_empty() {
            return Ok(());
        }
        if *self.budget <= 0 {
            return self.stop(cannot_evaluate(schema, &trail.path(), OUT_OF_BUDGET));
        }
        let see = |json| {
            if node.resource_root { value::Value::resource(json, schema) } else { value::Value::typed(json, schema) }
        };
        let compares = node.rules.iter().any(|rule| rule.uses_old_self);
        let optional = node.rules.iter().any(|rule| rule.takes_optional());
        let scope = Scope::new(see(new), old.filter(|_| compares).map(see), optional);
        for rule in &node.rules {
            self.rule(rule, schema, trail, new, old.is_some(), &scope, ratchet)?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "each step of the walk needs all of this state")]
    fn rule(
        &mut self,
        rule: &CompiledRule,
        schema: &Structural,
        trail: Trail<'_>,
        new: &Value,
        has_old: bool,
        scope: &Scope<'_>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stopped> {
        if let Some(error) = &rule.error {
            self.outcome.errors.push(cannot_evaluate(
                schema,
                &trail.path(),
                &format!("rule compile error: {}", error.detail),
            ));
            return Ok(());
        }
        let optional = rule.takes_optional();
        let Some(program) = &rule.program else { return Ok(()) };
        if rule.uses_old_self && !has_old && !optional {
            return Ok(());
        }
        let evaluated = scope.evaluate(program, optional);
        if !self.pay(evaluated.cost) {
            return self.stop(cannot_evaluate(schema, &trail.path(), OUT_OF_BUDGET));
        }
        match evaluated.result {
            Ok(value) if value.as_bool() == Some(true) => return Ok(()),
            Ok(_) => {}
            Err(error) => return self.failed_evaluation(rule, schema, &trail.path(), &error),
        }

        let mut path = trail.path();
        if let Some(field) = rule.field_path.as_deref().filter(|field| !field.is_empty()) {
            path = path.child(field);
        }
        let may_ratchet = !rule.uses_old_self && ratchet.is_unchanged();
        let detail = match &rule.message_program {
            None => None,
            // As in kube-apiserver, `oldSelf` is never an optional here, regardless of the rule.
            Some(program) => match self.message(rule, &scope.evaluate(program, false)) {
                Message::Text(text) => Some(text),
                Message::Failed => None,
                Message::Stop(detail) => {
                    self.report(cannot_evaluate(schema, &path, &detail), may_ratchet);
                    *self.budget = -1;
                    return Err(Stopped);
                }
            },
        };
        let detail = detail.unwrap_or_else(|| rule.default_message());
        self.report(rule_failure(rule, schema, &path, new, detail), may_ratchet);
        Ok(())
    }

    fn failed_evaluation(
        &mut self,
        rule: &CompiledRule,
        schema: &Structural,
        path: &Path,
        error: &EvalError,
    ) -> Result<(), Stopped> {
        let (title, message) = (rule.title(), error.to_string());
        if message.starts_with("no such overload") {
            let detail = format!(
                "'{message}': call arguments did not match a supported operator, function or macro signature for rule: {title}"
            );
            self.outcome.errors.push(cannot_evaluate(schema, path, &detail));
        } else if *error == EvalError::CostLimitExceeded {
            let detail = format!(
                "'{message}': no further validation rules will be run due to call cost exceeds limit for rule: {title}"
            );
            return self.stop(cannot_evaluate(schema, path, &detail));
        } else {
            let detail = format!("{message} evaluating rule: {title}");
            self.outcome.errors.push(cannot_evaluate(schema, path, &detail));
        }
        Ok(())
    }

    fn message(&mut self, rule: &CompiledRule, evaluated: &Evaluation<'_>) -> Message {
        if !self.pay(evaluated.cost) {
            return Message::Stop(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned(),
            );
        }
        match &evaluated.result {
            Err(EvalError::CostLimitExceeded) => Message::Stop(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                quote(&rule.rule.message_expression)
            )),
            Err(_) => Message::Failed,
            Ok(value) => match value.as_str().map(str::trim) {
                Some(text) if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') => {
                    Message::Text(text.to_owned())
                }
                _ => Message::Failed,
            },
        }
    }

    /// Subtracts a cost from the budget if enough is left.
    fn pay(&mut self, cost: u64) -> bool {
        match i64::try_from(cost) {
            Ok(cost) if cost <= *self.budget => {
                *self.budget -= cost;
                true
            }
            _ => false,
        }
    }

    fn stop(&mut self, error: FieldError) -> Result<(), Stopped> {
        self.outcome.errors.push(error);
        *self.budget = -1;
        Err(Stopped)
    }

    fn report(&mut self, error: FieldError, as_warning: bool) {
        if as_warning {
            self.outcome.warnings.push(error.to_string());
        } else {
            self.outcome.errors.push(error);
        }
    }
}

enum Message {
    Text(String),
    Failed,
    Stop(String),
}

/// Returns the error of a rule that could not be evaluated, with the type in place of the value.
fn cannot_evaluate(schema: &Structural, path: &Path, detail: &str) -> FieldError {
    FieldError {
        kind: ErrorKind::Invalid,
        field: path.to_string(),
        value: Some(show::kind(schema)),
        detail: detail.to_owned(),
    }
}

/// Returns the error of a rule that is false.
fn rule_failure(rule: &CompiledRule, schema: &Structural, path: &Path, value: &Value, detail: String) -> FieldError {
    let kind = match rule.rule.reason.as_str() {
        "FieldValueForbidden" => ErrorKind::Forbidden,
        "FieldValueRequired" => ErrorKind::Required,
        "FieldValueDuplicate" => ErrorKind::Duplicate,
        _ => ErrorKind::Invalid,
    };
    let shown = match (kind, schema.kind) {
        (ErrorKind::Forbidden | ErrorKind::Required, _) | (_, Some(Kind::Object | Kind::Array)) => None,
        _ => Some(windlass_schema::field::show(value)),
    };
    let detail = if kind == ErrorKind::Duplicate { String::new() } else { detail };
    FieldError { kind, field: path.to_string(), value: shown, detail }
}

/// A null field is treated as absent.
fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}
