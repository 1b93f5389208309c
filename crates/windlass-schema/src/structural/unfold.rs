//! Translates vendor extensions of a schema to plain OpenAPI.

use super::{Additional, Kind, Structural};

impl Structural {
    /// Expands `x-kubernetes-int-or-string` to `anyOf` an integer and a string, for clients that support only OpenAPI.
    pub fn unfold(&mut self) {
        if self.int_or_string && !self.is_unfolded() {
            if self.validation.any_of.is_empty() {
                self.validation.any_of = integer_or_string();
            } else {
                let mut both = Structural::default();
                both.validation.any_of = integer_or_string();
                self.validation.all_of.insert(0, both);
            }
        }
        self.properties.values_mut().for_each(Structural::unfold);
        if let Additional::Schema(schema) = &mut self.additional {
            schema.unfold();
        }
        if let Some(items) = &mut self.items {
            items.unfold();
        }
    }

    /// Returns whether the alternatives are already spelled out, in one of the two allowed ways.
    fn is_unfolded(&self) -> bool {
        let both = integer_or_string();
        self.validation.any_of == both || self.validation.all_of.first().is_some_and(|s| s.validation.any_of == both)
    }
}

fn integer_or_string() -> Vec<Structural> {
    [Kind::Integer, Kind::String].map(|kind| Structural { kind: Some(kind), ..Structural::default() }).into()
}
