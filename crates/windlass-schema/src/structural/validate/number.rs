//! Bounds of numbers: an integer is compared as an `int64` with the bound truncated to one.

use super::Check;
use super::place::Place;
use super::types::single_type;
use crate::field::ErrorList;
use crate::go_format;
use crate::structural::number::{Num, is_json_integer, to_i64};
use crate::structural::{Kind, Structural};

/// The range of a schema's numeric type and format.
#[derive(Clone, Copy)]
struct Range<'a> {
    kind: Option<Kind>,
    format: &'a str,
}

impl Range<'_> {
    fn holds(self, number: Num) -> bool {
        match (self.kind, self.format) {
            (Some(Kind::Integer), "int32") => text(number).parse::<i32>().is_ok(),
            (Some(Kind::Integer), _) => text(number).parse::<i64>().is_ok(),
            (_, "float") => (number.as_f64() as f32).is_finite(),
            _ => true,
        }
    }

    fn type_error(self, what: &str, place: &Place<'_>) -> String {
        let kind = match self.kind {
            Some(Kind::Integer) => "integer",
            Some(Kind::Number) => "number",
            _ => "",
        };
        let format = match self.format {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        format!("{what} value must be of type {kind} {format} in {}", place.name())
    }
}

/// Formats all digits without an exponent, the form from which kube-apiserver's validator parses a number.
fn text(number: Num) -> String {
    match number {
        Num::Int(n) => n.to_string(),
        Num::Float(f) => f.to_string(),
    }
}

/// A bound of a range.
#[derive(Clone, Copy)]
struct Bound {
    what: &'static str,
    limit: f64,
    exclusive: bool,
    upper: bool,
}

impl Bound {
    fn fails<T: PartialOrd>(self, value: T, limit: T) -> bool {
        match (self.upper, self.exclusive) {
            (true, false) => value > limit,
            (true, true) => value >= limit,
            (false, false) => value < limit,
            (false, true) => value <= limit,
        }
    }

    fn words(self) -> &'static str {
        match (self.upper, self.exclusive) {
            (true, false) => "less than or equal to",
            (true, true) => "less than",
            (false, false) => "greater than or equal to",
            (false, true) => "greater than",
        }
    }
}

impl Check {
    pub(super) fn number(
        &mut self,
        schema: &Structural,
        number: Num,
        format: Option<&str>,
        place: &Place<'_>,
        out: &mut ErrorList,
    ) {
        let kind = single_type(schema, self.mode).filter(|kind| matches!(kind, Kind::Integer | Kind::Number));
        let format = match (kind, format) {
            (Some(Kind::Integer), Some(format @ ("int32" | "int64"))) => format,
            (Some(Kind::Number), Some(format @ ("float" | "double"))) => format,
            _ => "",
        };
        let range = Range { kind, format };
        if !range.holds(number) {
            self.placeless(range.type_error("Checked", place), out);
        }
        let validation = &schema.validation;
        let float = |number: &serde_json::Number| number.as_f64().unwrap_or_default();
        if let Some(factor) = &validation.multiple_of {
            self.multiple_of(number, float(factor), range, place, out);
        }
        if let Some(limit) = &validation.minimum {
            let exclusive = validation.exclusive_minimum;
            let bound = Bound { what: "Minimum boundary", limit: float(limit), exclusive, upper: false };
            self.bound(number, bound, range, place, out);
        }
        if let Some(limit) = &validation.maximum {
            let exclusive = validation.exclusive_maximum;
            let bound = Bound { what: "Maximum boundary", limit: float(limit), exclusive, upper: true };
            self.bound(number, bound, range, place, out);
        }
    }

    fn bound(&mut self, number: Num, bound: Bound, range: Range<'_>, place: &Place<'_>, out: &mut ErrorList) {
        let fits = range.holds(Num::Float(bound.limit));
        if !fits {
            self.placeless(range.type_error(bound.what, place), out);
        }
        let (fails, shown, limit) = match number {
            Num::Int(n) if fits => {
                let limit = to_i64(bound.limit);
                (bound.fails(n, limit), Num::Int(n), limit.to_string())
            }
            other => {
                let value = other.as_f64();
                (bound.fails(value, bound.limit), Num::Float(value), go_format::float(bound.limit))
            }
        };
        if fails {
            let detail = format!("{} in body should be {} {limit}", place.name(), bound.words());
            self.invalid(place, shown.show(), detail, out);
        }
    }

    fn multiple_of(&mut self, number: Num, factor: f64, range: Range<'_>, place: &Place<'_>, out: &mut ErrorList) {
        let fits = range.holds(Num::Float(factor));
        if !fits {
            self.placeless(range.type_error("MultipleOf", place), out);
        }
        let (shown, positive, multiple, value) = match number {
            Num::Int(n) if fits => {
                let factor = to_i64(factor);
                (factor.to_string(), factor > 0, factor > 0 && n % factor == 0, Num::Int(n))
            }
            other => {
                let value = other.as_f64();
                let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
                (go_format::float(factor), factor > 0.0, is_json_integer(quotient), Num::Float(value))
            }
        };
        if !positive {
            let detail = format!("factor MultipleOf declared for {} must be positive: {shown}", place.name());
            self.invalid(place, shown, detail, out);
        } else if !multiple {
            let detail = format!("{} in body should be a multiple of {shown}", place.name());
            self.invalid(place, value.show(), detail, out);
        }
    }
}
