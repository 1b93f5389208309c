//! Go's regular expressions written as the `regex` crate reads them.
//!
//! They differ in little: Go's `\d`, `\s`, `\w` and `\b` know ASCII only, a class has no operators inside, a brace
//! that counts nothing is itself, and `\Q..\E` quotes.

/// Translates an expression.
///
/// # Errors
/// What Go says of an expression that is none, after `error parsing regexp: `.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    Translator { pattern, at: 0, out: String::with_capacity(pattern.len() + 16), depth: 0, repeatable: false }.run()
}

struct Translator<'p> {
    pattern: &'p str,
    at: usize,
    out: String,
    depth: usize,
    /// Whether what stands before can be repeated.
    repeatable: bool,
}

impl<'p> Translator<'p> {
    fn rest(&self) -> &'p str {
        &self.pattern[self.at..]
    }

    fn take(&mut self, length: usize) -> &'p str {
        let text = &self.pattern[self.at..self.at + length];
        self.at += length;
        text
    }

    fn run(mut self) -> Result<String, String> {
        while let Some(c) = self.rest().chars().next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.open()?,
                ')' => {
                    if self.depth == 0 {
                        return Err(format!("unexpected ): `{}`", self.pattern));
                    }
                    self.depth -= 1;
                    self.copy(1, true);
                }
                '*' | '+' | '?' => self.repeat(1)?,
                '{' => match counted(self.rest()) {
                    Some(length) => self.repeat(length)?,
                    None => {
                        self.at += 1;
                        self.out.push_str("\\{");
                        self.repeatable = true;
                    }
                },
                '|' => self.copy(1, false),
                c => self.copy(c.len_utf8(), true),
            }
        }
        if self.depth > 0 {
            return Err(format!("missing closing ): `{}`", self.pattern));
        }
        Ok(self.out)
    }

    fn copy(&mut self, length: usize, repeatable: bool) {
        let text = self.take(length);
        self.out.push_str(text);
        self.repeatable = repeatable;
    }

    fn repeat(&mut self, length: usize) -> Result<(), String> {
        let lazy = self.rest()[length..].starts_with('?');
        let operator = self.take(length + usize::from(lazy));
        if !self.repeatable {
            return Err(format!("missing argument to repetition operator: `{operator}`"));
        }
        if let Some(counts) = operator.strip_prefix('{') {
            let counts: Vec<Option<u32>> =
                counts.trim_end_matches(['}', '?']).split(',').map(|count| count.parse().ok()).collect();
            let bounds = (counts[0], counts.get(1).copied().flatten());
            let invalid = counts.iter().flatten().any(|count| *count > 1000)
                || matches!(bounds, (Some(low), Some(high)) if low > high);
            if invalid {
                return Err(format!("invalid repeat count: `{operator}`"));
            }
        }
        let next = self.rest();
        if next.starts_with(['*', '+', '?']) || counted(next).is_some() {
            let following = counted(next).unwrap_or(1);
            return Err(format!("invalid nested repetition operator: `{operator}{}`", &next[..following]));
        }
        self.out.push_str(operator);
        self.repeatable = true;
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        let rest = self.rest();
        if !rest.starts_with("(?") {
            self.depth += 1;
            self.copy(1, false);
            return Ok(());
        }
        let named = rest.strip_prefix("(?P<").map(|_| 4).or_else(|| {
            (rest.starts_with("(?<") && !rest.starts_with("(?<=") && !rest.starts_with("(?<!")).then_some(3)
        });
        if let Some(start) = named {
            let end = rest.find('>').ok_or_else(|| format!("invalid named capture: `{rest}`"))?;
            let name = &rest[start..end];
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(format!("invalid named capture: `{}`", &rest[..=end]));
            }
            self.depth += 1;
            self.copy(end + 1, false);
            return Ok(());
        }
        let flags = rest[2..].find(|c: char| !matches!(c, 'i' | 'm' | 's' | 'U' | '-')).map_or(rest.len(), |at| at + 2);
        match rest[flags..].chars().next() {
            Some(':') => {
                self.depth += 1;
                self.copy(flags + 1, false);
                Ok(())
            }
            Some(')') if flags > 2 => {
                let repeatable = self.repeatable;
                self.copy(flags + 1, repeatable);
                Ok(())
            }
            Some(c) => {
                let end = flags + c.len_utf8();
                Err(format!("invalid or unsupported Perl syntax: `{}`", &rest[..end.min(rest.len())]))
            }
            None => Err(format!("missing closing ): `{}`", self.pattern)),
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let Some(c) = rest[1..].chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let (text, length): (&str, usize) = match c {
            'd' => ("[0-9]", 2),
            'D' => ("[^0-9]", 2),
            's' => ("[\\t\\n\\f\\r ]", 2),
            'S' => ("[^\\t\\n\\f\\r ]", 2),
            'w' => ("[0-9A-Za-z_]", 2),
            'W' => ("[^0-9A-Za-z_]", 2),
            'b' => ("(?-u:\\b)", 2),
            '<' | '>' => (&rest[1..2], 2),
            'Q' => {
                let quoted = rest[2..].split("\\E").next().unwrap_or_default();
                self.at += (quoted.len() + 4).min(rest.len());
                self.out.push_str(&::regex::escape(quoted));
                self.repeatable = true;
                return Ok(());
            }
            'p' | 'P' => (rest, property(rest).ok_or_else(|| invalid_range(rest))?),
            'x' => (rest, hexadecimal(rest).ok_or_else(|| invalid_escape(rest, c))?),
            'a' | 'f' | 't' | 'n' | 'r' | 'v' | 'A' | 'B' | 'z' => (rest, 2),
            '0'..='7' => return self.octal(),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => (rest, 2),
            _ => return Err(invalid_escape(rest, c)),
        };
        self.out.push_str(if text.len() == rest.len() && std::ptr::eq(text, rest) { &rest[..length] } else { text });
        self.at += length;
        self.repeatable = true;
        Ok(())
    }

    /// `\12`: a character by its number; a single digit but zero would be a reference to a group.
    fn octal(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let digits: String = rest[1..].chars().take(3).take_while(|c| ('0'..='7').contains(c)).collect();
        if !digits.starts_with('0') && digits.len() < 2 {
            return Err(format!("invalid escape sequence: `\\{digits}`"));
        }
        let number = u32::from_str_radix(&digits, 8).unwrap_or_default();
        self.at += 1 + digits.len();
        self.out.push_str(&format!("\\x{{{number:x}}}"));
        self.repeatable = true;
        Ok(())
    }

    fn class(&mut self) -> Result<(), String> {
        let start = self.rest();
        let missing = || format!("missing closing ]: `{start}`");
        self.at += 1;
        self.out.push('[');
        if self.rest().starts_with('^') {
            self.at += 1;
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let rest = self.rest();
            let c = rest.chars().next().ok_or_else(missing)?;
            match c {
                ']' if !first => {
                    self.at += 1;
                    self.out.push(']');
                    self.repeatable = true;
                    return Ok(());
                }
                '[' if rest.starts_with("[:") && rest.contains(":]") => {
                    let end = rest.find(":]").unwrap_or_default() + 2;
                    let name = &rest[..end];
                    let known = name.trim_start_matches("[:").trim_start_matches('^').trim_end_matches(":]");
                    if !POSIX.contains(&known) {
                        return Err(format!("invalid character class range: `{name}`"));
                    }
                    self.at += end;
                    self.out.push_str(name);
                }
                '\\' => self.class_escape()?,
                '[' | ']' | '&' | '~' => {
                    self.at += 1;
                    self.out.push('\\');
                    self.out.push(c);
                }
                '-' if rest.starts_with("--") => {
                    self.at += 1;
                    self.out.push_str("\\-");
                }
                c => {
                    let after = &rest[c.len_utf8()..];
                    if let Some(upper) = after.strip_prefix('-').and_then(|upper| upper.chars().next())
                        && upper != ']'
                        && upper != '\\'
                        && upper != '['
                    {
                        let length = c.len_utf8() + 1 + upper.len_utf8();
                        if upper < c {
                            return Err(invalid_range_of(&rest[..length]));
                        }
                    }
                    self.at += c.len_utf8();
                    self.out.push(c);
                }
            }
            first = false;
        }
    }

    fn class_escape(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let Some(c) = rest[1..].chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let replacement = match c {
            'd' => Some("0-9"),
            'D' => Some("[^0-9]"),
            's' => Some("\\t\\n\\f\\r "),
            'S' => Some("[^\\t\\n\\f\\r ]"),
            'w' => Some("0-9A-Za-z_"),
            'W' => Some("[^0-9A-Za-z_]"),
            '<' => Some("<"),
            '>' => Some(">"),
            _ => None,
        };
        let length = match c {
            _ if replacement.is_some() => 2,
            'p' | 'P' => property(rest).ok_or_else(|| invalid_range(rest))?,
            'x' => hexadecimal(rest).ok_or_else(|| invalid_escape(rest, c))?,
            'a' | 'f' | 't' | 'n' | 'r' | 'v' => 2,
            '0'..='7' => return self.octal(),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => 2,
            _ => return Err(invalid_escape(rest, c)),
        };
        self.out.push_str(replacement.unwrap_or(&rest[..length]));
        self.at += length;
        Ok(())
    }
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

