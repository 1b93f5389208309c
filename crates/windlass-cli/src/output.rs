//! Output formats.

use std::io::{self, Write as _};

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;
use windlass_schema::yaml;

/// Format of data on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Table,
    Json,
    Yaml,
}

impl Format {
    /// Formats the data; `table` is the human-readable form.
    pub(crate) fn text(self, data: &impl Serialize, table: impl FnOnce() -> String) -> anyhow::Result<String> {
        Ok(match self {
            Self::Table => table(),
            Self::Json => serde_json::to_string_pretty(data).context("failed to serialize as JSON")? + "\n",
            Self::Yaml => yaml::to_yaml(&serde_json::to_value(data).context("failed to serialize as YAML")?),
        })
    }
}

/// Writes to standard output. A closed pipe is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("failed to write to standard output"),
    }
}

/// Returns whether the environment allows colours.
pub(crate) fn colour_allowed() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Formats a number of bytes: `1.5 MB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.95 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_formatted_with_three_digits() {
        for (count, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1_500_000, "1.5 MB"),
            (123_456_789, "123 MB"),
            (999_999, "1.0 MB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }
}
