//! Whether a regular expression is one for Go, whose syntax the patterns of schemas have, and Go's words where it is
//! not.
//!
//! Only the syntax is read; nothing is compiled, so the time is linear in the length.

use std::collections::BTreeMap;

use regex::Regex;

/// How deep groups may nest.
const MAX_NESTING: usize = 1000;
/// How often a repetition, with those within it, may repeat.
const MAX_REPEAT: u64 = 1000;

const INVALID_ESCAPE: &str = "invalid escape sequence";
const INVALID_RANGE: &str = "invalid character class range";
const INVALID_CAPTURE: &str = "invalid named capture";
const INVALID_PERL: &str = "invalid or unsupported Perl syntax";
const INVALID_REPEAT: &str = "invalid repeat count";
const MISSING_ARGUMENT: &str = "missing argument to repetition operator";

/// Reads a pattern; the error is what Go says after `error parsing regexp: `.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    Parser {
        text: pattern,
        at: 0,
        last: None,
        deepest: 1,
        groups: Vec::new(),
        last_repeat: None,
        names: BTreeMap::new(),
    }
    .parse()
}

/// A group that is open.
struct Group {
    /// What stood before it: the repetitions in the expressions there.
    deepest: u64,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// How often the last expression repeats what is within it, if there is one that could be repeated.
    last: Option<u64>,
    /// The most that an expression of the open group repeats what is within it.
    deepest: u64,
    groups: Vec<Group>,
    /// Where the repetition operator before this place started.
    last_repeat: Option<usize>,
    /// The names of Unicode groups that were looked up, and whether there is such a group.
    names: BTreeMap<String, bool>,
}

