//! `anyOf`, `oneOf`, `allOf` and `not`.

use serde_json::Value;

use super::Check;
use super::place::Place;
use crate::field::{ErrorList, quote};
use crate::structural::Structural;

impl Check {
    /// Validates the composite keywords, and returns the number of successful checks.
    pub(super) fn composite(
        &mut self,
        schema: &Structural,
        value: &Value,
        place: &Place<'_>,
        out: &mut ErrorList,
    ) -> u64 {
        let validation = &schema.validation;
        let mut matches = 1;
        if validation.any_of.is_empty()
            && validation.one_of.is_empty()
            && validation.all_of.is_empty()
            && validation.not.is_none()
        {
            return matches;
        }
        if !validation.any_of.is_empty() {
            matches += self.any_of(&validation.any_of, value, place, out);
        }
        if !validation.one_of.is_empty() {
            matches += self.one_of(&validation.one_of, value, place, out);
        }
        if !validation.all_of.is_empty() {
            matches += self.all_of(&validation.all_of, value, place, out);
        }
        if let Some(not) = &validation.not
            && self.alternative(not, value, place).errors.is_empty()
        {
            self.placeless(format!("{} must not validate the schema (not)", quote(&place.name())), out);
        }
        matches
    }

    /// Validates against a schema that can only restrict values. Ratcheting does not apply inside it.
    fn alternative(&mut self, schema: &Structural, value: &Value, place: &Place<'_>) -> Outcome {
        let mut errors = Vec::new();
        let nested = std::mem::replace(&mut self.nested, true);
        let spent = self.spent;
        let matches = self.value(schema, value, None, place, &mut errors);
        self.nested = nested;
        let bytes = self.spent - spent;
        self.spent = spent;
        Outcome { matches, errors, bytes }
    }

    /// Reports the errors of an outcome.
    fn report(&mut self, outcome: Outcome, out: &mut ErrorList) -> u64 {
        self.spent += outcome.bytes;
        out.extend(outcome.errors);
        outcome.matches
    }

    fn any_of(&mut self, schemas: &[Structural], value: &Value, place: &Place<'_>, out: &mut ErrorList) -> u64 {
        let mut best: Option<Outcome> = None;
        for schema in schemas {
            let outcome = self.alternative(schema, value, place);
            if outcome.errors.is_empty() {
                return outcome.matches;
            }
            best = Some(outcome.or(best));
        }
        self.placeless(format!("{} must validate at least one schema (anyOf)", quote(&place.name())), out);
        best.map_or(0, |best| self.report(best, out))
    }

    fn one_of(&mut self, schemas: &[Structural], value: &Value, place: &Place<'_>, out: &mut ErrorList) -> u64 {
        let mut best: Option<Outcome> = None;
        let mut first = None;
        let mut valid = 0_u32;
        for schema in schemas {
            let outcome = self.alternative(schema, value, place);
            if outcome.errors.is_empty() {
                valid += 1;
                first.get_or_insert(outcome.matches);
                best = None;
            } else if valid == 0 {
                best = Some(outcome.or(best));
            }
        }
        if valid == 1 {
            return first.unwrap_or_default();
        }
        let found = if valid == 0 { "none valid".to_owned() } else { format!("{valid} valid alternatives") };
        let name = quote(&place.name());
        self.placeless(format!("{name} must validate one and only one schema (oneOf). Found {found}"), out);
        best.map_or(0, |best| self.report(best, out))
    }

    fn all_of(&mut self, schemas: &[Structural], value: &Value, place: &Place<'_>, out: &mut ErrorList) -> u64 {
        let mut matches = 0;
        let mut valid = 0;
        for schema in schemas {
            let outcome = self.alternative(schema, value, place);
            valid += usize::from(outcome.errors.is_empty());
            matches += self.report(outcome, out);
        }
        if valid != schemas.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.placeless(format!("{} must validate all the schemas (allOf){none}", quote(&place.name())), out);
        }
        matches
    }
}

/// Result of one schema out of several.
struct Outcome {
    matches: u64,
    errors: ErrorList,
    bytes: usize,
}

impl Outcome {
    /// Returns this outcome if it has more successful checks than the best one so far.
    fn or(self, best: Option<Self>) -> Self {
        match best {
            Some(best) if best.matches >= self.matches => best,
            _ => self,
        }
    }
}
