//! A compiled rule.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use windlass_schema::structural::field_path::{Brackets, FieldPath};
use windlass_schema::structural::{Rule, Structural};

use crate::checker::{self, Checked, Environment};
use crate::cost;
use crate::declared::{DeclType, Declared, MAX_REQUEST_SIZE};
use crate::interpreter::Program;
use crate::parser;
use crate::types::Type;

/// The variable for the validated value.
pub(super) const SELF: &str = "self";
/// The variable for the previous value.
pub(super) const OLD_SELF: &str = "oldSelf";

/// A rule ready for evaluation, or its error. A blank rule has neither program nor error.
#[derive(Debug, Default)]
pub struct CompiledRule {
    /// The rule in the schema.
    pub rule: Rule,
    /// The error of the expression.
    pub error: Option<RuleError>,
    /// Whether it refers to `oldSelf`.
    pub uses_old_self: bool,
    /// Maximum cost of one evaluation.
    pub max_cost: u64,
    /// The error of the message expression.
    pub message_error: Option<RuleError>,
    /// Maximum cost of one evaluation of the message expression.
    pub message_max_cost: u64,
    /// Path of the field to report, relative to the schema of the rule.
    pub field_path: Option<String>,
    pub(super) program: Option<Program>,
    pub(super) message_program: Option<Program>,
}

/// Reason why an expression cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The kind of error.
    pub kind: RuleErrorKind,
    /// The error message.
    pub detail: String,
}

/// Kinds of expression errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleErrorKind {
    /// The expression is missing.
    Required,
    /// The expression is invalid.
    Invalid,
    /// The server failed.
    Internal,
}

impl CompiledRule {
    /// Returns whether it can be evaluated.
    pub fn has_program(&self) -> bool {
        self.program.is_some()
    }

    /// Returns whether it has a message expression that can be evaluated.
    pub fn has_message_program(&self) -> bool {
        self.message_program.is_some()
    }

    /// Returns whether its `oldSelf` is an optional.
    pub(super) fn takes_optional(&self) -> bool {
        self.rule.optional_old_self == Some(true)
    }

    /// Returns the name of the rule in evaluation errors: its message, or otherwise its text.
    pub(super) fn title(&self) -> &str {
        if self.rule.message.is_empty() { self.rule.rule.trim() } else { self.rule.message.trim() }
    }

    /// Returns the message for a failed rule without a message expression.
    pub(super) fn default_message(&self) -> String {
        if self.rule.message.is_empty() { format!("failed rule: {}", self.title()) } else { self.title().to_owned() }
    }
}

/// The place of rules, which determines the type of `self`.
pub(super) struct Scope<'a> {
    declared: &'a DeclType,
    with_old: Environment,
    with_optional_old: Environment,
}

impl<'a> Scope<'a> {
    pub(super) fn new(declared: &'a Arc<DeclType>, rules: &[Rule]) -> Self {
        // Rules must not depend on the name of the type of `self`, so the name changes with the rules.
        let mut hasher = DefaultHasher::new();
        rules.iter().for_each(|rule| rule.rule.hash(&mut hasher));
        let name = format!("selfType{}", hasher.finish() % 1_000_000_000);
        let provider = Declared::new(name, declared.clone());
        let self_type = provider.self_type();
        let optional = Type::Opaque("optional_type".into(), [self_type.clone()].into());
        let environment = Environment::standard_kubernetes()
            .clone()
            .with_provider(Arc::new(provider))
            .with_variable(SELF, self_type.clone());
        Self {
            declared,
            with_old: environment.clone().with_variable(OLD_SELF, self_type),
            with_optional_old: environment.with_variable(OLD_SELF, optional),
        }
    }

    /// Maximum number of such values in one object, if nothing above limits it.
    pub(super) fn max_cardinality(&self) -> u64 {
        (MAX_REQUEST_SIZE / (self.declared.min_serialized_size + 1)) as u64
    }

    pub(super) fn compile(&self, rule: &Rule, schema: &Structural) -> CompiledRule {
        let mut compiled = CompiledRule { rule: rule.clone(), ..CompiledRule::default() };
        if rule.rule.trim().is_empty() {
            return compiled;
        }
        let optional = rule.optional_old_self == Some(true);
        let environment = if optional { &self.with_optional_old } else { &self.with_old };
        let checked = match check(&rule.rule, environment) {
            Ok(checked) => checked,
            Err(issues) => {
                compiled.error = invalid(format!("compilation failed: {issues}"));
                return compiled;
            }
        };
        if *checked.result_type() != Type::Bool {
            compiled.error = invalid("cel expression must evaluate to a bool");
            return compiled;
        }
        compiled.uses_old_self = checked.refers_to(OLD_SELF);
        match Program::new(&checked) {
            Ok(program) => compiled.program = Some(program),
            Err(error) => {
                compiled.error = invalid(format!("program instantiation failed: {error}"));
                return compiled;
            }
        }
        compiled.max_cost = cost::estimate(&checked, Some(self.declared)).max;
        if !rule.message_expression.is_empty() {
            self.compile_message(&mut compiled, environment);
            if compiled.message_error.is_some() {
                return compiled;
            }
        }
        if !rule.field_path.is_empty()
            && let Ok(found) = FieldPath::parse(&rule.field_path, Some(schema), Brackets::Allowed)
        {
            compiled.field_path = Some(found.path.as_str().to_owned());
        }
        compiled
    }

    fn compile_message(&self, compiled: &mut CompiledRule, environment: &Environment) {
        let checked = match check(&compiled.rule.message_expression, environment) {
            Ok(checked) => checked,
            Err(issues) => {
                compiled.message_error = invalid(format!("messageExpression compilation failed: {issues}"));
                return;
            }
        };
        if *checked.result_type() != Type::String {
            compiled.message_error = invalid("messageExpression must evaluate to a string");
            return;
        }
        match Program::new(&checked) {
            Ok(program) => {
                compiled.message_program = Some(program);
                compiled.message_max_cost = cost::estimate(&checked, Some(self.declared)).max;
            }
            Err(error) => {
                compiled.message_error = invalid(format!("messageExpression instantiation failed: {error}"));
            }
        }
    }
}

fn check(text: &str, environment: &Environment) -> Result<Checked, crate::source::Errors> {
    let parsed = parser::parse(text, parser::Options::KUBERNETES)?;
    checker::check(&parsed, environment)
}

fn invalid(detail: impl Into<String>) -> Option<RuleError> {
    Some(RuleError { kind: RuleErrorKind::Invalid, detail: detail.into() })
}
