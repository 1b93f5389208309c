//! Parses paths and templates.

use super::{Node, ParseError, Slice, quote};

/// Maximum nesting depth of filters, which can hardly be nested at all.
const MAX_NESTING: usize = 32;

/// Parses a template.
pub(super) fn template(text: &str) -> Result<Vec<Node>, ParseError> {
    Parser { rest: text, nesting: 0 }.template()
}

fn fail<T>(message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError(message.into()))
}

struct Parser<'a> {
    rest: &'a str,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// Consumes everything before the byte at this position.
    fn take(&mut self, position: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(position);
        self.rest = rest;
        taken
    }

    fn template(mut self) -> Result<Vec<Node>, ParseError> {
        let mut roots = Vec::new();
        while !self.rest.is_empty() {
            let text = self.take(self.rest.find('{').unwrap_or(self.rest.len()));
            if !text.is_empty() {
                roots.push(Node::Text(text.to_owned()));
            }
            if self.next().is_some() {
                roots.push(Node::List(self.action()?));
            }
        }
        Ok(roots)
    }

    /// Parses a path nested in a step; if it contains braces, only the first piece is used.
    fn nested(&self, text: &str) -> Result<Vec<Node>, ParseError> {
        if self.nesting == MAX_NESTING {
            return fail("too many nested expressions");
        }
        let text = format!("{{{text}}}");
        let roots = Parser { rest: &text, nesting: self.nesting + 1 }.template()?;
        match roots.into_iter().next() {
            Some(Node::List(steps)) => Ok(steps),
            _ => Ok(Vec::new()),
        }
    }

    /// Parses the content of braces, including the closing one.
    fn action(&mut self) -> Result<Vec<Node>, ParseError> {
        let mut steps = Vec::new();
        loop {
            if self.rest.starts_with('}') {
                self.next();
                return Ok(steps);
            }
            if self.rest.starts_with("[?(") {
                self.filter(&mut steps)?;
                continue;
            }
            if self.rest.starts_with("..") {
                if steps.last() == Some(&Node::Recursive) {
                    return fail("invalid multiple recursive descent");
                }
                self.take(2);
                steps.push(Node::Recursive);
                if self.peek().is_some_and(is_alphanumeric) {
                    self.field(&mut steps);
                }
                continue;
            }
            match self.peek() {
                None | Some('\r' | '\n') => return fail("unclosed action"),
                Some(' ' | '@' | '$') => {
                    self.next();
                }
                Some('[') => self.array(&mut steps)?,
                Some(end @ ('"' | '\'')) => self.quoted(end, &mut steps)?,
                Some('.') => {
                    self.next();
                    self.field(&mut steps);
                }
                Some(c) if c == '+' || c == '-' || is_digit(c) => self.number(&mut steps)?,
                Some(c) if is_alphanumeric(c) => {
                    let word = self.take(self.rest.find(is_terminator).unwrap_or(self.rest.len()));
                    steps.push(match word {
                        "true" => Node::Bool(true),
                        "false" => Node::Bool(false),
                        _ => Node::Identifier(word.to_owned()),
                    });
                }
                Some(c) => return fail(format!("unrecognized character in action: {}", code_point(c))),
            }
        }
    }

    /// Parses a name up to an unescaped terminator. All backslashes are dropped.
    fn field(&mut self, steps: &mut Vec<Node>) {
        let mut name = String::new();
        let mut escaped = false;
        while let Some(c) = self.peek().filter(|c| escaped || !is_terminator(*c)) {
            self.next();
            escaped = !escaped && c == '\\';
            name.push(c);
        }
        steps.push(if name == "*" { Node::Wildcard } else { Node::Field(name.replace('\\', "")) });
    }

    fn number(&mut self, steps: &mut Vec<Node>) -> Result<(), ParseError> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[sign..].find(|c| c != '.' && !is_digit(c));
        let text = self.take(digits.map_or(self.rest.len(), |digits| sign + digits));
        if let Ok(int) = text.parse() {
            steps.push(Node::Int(int));
            return Ok(());
        }
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() => {
                steps.push(Node::Float(float));
                Ok(())
            }
            _ => fail(format!("cannot parse number {text}")),
        }
    }

    fn quoted(&mut self, end: char, steps: &mut Vec<Node>) -> Result<(), ParseError> {
        let bytes = self.rest.as_bytes();
        // A quote after a backslash does not end it, even if the backslash is itself escaped.
        let length = (1..bytes.len())
            .take_while(|position| bytes[*position] != b'\n')
            .find(|position| char::from(bytes[*position]) == end && bytes[position - 1] != b'\\');
        let Some(length) = length else { return fail("unterminated quoted string") };
        let text = self.take(length + 1);
        match quote::unquote(&text[1..length], end) {
            Some(unquoted) => {
                steps.push(Node::Text(unquoted));
                Ok(())
            }
            None => fail(format!("unquote string {text} error invalid syntax")),
        }
    }

    /// Parses `[...]` other than a filter.
    fn array(&mut self, steps: &mut Vec<Node>) -> Result<(), ParseError> {
        let end = self.rest.find([']', '\n']).filter(|end| self.rest.as_bytes()[*end] == b']');
        let Some(end) = end else { return fail("unterminated array") };
        let text = &self.take(end + 1)[1..end];
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let one = |text: &str| self.nested(&format!("[{}]", text.trim_matches(' ')));
            steps.push(Node::Union(text.split(',').map(one).collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).filter(|key| !key.contains('\''));
        if let Some(key) = key {
            steps.extend(self.nested(&format!(".{key}"))?);
            return Ok(());
        }
        steps.push(Node::Slice(slice(text)?));
        Ok(())
    }

    fn filter(&mut self, steps: &mut Vec<Node>) -> Result<(), ParseError> {
        self.take(3);
        let bytes = self.rest.as_bytes();
        let (mut pair, mut closed) = (None, false);
        // Only the first quote is paired with another one.
        let end = bytes.iter().enumerate().take_while(|(_, byte)| **byte != b'\n').find(|(position, byte)| {
            match (byte, pair) {
                (b'"' | b'\'', None) => pair = Some(**byte),
                (byte, Some(open)) if **byte == open && bytes[position - 1] != b'\\' => closed = true,
                (b')', _) => return pair.is_some() == closed,
                _ => {}
            }
            false
        });
        let Some((end, _)) = end else { return fail("unterminated filter") };
        let text = self.take(end);
        self.take(1);
        if self.next() != Some(']') {
            return fail("unclosed array expect ]");
        }
        let (left, operator, right) = comparison(text).unwrap_or((text, "", ""));
        steps.push(Node::Filter {
            left: self.nested(left)?,
            operator: operator.to_owned(),
            right: if operator.is_empty() { Vec::new() } else { self.nested(right)? },
        });
        Ok(())
    }
}