fn error<T>(code: &str, expression: &str) -> Result<T, String> {
    Err(format!("{code}: `{expression}`"))
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn parse(mut self) -> Result<(), String> {
        while let Some(c) = self.rest().chars().next() {
            let mut repeat = None;
            match c {
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => {
                    self.at += 1;
                    self.last = None;
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    repeat = Some(self.at);
                    self.repeat(self.at + 1, None)?;
                }
                '{' => match braces(self.rest()) {
                    None => self.atom(1),
                    Some((counts, length)) => {
                        repeat = Some(self.at);
                        let end = self.at + length;
                        let Some(times) = counts else { return error(INVALID_REPEAT, &self.text[self.at..end]) };
                        self.repeat(end, Some(times))?;
                    }
                },
                '\\' => self.escape()?,
                c => self.atom(c.len_utf8()),
            }
            self.last_repeat = repeat;
        }
        if self.groups.is_empty() { Ok(()) } else { error("missing closing )", self.text) }
    }

    /// An expression that repeats nothing and is this long.
    fn atom(&mut self, length: usize) {
        self.at += length;
        self.last = Some(1);
    }

    fn open(&mut self) -> Result<(), String> {
        let rest = self.rest();
        if let Some(flags) = rest.strip_prefix("(?") {
            let named = flags.strip_prefix("P<").filter(|name| !name.is_empty());
            if let Some(name) = named.or_else(|| flags.strip_prefix('<').filter(|name| !name.is_empty())) {
                let Some(end) = rest.find('>') else { return error(INVALID_CAPTURE, rest) };
                let name = name.split('>').next().unwrap_or_default();
                if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                    return error(INVALID_CAPTURE, &rest[..=end]);
                }
                self.at += end + 1;
            } else {
                let (length, is_group) = perl_flags(rest)?;
                self.at += length;
                if !is_group {
                    return Ok(());
                }
            }
        } else {
            self.at += 1;
        }
        if self.groups.len() == MAX_NESTING {
            return error("expression nests too deeply", self.text);
        }
        self.groups.push(Group { deepest: self.deepest });
        self.deepest = 1;
        self.last = None;
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(group) = self.groups.pop() else { return error("unexpected )", self.text) };
        self.at += 1;
        self.last = Some(self.deepest);
        self.deepest = self.deepest.max(group.deepest);
        Ok(())
    }

    /// A repetition whose operator ends at `end`; counted ones say how often: at least, and at most if there is a most.
    fn repeat(&mut self, end: usize, times: Option<(u64, Option<u64>)>) -> Result<(), String> {
        let start = self.at;
        self.at = end + usize::from(self.text[end..].starts_with('?'));
        if let Some(before) = self.last_repeat {
            return error("invalid nested repetition operator", &self.text[before..self.at]);
        }
        let Some(within) = self.last else { return error(MISSING_ARGUMENT, &self.text[start..self.at]) };
        if let Some((least, most)) = times {
            let factor = most.unwrap_or(least);
            let total = if most == Some(0) { 1 } else { factor.max(1).saturating_mul(within) };
            if (least >= 2 || factor >= 2) && total > MAX_REPEAT {
                return error(INVALID_REPEAT, &self.text[start..self.at]);
            }
            self.last = Some(total);
            self.deepest = self.deepest.max(total);
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        let rest = self.rest();
        match rest.as_bytes().get(1) {
            Some(b'A' | b'b' | b'B' | b'z') => self.atom(2),
            Some(b'C') => return error(INVALID_ESCAPE, &rest[..2]),
            Some(b'Q') => {
                let (literal, length) = match rest.find("\\E") {
                    Some(end) => (&rest[2..end], end + 2),
                    None => (&rest[2..], rest.len()),
                };
                self.at += length;
                if !literal.is_empty() {
                    self.last = Some(1);
                }
            }
            _ => {
                let length = match self.group_escape(rest)? {
                    Some(length) => length,
                    None => char_escape(rest)?.1,
                };
                self.atom(length);
            }
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest();
        let mut at = 1 + usize::from(whole[1..].starts_with('^'));
        let (mut first, mut may_be_named) = (true, true);
        while first || !whole[at..].starts_with(']') {
            first = false;
            let rest = &whole[at..];
            if may_be_named && rest.len() > 2 && rest.starts_with("[:") {
                let end = rest[2..].find(":]");
                may_be_named = end.is_some();
                if let Some(end) = end {
                    let name = &rest[..end + 4];
                    if !POSIX.contains(&name[2..name.len() - 2].trim_start_matches('^')) || name.starts_with("[:^^") {
                        return error(INVALID_RANGE, name);
                    }
                    at += name.len();
                    continue;
                }
            }
            if let Some(length) = self.group_escape(rest)? {
                at += length;
                continue;
            }
            let start = at;
            let (low, length) = class_char(rest, whole)?;
            at += length;
            let after = &whole[at..];
            if after.len() >= 2 && after.starts_with('-') && !after.starts_with("-]") {
                let (high, length) = class_char(&after[1..], whole)?;
                at += 1 + length;
                if high < low {
                    return error(INVALID_RANGE, &whole[start..at]);
                }
            }
        }
        self.atom(at + 1);
        Ok(())
    }

    /// The length of an escape that stands for several characters: `\d`, `\pN`, `\p{Greek}`.
    fn group_escape(&mut self, rest: &str) -> Result<Option<usize>, String> {
        let Some(escaped) = rest.strip_prefix('\\').and_then(|rest| rest.chars().next()) else { return Ok(None) };
        match escaped {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Ok(Some(2)),
            'p' | 'P' => {
                let length = match rest[2..].chars().next() {
                    None => return error(INVALID_RANGE, rest),
                    Some('{') => match rest.find('}') {
                        Some(end) => end + 1,
                        None => return error(INVALID_RANGE, rest),
                    },
                    Some(c) => 2 + c.len_utf8(),
                };
                let name = rest[2..length].trim_start_matches('{').trim_end_matches('}');
                let known = self.is_unicode_name(name.strip_prefix('^').unwrap_or(name));
                if known { Ok(Some(length)) } else { error(INVALID_RANGE, &rest[..length]) }
            }
            _ => Ok(None),
        }
    }

    /// Whether a name is one of a general category or a script.
    fn is_unicode_name(&mut self, name: &str) -> bool {
        let name: String = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).collect();
        let name = name.to_ascii_lowercase();
        if name.is_empty() || name.len() > 40 || !name.bytes().all(|b| b.is_ascii_lowercase()) {
            return false;
        }
        let knows = |property: &str| Regex::new(&format!("\\p{{{property}={name}}}")).is_ok();
        let is_known = || ["any", "ascii", "assigned"].contains(&name.as_str()) || knows("gc") || knows("sc");
        match self.names.get(&name) {
            Some(known) => *known,
            None => {
                let known = is_known();
                self.names.insert(name, known);
                known
            }
        }
    }
}

