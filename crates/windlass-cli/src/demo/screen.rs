//! Presentation of the story: eighty columns, a little colour, and time to read.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use crate::output;

/// Indentation of text.
const INDENT: &str = "   ";
/// Maximum width of text, regardless of the terminal.
const TEXT: usize = 80;
/// Time to read, and to type, a character.
const READING: Duration = Duration::from_millis(18);
const TYPING: Duration = Duration::from_millis(14);
/// Time to look at the output of a command.
const LOOKING: Duration = Duration::from_millis(1200);

/// Pace of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Without pauses.
    Fast,
    /// With pauses to read.
    Reading,
    /// Each chapter after Enter.
    Enter,
}

/// Standard output, formatted.
pub(super) struct Screen {
    pub(super) pace: Pace,
    colour: bool,
    /// Output is cut at this width, since wrapped tables are hard to read.
    width: usize,
}

#[derive(Clone, Copy)]
enum Style {
    Title,
    Command,
    Good,
    Bad,
    Quiet,
}

impl Screen {
    /// The screen of this process.
    pub(super) fn of_process(pace: Pace) -> Self {
        let terminal = io::stdout().is_terminal();
        let colour = terminal && output::colour_allowed();
        let size = terminal.then(|| rustix::termios::tcgetwinsize(io::stdout()).ok()).flatten();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(TEXT);
        Self { pace, colour, width: width.max(40) }
    }

    /// Starts a chapter.
    pub(super) fn title(&self, number: usize, title: &str) -> io::Result<()> {
        let line = format!("━━ {number} · {title} ");
        let rule = "━".repeat(self.width.min(TEXT).saturating_sub(line.chars().count()));
        self.print(&format!("{}\n\n", self.styled(Style::Title, &format!("{line}{rule}"))))
    }

    /// Shows text in paragraphs.
    pub(super) async fn say(&self, text: &str) -> io::Result<()> {
        for line in wrap(text, self.width.min(TEXT) - 2 * INDENT.len()) {
            self.print(&format!("{INDENT}{line}\n"))?;
        }
        self.print("\n")?;
        let length = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        self.rest(READING.saturating_mul(length)).await;
        Ok(())
    }

    /// Shows a command as if it were typed.
    pub(super) async fn command(&self, line: &str) -> io::Result<()> {
        if self.pace == Pace::Fast {
            return self.command_at_once(line);
        }
        self.print(&format!("{INDENT}{} ", self.styled(Style::Quiet, "$")))?;
        for character in line.chars() {
            self.print(&self.styled(Style::Command, &character.to_string()))?;
            tokio::time::sleep(TYPING).await;
        }
        self.print("\n")
    }

    /// Shows a command at once, if its effects will be watched.
    pub(super) fn command_at_once(&self, line: &str) -> io::Result<()> {
        let (prompt, line) = (self.styled(Style::Quiet, "$"), self.styled(Style::Command, line));
        self.print(&format!("{INDENT}{prompt} {line}\n"))
    }

    /// Shows a table or a file. Lines that are too long are cut: a wrapped table is hard to read.
    pub(super) fn table(&self, text: &str) -> io::Result<()> {
        self.lines(text.lines().map(|line| cut(line, self.width - INDENT.len())))
    }

    /// Shows other output of a command.
    pub(super) fn output(&self, text: &str) -> io::Result<()> {
        self.lines(text.lines().flat_map(|line| wrap(line, self.width - INDENT.len())))
    }

    /// Shows an error message.
    pub(super) fn rejection(&self, text: &str) -> io::Result<()> {
        let lines = text.lines().flat_map(|line| wrap(line, self.width - INDENT.len()));
        self.lines(lines.map(|line| self.styled(Style::Bad, &line)))
    }

    fn lines(&self, mut lines: impl Iterator<Item = String>) -> io::Result<()> {
        lines.try_for_each(|line| {
            self.print(&if line.is_empty() { "\n".to_owned() } else { format!("{INDENT}{line}\n") })
        })
    }

    /// Ends the output of a command or of the checks after it, with time to look.
    pub(super) async fn end_of_output(&self) -> io::Result<()> {
        self.print("\n")?;
        self.rest(LOOKING).await;
        Ok(())
    }

    /// Shows a condition that was met, and after how long. Does not delay the next one.
    pub(super) fn come_true(&self, what: &str, after: Option<Duration>) -> io::Result<()> {
        let mark = self.styled(Style::Good, "✓");
        let line = match after.map(milliseconds) {
            Some(after) => {
                let room = self.width.min(TEXT).saturating_sub(2 * INDENT.len() + 2 + after.chars().count());
                format!("{what:<room$}{}", self.styled(Style::Quiet, &after))
            }
            None => what.to_owned(),
        };
        self.print(&format!("{INDENT}{mark} {line}\n"))
    }

    /// Waits for the user between chapters.
    pub(super) async fn between_chapters(&self) -> io::Result<()> {
        if self.pace != Pace::Enter {
            return Ok(());
        }
        self.print(&format!("{INDENT}{}", self.styled(Style::Quiet, "press Enter to continue ")))?;
        let read = tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new()));
        // At the end of input, Enter will never be pressed.
        read.await.map_err(io::Error::other)?.map(|_| ())
    }

    async fn rest(&self, duration: Duration) {
        if self.pace != Pace::Fast {
            tokio::time::sleep(duration).await;
        }
    }

    fn styled(&self, style: Style, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match style {
            Style::Title => "1;36",
            Style::Command => "1",
            Style::Good => "32",
            Style::Bad => "33",
            Style::Quiet => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    pub(super) fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        // The kind of the error is kept: a closed pipe is not a failure.
        written.map_err(|error| io::Error::new(error.kind(), format!("failed to write to standard output: {error}")))
    }
}

/// Formats a duration for people.
pub(super) fn milliseconds(duration: Duration) -> String {
    match duration.as_millis() {
        milliseconds @ ..1000 => format!("{milliseconds} ms"),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

/// Wraps text at word boundaries; longer words are kept whole.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let characters: Vec<char> = word.chars().collect();
        for part in characters.chunks(width.max(1)) {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + part.len() <= width => {
                    line.push(' ');
                    line.extend(part);
                }
                _ => lines.push(part.iter().collect()),
            }
        }
    }
    lines
}

fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_words_and_cut_at_the_edge() {
        assert_eq!(wrap("one two  three\nfour", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("averylongword a", 5), ["avery", "longw", "ord a"]);
        assert_eq!(cut("12345", 5), "12345");
        assert_eq!(cut("123456", 5), "1234…");
    }

    #[test]
    fn durations_are_formatted_in_suitable_units() {
        assert_eq!(milliseconds(Duration::from_micros(12_700)), "12 ms");
        assert_eq!(milliseconds(Duration::from_millis(1250)), "1.2 s");
    }
}
