//! The log: lines of all sources, newest last.

use std::collections::VecDeque;

use jiff::Timestamp;

use crate::run::event::Source;

/// Number of lines to keep.
const KEPT: usize = 5000;

/// Severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) source: Source,
    /// Time of day: `15:04:05`.
    pub(crate) time: String,
    pub(crate) level: Level,
    /// Spans of a tracing log.
    pub(crate) about: String,
    pub(crate) text: String,
}

/// All lines, and which of them are visible.
#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: VecDeque<Line>,
    /// Only lines that contain this are visible.
    filter: String,
    /// Number of matching lines below the window; at 0 it follows the log.
    below: usize,
}

impl Log {
    /// Adds a line. A window that does not follow the log stays in place.
    pub(crate) fn push(&mut self, line: Line) {
        if self.below > 0 && self.sees(&line) {
            self.below += 1;
        }
        self.lines.push_back(line);
        if self.lines.len() > KEPT {
            self.lines.pop_front();
        }
    }

    /// Shows only lines that contain the text, ignoring case.
    pub(crate) fn set_filter(&mut self, filter: &str) {
        self.filter = filter.to_lowercase();
        self.below = 0;
    }

    /// Number of matching lines.
    pub(crate) fn len(&self) -> usize {
        if self.filter.is_empty() { self.lines.len() } else { self.seen().count() }
    }

    /// Number of lines below the window.
    pub(crate) fn below(&self) -> usize {
        self.below
    }

    /// Moves the window; up if negative.
    pub(crate) fn scroll(&mut self, by: isize, height: usize) {
        let highest = self.len().saturating_sub(height);
        self.below = self.below.saturating_add_signed(by.saturating_neg()).min(highest);
    }

    /// Lines of a window of this height, oldest first.
    pub(crate) fn window(&self, height: usize) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.seen().rev().skip(self.below).take(height).collect();
        lines.reverse();
        lines
    }

    fn seen(&self) -> impl DoubleEndedIterator<Item = &Line> {
        self.lines.iter().filter(|line| self.sees(line))
    }

    fn sees(&self, line: &Line) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.filter);
        self.filter.is_empty() || has(&line.text) || has(&line.about) || has(line.level.name())
    }
}

impl Level {
    /// Name in capital letters.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Trace => "TRACE",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error].into_iter().find(|level| level.name() == word)
    }
}

impl Line {
    /// Parses a line of output. Lines that are not in the format of `tracing` are kept whole, with the current time.
    pub(crate) fn parse(source: Source, text: &str, now: Timestamp) -> Self {
        let text = plain(text);
        let whole = |level, text: &str| Self {
            source,
            time: now.strftime("%H:%M:%S").to_string(),
            level,
            about: String::new(),
            text: text.to_owned(),
        };
        match source {
            Source::Error => whole(Level::Error, &text),
            Source::Cargo => {
                let level = match text.trim_start() {
                    text if text.starts_with("error") => Level::Error,
                    text if text.starts_with("warning") => Level::Warn,
                    _ => Level::Debug,
                };
                whole(level, &text)
            }
            Source::Operator | Source::Windlass => {
                Self::traced(source, &text).unwrap_or_else(|| whole(Level::Info, &text))
            }
        }
    }

    /// `2026-01-02T15:04:05.678Z  INFO span{field=1}: target: message field=2`
    fn traced(source: Source, text: &str) -> Option<Self> {
        let (time, rest) = text.split_once(' ')?;
        let time: Timestamp = time.parse().ok()?;
        let (level, rest) = rest.trim_start().split_once(' ')?;
        let level = Level::parse(level)?;
        let (about, text) = spans(rest);
        Some(Self {
            source,
            time: time.strftime("%H:%M:%S").to_string(),
            level,
            about: about.trim_end_matches([':', ' ']).to_owned(),
            text: text.to_owned(),
        })
    }
}

/// Splits the spans from the message, dropping its target.
fn spans(text: &str) -> (&str, &str) {
    let is_path = |word: &str| {
        !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':')
    };
    for (end, _) in text.match_indices(": ") {
        let start = text[..end].rfind([' ', '}']).map_or(0, |before| before + 1);
        // Within the braces of a span, fields may contain anything.
        let within = text[..start].matches('{').count() > text[..start].matches('}').count();
        if !within && is_path(text[start..end].trim_start_matches(':')) {
            return (&text[..start], &text[end + 2..]);
        }
    }
    ("", text)
}

