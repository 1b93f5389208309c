//! Regular expressions of Go's syntax, run by our engine.
//!
//! Patterns of schemas and of expressions are written for Go's engine. Ours is of the same family and takes linear time
//! as well, but differs in letters: `\d`, `\w`, `\s` and `\b` know ASCII only in Go, braces that repeat nothing stand for
//! themselves, and a class has no set operations. So a pattern is read by Go's rules, which gives Go's verdict in Go's
//! words, and is written anew for ours while it is read. What it may take of memory is bounded.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

mod class;
mod escape;
mod parser;

use parser::Parser;

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {0}")]
pub struct PatternError(pub String);

/// What all patterns of one schema, or of one definition, may take together.
const TOTAL_BUDGET: usize = 64 << 20;
/// The sizes that are tried for a pattern. The last one is the most that any pattern may take.
const SIZES: [usize; 5] = [8 << 10, 64 << 10, 512 << 10, 2 << 20, 10 << 20];
/// What a pattern may take that is known only when it is needed, and compiled each time.
const SIZE_OF_PASSING: usize = 32 << 10;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Matches and finds what Go would, but has no groups to capture.
    pub regex: Regex,
    /// How many bytes it takes at most. Time to match can grow with this as well as with the text.
    pub size: usize,
}

impl Pattern {
    /// How much longer than a small pattern it may take to match a text.
    pub fn weight(&self) -> u64 {
        (self.size / SIZES[0]).max(1) as u64
    }
}

thread_local! {
    /// The patterns of the definition at hand.
    static SHARED: RefCell<Option<Compiler>> = const { RefCell::new(None) };
}

/// Does some work within which all patterns together may take only so much, and each is compiled once. Work within work
/// shares the bounds of what is around it.
pub fn bounded<T>(work: impl FnOnce() -> T) -> T {
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

/// Whether Go takes a text for a regular expression. Nothing is compiled, so the time is linear in the length.
///
/// # Errors
/// What Go says of a text that is none.
pub fn check(pattern: &str) -> Result<(), PatternError> {
    Parser::new(pattern).parse().map(drop)
}

/// Compiles a pattern.
///
/// # Errors
/// If the pattern is malformed or too large.
pub fn compile(pattern: &str) -> Result<Pattern, PatternError> {
    SHARED.with_borrow_mut(|shared| match shared {
        Some(compiler) => compiler.compile(pattern),
        None => Compiler::default().compile(pattern),
    })
}

/// Compiles a pattern that comes with the data, so it must be small.
///
/// # Errors
/// If the pattern is malformed or too large.
pub fn compile_passing(pattern: &str) -> Result<Pattern, PatternError> {
    let translated = translate(pattern)?;
    let regex = build(&translated, pattern, SIZE_OF_PASSING)?.ok_or_else(|| too_large(pattern))?;
    Ok(Pattern { regex, size: SIZE_OF_PASSING })
}

/// Compiles several patterns: each text once, and all within a budget.
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
            // An attempt that fails takes time as well.
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

/// Our engine's form of a pattern, or `None` if it would take more than `size`.
fn build(translated: &str, pattern: &str, size: usize) -> Result<Option<Regex>, PatternError> {
    match RegexBuilder::new(translated).size_limit(size).dfa_size_limit(1 << 20).build() {
        Ok(regex) => Ok(Some(regex)),
        Err(regex::Error::CompiledTooBig(_)) => Ok(None),
        // What Go can read, ours can as well, but for the depth.
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
