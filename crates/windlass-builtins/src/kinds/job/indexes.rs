//! Index lists: `1,3-5,7`.

use windlass_schema::go_format::quote;

/// Counts the indexes of a list; they must be ascending and below `completions`.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total) = (None, 0);
    for part in text.split(',') {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(not_rising(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first index that two lists share. Invalid parts are skipped; they are reported elsewhere.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> {
        if text.is_empty() {
            return Vec::new();
        }
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut i, mut j) = (0, 0);
    while let (Some(a), Some(b)) = (completed.get(i), failed.get(j)) {
        if a.0 <= b.1 && b.0 <= a.1 {
            return Some(a.0.max(b.0));
        }
        if a.0 <= b.0 { i += 1 } else { j += 1 }
    }
    None
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = text.split('-').collect();
    let index = |text: &str| {
        let value =
            parse(text).ok_or_else(|| format!("cannot convert string to integer for index: {}", quote(text)))?;
        if value >= completions { Err(format!("too large index: {}", quote(text))) } else { Ok(value) }
    };
    match limits.as_slice() {
        [one] => index(one).map(|index| (index, index)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last { Err(not_rising(first, last)) } else { Ok((first, last)) }
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quote(text)
        )),
    }
}

/// Parses a number as Go does, with an optional sign. Intervals are split at hyphens, so it is never negative.
fn parse(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn not_rising(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_indexes_rise_and_stay_below_the_completions() {
        for (text, expected) in [
            ("", Ok(0)),
            ("0,2-4,9", Ok(5)),
            ("0,0", Err("non-increasing order, previous: 0, current: 0")),
            ("4-4", Err("non-increasing order, previous: 4, current: 4")),
            ("10", Err("too large index: \"10\"")),
            ("1-x", Err("cannot convert string to integer for index: \"x\"")),
            (",", Err("cannot convert string to integer for index: \"\"")),
            (
                "1-2-3",
                Err("the fragment \"1-2-3\" violates the requirement that an index interval can have at most two \
                     parts separated by '-'"),
            ),
        ] {
            assert_eq!(count(text, 10), expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn an_index_is_completed_or_failed() {
        assert_eq!(overlap("0-3,7", "4,6", 10), None);
        assert_eq!(overlap("0-3,7", "x,3-5", 10), Some(3));
        assert_eq!(overlap("7", "1,2,6-8", 10), Some(7));
        assert_eq!(overlap("", "1", 10), None);
    }
}
