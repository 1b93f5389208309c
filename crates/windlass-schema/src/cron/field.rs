//! One field of a schedule: `*/5`, `1,15`, `mon-fri`.

use super::ParseError;
use crate::go_format::quote;

/// Set if a field contains a star: such a day field does not select days on its own.
pub(super) const STAR: u64 = 1 << 63;

/// The values that a field accepts.
pub(super) struct Bounds {
    min: u64,
    max: u64,
    /// Names of the values, starting at `min`.
    names: &'static [&'static str],
}

pub(super) const MINUTE: Bounds = Bounds { min: 0, max: 59, names: &[] };
pub(super) const HOUR: Bounds = Bounds { min: 0, max: 23, names: &[] };
pub(super) const DAY_OF_MONTH: Bounds = Bounds { min: 1, max: 31, names: &[] };
pub(super) const MONTH: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
pub(super) const DAY_OF_WEEK: Bounds =
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Bounds {
    /// Parses a field into a bit set of its values. Empty parts between commas are skipped, so `,` allows no value at
    /// all.
    pub(super) fn parse(&self, field: &str) -> Result<u64, ParseError> {
        let parts = field.split(',').filter(|part| !part.is_empty());
        parts.map(|part| self.range(part)).try_fold(0, |bits, range| Ok(bits | range?))
    }

    fn range(&self, text: &str) -> Result<u64, ParseError> {
        let error = |message: String| Err(ParseError(format!("{message}: {text}")));
        let steps: Vec<&str> = text.split('/').collect();
        let limits: Vec<&str> = steps[0].split('-').collect();
        let mut star = 0;
        let (start, mut end);
        if matches!(limits[0], "*" | "?") {
            (start, end) = (self.min, self.max);
            star = STAR;
        } else {
            start = self.number_or_name(limits[0])?;
            end = match limits.as_slice() {
                [_] => start,
                [_, last] => self.number_or_name(last)?,
                _ => return error("too many hyphens".to_owned()),
            };
        }
        let step = match steps.as_slice() {
            [_] => 1,
            [_, step] => {
                let step = number(step)?;
                // `n/step` ranges from n to the maximum.
                if limits.len() == 1 {
                    end = self.max;
                }
                if step > 1 {
                    star = 0;
                }
                step
            }
            _ => return error("too many slashes".to_owned()),
        };
        let &Self { min, max, .. } = self;
        if start < min {
            return error(format!("beginning of range ({start}) below minimum ({min})"));
        }
        if end > max {
            return error(format!("end of range ({end}) above maximum ({max})"));
        }
        if start > end {
            return error(format!("beginning of range ({start}) beyond end of range ({end})"));
        }
        if step == 0 {
            return error("step of range should be a positive number".to_owned());
        }
        let values = (start..=end).filter(|value| (value - start) % step == 0);
        Ok(values.fold(star, |bits, value| bits | 1 << value))
    }

    fn number_or_name(&self, text: &str) -> Result<u64, ParseError> {
        let lower = text.to_lowercase();
        match self.names.iter().zip(self.min..).find(|(name, _)| **name == lower) {
            Some((_, value)) => Ok(value),
            None => number(text),
        }
    }
}

/// Parses a number like Go's `strconv.Atoi`.
fn number(text: &str) -> Result<u64, ParseError> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    let problem = if digits { "value out of range" } else { "invalid syntax" };
    let value: Option<i64> = if digits { text.parse().ok() } else { None };
    let Some(value) = value else {
        let quoted = quote(text);
        return Err(ParseError(format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {problem}")));
    };
    u64::try_from(value).map_err(|_| ParseError(format!("negative number ({value}) not allowed: {text}")))
}
