//! The range of node ports.

use std::{fmt, num::IntErrorKind, str::FromStr};

use super::pool::Pool;

/// The ports from which node ports are allocated: 30000 to 32767 by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePortRange {
    first: u32,
    last: u32,
}

impl Default for NodePortRange {
    fn default() -> Self {
        Self { first: 30_000, last: 32_767 }
    }
}

/// Reasons why a range of ports is invalid, worded as in kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPortRange(String);

impl FromStr for NodePortRange {
    type Err = InvalidPortRange;

    /// Parses `FIRST-LAST`, `FIRST+MORE` or a single port; the default range if the text is empty.
    fn from_str(text: &str) -> Result<Self, InvalidPortRange> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::default());
        }
        let (first, last) = match (text.split_once('-'), text.split_once('+')) {
            (None, None) => (number(text)?, number(text)?),
            (Some((first, last)), None) => (number(first)?, number(last)?),
            (None, Some((first, more))) => {
                let first = number(first)?;
                (first, first.saturating_add(number(more)?))
            }
            (Some(_), Some(_)) => return Err(InvalidPortRange(format!("unable to parse port range: {text}"))),
        };
        if first.max(last) > 65_535 {
            return Err(InvalidPortRange(format!("the port range cannot be greater than 65535: {text}")));
        }
        if last < first {
            return Err(InvalidPortRange(format!("end port cannot be less than start port: {text}")));
        }
        let port = |number: i64| u32::try_from(number).unwrap_or_default();
        Ok(Self { first: port(first), last: port(last) })
    }
}

/// Parses a number as Go does.
fn number(text: &str) -> Result<i64, InvalidPortRange> {
    text.parse::<i64>().map_err(|error| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        InvalidPortRange(format!("strconv.Atoi: parsing {text:?}: {why}"))
    })
}

impl NodePortRange {
    /// Returns the free ports. The lower ones are preferred for ports that services request.
    pub(super) fn pool(self) -> Pool {
        let size = self.last - self.first + 1;
        let reserved = if size <= 16 { 0 } else { (size / 32).clamp(16, 128) };
        // Port 0 means none.
        Pool::new(self.first.max(1)..self.last + 1, reserved)
    }

    /// Returns the first of the ports outside the range that dry runs show.
    pub(super) fn placeholder(self) -> u32 {
        if self.last < 60_000 { self.last + 2 } else { 1 }
    }
}

impl fmt::Display for NodePortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_in_three_ways() {
        for (text, expected) in [
            ("", "30000-32767"),
            (" 30000-30003 ", "30000-30003"),
            ("30000+3", "30000-30003"),
            ("8080", "8080-8080"),
            ("1-65535", "1-65535"),
        ] {
            assert_eq!(text.parse().map(|range: NodePortRange| range.to_string()), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn wrong_ranges_are_errors_of_kube_apiserver() {
        for (text, expected) in [
            ("a-b", "strconv.Atoi: parsing \"a\": invalid syntax"),
            ("1-", "strconv.Atoi: parsing \"\": invalid syntax"),
            ("-1", "strconv.Atoi: parsing \"\": invalid syntax"),
            ("99999999999999999999", "strconv.Atoi: parsing \"99999999999999999999\": value out of range"),
            ("1-2+3", "unable to parse port range: 1-2+3"),
            ("1-65536", "the port range cannot be greater than 65535: 1-65536"),
            ("65535+1", "the port range cannot be greater than 65535: 65535+1"),
            ("3-2", "end port cannot be less than start port: 3-2"),
        ] {
            assert_eq!(text.parse::<NodePortRange>(), Err(InvalidPortRange(expected.to_owned())), "{text}");
        }
    }
}