fn invalid_escape(rest: &str, c: char) -> String {
    format!("invalid escape sequence: `{}`", &rest[..1 + c.len_utf8()])
}

fn invalid_range(rest: &str) -> String {
    let end = rest.find('}').map_or(rest.len().min(3), |at| at + 1);
    format!("invalid character class range: `{}`", rest.get(..end).unwrap_or(rest))
}

fn invalid_range_of(range: &str) -> String {
    format!("invalid character class range: `{range}`")
}

/// The length of `{2}`, `{2,}` or `{2,3}`.
fn counted(rest: &str) -> Option<usize> {
    let end = rest.strip_prefix('{')?.find('}')?;
    let (low, high) = rest[1..=end].split_once(',').unwrap_or((&rest[1..=end], ""));
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (!low.is_empty() && number(low) && number(high)).then_some(end + 2)
}

/// The length of `\pL` or `\p{Greek}`.
fn property(rest: &str) -> Option<usize> {
    match rest[2..].chars().next()? {
        '{' => rest.find('}').map(|end| end + 1),
        c => Some(2 + c.len_utf8()),
    }
}

/// The length of `\x41` or `\x{41}`.
fn hexadecimal(rest: &str) -> Option<usize> {
    let digits = &rest[2..];
    if let Some(inner) = digits.strip_prefix('{') {
        let end = inner.find('}')?;
        let number = u32::from_str_radix(&inner[..end], 16).ok()?;
        return char::from_u32(number).map(|_| end + 4);
    }
    let two = digits.get(..2)?;
    two.bytes().all(|b| b.is_ascii_hexdigit()).then_some(4)
}

#[cfg(test)]
mod tests {
    use super::super::compile;

    #[test]
    fn classes_know_ascii_only() {
        for (pattern, text, matched) in [
            (r"^\d+$", "123", true),
            (r"^\d+$", "\u{0661}", false),
            (r"^\w$", "é", false),
            (r"^[\w-]+$", "a-b_9", true),
            (r"^[^\D]$", "5", true),
            (r"\bab\b", "x ab y", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^[]a]+$", "]a", true),
        ] {
            let regex = compile(pattern).expect(pattern);
            assert_eq!(regex.is_match(text), matched, "{pattern} {text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_said_in_the_words_of_go() {
        for (pattern, message) in [
            ("[", "error parsing regexp: missing closing ]: `[`"),
            ("a(b", "error parsing regexp: missing closing ): `a(b`"),
            ("a)b", "error parsing regexp: unexpected ): `a)b`"),
            ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
            (r"\y", r"error parsing regexp: invalid escape sequence: `\y`"),
            ("(?!a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?!`"),
            ("[z-a]", "error parsing regexp: invalid character class range: `z-a`"),
            ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
            ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
        ] {
            assert_eq!(compile(pattern).map(|_| ()), Err(message.to_owned()), "{pattern}");
        }
    }
}
