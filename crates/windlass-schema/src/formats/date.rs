//! RFC 3339 dates and times, parsed as leniently as in kube-apiserver.

/// A valid date: `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = bytes else { return false };
    let digits = [y1, y2, y3, y4, m1, m2, d1, d2];
    if !digits.iter().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let number = |digits: &[&u8]| digits.iter().fold(0_u32, |n, digit| n * 10 + u32::from(**digit - b'0'));
    let (year, month, day) = (number(&digits[..4]), number(&digits[4..6]), number(&digits[6..]));
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=last).contains(&day)
}

/// A date, a `t`, a time of day and a zone; anything after another `t` is ignored.
pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

/// `15:04:05`, an optional fraction after any character, and `z` or `+07:00`.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let pair = |at: usize, max: u8| match bytes.get(at..at + 2) {
        Some([a, b]) => a.is_ascii_digit() && b.is_ascii_digit() && (a - b'0') * 10 + (b - b'0') <= max,
        _ => false,
    };
    let colons = bytes.get(2) == Some(&b':') && bytes.get(5) == Some(&b':');
    if !(colons && pair(0, 23) && pair(3, 59) && pair(6, 59)) {
        return false;
    }
    let rest = &text[8..];
    let zone = match rest.as_bytes() {
        [.., b'z'] => 1,
        _ => 6,
    };
    let Some((fraction, zone)) = rest.len().checked_sub(zone).and_then(|at| rest.split_at_checked(at)) else {
        return false;
    };
    let good_zone = match zone.as_bytes() {
        [b'z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|b| b.is_ascii_digit()),
        _ => false,
    };
    let mut fraction = fraction.chars();
    let good_fraction = match fraction.next() {
        None => true,
        Some('\n') => false,
        Some(_) => !fraction.as_str().is_empty() && fraction.as_str().bytes().all(|b| b.is_ascii_digit()),
    };
    good_zone && good_fraction
}
