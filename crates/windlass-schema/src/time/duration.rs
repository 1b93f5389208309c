//! Go durations: `1h30m`, `250ms`.

use super::{DAY, quote};

const LIMIT: u64 = 1 << 63;
const SECOND: i64 = 1_000_000_000;

/// Parses a Go duration to nanoseconds.
///
/// # Errors
/// Returns Go's message if the string is not a duration.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let error = |message: &str| format!("time: {message} {}", quote(text));
    let invalid = || error("invalid duration");
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mut value = leading_int(&rest[..whole]).ok_or_else(invalid)?;
        rest = &rest[whole..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            (fraction, rest) = after.split_at(digits);
        }
        if whole == 0 && fraction.is_empty() {
            return Err(invalid());
        }
        let length = rest.bytes().take_while(|b| *b != b'.' && !b.is_ascii_digit()).count();
        if length == 0 {
            return Err(error("missing unit in duration"));
        }
        let (name, after) = rest.split_at(length);
        rest = after;
        let unit = unit_nanos(name).ok_or_else(|| error(&format!("unknown unit {} in duration", quote(name))))?;
        if value > LIMIT / unit {
            return Err(invalid());
        }
        value *= unit;
        let (numerator, scale) = leading_fraction(fraction);
        if numerator > 0 {
            value += (numerator as f64 * (unit as f64 / scale)) as u64;
            if value > LIMIT {
                return Err(invalid());
            }
        }
        total = total.checked_add(value).filter(|total| *total <= LIMIT).ok_or_else(invalid)?;
    }
    if negative {
        return Ok((total as i64).wrapping_neg());
    }
    i64::try_from(total).map_err(|_| invalid())
}

fn unit_nanos(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn leading_int(digits: &str) -> Option<u64> {
    digits.bytes().try_fold(0_u64, |x, byte| {
        x.checked_mul(10).and_then(|x| x.checked_add(u64::from(byte - b'0'))).filter(|x| *x <= LIMIT)
    })
}

/// Parses the digits after a point as a number and its divisor; excess digits are dropped.
fn leading_fraction(digits: &str) -> (u64, f64) {
    let (mut value, mut scale) = (0_u64, 1.0);
    for byte in digits.bytes() {
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(byte - b'0')));
        let Some(next) = next.filter(|next| value <= (LIMIT - 1) / 10 && *next <= LIMIT) else { break };
        value = next;
        scale *= 10.0;
    }
    (value, scale)
}

/// Formats a duration like Go: `1h30m0s`, `1.5s`, `250ms`.
pub fn format_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let value = nanos.unsigned_abs();
    match value {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{value}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", with_fraction(value, 3)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", with_fraction(value, 6)),
        _ => {
            let minutes = value / 60_000_000_000;
            let seconds = with_fraction(value % 60_000_000_000, 9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

fn with_fraction(value: u64, places: u32) -> String {
    let unit = 10_u64.pow(places);
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let digits = format!("{fraction:0width$}", width = places as usize);
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// Formats seconds with two or three significant figures: `90s`, `5m3s`, `47h`, `3d2h`, `2y16d`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit}{small}{small_unit}"),
    };
    match () {
        // Clocks may differ slightly.
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}

/// Parses the format `duration`: Go durations, and numbers with units such as `3 days`.
pub fn parse_loose_duration(text: &str) -> Option<i64> {
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], SECOND),
        (&["m", "min"], 60 * SECOND),
        (&["h", "hr", "hour"], 3600 * SECOND),
        (&["d", "day"], DAY * SECOND),
        (&["w", "wk", "week"], 7 * DAY * SECOND),
    ];
    if let Ok(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let mut total = None;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[at..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let after = rest[digits..].trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(after.len());
        let (count, unit) = (&rest[..digits], after[..letters].to_lowercase());
        rest = &after[letters..];
        if unit.is_empty() {
            continue;
        }
        let count: i64 = count.parse().ok()?;
        for (variants, multiplier) in UNITS {
            for (at, variant) in variants.iter().enumerate() {
                if unit == *variant || (at + 1 == variants.len() && unit.starts_with(variant)) {
                    total = Some(total.unwrap_or(0i64).wrapping_add(count.wrapping_mul(multiplier)));
                }
            }
        }
    }
    total
}