/// Returns the sides of a comparison and the operator between them.
fn comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |c: char| "!<>=".contains(c);
    let start = text.find(is_operator).filter(|start| *start > 0)?;
    let length = text[start..].find(|c| !is_operator(c)).unwrap_or(text.len() - start);
    // The right side must not be empty.
    let length = if start + length == text.len() { length - 1 } else { length };
    (length > 0).then(|| (&text[..start], &text[start..start + length], &text[start + length..]))
}

fn slice(text: &str) -> Result<Slice, ParseError> {
    let mut parts = text.split(':');
    let parts = [parts.next(), parts.next(), parts.next(), parts.next()];
    let is_index = |part: &str| part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit());
    if parts[3].is_some() || !parts.iter().flatten().all(|part| is_index(part)) {
        return fail(format!("invalid array index {text}"));
    }
    let number = |part: Option<&str>| match part {
        None | Some("") => Ok(None),
        Some(part) => match part.parse::<i64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => fail(format!("array index {part} is not a number")),
        },
    };
    let start = number(parts[0])?;
    let end = match parts[1] {
        None => Some(start.unwrap_or(0).wrapping_add(1)),
        end => number(end)?,
    };
    Ok(Slice { start, end, single: parts[1].is_none(), step: number(parts[2])? })
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric())
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphabetic() || is_digit(c)
}

/// Formats a code point as `U+0021 '!'`, with the character itself only if it is printable.
fn code_point(c: char) -> String {
    let seen = !c.is_control() && !c.is_whitespace();
    if seen { format!("U+{:04X} '{c}'", u32::from(c)) } else { format!("U+{:04X}", u32::from(c)) }
}
