//! Rewriting a pattern of Go's syntax to one of ours that matches the same, or saying in Go's words why it is none.

use std::fmt::Write;

use super::PatternError;

/// The most that a repetition may ask for.
const MAX_REPEAT: u64 = 1000;

/// Rewrites a pattern.
pub(super) fn translate(pattern: &str) -> Result<String, PatternError> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut reader = Reader { chars: &chars, at: 0, out: String::with_capacity(pattern.len() + 16) };
    reader.expression(pattern)?;
    Ok(reader.out)
}

fn fault(what: &str, text: impl AsRef<str>) -> PatternError {
    PatternError(format!("{what}: `{}`", text.as_ref()))
}

struct Reader<'p> {
    chars: &'p [char],
    at: usize,
    out: String,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn text(&self, start: usize, end: usize) -> String {
        self.chars[start..end.min(self.chars.len())].iter().collect()
    }

    fn expression(&mut self, pattern: &str) -> Result<(), PatternError> {
        let mut depth = 0_usize;
        // Where the repetition began that ends here, and whether there is something to repeat.
        let mut repeated: Option<usize> = None;
        let mut operand = false;
        while let Some(c) = self.peek(0) {
            if let Some(end) = self.repetition()? {
                let end = if self.chars.get(end) == Some(&'?') { end + 1 } else { end };
                if let Some(start) = repeated {
                    return Err(fault("invalid nested repetition operator", self.text(start, end)));
                }
                if !operand {
                    return Err(fault("missing argument to repetition operator", self.text(self.at, end)));
                }
                repeated = Some(self.at);
                self.copy(end);
                continue;
            }
            repeated = None;
            operand = true;
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => {
                    depth += 1;
                    operand = self.open(&mut depth)?;
                }
                ')' if depth == 0 => return Err(fault("unexpected )", pattern)),
                ')' => {
                    depth -= 1;
                    self.copy(self.at + 1);
                }
                '|' => {
                    operand = false;
                    self.copy(self.at + 1);
                }
                '{' => {
                    literal('{', &mut self.out);
                    self.at += 1;
                }
                _ => self.copy(self.at + 1),
            }
        }
        if depth > 0 { Err(fault("missing closing )", pattern)) } else { Ok(()) }
    }

    fn copy(&mut self, end: usize) {
        self.out.extend(&self.chars[self.at..end]);
        self.at = end;
    }

    /// Where a repetition ends that starts here, if one does.
    fn repetition(&self) -> Result<Option<usize>, PatternError> {
        match self.peek(0) {
            Some('*' | '+' | '?') => return Ok(Some(self.at + 1)),
            Some('{') => {}
            _ => return Ok(None),
        }
        let Some(length) = self.chars[self.at..].iter().position(|c| *c == '}') else { return Ok(None) };
        let text = self.text(self.at + 1, self.at + length);
        let (low, high) = text.split_once(',').unwrap_or((&text, &text));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(low) || !(high.is_empty() || digits(high)) {
            return Ok(None);
        }
        let low: u64 = low.parse().unwrap_or(u64::MAX);
        let high: u64 = if high.is_empty() { low } else { high.parse().unwrap_or(u64::MAX) };
        if low > high || high > MAX_REPEAT {
            return Err(fault("invalid repeat count", self.text(self.at, self.at + length + 1)));
        }
        Ok(Some(self.at + length + 1))
    }

    /// Copies the start of a group, or flags. Answers whether something stands here that could be repeated.
    fn open(&mut self, depth: &mut usize) -> Result<bool, PatternError> {
        if self.peek(1) != Some('?') {
            self.copy(self.at + 1);
            return Ok(false);
        }
        let named = match (self.peek(2), self.peek(3)) {
            (Some('P'), Some('<')) => Some(self.at + 4),
            (Some('<'), Some(c)) if c != '=' && c != '!' => Some(self.at + 3),
            _ => None,
        };
        if let Some(start) = named {
            let Some(length) = self.chars[start..].iter().position(|c| *c == '>') else {
                return Err(fault("invalid named capture", self.text(self.at, self.chars.len())));
            };
            let name = self.text(start, start + length);
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(fault("invalid named capture", self.text(self.at, start + length + 1)));
            }
            // Names do not matter to matching, and ours may not start with digits.
            self.out.push('(');
            self.at = start + length + 1;
            return Ok(false);
        }
        let mut end = self.at + 2;
        loop {
            match self.chars.get(end) {
                Some('i' | 'm' | 's' | 'U' | '-') => end += 1,
                Some(':') => {
                    self.copy(end + 1);
                    return Ok(false);
                }
                Some(')') => {
                    *depth -= 1;
                    self.copy(end + 1);
                    return Ok(false);
                }
                Some(_) => {
                    return Err(fault("invalid or unsupported Perl syntax", self.text(self.at, end + 1)));
                }
                None => return Err(fault("missing closing )", self.text(0, self.chars.len()))),
            }
        }
    }

    /// Copies an escape outside of a class.
    fn escape(&mut self) -> Result<(), PatternError> {
        match self.peek(1) {
            Some(c @ ('b' | 'B')) => {
                let _ = write!(self.out, "(?-u:\\{c})");
                self.at += 2;
            }
            Some('A' | 'z') => self.copy(self.at + 2),
            Some('Q') => {
                let rest = self.text(self.at + 2, self.chars.len());
                let (text, length) = match rest.split_once("\\E") {
                    Some((text, _)) => (text, text.chars().count() + 4),
                    None => (rest.as_str(), rest.chars().count() + 2),
                };
                text.chars().for_each(|c| literal(c, &mut self.out));
                self.at += length;
            }
            _ if self.set()? => {}
            _ => {
                let c = self.character()?;
                literal(c, &mut self.out);
            }
        }
        Ok(())
    }

    /// Copies an escape that stands for several characters, if one starts here.
    fn set(&mut self) -> Result<bool, PatternError> {
        if self.peek(0) != Some('\\') {
            return Ok(false);
        }
        let set = match self.peek(1) {
            Some('d') => "[0-9]",
            Some('w') => "[0-9A-Za-z_]",
            Some('s') => "[\\t\\n\\x0C\\r ]",
            Some('D') => "[^0-9]",
            Some('W') => "[^0-9A-Za-z_]",
            Some('S') => "[^\\t\\n\\x0C\\r ]",
            Some('p' | 'P') => {
                let end = match self.peek(2) {
                    Some('{') => match self.chars[self.at..].iter().position(|c| *c == '}') {
                        Some(length) => self.at + length + 1,
                        None => {
                            let rest = self.text(self.at, self.chars.len());
                            return Err(fault("invalid character class range", rest));
                        }
                    },
                    Some(_) => self.at + 3,
                    None => return Err(fault("invalid character class range", self.text(self.at, self.at + 2))),
                };
                self.copy(end);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.out.push_str(set);
        self.at += 2;
        Ok(true)
    }

    /// Reads one character, escaped or not.
    fn character(&mut self) -> Result<char, PatternError> {
        let start = self.at;
        let Some(c) = self.peek(0) else { return Err(fault("missing closing ]", "")) };
        self.at += 1;
        if c != '\\' {
            return Ok(c);
        }
        let Some(c) = self.peek(0) else { return Err(fault("trailing backslash at end of expression", "")) };
        self.at += 1;
        let bad = |end: usize| fault("invalid escape sequence", self.text(start, end));
        let code = match c {
            '0'..='7' => {
                let digits: String =
                    self.chars[start + 1..].iter().take(3).take_while(|c| ('0'..='7').contains(*c)).collect();
                if c != '0' && digits.len() == 1 {
                    return Err(bad(start + 2));
                }
                self.at = start + 1 + digits.len();
                u32::from_str_radix(&digits, 8).unwrap_or_default()
            }
            'x' => {
                let (digits, end) = match self.peek(0) {
                    Some('{') => match self.chars[self.at..].iter().position(|c| *c == '}') {
                        Some(length) => (self.text(self.at + 1, self.at + length), self.at + length + 1),
                        None => return Err(bad(self.chars.len())),
                    },
                    _ => (self.text(self.at, self.at + 2), self.at + 2),
                };
                let braced = self.peek(0) == Some('{');
                match u32::from_str_radix(&digits, 16) {
                    Ok(code) if code <= 0x10_ffff && (braced || digits.len() == 2) => {
                        self.at = end;
                        code
                    }
                    _ => return Err(bad(end.min(self.chars.len()))),
                }
            }
            'a' => 7,
            'f' => 12,
            't' => 9,
            'n' => 10,
            'r' => 13,
            'v' => 11,
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => c as u32,
            _ => return Err(bad(start + 2)),
        };
        Ok(char::from_u32(code).unwrap_or('\u{fffd}'))
    }

    /// Copies a class. Every character is written by its number: ours has operations that Go's has not.
    fn class(&mut self) -> Result<(), PatternError> {
        let start = self.at;
        self.at += 1;
        self.out.push('[');
        if self.peek(0) == Some('^') {
            self.out.push('^');
            self.at += 1;
        }
        let first = self.at;
        loop {
            match self.peek(0) {
                None => return Err(fault("missing closing ]", self.text(start, self.chars.len()))),
                Some(']') if self.at > first => {
                    self.out.push(']');
                    self.at += 1;
                    return Ok(());
                }
                _ if self.named()? || self.set()? => continue,
                _ => {}
            }
            let begin = self.at;
            let low = self.character()?;
            literal(low, &mut self.out);
            if self.peek(0) == Some('-') && self.peek(1).is_some_and(|c| c != ']') {
                self.at += 1;
                let high = self.character()?;
                if high < low {
                    return Err(fault("invalid character class range", self.text(begin, self.at)));
                }
                self.out.push('-');
                literal(high, &mut self.out);
            }
        }
    }

    /// Copies `[:alpha:]`, if such stands here.
    fn named(&mut self) -> Result<bool, PatternError> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
            "word", "xdigit",
        ];
        if self.peek(0) != Some('[') || self.peek(1) != Some(':') {
            return Ok(false);
        }
        let Some(length) = self.chars[self.at + 2..].windows(2).position(|pair| pair == [':', ']']) else {
            return Ok(false);
        };
        let end = self.at + length + 4;
        let name = self.text(self.at + 2, end - 2);
        if !NAMES.contains(&name.strip_prefix('^').unwrap_or(&name)) {
            return Err(fault("invalid character class range", self.text(self.at, end)));
        }
        self.copy(end);
        Ok(true)
    }
}

/// A character that means itself.
fn literal(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:x}}}", c as u32);
    }
}
