//! Serializes YAML in the layout of kube-apiserver's library: sorted keys, block style, lists not indented under their
//! key, long lines folded at spaces.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::resolve::{Scalar, resolve};
use crate::json::format_float;

const WIDTH: usize = 80;

/// Serializes a value as a YAML document.
pub fn to_yaml(value: &Value) -> String {
    let mut emitter = Emitter { out: String::new(), column: 0 };
    emitter.node(value, 0, true);
    if !emitter.out.ends_with('\n') {
        emitter.out.push('\n');
    }
    emitter.out
}

struct Emitter {
    out: String,
    column: usize,
}

/// The style of a scalar.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

impl Emitter {
    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column = if c == '\n' { 0 } else { self.column + 1 };
    }

    fn puts(&mut self, text: &str) {
        text.chars().for_each(|c| self.put(c));
    }

    fn line(&mut self, indent: usize) {
        if self.column > 0 {
            self.put('\n');
        }
        for _ in 0..indent {
            self.put(' ');
        }
    }

    /// Writes a value whose container has this indentation. `fresh`: whether the line is already at the position of the
    /// value's first entry.
    fn node(&mut self, value: &Value, indent: usize, fresh: bool) {
        match value {
            Value::Object(map) if !map.is_empty() => self.mapping(map, indent, fresh),
            Value::Array(items) if !items.is_empty() => self.sequence(items, indent, fresh),
            Value::Object(_) => self.puts("{}"),
            Value::Array(_) => self.puts("[]"),
            Value::Null => self.puts("null"),
            Value::Bool(value) => self.puts(if *value { "true" } else { "false" }),
            Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                // kube-apiserver converts through JSON, where whole floats are integers.
                Some(value) if is_integer(&format_float(value)) => self.puts(&format_float(value)),
                Some(value) => self.puts(&format_general(value)),
                None => self.puts(&number.to_string()),
            },
            Value::String(text) => self.scalar(text, style(text, false), indent, true),
        }
    }

    fn mapping(&mut self, map: &Map<String, Value>, indent: usize, fresh: bool) {
        for (index, (key, value)) in sorted(map.iter().collect()).into_iter().enumerate() {
            if index > 0 || !fresh {
                self.line(indent);
            }
            if key.len() <= 128 && !key.contains(is_break) {
                self.scalar(key, style(key, true), indent + 2, false);
                self.put(':');
            } else {
                self.puts("? ");
                self.scalar(key, style(key, false), indent + 2, true);
                self.line(indent);
                self.puts(": ");
                self.node(value, indent + 2, true);
                continue;
            }
            match value {
                // A list under a key is not indented.
                Value::Array(items) if !items.is_empty() => self.sequence(items, indent, false),
                Value::Object(inner) if !inner.is_empty() => self.mapping(inner, indent + 2, false),
                other => {
                    self.put(' ');
                    self.node(other, indent + 2, false);
                }
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, fresh: bool) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 || !fresh {
                self.line(indent);
            }
            self.puts("- ");
            self.node(item, indent + 2, true);
        }
    }

    fn scalar(&mut self, text: &str, style: Style, indent: usize, breaks: bool) {
        // At the root, continuation lines are indented too.
        let indent = indent.max(2);
        match style {
            Style::Literal => self.literal(text, indent),
            Style::Double => self.double(text, indent, breaks),
            Style::Plain | Style::Single => self.single_or_plain(text, style == Style::Single, indent, breaks),
        }
    }

    fn single_or_plain(&mut self, text: &str, quoted: bool, indent: usize, breaks: bool) {
        if quoted {
            self.put('\'');
        }
        let mut spaces = false;
        let mut chars = text.chars().enumerate().peekable();
        let last = text.len().saturating_sub(1);
        while let Some((index, c)) = chars.next() {
            if c == ' ' {
                let next_is_space = chars.peek().is_some_and(|(_, next)| *next == ' ');
                let inside = !quoted || (index > 0 && index < last);
                if breaks && !spaces && self.column > WIDTH && inside && !next_is_space {
                    self.line(indent);
                } else {
                    self.put(' ');
                }
                spaces = true;
            } else {
                if c == '\'' && quoted {
                    self.put('\'');
                }
                self.put(c);
                spaces = false;
            }
        }
        if quoted {
            self.put('\'');
        }
    }

    fn double(&mut self, text: &str, indent: usize, breaks: bool) {
        self.put('"');
        let mut spaces = false;
        let mut chars = text.chars().enumerate().peekable();
        while let Some((index, c)) = chars.next() {
            if c == ' ' {
                let next = chars.peek().map(|(_, next)| *next);
                if breaks && !spaces && self.column > WIDTH && index > 0 && next.is_some() {
                    self.line(indent);
                    if next == Some(' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(' ');
                }
                spaces = true;
                continue;
            }
            spaces = false;
            if is_printable(c) && !is_break(c) && c != '"' && c != '\\' {
                self.put(c);
                continue;
            }
            self.put('\\');
            match c {
                '\0' => self.put('0'),
                '\u{7}' => self.put('a'),
                '\u{8}' => self.put('b'),
                '\t' => self.put('t'),
                '\n' => self.put('n'),
                '\u{b}' => self.put('v'),
                '\u{c}' => self.put('f'),
                '\r' => self.put('r'),
                '\u{1b}' => self.put('e'),
                '"' | '\\' => self.put(c),
                '\u{85}' => self.put('N'),
                '\u{a0}' => self.put('_'),
                '\u{2028}' => self.put('L'),
                '\u{2029}' => self.put('P'),
                c if u32::from(c) <= 0xff => self.puts(&format!("x{:02X}", u32::from(c))),
                c if u32::from(c) <= 0xffff => self.puts(&format!("u{:04X}", u32::from(c))),
                c => self.puts(&format!("U{:08X}", u32::from(c))),
            }
        }
        self.put('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put('|');
        if text.starts_with([' ', '\n']) {
            self.put('2');
        }
        let body = text.strip_suffix('\n');
        match body {
            None => self.put('-'),
            Some(body) if body.is_empty() || body.ends_with('\n') => self.put('+'),
            Some(_) => {}
        }
        for line in body.unwrap_or(text).split('\n') {
            self.put('\n');
            if !line.is_empty() {
                (0..indent).for_each(|_| self.put(' '));
                self.puts(line);
            }
        }
        self.put('\n');
    }
}

/// Returns the style of a string: plain if that parses back to the same string.
fn style(text: &str, key: bool) -> Style {
    let reads_as_itself = resolve(text) == Scalar::Text && !is_base60(text);
    let analysis = Analysis::of(text);
    if text.contains('\n') && !key {
        return if analysis.literal { Style::Literal } else { Style::Double };
    }
    // kube-apiserver's library writes this key without quotes, and would then parse it as a merge.
    let merges = key && text == "<<";
    match (reads_as_itself && !merges, analysis.plain, analysis.single) {
        (true, true, _) => Style::Plain,
        (true, false, true) => Style::Single,
        _ => Style::Double,
    }
}

/// The styles in which a string can be written.
struct Analysis {
    plain: bool,
    single: bool,
    literal: bool,
}

impl Analysis {
    fn of(text: &str) -> Self {
        let special = text.chars().any(|c| !is_printable(c) || (is_break(c) && c != '\n'));
        let space_break = text.contains(" \n");
        let chars: Vec<char> = text.chars().collect();
        let blank_after = |index: usize| chars.get(index + 1).is_none_or(|c| matches!(c, ' ' | '\t'));
        let indicator = text.starts_with("---")
            || text.starts_with("...")
            || chars.iter().enumerate().any(|(index, c)| match (index, c) {
                (0, '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`') => {
                    true
                }
                (0, '?' | '-') | (_, ':') => blank_after(index),
                (index, '#') => matches!(chars[index - 1], ' ' | '\t' | '\n'),
                _ => false,
            });
        let edges = text.starts_with([' ', '\n']) || text.ends_with([' ', '\n']);
        let breaks = text.contains('\n');
        Self {
            plain: !(indicator || edges || special || breaks),
            single: !(special || space_break || breaks),
            literal: !(special || space_break || text.ends_with(' ')),
        }
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

/// `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`: numbers in other YAML parsers.
fn is_base60(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = rest.split(':');
    let first = parts.next().unwrap_or_default();
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !digits(first) || !rest.contains(':') {
        return false;
    }
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let (number, fraction) = match part.split_once('.') {
            Some((number, fraction)) if parts.peek().is_none() => (number, fraction),
            Some(_) => return false,
            None => (part, ""),
        };
        let sexagesimal = match number.as_bytes() {
            [one] => one.is_ascii_digit(),
            [ten, one] => (b'0'..=b'5').contains(ten) && one.is_ascii_digit(),
            _ => false,
        };
        if !sexagesimal || !digits(fraction) {
            return false;
        }
    }
    true
}

/// Formats a float like Go's `%g`: with an exponent from the millions on and below 0.0001.
pub(super) fn format_general(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn is_integer(text: &str) -> bool {
    text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()
}

/// A merge sort, because the library's order is not transitive for some numbers with leading zeros, which may make the
/// standard sort panic.
fn sorted<'a>(mut entries: Vec<(&'a String, &'a Value)>) -> Vec<(&'a String, &'a Value)> {
    if entries.windows(2).all(|pair| compare_keys(pair[0].0, pair[1].0).is_le()) {
        return entries;
    }
    let right = sorted(entries.split_off(entries.len() / 2));
    let left = sorted(entries);
    let mut out = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        out.extend(if compare_keys(a.0, b.0).is_le() { left.next() } else { right.next() });
    }
    out.extend(left.chain(right));
    out
}

/// Compares keys: letters after everything else, digits by their numeric value.
fn compare_keys(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(x, y)| x != y) else { return a.len().cmp(&b.len()) };
    let (x, y) = (a[at], b[at]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (false, true) => return Ordering::Less,
        (true, false) => return Ordering::Greater,
        (false, false) => {}
    }
    let mut start = 0;
    if x == '0' || y == '0' {
        let before = a[..at].iter().rev().take_while(|c| c.is_ascii_digit());
        if before.into_iter().any(|c| *c != '0') {
            start = 1;
        }
    }
    let number = |chars: &[char]| {
        let digits: Vec<_> = chars[at..].iter().map_while(|c| c.to_digit(10)).collect();
        (digits.iter().fold(start, |n: i64, d| n.wrapping_mul(10).wrapping_add(i64::from(*d))), digits.len())
    };
    number(&a).cmp(&number(&b)).then(x.cmp(&y))
}
