//! Quantities: fixed-point numbers of resources, such as `500m`, `1.5Gi`, `1e3`.
//!
//! Parsing and printing match `resource.Quantity` exactly, including its quirks: a string that looks canonical is kept as
//! written (`1.500`, `+1`). Mantissas have 38 digits; a longer one is rounded away from zero.

use std::cmp::Ordering;
use std::fmt;

mod parse;

/// The suffix family of a printed quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `12e6`.
    DecimalExponent,
    /// `12Mi`.
    BinarySi,
    /// `12M`.
    DecimalSi,
}

/// Reason why a string is not a quantity, worded as in kube-apiserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The string does not look like a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number before the suffix cannot be parsed.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A quantity: `mantissa × 10^scale`, with the format it was written in.
#[derive(Debug, Clone)]
pub struct Quantity {
    mantissa: i128,
    scale: i32,
    format: Format,
    /// The original text, if it is reused as the canonical form.
    text: Option<Box<str>>,
}

impl Quantity {
    /// Parses a quantity.
    ///
    /// # Errors
    /// Returns an error if the string is not a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// Returns a whole number.
    pub fn new(value: i64, format: Format) -> Self {
        Self { mantissa: value.into(), scale: 0, format, text: None }
    }

    /// Returns a number of thousandths.
    pub fn milli(value: i64, format: Format) -> Self {
        Self { mantissa: value.into(), scale: -3, format, text: None }
    }

    /// Returns zero.
    pub fn zero() -> Self {
        Self::new(0, Format::DecimalSi)
    }

    /// Returns the format in which it is printed.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// Returns -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// Returns the value rounded away from zero to a whole number, saturating at the bounds.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// Returns the value in thousandths, rounded away from zero, saturating at the bounds.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// Returns the value in units of `10^scale`, rounded away from zero, saturating at the bounds.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let (mantissa, _) = match self.scale.saturating_sub(scale) {
            up @ 0.. => (multiply(self.mantissa, up).unwrap_or(self.mantissa.signum() * i128::MAX), true),
            down => divide_away(self.mantissa, down.unsigned_abs()),
        };
        i64::try_from(mantissa).unwrap_or(if mantissa > 0 { i64::MAX } else { i64::MIN })
    }

    /// Returns the value if it is written as a whole number (`1k` but not `1000m`) and fits.
    pub fn as_i64(&self) -> Option<i64> {
        let whole = (self.scale >= 0).then(|| multiply(self.mantissa, self.scale)).flatten()?;
        i64::try_from(whole).ok()
    }

    /// Returns the value as a float, which may be inexact.
    pub fn as_f64(&self) -> f64 {
        self.mantissa as f64 * 10_f64.powi(self.scale)
    }

    /// Adds another quantity; zero adopts the other's format.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, other.mantissa);
    }

    /// Subtracts another quantity; zero adopts the other's format.
    pub fn sub(&mut self, other: &Self) {
        self.combine(other, other.mantissa.saturating_neg());
    }

    /// Changes the sign.
    pub fn neg(&mut self) {
        self.text = None;
        self.mantissa = self.mantissa.saturating_neg();
    }

    /// Compares with a whole number.
    pub fn cmp_i64(&self, other: i64) -> Ordering {
        compare((self.mantissa, self.scale), (other.into(), 0))
    }

    /// Returns whether the original text is its canonical form.
    pub(crate) fn is_text(&self) -> bool {
        self.text.is_some()
    }

    fn combine(&mut self, other: &Self, mantissa: i128) {
        self.text = None;
        if self.mantissa == 0 {
            self.format = other.format;
            (self.mantissa, self.scale) = (mantissa, other.scale);
            return;
        }
        if mantissa == 0 {
            return;
        }
        let scale = self.scale.min(other.scale);
        let mine = multiply(self.mantissa, self.scale - scale);
        let theirs = multiply(mantissa, other.scale - scale);
        match (mine, theirs) {
            (Some(mine), Some(theirs)) => (self.mantissa, self.scale) = (mine.saturating_add(theirs), scale),
            // So far apart that the smaller one is below the precision of the larger one.
            (None, _) => {}
            (_, None) => (self.mantissa, self.scale) = (mantissa, other.scale),
        }
    }

    fn canonical(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        let mut format = self.format;
        if format == Format::BinarySi {
            if self.cmp_i64(-1024).is_gt() && self.cmp_i64(1024).is_lt() {
                format = Format::DecimalSi;
            } else {
                match self.whole() {
                    Some(whole) => {
                        let (number, times) = remove_factors(whole, 1024);
                        let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(times as usize).unwrap_or(&"");
                        return write!(f, "{number}{suffix}");
                    }
                    None => format = Format::DecimalSi,
                }
            }
        }
        let (mut number, times) = remove_factors(self.mantissa, 10);
        let mut exponent = i64::from(self.scale) + i64::from(times);
        let mut zeros = 0;
        while exponent % 3 != 0 {
            match number.checked_mul(10) {
                Some(more) => number = more,
                None => zeros += 1,
            }
            exponent -= 1;
        }
        write!(f, "{number}{:0<zeros$}", "")?;
        match format {
            Format::DecimalExponent if exponent == 0 => Ok(()),
            Format::DecimalExponent => write!(f, "e{exponent}"),
            _ => f.write_str(decimal_suffix(exponent)),
        }
    }

    /// Returns the value if it is a whole number.
    fn whole(&self) -> Option<i128> {
        match self.scale {
            up @ 0.. => multiply(self.mantissa, up),
            down => {
                let (whole, exact) = divide_away(self.mantissa, down.unsigned_abs());
                exact.then_some(whole)
            }
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => self.canonical(f),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        compare((self.mantissa, self.scale), (other.mantissa, other.scale))
    }
}

/// Returns the suffix of a power of ten; empty beyond the known ones, as in kube-apiserver.
fn decimal_suffix(exponent: i64) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

/// Returns `value × 10^power`.
fn multiply(value: i128, power: i32) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    10_i128.checked_pow(u32::try_from(power).ok()?)?.checked_mul(value)
}

/// Returns `value / 10^power`, rounded away from zero, and whether that is exact.
fn divide_away(value: i128, power: u32) -> (i128, bool) {
    match 10_i128.checked_pow(power) {
        Some(divisor) if value % divisor == 0 => (value / divisor, true),
        Some(divisor) => (value / divisor + value.signum(), false),
        None => (value.signum(), value == 0),
    }
}

fn remove_factors(mut value: i128, factor: i128) -> (i128, u32) {
    let mut times = 0;
    while value != 0 && value % factor == 0 {
        value /= factor;
        times += 1;
    }
    (value, times)
}

fn compare((a, a_scale): (i128, i32), (b, b_scale): (i128, i32)) -> Ordering {
    if a.signum() != b.signum() || a == 0 {
        return a.cmp(&b);
    }
    let scale = a_scale.min(b_scale);
    match (multiply(a, a_scale.saturating_sub(scale)), multiply(b, b_scale.saturating_sub(scale))) {
        (Some(a), Some(b)) => a.cmp(&b),
        (None, _) if a > 0 => Ordering::Greater,
        (None, _) => Ordering::Less,
        (_, None) if b > 0 => Ordering::Less,
        (_, None) => Ordering::Greater,
    }
}

#[cfg(test)]
mod tests;
