//! `windlass doctor`: whether this machine has what the commands need, and what to do if not.

mod checks;
mod facts;
mod gather;

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use self::checks::{Finding, Level};
use crate::{
    data_dir::DataDirArgs,
    failure::Told,
    output::{self, Format},
    threads,
};

/// Check what commands need, and say what to do
///
/// Exit codes: 0 if there is no problem (there may be warnings), 1 if there is one, 2 for wrong usage.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Serialize)]
struct Report<'a> {
    checks: &'a [Finding],
}

/// Gathers facts, judges them, and prints what was found.
pub(crate) fn run(args: DoctorArgs) -> anyhow::Result<()> {
    let folder = args.data_dir.resolve()?;
    let facts = threads::block_on(async { Ok(gather::all(&folder).await) })?;
    let findings = checks::all(&facts);
    let colour = facts.terminal.is_terminal && facts.terminal.colour;
    output::print(&args.output.text(&Report { checks: &findings }, || table(&findings, colour))?)?;
    match findings.iter().any(|finding| finding.level == Level::Problem) {
        true => Err(Told.into()),
        false => Ok(()),
    }
}

/// For people: a line a check, what to do below those that are not well, and a sum.
fn table(findings: &[Finding], colour: bool) -> String {
    let styled = |code: &str, text: &str| if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let level = match finding.level {
            Level::Ok => styled("32", "ok     "),
            Level::Warning => styled("33", "warning"),
            Level::Problem => styled("31", "problem"),
        };
        let _ = writeln!(text, "{level}  {:<width$}  {}", finding.check, finding.said);
        if let Some(hint) = &finding.hint {
            let _ = writeln!(text, "{:9}{:width$}  hint: {hint}", "", "");
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let _ = writeln!(text, "\n{}, {}", many(problems, "problem"), many(warnings, "warning"));
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_finding_is_a_line_and_its_hint_another() {
        let finding = |check, level, hint: Option<&str>| Finding {
            check,
            level,
            said: format!("{check} was looked at"),
            hint: hint.map(str::to_owned),
        };
        let findings = [
            finding("rust", Level::Ok, None),
            finding("kubectl", Level::Warning, Some("install it")),
            finding("clock", Level::Problem, Some("set it")),
        ];
        expect![[r#"
            ok       rust     rust was looked at
            warning  kubectl  kubectl was looked at
                              hint: install it
            problem  clock    clock was looked at
                              hint: set it

            1 problem, 1 warning
        "#]]
        .assert_eq(&table(&findings, false));
    }
}
