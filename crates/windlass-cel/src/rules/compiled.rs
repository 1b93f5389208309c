//! One rule, compiled.

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

/// The name of the value a rule is about.
pub(super) const SELF: &str = "self";
/// The name of what that value was before.
pub(super) const OLD_SELF: &str = "oldSelf";

/// A rule, ready to run, or what is wrong with it. A blank rule has neither program nor error.
#[derive(Debug, Default)]
pub struct CompiledRule {
    /// The rule as it stands in the schema.
    pub rule: Rule,
    /// Why it cannot run.
    pub error: Option<RuleError>,
    /// Whether it refers to `oldSelf`.
    pub uses_old_self: bool,
    /// The most one evaluation can cost.
    pub max_cost: u64,
    /// Why the expression for its message cannot run.
    pub message_error: Option<RuleError>,
    /// The most one evaluation of that expression can cost.
    pub message_max_cost: u64,
    /// The path of the field to blame, below the place of the rule.
    pub field_path: Option<String>,
    pub(super) program: Option<Program>,
    pub(super) message_program: Option<Program>,
}

/// Why an expression cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// Whose fault it is.
    pub kind: RuleErrorKind,
    /// What is wrong.
    pub detail: String,
}

/// The sorts of errors of expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleErrorKind {
    /// The expression is missing.
    Required,
    /// The expression is wrong.
    Invalid,
    /// The server failed.
    Internal,
}

impl CompiledRule {
    /// Whether it can run.
    pub fn has_program(&self) -> bool {
        self.program.is_some()
    }

    /// Whether it has an expression for its message that can run.
    pub fn has_message_program(&self) -> bool {
        self.message_program.is_some()
    }

    /// Whether `oldSelf` is an optional for it.
    pub(super) fn takes_optional(&self) -> bool {
        self.rule.optional_old_self == Some(true)
    }

    /// How evaluation errors call the rule: by its message, or else by its text.
    pub(super) fn title(&self) -> &str {
        if self.rule.message.is_empty() { self.rule.rule.trim() } else { self.rule.message.trim() }
    }

    /// What is said when it fails and no expression says it better.
    pub(super) fn default_message(&self) -> String {
        if self.rule.message.is_empty() { format!("failed rule: {}", self.title()) } else { self.title().to_owned() }
    }
}

/// The place of rules: what `self` is.
pub(super) struct Scope<'a> {
    declared: &'a DeclType,
    with_old: Environment,
    with_optional_old: Environment,
}

impl<'a> Scope<'a> {
    pub(super) fn new(declared: &'a Arc<DeclType>, rules: &[Rule]) -> Self {
        // Rules must not depend on the name of the type of `self`, so it changes with them.
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

    /// How often the value can stand in one object when nothing above bounds it.
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
