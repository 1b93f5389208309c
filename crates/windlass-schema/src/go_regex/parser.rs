//! Parses a pattern by Go's rules and translates it to an equivalent one for Rust's engine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use super::PatternError;
use super::class::Group as UnicodeGroup;
use super::escape::{char_escape, write_char};

/// Maximum nesting depth of groups.
const MAX_NESTING: usize = 1000;
/// Maximum repetition count, multiplied over nested repetitions.
const MAX_REPEAT: u64 = 1000;
/// Maximum number of repetitions of repetitions in a pattern: Rust's engine could not nest many more.
const MAX_REPEATED_AGAIN: usize = 100;

pub(super) const TOO_DEEP: &str = "expression nests too deeply";
pub(super) const INVALID_ESCAPE: &str = "invalid escape sequence";
pub(super) const INVALID_RANGE: &str = "invalid character class range";
const INVALID_CAPTURE: &str = "invalid named capture";
const INVALID_PERL: &str = "invalid or unsupported Perl syntax";
const INVALID_REPEAT: &str = "invalid repeat count";
const MISSING_ARGUMENT: &str = "missing argument to repetition operator";

/// Parses one pattern.
pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// The translation of the part that is parsed.
    pub(super) out: String,
    /// The last expression, if it can be repeated.
    last: Option<Operand>,
    /// The maximum repetition count of the expressions in the open group.
    deepest: u64,
    groups: Vec<Open>,
    /// Whether unmarked repetitions are lazy, which the flag `U` sets.
    lazy: bool,
    /// Start of the repetition operator just before the current position.
    last_repeat: Option<usize>,
    /// Number of repetitions of repetitions so far.
    repeated_again: usize,
    /// Names of Unicode groups that were looked up.
    pub(super) names: BTreeMap<String, Option<UnicodeGroup>>,
}

/// An expression that can be repeated.
struct Operand {
    /// Number of times that it repeats its content.
    repeats: u64,
    /// Its range in the output.
    place: Range<usize>,
    /// Whether it is a repetition.
    is_repetition: bool,
    /// Whether unmarked repetitions at that point are lazy.
    lazy: bool,
}

/// An open group.
struct Open {
    /// The maximum repetition count of the expressions before it.
    deepest: u64,
    /// Its start in the output.
    start: usize,
    /// Whether unmarked repetitions before it are lazy.
    lazy: bool,
}

