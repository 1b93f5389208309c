//! Values of fields: validation and samples.

use windlass_schema::go_regex;

use super::{Field, FieldType, Number};

/// The problem, and a hint.
type Complaint = (String, String);

/// Syntax of other regular expression engines that Go does not support.
const LOOKING: &[&str] = &["(?=", "(?!", "(?<=", "(?<!", "\\1", "\\2", "\\k<"];

/// Pattern of durations.
pub(crate) const DURATION_PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";

/// Pattern of quantities.
pub(crate) const QUANTITY_PATTERN: &str =
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

impl Field {
    /// Checks that the settings fit the type.
    pub(super) fn check(&self) -> Result<(), Complaint> {
        let texts = [&self.default, &self.pattern, &self.example, &self.doc];
        if texts.into_iter().flatten().any(|text| text.chars().any(char::is_control)) {
            return Err(("it contains a control character".to_owned(), "write it on one line".to_owned()));
        }
        let bounds = [&self.min, &self.max].into_iter().flatten();
        match self.kind {
            FieldType::Int32 | FieldType::Int64 => {
                for bound in bounds {
                    self.check_whole(bound)?;
                }
            }
            FieldType::Number => {}
            FieldType::String | FieldType::List(_) | FieldType::Map(_) => {
                for bound in bounds {
                    self.check_whole(bound)?;
                    if bound.value < 0.0 {
                        return Err((format!("{} is not a valid length", bound.text), "use 0 or more".to_owned()));
                    }
                }
                // Samples have at least this length or this many items.
                let most = if self.is_collection() { 20.0 } else { 1000.0 };
                if let Some(min) = self.min.as_ref().filter(|min| min.value > most) {
                    let why = format!("{} is too large for the command line", min.text);
                    return Err((why, "add the constraint to the generated types".to_owned()));
                }
            }
            _ if self.min.is_some() || self.max.is_some() => {
                let why = format!("{} cannot have a range", self.one());
                return Err((why, "ranges are for numbers, strings, lists and maps".to_owned()));
            }
            _ => {}
        }
        if let (Some(min), Some(max)) = (&self.min, &self.max)
            && min.value > max.value
        {
            return Err((
                format!("the range from {} to {} is empty", min.text, max.text),
                "swap the bounds".to_owned(),
            ));
        }
        if self.pattern.is_some() && self.kind != FieldType::String {
            return Err((format!("{} cannot have a pattern", self.one()), "patterns are for strings".to_owned()));
        }
        let is_object = self.kind == FieldType::Object;
        if (self.is_collection() || is_object) && self.default.is_some() {
            let hint = match is_object {
                true => "remove the default, and give its fields defaults",
                false => "remove the default and make the field optional with `?`: it is then empty",
            };
            return Err((format!("{} cannot have a default here", self.one()), hint.to_owned()));
        }
        if (self.is_collection() || is_object) && self.example.is_some() {
            let why = format!("{} cannot have an example here", self.one());
            return Err((why, "edit the sample in deploy/samples".to_owned()));
        }
        for value in [&self.default, &self.example].into_iter().flatten() {
            self.check_value(value)?;
        }
        self.check_pattern()?;
        if self.pattern.is_some() && self.is_required() && self.example.is_none() {
            let why = "cannot derive a sample value from the pattern";
            return Err((why.to_owned(), "add a matching value, for example ,example=abc".to_owned()));
        }
        Ok(())
    }

    /// The type with an article.
    fn one(&self) -> String {
        match self.kind {
            FieldType::Object | FieldType::Enum(_) | FieldType::Int32 | FieldType::Int64 => format!("an {}", self.kind),
            _ => format!("a {}", self.kind),
        }
    }

    /// Checks that the API server accepts the pattern, and that the values match it.
    fn check_pattern(&self) -> Result<(), Complaint> {
        let Some(pattern) = &self.pattern else { return Ok(()) };
        let compiled = go_regex::compile(pattern).map_err(|error| {
            let hint = match LOOKING.iter().any(|sign| pattern.contains(sign)) {
                true => "the API server does not support lookaround and backreferences: use a CEL rule instead",
                false => "use the syntax of Go: https://pkg.go.dev/regexp/syntax",
            };
            (format!("the API server rejects the pattern: {error}"), hint.to_owned())
        })?;
        for (what, value) in [("default", &self.default), ("example", &self.example)] {
            if let Some(value) = value.as_ref().filter(|value| !compiled.regex.is_match(value)) {
                let why = format!("the {what} {value:?} does not match the pattern {pattern}");
                return Err((why, format!("give a {what} that does")));
            }
        }
        Ok(())
    }

    fn check_whole(&self, bound: &Number) -> Result<(), Complaint> {
        let fits = match self.kind {
            FieldType::Int64 => bound.text.parse::<i64>().is_ok(),
            _ => bound.text.parse::<i32>().is_ok(),
        };
        match fits {
            true => Ok(()),
            false => Err((format!("{} is not an integer of this size", bound.text), "use an integer".to_owned())),
        }
    }

