//! Validates the rules of a CustomResourceDefinition.

use std::sync::Arc;

use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path, quote};
use windlass_schema::sorting;
use windlass_schema::structural::{Additional, Kind, ListType, Rule, Structural};

use super::compiled::{CompiledRule, RuleErrorKind, Scope};
use super::{RULE_LIMIT, SCHEMA_LIMIT, show, tree};
use crate::declared::DeclType;
use crate::value::escape;

const RULES: &str = "x-kubernetes-validations";

/// Options for validating the rules of a CustomResourceDefinition.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrdRulesOptions<'a> {
    /// Errors already found in the schema itself. Rules at or above the path of such an error are skipped, because
    /// their types are unreliable.
    pub schema_errors: &'a [FieldError],
    /// Whether a single rule may exceed the cost limit, as allowed when the schema of a version did not change.
    pub allow_expensive_rules: bool,
}

/// Returns the errors in the rules of a whole schema: expressions that do not compile, cost too much, or use an old
/// value where there is none. `schema` must be structural and its defaults valid; `path` is that of `openAPIV3Schema`.
/// The errors follow those of the schema itself; the total cost of the schema comes last.
///
/// In this version, expressions of existing CustomResourceDefinitions may not use anything that new ones may not, so
/// the only leniency for them is `allow_expensive_rules`.
pub fn validate_crd_rules(schema: &Structural, path: &Path, options: CrdRulesOptions<'_>) -> ErrorList {
    let mut check = Check { options, errors: ErrorList::new(), total: Total::default() };
    let place = Place { types: Types::OutOfScope, cardinality: Some(1), uncorrelatable: None, root: true };
    check.visit(schema, path, &place);
    let Check { mut errors, total, .. } = check;
    if total.sum > SCHEMA_LIMIT {
        for (path, _) in &total.most_expensive {
            errors.push(FieldError::forbidden(
                path,
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            ));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, too_expensive(what, total.sum, SCHEMA_LIMIT)));
    }
    errors
}

/// Facts about the place of a schema that follow from the path to it.
struct Place {
    types: Types,
    /// Maximum number of values at this place of an object; `None` if unbounded.
    cardinality: Option<u64>,
    /// The first list on the path whose elements cannot be correlated.
    uncorrelatable: Option<Path>,
    root: bool,
}

/// The declared type of a place.
#[derive(Clone)]
enum Types {
    /// No rules here or above: the type is not needed.
    OutOfScope,
    /// The type above does not contain it: it is declared separately.
    Apart,
    Known(Arc<DeclType>),
    /// Expressions can see neither it nor anything below it.
    Hidden,
}

struct Check<'a> {
    options: CrdRulesOptions<'a>,
    errors: ErrorList,
    total: Total,
}

