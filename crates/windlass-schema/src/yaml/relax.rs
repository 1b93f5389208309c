//! Handles text that is valid in YAML 1.1 but not for the parser, which follows 1.2: lines inside brackets and quotes
//! that are indented less than their surroundings, and tabs after a colon.
//!
//! Used only for a string that failed to parse. Indentation inside brackets and quotes has no meaning, so indenting such
//! lines further changes nothing else; line numbers stay the same.

/// Maximum indentation of a line, so that no string grows without bounds.
const MAX_INDENT: usize = 200;

/// Returns the text with sufficient indentation inside brackets and quotes.
pub(super) fn relaxed(text: &str) -> String {
    let mut relaxer = Relaxer { out: String::with_capacity(text.len() * 2), flow: 0, quote: None, opened: 0 };
    let mut literal: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let indent = line.bytes().take_while(|b| *b == b' ').count();
        if literal.is_some_and(|parent| line.trim().is_empty() || indent > parent) {
            relaxer.out.push_str(line);
            continue;
        }
        literal = relaxer.line(line).then_some(indent);
    }
    relaxer.out
}

struct Relaxer {
    out: String,
    /// Number of open brackets.
    flow: usize,
    /// The open quote.
    quote: Option<char>,
    /// The column at which the outermost of them opened.
    opened: usize,
}

impl Relaxer {
    /// Copies a line, and returns whether it starts a literal or folded scalar.
    fn line(&mut self, line: &str) -> bool {
        let mut rest = line;
        if self.flow > 0 || self.quote.is_some() {
            rest = line.trim_start_matches([' ', '\t']);
            if !rest.trim().is_empty() {
                self.out.extend(std::iter::repeat_n(' ', self.opened + 2));
            }
        }
        let mut value_starts = true;
        let mut previous = ' ';
        let mut chars = rest.chars().enumerate().peekable();
        while let Some((column, c)) = chars.next() {
            let next = chars.peek().map_or('\n', |(_, next)| *next);
            let tab_after_colon = c == '\t' && previous == ':' && self.flow == 0 && self.quote.is_none();
            self.out.push(if tab_after_colon { ' ' } else { c });
            if let Some(quote) = self.quote {
                match c {
                    '\\' if quote == '"' => self.out.extend(chars.next().map(|(_, escaped)| escaped)),
                    '\'' if quote == c && next == c => self.out.extend(chars.next().map(|(_, second)| second)),
                    _ if c == quote => self.quote = None,
                    _ => {}
                }
                (previous, value_starts) = (c, false);
                continue;
            }
            match c {
                '#' if previous.is_whitespace() => {
                    self.out.extend(chars.map(|(_, c)| c));
                    return false;
                }
                '|' | '>' if value_starts && self.flow == 0 => {
                    self.out.extend(chars.map(|(_, c)| c));
                    return true;
                }
                '"' | '\'' if value_starts => {
                    self.open(column);
                    self.quote = Some(c);
                }
                '[' | '{' if value_starts || self.flow > 0 => {
                    self.open(column);
                    self.flow += 1;
                    value_starts = true;
                }
                ']' | '}' if self.flow > 0 => self.flow -= 1,
                ',' if self.flow > 0 => value_starts = true,
                ':' | '-' | '?' if next.is_whitespace() => value_starts = true,
                '&' | '!' if value_starts => {
                    while let Some((_, name)) = chars.next_if(|(_, c)| !c.is_whitespace()) {
                        self.out.push(name);
                    }
                }
                c if c.is_whitespace() => {}
                _ => value_starts = false,
            }
            previous = c;
        }
        false
    }

    fn open(&mut self, column: usize) {
        if self.flow == 0 && self.quote.is_none() {
            self.opened = column.min(MAX_INDENT);
        }
    }
}
