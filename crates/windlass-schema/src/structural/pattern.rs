//! Regular expressions of schemas: written for Go's engine, run by ours.
//!
//! Both are linear-time engines of one family, but differ in letters: `\d`, `\w`, `\s` and `\b` know ASCII only in Go,
//! braces that repeat nothing stand for themselves, and a class has no set operations. A pattern is rewritten before
//! it is compiled. What it may take of memory is bounded.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

mod translate;

use translate::translate;

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {0}")]
pub struct PatternError(pub String);

/// What all patterns of one schema may take together.
const TOTAL_BUDGET: usize = 64 << 20;
/// The sizes that are tried for a pattern.
const SIZES: [usize; 5] = [8 << 10, 64 << 10, 512 << 10, 2 << 20, 10 << 20];

/// Compiles a pattern of Go's syntax.
///
/// # Errors
/// If the pattern is malformed or too large.
pub fn compile(pattern: &str) -> Result<Regex, PatternError> {
    Compiler::default().compile(pattern)
}

/// Compiles the patterns of one schema: each text once, and all within a budget.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    done: HashMap<String, Regex>,
    spent: usize,
}

impl Compiler {
    pub(super) fn compile(&mut self, pattern: &str) -> Result<Regex, PatternError> {
        if let Some(regex) = self.done.get(pattern) {
            return Ok(regex.clone());
        }
        let translated = translate(pattern)?;
        for size in SIZES {
            if self.spent + size > TOTAL_BUDGET {
                break;
            }
            match RegexBuilder::new(&translated).size_limit(size).dfa_size_limit(1 << 20).build() {
                Ok(regex) => {
                    self.spent += size;
                    self.done.insert(pattern.to_owned(), regex.clone());
                    return Ok(regex);
                }
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(PatternError(reason(&error.to_string(), pattern))),
            }
        }
        Err(PatternError("expression too large".to_owned()))
    }
}

/// The last line of our engine's report says what is wrong.
fn reason(report: &str, pattern: &str) -> String {
    let last = report.lines().last().unwrap_or(report);
    format!("{}: `{pattern}`", last.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests;