impl Check<'_> {
    fn visit(&mut self, schema: &Structural, path: &Path, place: &Place) {
        if !tree::has_rules(schema) {
            return;
        }
        let types = Self::types(schema, place);
        let cardinality = place.cardinality.and_then(|count| Some(count.saturating_mul(max_elements(schema)?)));
        let child =
            |types: Types, uncorrelatable: Option<Path>| Place { types, cardinality, uncorrelatable, root: false };

        if let Additional::Schema(values) = &schema.additional {
            let place = child(types.element(), place.uncorrelatable.clone());
            self.visit(values, &path.child("additionalProperties"), &place);
        }
        for (name, property) in &schema.properties {
            let place = child(types.field(name), place.uncorrelatable.clone());
            self.visit(property, &path.child("properties").key(name), &place);
        }
        if let Some(items) = &schema.items {
            let mut uncorrelatable = place.uncorrelatable.clone();
            if uncorrelatable.is_none() && !matches!(schema.list_type, ListType::Map(_)) {
                uncorrelatable = Some(path.clone());
            }
            self.visit(items, &path.child("items"), &child(types.element(), uncorrelatable));
        }
        if !schema.rules.is_empty() && !self.has_schema_errors(path) {
            self.rules(schema, path, place, &types);
        }
    }

    fn types(schema: &Structural, place: &Place) -> Types {
        match &place.types {
            Types::OutOfScope if schema.rules.is_empty() => Types::OutOfScope,
            Types::OutOfScope | Types::Apart => match DeclType::of(schema, place.root || schema.embedded_resource) {
                Some(declared) => Types::Known(Arc::new(declared)),
                None => Types::Hidden,
            },
            known => known.clone(),
        }
    }

    fn has_schema_errors(&self, path: &Path) -> bool {
        self.options.schema_errors.iter().any(|error| {
            error.field.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    fn rules(&mut self, schema: &Structural, path: &Path, place: &Place, types: &Types) {
        let path = path.child(RULES);
        let Types::Known(declared) = types else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(error(ErrorKind::Internal, &path, None, detail));
            return;
        };
        let scope = Scope::new(declared, &schema.rules);
        let cardinality = place.cardinality.unwrap_or_else(|| scope.max_cardinality());
        for (index, rule) in schema.rules.iter().enumerate() {
            let compiled = scope.compile(rule, schema);
            self.rule(rule, &compiled, &path.index(index), cardinality, place);
        }
    }

    fn rule(&mut self, rule: &Rule, compiled: &CompiledRule, path: &Path, cardinality: u64, place: &Place) {
        let at_rule = path.child("rule");
        let at_message = path.child("messageExpression");
        let cost = compiled.max_cost.saturating_mul(cardinality);
        if !self.options.allow_expensive_rules && cost > RULE_LIMIT {
            let detail = too_expensive("estimated rule cost", cost, RULE_LIMIT);
            self.errors.push(FieldError::forbidden(&at_rule, detail));
        }
        self.total.observe(&at_rule, cost);
        if let Some(failure) = &compiled.error {
            self.errors.push(match failure.kind {
                RuleErrorKind::Required => FieldError::required(&at_rule, &*failure.detail),
                _ => error(ErrorKind::Invalid, &at_rule, Some(show::rule(rule)), &failure.detail),
            });
        }
        if let Some(failure) = &compiled.message_error {
            self.errors.push(error(ErrorKind::Invalid, &at_message, Some(show::rule(rule)), &failure.detail));
        } else if compiled.has_message_program() {
            let cost = compiled.message_max_cost;
            if !self.options.allow_expensive_rules && cost > RULE_LIMIT {
                let detail = too_expensive("estimated messageExpression cost", cost, RULE_LIMIT);
                self.errors.push(FieldError::forbidden(&at_message, detail));
            }
            self.total.observe(&at_message, cost);
        }
        if compiled.uses_old_self {
            if let Some(within) = &place.uncorrelatable {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                self.errors.push(error(ErrorKind::Invalid, &at_rule, Some(quote(&rule.rule)), &detail));
            }
        } else if let Some(optional) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            let at = path.child("optionalOldSelf");
            self.errors.push(error(ErrorKind::Invalid, &at, Some(optional.to_string()), detail));
        }
    }
}

impl Types {
    /// Returns the type of the elements of a list or map.
    fn element(&self) -> Types {
        match self {
            Types::Known(declared) => declared.element().map_or(Types::Apart, |element| Types::Known(element.clone())),
            other => other.clone(),
        }
    }

    /// Returns the type of a property. A property that is not in the object's type is declared separately.
    fn field(&self, name: &str) -> Types {
        match self {
            Types::Known(declared) => {
                let field = escape(name).and_then(|escaped| declared.field(&escaped));
                field.map_or(Types::Apart, |field| Types::Known(field.clone()))
            }
            other => other.clone(),
        }
    }
}

/// The total estimated cost of the rules of a schema.
#[derive(Default)]
struct Total {
    sum: u64,
    /// The four most expensive relevant rules.
    most_expensive: Vec<(Path, u64)>,
}

impl Total {
    fn observe(&mut self, path: &Path, cost: u64) {
        self.sum = self.sum.saturating_add(cost);
        if cost < SCHEMA_LIMIT / 100 {
            return;
        }
        self.most_expensive.push((path.clone(), cost));
        sorting::sort_by_key(&mut self.most_expensive, |(_, cost)| std::cmp::Reverse(*cost));
        self.most_expensive.truncate(4);
    }
}

/// Returns the factor by which a schema multiplies the values below it; `None` if unbounded.
fn max_elements(schema: &Structural) -> Option<u64> {
    let bound = |max: Option<i64>| max.map(|max| max.max(0) as u64);
    match schema.kind {
        Some(Kind::Object) if schema.additional != Additional::Absent => bound(schema.validation.max_properties),
        Some(Kind::Array) => bound(schema.validation.max_items),
        _ => Some(1),
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

fn error(kind: ErrorKind, path: &Path, value: Option<String>, detail: &str) -> FieldError {
    FieldError { kind, field: path.to_string(), value, detail: detail.to_owned() }
}