    fn check_value(&self, value: &str) -> Result<(), Complaint> {
        let parsed = match &self.kind {
            FieldType::Int32 => value.parse::<i32>().ok().map(f64::from),
            // Bounds are compared as floating-point numbers: ranges beyond 2^53 are not expected.
            #[allow(clippy::cast_precision_loss)]
            FieldType::Int64 => value.parse::<i64>().ok().map(|value| value as f64),
            FieldType::Number => value.parse::<f64>().ok().filter(|value| value.is_finite()),
            FieldType::String => u32::try_from(value.chars().count()).ok().map(f64::from),
            FieldType::Bool => matches!(value, "true" | "false").then_some(0.0),
            FieldType::Enum(words) => words.iter().any(|word| word == value).then_some(0.0),
            FieldType::Duration => is_duration(value).then_some(0.0),
            FieldType::Quantity => is_quantity(value).then_some(0.0),
            FieldType::Time => is_time(value).then_some(0.0),
            FieldType::List(_) | FieldType::Map(_) | FieldType::Object => None,
        };
        let hint = match &self.kind {
            FieldType::Enum(words) => format!("use one of {}", words.join(", ")),
            FieldType::Bool => "use true or false".to_owned(),
            FieldType::Duration => "for example 1h30m or 500ms".to_owned(),
            FieldType::Time => "for example 2024-01-31T12:00:00Z".to_owned(),
            FieldType::Quantity => "for example 500m or 2Gi".to_owned(),
            _ => "use another value".to_owned(),
        };
        let size = parsed.ok_or_else(|| (format!("{value:?} is not a valid {}", self.kind), hint.clone()))?;
        let is_ranged =
            matches!(self.kind, FieldType::Int32 | FieldType::Int64 | FieldType::Number | FieldType::String);
        let below = self.min.as_ref().is_some_and(|min| size < min.value);
        let above = self.max.as_ref().is_some_and(|max| size > max.value);
        match is_ranged && (below || above) {
            true => Err((format!("{value:?} is out of range"), hint)),
            false => Ok(()),
        }
    }

    /// Returns a value that the schema accepts, without quotes; empty if the field is not in samples.
    pub(crate) fn sample(&self) -> String {
        if let Some(value) = self.example.as_ref().or(self.default.as_ref()) {
            return value.clone();
        }
        self.sample_of(&self.kind)
    }

    pub(crate) fn sample_of(&self, kind: &FieldType) -> String {
        let is_own = *kind == self.kind;
        match kind {
            FieldType::String if is_own => {
                let fits = |bound: &Option<Number>| bound.as_ref().map(|bound| bound.value);
                let mut text = "example".to_owned();
                if let Some(max) = fits(&self.max) {
                    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                    text.truncate(max as usize);
                }
                while fits(&self.min).is_some_and(|min| (text.len() as f64) < min) {
                    text.push('x');
                }
                text
            }
            FieldType::String => "example".to_owned(),
            // These have no string of their own.
            FieldType::Object | FieldType::Map(_) | FieldType::List(_) => String::new(),
            FieldType::Int32 | FieldType::Int64 | FieldType::Number => {
                let bound = if is_own { self.number_within() } else { None };
                let text = bound.unwrap_or_else(|| "1".to_owned());
                if *kind == FieldType::Number && !text.contains('.') { text + ".0" } else { text }
            }
            FieldType::Bool => "true".to_owned(),
            FieldType::Duration => "1m".to_owned(),
            FieldType::Quantity => "1Gi".to_owned(),
            FieldType::Time => "2024-01-01T00:00:00Z".to_owned(),
            FieldType::Enum(words) => words.first().cloned().unwrap_or_default(),
        }
    }

    /// Number of items in the sample of a list or map.
    pub(crate) fn sample_count(&self) -> usize {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a small count")]
        self.min.as_ref().map_or(1, |min| (min.value as usize).max(1))
    }

    fn number_within(&self) -> Option<String> {
        match (&self.min, &self.max) {
            (Some(min), _) => Some(min.text.clone()),
            (None, Some(max)) if max.value < 1.0 => Some(max.text.clone()),
            _ => None,
        }
    }

    /// Returns a Rust value outside of the range for a test, if one can be written.
    pub(crate) fn forbidden(&self) -> Option<String> {
        if self.is_option() {
            return None;
        }
        let beyond = |number: &Number, step: i64| -> Option<String> {
            let whole: i64 = number.text.parse().ok()?;
            let value = whole.checked_add(step)?;
            match self.kind {
                FieldType::Int32 => i32::try_from(value).ok().map(|value| value.to_string()),
                _ => Some(value.to_string()),
            }
        };
        match self.kind {
            FieldType::Int32 | FieldType::Int64 => self
                .max
                .as_ref()
                .and_then(|max| beyond(max, 1))
                .or_else(|| self.min.as_ref().and_then(|min| beyond(min, -1))),
            FieldType::String => match (&self.min, &self.max) {
                (Some(min), _) if min.value >= 1.0 => Some("String::new()".to_owned()),
                (_, Some(max)) => beyond(max, 1).map(|length| format!("\"x\".repeat({length})")),
                _ => None,
            },
            _ => None,
        }
    }
}

fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, after) = rest.split_at(digits);
        let unit = ["ms", "s", "m", "h"].into_iter().find(|unit| after.starts_with(unit));
        let (Some(unit), true, true) = (unit, number.parse::<f64>().is_ok(), number.ends_with(|d: char| d != '.'))
        else {
            return false;
        };
        rest = &after[unit.len()..];
    }
    !text.is_empty()
}

fn is_quantity(text: &str) -> bool {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, suffix) = text.split_at(digits);
    let suffixes = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    number.parse::<f64>().is_ok() && suffixes.contains(&suffix)
}

/// An approximate check; the API server validates it.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    shape == "0000-00-00T00:00:00Z"
}