pub(super) fn error<T>(code: &str, expression: &str) -> Result<T, PatternError> {
    Err(PatternError(format!("{code}: `{expression}`")))
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            out: String::with_capacity(text.len() + 16),
            last: None,
            deepest: 1,
            groups: Vec::new(),
            lazy: false,
            last_repeat: None,
            repeated_again: 0,
            names: BTreeMap::new(),
        }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Returns the translated pattern, or `None` if it would nest too deeply for Rust's engine.
    pub(super) fn parse(mut self) -> Result<Option<String>, PatternError> {
        while let Some(c) = self.rest().chars().next() {
            let mut repeat = None;
            match c {
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => {
                    self.at += 1;
                    self.out.push('|');
                    self.last = None;
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    repeat = Some(self.at);
                    self.repeat(self.at + 1, None)?;
                }
                '{' => match braces(self.rest()) {
                    None => self.literal(c, 1),
                    Some((counts, length)) => {
                        repeat = Some(self.at);
                        let end = self.at + length;
                        let Some(times) = counts else { return error(INVALID_REPEAT, &self.text[self.at..end]) };
                        self.repeat(end, Some(times))?;
                    }
                },
                '\\' => self.escape()?,
                '.' | '^' | '$' => self.atom(1, |out| out.push(c)),
                c => self.literal(c, c.len_utf8()),
            }
            self.last_repeat = repeat;
        }
        if !self.groups.is_empty() {
            return error("missing closing )", self.text);
        }
        Ok((self.repeated_again <= MAX_REPEATED_AGAIN).then_some(self.out))
    }

    /// Adds an expression of the given length without repetition.
    pub(super) fn atom(&mut self, length: usize, write: impl FnOnce(&mut String)) {
        let start = self.out.len();
        self.at += length;
        write(&mut self.out);
        self.ends_atom(start);
    }

    /// Marks the output from `start` on as an expression without repetition.
    pub(super) fn ends_atom(&mut self, start: usize) {
        self.last = Some(Operand { repeats: 1, place: start..self.out.len(), is_repetition: false, lazy: self.lazy });
    }

    fn literal(&mut self, c: char, length: usize) {
        self.atom(length, |out| write_char(out, u32::from(c)));
    }

    fn open(&mut self) -> Result<(), PatternError> {
        let rest = self.rest();
        let (start, lazy) = (self.out.len(), self.lazy);
        if let Some(flags) = rest.strip_prefix("(?") {
            let named = flags.strip_prefix("P<").filter(|name| !name.is_empty());
            if let Some(name) = named.or_else(|| flags.strip_prefix('<').filter(|name| !name.is_empty())) {
                let Some(end) = rest.find('>') else { return error(INVALID_CAPTURE, rest) };
                let name = name.split('>').next().unwrap_or_default();
                if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                    return error(INVALID_CAPTURE, &rest[..=end]);
                }
                self.at += end + 1;
                self.out.push_str("(?:");
            } else {
                let (flags, length, is_group) = perl_flags(rest)?;
                self.at += length;
                if let Some(at) = flags.find('U') {
                    self.lazy = !flags[..at].contains('-');
                }
                if !is_group {
                    if !flags.is_empty() {
                        let _ = write!(self.out, "(?{flags})");
                    }
                    return Ok(());
                }
                let _ = write!(self.out, "(?{flags}:");
            }
        } else {
            self.at += 1;
            self.out.push_str("(?:");
        }
        if self.groups.len() == MAX_NESTING {
            return error(TOO_DEEP, self.text);
        }
        self.groups.push(Open { deepest: self.deepest, start, lazy });
        self.deepest = 1;
        self.last = None;
        Ok(())
    }

    fn close(&mut self) -> Result<(), PatternError> {
        let Some(group) = self.groups.pop() else { return error("unexpected )", self.text) };
        self.at += 1;
        self.out.push(')');
        self.lazy = group.lazy;
        let place = group.start..self.out.len();
        self.last = Some(Operand { repeats: self.deepest, place, is_repetition: false, lazy: self.lazy });
        self.deepest = self.deepest.max(group.deepest);
        Ok(())
    }

    /// Adds a repetition whose operator ends at `end`; counted ones have a minimum and an optional maximum.
    fn repeat(&mut self, end: usize, times: Option<Times>) -> Result<(), PatternError> {
        let start = self.at;
        self.at = end + usize::from(self.text[end..].starts_with('?'));
        let operator = &self.text[start..self.at];
        if let Some(before) = self.last_repeat {
            return error("invalid nested repetition operator", &self.text[before..self.at]);
        }
        let Some(mut operand) = self.last.take() else { return error(MISSING_ARGUMENT, operator) };
        if let Some((least, most)) = times {
            let factor = most.unwrap_or(least);
            let total = if most == Some(0) { 1 } else { factor.max(1).saturating_mul(operand.repeats) };
            if (least >= 2 || factor >= 2) && total > MAX_REPEAT {
                return error(INVALID_REPEAT, operator);
            }
            operand.repeats = total;
            self.deepest = self.deepest.max(total);
        }
        // Flags may appear between an expression and its operator, so this is not always the end.
        self.repeated_again += usize::from(operand.is_repetition);
        if operand.is_repetition && self.repeated_again <= MAX_REPEATED_AGAIN {
            self.out.insert(operand.place.end, ')');
            self.out.insert_str(operand.place.start, "(?:");
            operand.place.end += 4;
        }
        let mut operator = operator.to_owned();
        if operand.lazy != self.lazy && operator.len() > 1 && operator.ends_with('?') {
            operator.pop();
        } else if operand.lazy != self.lazy {
            operator.push('?');
        }
        self.out.insert_str(operand.place.end, &operator);
        operand.place.end += operator.len();
        operand.is_repetition = true;
        self.last = Some(operand);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), PatternError> {
        let rest = self.rest();
        match rest.as_bytes().get(1) {
            Some(b'A') => self.atom(2, |out| out.push_str("\\A")),
            Some(b'z') => self.atom(2, |out| out.push_str("\\z")),
            Some(b'b') => self.atom(2, |out| out.push_str("(?-u:\\b)")),
            Some(b'B') => self.atom(2, |out| out.push_str("(?-u:\\B)")),
            Some(b'C') => return error(INVALID_ESCAPE, &rest[..2]),
            Some(b'Q') => {
                let (quoted, length) = match rest.find("\\E") {
                    Some(end) => (&rest[2..end], end + 2),
                    None => (&rest[2..], rest.len()),
                };
                self.at += length;
                quoted.chars().for_each(|c| self.literal(c, 0));
            }
            _ => {
                let start = self.out.len();
                match self.group_escape(rest)? {
                    Some(length) => {
                        self.at += length;
                        self.ends_atom(start);
                    }
                    None => {
                        let (code, length) = char_escape(rest)?;
                        self.atom(length, |out| write_char(out, code));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Counts of a repetition: minimum and optional maximum.
type Times = (u64, Option<u64>);

/// Parses the counts of `{2}`, `{2,}` or `{2,5}` and their length; the counts are `None` if they are too large.
fn braces(rest: &str) -> Option<(Option<Times>, usize)> {
    let end = 1 + rest[1..].bytes().take_while(|b| b.is_ascii_digit() || *b == b',').count();
    if !rest[end..].starts_with('}') {
        return None;
    }
    let number = |digits: &str| {
        let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        (valid && (digits.len() == 1 || !digits.starts_with('0'))).then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let times = match rest[1..end].split_once(',') {
        None => number(&rest[1..end]).map(|times| (times, Some(times)))?,
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    let fits = times.0 <= MAX_REPEAT && times.1.is_none_or(|most| most <= MAX_REPEAT && times.0 <= most);
    Some((fits.then_some(times), end + 1))
}

/// Parses the flags of `(?i)` or `(?i:`; returns them with their length and whether they open a group. If a flag is
/// both set and unset, the last one applies.
fn perl_flags(rest: &str) -> Result<(String, usize, bool), PatternError> {
    let (mut negative, mut flagged) = (false, false);
    let (mut set, mut unset) = (String::new(), String::new());
    let mut length = 2;
    for c in rest[2..].chars() {
        length += c.len_utf8();
        match c {
            'i' | 'm' | 's' | 'U' => {
                flagged = true;
                let (to, from) = if negative { (&mut unset, &mut set) } else { (&mut set, &mut unset) };
                from.retain(|flag| flag != c);
                if !to.contains(c) {
                    to.push(c);
                }
            }
            '-' if !negative => (negative, flagged) = (true, false),
            ':' | ')' if !negative || flagged => {
                if !unset.is_empty() {
                    set.push('-');
                    set.push_str(&unset);
                }
                return Ok((set, length, c == ':'));
            }
            _ => break,
        }
    }
    error(INVALID_PERL, &rest[..length])
}
