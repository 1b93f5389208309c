//! Regular expressions in Go syntax, executed by Rust's regex engine.
//!
//! Patterns in schemas and expressions are written for Go's engine. Rust's is closely related and also runs in linear
//! time, but differs in details: in Go, `\d`, `\w`, `\s` and `\b` are ASCII only, braces that repeat nothing are
//! literal, and classes have no set operations. So a pattern is parsed by Go's rules, which gives Go's errors, and
//! translated for Rust's engine at the same time. Its memory use is bounded.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

mod class;
mod escape;
mod parser;

use parser::Parser;

/// Reason why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {0}")]
pub struct PatternError(pub String);

/// Memory limit for all patterns of one schema or CustomResourceDefinition together.
const TOTAL_BUDGET: usize = 64 << 20;
/// Size limits to try for a pattern. The last one is the maximum for any pattern.
const SIZES: [usize; 5] = [8 << 10, 64 << 10, 512 << 10, 2 << 20, 10 << 20];
/// Memory limit of a pattern that is known only at run time and compiled on each use.
const DYNAMIC_SIZE: usize = 32 << 10;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Matches what Go would match, but has no capture groups.
    pub regex: Regex,
    /// Maximum size in bytes. The time to match can grow with this as well as with the text.
    pub size: usize,
}

impl Pattern {
    /// Returns how many times longer than a small pattern this one may take to match a string.
    pub fn weight(&self) -> u64 {
        (self.size / SIZES[0]).max(1) as u64
    }
}

thread_local! {
    /// Patterns of the current CustomResourceDefinition.
    static SHARED: RefCell<Option<Compiler>> = const { RefCell::new(None) };
}

/// Runs `work` with a limit on the total memory of all patterns compiled within it; each pattern is compiled once. A
/// nested call shares the limit of the outer one.
pub fn with_shared_limits<T>(work: impl FnOnce() -> T) -> T {
    struct End(bool);
    impl Drop for End {
        fn drop(&mut self) {
            if self.0 {
                SHARED.set(None);
            }
        }
    }
    let outermost = SHARED.with_borrow_mut(|shared| {
        let outermost = shared.is_none();
        shared.get_or_insert_default();
        outermost
    });
    let _end = End(outermost);
    work()
}

/// Checks whether a string is a regular expression in Go. Nothing is compiled, so the time is linear in the length.
///
/// # Errors
/// Returns Go's error for an invalid expression.
pub fn check(pattern: &str) -> Result<(), PatternError> {
    Parser::new(pattern).parse().map(drop)
}

/// Compiles a pattern.
///
/// # Errors
/// Returns an error if the pattern is malformed or too large.
pub fn compile(pattern: &str) -> Result<Pattern, PatternError> {
    SHARED.with_borrow_mut(|shared| match shared {
        Some(compiler) => compiler.compile(pattern),
        None => Compiler::default().compile(pattern),
    })
}

/// Compiles a pattern that comes with the data and must therefore be small.
///
/// # Errors
/// Returns an error if the pattern is malformed or too large.
pub fn compile_dynamic(pattern: &str) -> Result<Pattern, PatternError> {
    let translated = translate(pattern)?;
    let regex = build(&translated, pattern, DYNAMIC_SIZE)?.ok_or_else(|| too_large(pattern))?;
    Ok(Pattern { regex, size: DYNAMIC_SIZE })
}

/// Compiles several patterns, each distinct one once, within a total limit.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    done: HashMap<String, Pattern>,
    spent: usize,
}

impl Compiler {
    pub(crate) fn compile(&mut self, pattern: &str) -> Result<Pattern, PatternError> {
        if let Some(done) = self.done.get(pattern) {
            return Ok(done.clone());
        }
        let translated = translate(pattern)?;
        for size in SIZES {
            if self.spent + size > TOTAL_BUDGET {
                break;
            }
            let regex = build(&translated, pattern, size)?;
            // A failed attempt takes time as well.
            self.spent += size;
            if let Some(regex) = regex {
                let compiled = Pattern { regex, size };
                self.done.insert(pattern.to_owned(), compiled.clone());
                return Ok(compiled);
            }
        }
        Err(too_large(pattern))
    }
}

fn translate(pattern: &str) -> Result<String, PatternError> {
    Parser::new(pattern).parse()?.ok_or_else(|| too_deep(pattern))
}

/// Compiles a translated pattern; returns `None` if it would need more than `size`.
fn build(translated: &str, pattern: &str, size: usize) -> Result<Option<Regex>, PatternError> {
    match RegexBuilder::new(translated).size_limit(size).dfa_size_limit(1 << 20).build() {
        Ok(regex) => Ok(Some(regex)),
        Err(regex::Error::CompiledTooBig(_)) => Ok(None),
        // Rust's engine accepts everything that Go's does, except for the nesting depth.
        Err(_) => Err(too_deep(pattern)),
    }
}

fn too_deep(pattern: &str) -> PatternError {
    PatternError(format!("{}: `{pattern}`", parser::TOO_DEEP))
}

fn too_large(pattern: &str) -> PatternError {
    PatternError(format!("expression too large: `{pattern}`"))
}

#[cfg(test)]
mod tests;
