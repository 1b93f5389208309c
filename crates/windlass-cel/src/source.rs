//! The text of an expression, locations in it, and errors that refer to them.
//!
//! Offsets and columns count code points, as in all CEL implementations. Errors are printed with the line and a caret
//! that marks the location.

use std::fmt;
use std::sync::Arc;

use windlass_schema::sorting;

/// Maximum number of errors kept; others are only counted.
const MAXIMUM_ERRORS: usize = 100;
/// Lines longer than this many bytes are not printed with an error.
const MAXIMUM_SNIPPET: usize = 16384;

/// The text of an expression. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    text: Arc<str>,
    /// Code point offsets of the start of the second and all following lines, then one past the end.
    lines: Arc<[u32]>,
}

/// A location in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, counted from one.
    pub line: i32,
    /// The column in code points, counted from zero.
    pub column: i32,
}

/// A single error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The location.
    pub location: Location,
    /// The message.
    pub message: String,
}

/// The errors of parsing or checking an expression; `Display` prints all of them, with the lines they refer to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.render())]
pub struct Errors {
    text: Source,
    issues: Vec<Issue>,
    count: usize,
}

impl Location {
    /// No particular location.
    pub const NONE: Location = Location { line: -1, column: -1 };
}

impl Source {
    /// Returns the source for a string.
    pub fn new(text: &str) -> Source {
        let mut lines = Vec::new();
        let mut offset = 0;
        for character in text.chars() {
            offset += 1;
            if character == '\n' {
                lines.push(offset);
            }
        }
        lines.push(offset + 1);
        Source { text: text.into(), lines: lines.into() }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of code points in the text.
    pub fn len(&self) -> usize {
        self.lines.last().map_or(0, |end| *end as usize - 1)
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the line and column of a code point offset.
    pub fn location(&self, offset: u32) -> Location {
        let starts = &self.lines[..self.lines.len() - 1];
        let line = starts.partition_point(|start| *start <= offset);
        let start = if line == 0 { 0 } else { starts[line - 1] };
        Location { line: line as i32 + 1, column: (offset - start) as i32 }
    }

    /// Returns the text of a line, counted from one.
    pub fn line(&self, line: i32) -> Option<&str> {
        if line < 1 || line as usize > self.lines.len() || self.text.is_empty() {
            return None;
        }
        self.text.split('\n').nth(line as usize - 1)
    }
}

impl Errors {
    /// Returns an empty list of errors for a source.
    pub fn new(source: Source) -> Errors {
        Errors { text: source, issues: Vec::new(), count: 0 }
    }

    /// Adds an error.
    pub fn report(&mut self, location: Location, message: impl Into<String>) {
        self.count += 1;
        if self.count <= MAXIMUM_ERRORS {
            self.issues.push(Issue { location, message: message.into() });
        }
    }

    /// Returns whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of errors, including those not kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the errors that were kept, in the order in which they were found.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }

    fn render(&self) -> String {
        let mut sorted: Vec<&Issue> = self.issues.iter().collect();
        sorting::sort_by_key(&mut sorted, |issue| issue.location);
        let mut parts: Vec<String> = sorted.into_iter().map(|issue| self.render_issue(issue)).collect();
        if self.count > MAXIMUM_ERRORS {
            parts.push(format!("{} more errors were truncated", self.count - MAXIMUM_ERRORS));
        }
        parts.join("\n")
    }

    fn render_issue(&self, issue: &Issue) -> String {
        let Location { line, column } = issue.location;
        let mut rendered = format!("ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
        let Some(snippet) = self.text.line(line).filter(|snippet| snippet.len() <= MAXIMUM_SNIPPET) else {
            return rendered;
        };
        rendered.push_str("\n | ");
        rendered.push_str(&snippet.replace('\t', " "));
        rendered.push_str("\n | ");
        let mut characters = snippet.chars();
        for character in characters.by_ref().take(column.max(0) as usize) {
            rendered.push(if character.is_ascii() { '.' } else { '\u{ff0e}' });
        }
        rendered.push(if characters.next().is_none_or(|character| character.is_ascii()) { '^' } else { '\u{ff3e}' });
        rendered
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column + 1)
    }
}

#[cfg(test)]
mod tests;
