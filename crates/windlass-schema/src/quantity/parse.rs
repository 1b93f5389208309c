//! Parsing of quantities.

use super::{Format, Quantity, QuantityError, divide_away, multiply};

/// Parts of a quantity: sign, digits before and after the point, suffix.
struct Parts<'a> {
    positive: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let (positive, rest) = match text.as_bytes().first() {
        Some(b'-') => (false, &text[1..]),
        Some(b'+') => (true, &text[1..]),
        _ => (true, text),
    };
    let rest = rest.trim_start_matches('0');
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let tail = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
    if digits(tail) != tail.len() {
        return Err(QuantityError::Format);
    }
    Ok(Parts { positive, whole: if whole.is_empty() { "0" } else { whole }, fraction, suffix })
}

/// Returns the base, exponent and format of a suffix.
fn interpret(suffix: &str) -> Option<(u32, i32, Format)> {
    Some(match suffix {
        "" => (10, 0, Format::DecimalSi),
        "n" => (10, -9, Format::DecimalSi),
        "u" => (10, -6, Format::DecimalSi),
        "m" => (10, -3, Format::DecimalSi),
        "k" => (10, 3, Format::DecimalSi),
        "M" => (10, 6, Format::DecimalSi),
        "G" => (10, 9, Format::DecimalSi),
        "T" => (10, 12, Format::DecimalSi),
        "P" => (10, 15, Format::DecimalSi),
        "E" => (10, 18, Format::DecimalSi),
        "Ki" => (2, 10, Format::BinarySi),
        "Mi" => (2, 20, Format::BinarySi),
        "Gi" => (2, 30, Format::BinarySi),
        "Ti" => (2, 40, Format::BinarySi),
        "Pi" => (2, 50, Format::BinarySi),
        "Ei" => (2, 60, Format::BinarySi),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // kube-apiserver truncates the exponent to 32 bits.
            (10, exponent as i32, Format::DecimalExponent)
        }
    })
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let Parts { positive, whole, fraction, suffix } = split(text)?;
    let (base, exponent, format) = interpret(suffix).ok_or(QuantityError::Suffix)?;
    let length = whole.len() + fraction.len();
    let (fits, scale, factor) = if base == 10 {
        (length <= 18, i64::from(exponent), 1)
    } else {
        let room = 15 - whole.len() as i64 - i64::from(exponent) * 3 / 10 - 1;
        (fraction.is_empty() && room >= 0, 0, 1_i128 << exponent)
    };
    let scale = scale - fraction.len() as i64;
    if fits && scale >= -9 {
        let value = number(whole, fraction).0;
        let mantissa = value * factor;
        let mantissa = if positive { mantissa } else { -mantissa };
        let keep = if base == 2 {
            value & 7 != 0
        } else {
            let last = if fraction.is_empty() { whole } else { fraction };
            let thousands = last.ends_with("000") || ends_with_thousand(whole, fraction);
            scale % 3 == 0 && !thousands && !whole.starts_with('0')
        };
        let scale = i32::try_from(scale).map_err(|_| QuantityError::Numeric)?;
        return Ok(Quantity { mantissa, scale, format, text: keep.then(|| text.into()) });
    }
    slow(positive, whole, fraction, (base, exponent, format))
}

/// Returns whether the digits end in three zeros that span the point.
fn ends_with_thousand(whole: &str, fraction: &str) -> bool {
    whole.bytes().chain(fraction.bytes()).rev().take(3).filter(|b| *b == b'0').count() == 3
}

/// Returns the digits as a number, and the power of ten by which digits that did not fit made it too small.
fn number(whole: &str, fraction: &str) -> (i128, i64) {
    let mut value = 0_i128;
    let mut dropped = 0;
    let mut inexact = false;
    for byte in whole.bytes().chain(fraction.bytes()) {
        let digit = i128::from(byte - b'0');
        match value.checked_mul(10).and_then(|v| v.checked_add(digit)).filter(|_| dropped == 0) {
            Some(more) => value = more,
            None => {
                dropped += 1;
                inexact |= digit != 0;
            }
        }
    }
    (if inexact { value.saturating_add(1) } else { value }, dropped)
}

/// Parses numbers that are too long or too small for the fast path: rounded up to a billionth, and capped if binary.
fn slow(
    positive: bool,
    whole: &str,
    fraction: &str,
    (base, exponent, mut format): (u32, i32, Format),
) -> Result<Quantity, QuantityError> {
    let (mut mantissa, dropped) = number(whole, fraction);
    let mut scale = dropped - fraction.len() as i64;
    if base == 10 {
        scale += i64::from(exponent);
    } else {
        // Digits that the binary factor has no room for are far beyond the cap or far below a billionth.
        while mantissa.checked_shl(exponent as u32).is_none_or(|v| v >> exponent != mantissa || v < 0) {
            mantissa = divide_away(mantissa, 1).0;
            scale += 1;
        }
        mantissa <<= exponent;
    }
    if scale < -9 {
        let power = u32::try_from(-9 - scale).unwrap_or(u32::MAX);
        mantissa = divide_away(mantissa, power).0;
        scale = -9;
    }
    let mut scale = i32::try_from(scale).map_err(|_| QuantityError::Numeric)?;
    if format == Format::BinarySi {
        let cap = i128::from(i64::MAX);
        let over = match scale {
            up @ 0.. => multiply(mantissa, up).is_none_or(|v| v > cap),
            down => divide_away(mantissa, down.unsigned_abs()).0 > cap,
        };
        if over {
            (mantissa, scale) = (cap, 0);
        } else if mantissa > 0
            && scale < 0
            && 10_i128.checked_pow(scale.unsigned_abs()).is_some_and(|one| mantissa < one)
        {
            format = Format::DecimalSi;
        }
    }
    if !positive {
        mantissa = -mantissa;
    }
    Ok(Quantity { mantissa, scale, format, text: None })
}