/// The names of `[:alpha:]` and its like.
const POSIX: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// How often a counted repetition repeats: at least, and at most if there is a most.
type Times = (u64, Option<u64>);

/// The counts of `{2}`, `{2,}` or `{2,5}` and how long that is; `None` for the counts where they are too big.
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

/// The length of `(?i)` or `(?i:`, and whether it opens a group.
fn perl_flags(rest: &str) -> Result<(usize, bool), String> {
    let (mut negative, mut flagged) = (false, false);
    let mut length = 2;
    for c in rest[2..].chars() {
        length += c.len_utf8();
        match c {
            'i' | 'm' | 's' | 'U' => flagged = true,
            '-' if !negative => (negative, flagged) = (true, false),
            ':' | ')' if !negative || flagged => return Ok((length, c == ':')),
            _ => break,
        }
    }
    error(INVALID_PERL, &rest[..length])
}

fn class_char(rest: &str, whole: &str) -> Result<(u32, usize), String> {
    match rest.chars().next() {
        None => error("missing closing ]", whole),
        Some('\\') => char_escape(rest),
        Some(c) => Ok((c as u32, c.len_utf8())),
    }
}

/// The character that an escape stands for, and the length of the escape.
fn char_escape(rest: &str) -> Result<(u32, usize), String> {
    let Some(c) = rest[1..].chars().next() else {
        return error("trailing backslash at end of expression", "");
    };
    let start = 1 + c.len_utf8();
    let after = &rest[start..];
    let octal = |b: &u8| matches!(b, b'0'..=b'7');
    let simple = match c {
        'a' => 7,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '0' => return Ok(octal_escape(&rest[1..])),
        '1'..='7' if after.as_bytes().first().is_some_and(octal) => return Ok(octal_escape(&rest[1..])),
        'x' => return hex_escape(rest),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => c as u32,
        _ => return error(INVALID_ESCAPE, &rest[..start]),
    };
    Ok((simple, start))
}

fn octal_escape(digits: &str) -> (u32, usize) {
    let length = digits.bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
    (u32::from_str_radix(&digits[..length], 8).unwrap_or_default(), 1 + length)
}

fn hex_escape(rest: &str) -> Result<(u32, usize), String> {
    let mut characters = rest[2..].char_indices().map(|(index, c)| (index + 2 + c.len_utf8(), c));
    let mut value = 0;
    match characters.next() {
        None => error(INVALID_ESCAPE, rest),
        Some((_, '{')) => {
            for (digits, (end, c)) in characters.enumerate() {
                match c.to_digit(16) {
                    Some(digit) if value * 16 + digit <= char::MAX as u32 => value = value * 16 + digit,
                    None if c == '}' && digits > 0 => return Ok((value, end)),
                    _ => return error(INVALID_ESCAPE, &rest[..end]),
                }
            }
            error(INVALID_ESCAPE, rest)
        }
        Some((_, first)) => match (first.to_digit(16), characters.next()) {
            (Some(high), Some((end, second))) => match second.to_digit(16) {
                Some(low) => Ok((high * 16 + low, end)),
                None => error(INVALID_ESCAPE, &rest[..end]),
            },
            (None, Some((end, _))) => error(INVALID_ESCAPE, &rest[..end]),
            (_, None) => error(INVALID_ESCAPE, rest),
        },
    }
}
