//! `windlass doctor`: checks whether this machine has what the commands need.

mod checks;
mod facts;
mod gather;

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use self::checks::{Finding, Level};
use crate::{
    data_dir::DataDirArgs,
    failure::AlreadyReported,
    output::{self, Format},
    threads,
};

/// Check the requirements of windlass and suggest fixes
///
/// Exit codes: 0 if there are no problems (there may be warnings), 1 if there are problems, 2 for a usage error.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Serialize)]
struct Report<'a> {
    checks: &'a [Finding],
}

/// Gathers facts, evaluates them, and prints the findings.
pub(crate) fn run(args: DoctorArgs) -> anyhow::Result<()> {
    let folder = args.data_dir.resolve()?;
    let facts = threads::block_on(async { Ok(gather::all(&folder).await) })?;
    let findings = checks::all(&facts);
    let colour = facts.terminal.is_terminal && facts.terminal.colour;
    output::print(&args.output.text(&Report { checks: &findings }, || table(&findings, colour))?)?;
    match findings.iter().any(|finding| finding.level == Level::Problem) {
        true => Err(AlreadyReported.into()),
        false => Ok(()),
    }
}

/// Human-readable output: one line per check, hints below findings that are not ok, and a summary.
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
    fn findings_and_hints_are_on_lines_of_their_own() {
        let finding = |check, level, hint: Option<&str>| Finding {
            check,
            level,
            said: format!("{check} was checked"),
            hint: hint.map(str::to_owned),
        };
        let findings = [
            finding("rust", Level::Ok, None),
            finding("kubectl", Level::Warning, Some("install it")),
            finding("clock", Level::Problem, Some("set it")),
        ];
        expect![[r#"
            ok       rust     rust was checked
            warning  kubectl  kubectl was checked
                              hint: install it
            problem  clock    clock was checked
                              hint: set it

            1 problem, 1 warning
        "#]]
        .assert_eq(&table(&findings, false));
    }
}