/// Removes terminal escape sequences; tabs become four spaces.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => {
                // A control sequence ends with its first letter; other sequences have two characters.
                if letters.next() == Some('[') {
                    letters.by_ref().find(|letter| letter.is_ascii_alphabetic());
                }
            }
            '\t' => plain.push_str("    "),
            letter if letter.is_control() => {}
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: Source, text: &str) -> Line {
        Line::parse(source, text, "2026-05-06T07:08:09Z".parse().unwrap())
    }

    #[test]
    fn tracing_lines_are_parsed() {
        let text = "2026-01-02T15:04:05.678901Z  WARN reconcile{controller=\"book\" object=\"a: b\"}: shop::book: it failed: no: way error=\"x\"";
        let line = parse(Source::Operator, text);
        assert_eq!((line.time.as_str(), line.level), ("15:04:05", Level::Warn));
        assert_eq!(line.about, "reconcile{controller=\"book\" object=\"a: b\"}");
        assert_eq!(line.text, "it failed: no: way error=\"x\"");
        let line = parse(Source::Operator, "2026-01-02T15:04:05Z  INFO windlass_runtime::operator: starting version=1");
        assert_eq!((line.about.as_str(), line.text.as_str()), ("", "starting version=1"));
    }

    #[test]
    fn other_lines_are_kept_whole() {
        for (source, text, level, expected) in [
            (Source::Operator, "thread 'main' panicked", Level::Info, "thread 'main' panicked"),
            (Source::Operator, "2026-01-02 INFO not a time", Level::Info, "2026-01-02 INFO not a time"),
            (
                Source::Cargo,
                "\u{1b}[1m\u{1b}[31merror\u{1b}[0m: mismatched types",
                Level::Error,
                "error: mismatched types",
            ),
            (Source::Cargo, "   Compiling shop v0.1.0", Level::Debug, "   Compiling shop v0.1.0"),
            (Source::Cargo, "warning: unused", Level::Warn, "warning: unused"),
            (Source::Windlass, "a\tb\u{7}", Level::Info, "a    b"),
            (Source::Error, "\u{1b}", Level::Error, ""),
        ] {
            let line = parse(source, text);
            assert_eq!((line.level, line.text.as_str(), line.time.as_str()), (level, expected, "07:08:09"), "{text}");
        }
    }

    fn log(count: usize) -> Log {
        let mut log = Log::default();
        (0..count).for_each(|number| log.push(parse(Source::Windlass, &format!("line {number}"))));
        log
    }

    fn texts(log: &Log, height: usize) -> Vec<&str> {
        log.window(height).into_iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn the_window_follows_the_log_until_it_is_scrolled() {
        let mut log = log(10);
        assert_eq!(texts(&log, 2), ["line 8", "line 9"]);
        log.scroll(-3, 2);
        assert_eq!(texts(&log, 2), ["line 5", "line 6"]);
        log.push(parse(Source::Windlass, "new"));
        assert_eq!(texts(&log, 2), ["line 5", "line 6"]);
        log.scroll(-100, 2);
        assert_eq!(texts(&log, 2), ["line 0", "line 1"]);
        log.scroll(100, 2);
        assert_eq!(texts(&log, 2), ["line 9", "new"]);
        assert_eq!(texts(&log, 100).len(), 11);
    }

    #[test]
    fn a_filter_hides_lines_that_do_not_match() {
        let mut log = log(3);
        log.push(parse(Source::Error, "Line of trouble"));
        log.set_filter("LINE");
        assert_eq!(log.len(), 4);
        log.set_filter("trouble");
        assert_eq!(texts(&log, 9), ["Line of trouble"]);
        log.set_filter("error");
        assert_eq!(log.len(), 1);
        log.set_filter("");
        assert_eq!(log.len(), 4);
    }

    #[test]
    fn old_lines_are_dropped() {
        let log = log(KEPT + 3);
        assert_eq!((log.len(), texts(&log, KEPT)[0]), (KEPT, "line 3"));
    }
}
