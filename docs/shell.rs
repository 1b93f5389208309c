//! Shell commands of the book.

use crate::page::Block;

/// Returns the typed lines with their numbers: those of shell blocks, and those after a prompt.
pub fn lines(block: &Block<'_>) -> Vec<(usize, String)> {
    let mut document: Option<String> = None;
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (block.line + 1..).zip(&block.lines) {
        if document.is_some() {
            document = document.filter(|end| end != line);
            continue;
        }
        let shown = match block.language() {
            "sh" => Some(line.strip_prefix("$ ").unwrap_or(line)),
            "console" => line.strip_prefix("$ "),
            _ => None,
        };
        let Some(shown) = shown else { continue };
        document = shown.split_once("<<").map(|(_, end)| end.trim().to_owned());
        let (shown, more) = match shown.strip_suffix('\\') {
            Some(shown) => (shown, true),
            None => (shown, false),
        };
        match lines.last_mut() {
            Some((_, last)) if goes_on => last.push_str(shown),
            _ => lines.push((number, shown.to_owned())),
        }
        goes_on = more;
    }
    lines
}

/// Splits a line into commands, each a list of words. Removes quotes, comments and redirections.
pub fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (letter, quote) {
            (letter, Some(end)) if letter == end => quote = None,
            (letter, Some(_)) => word.get_or_insert_default().push(letter),
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            (' ' | '|' | '&' | ';' | '>' | '<', None) => {
                words.extend(word.take());
                if letter != ' ' {
                    commands.push(std::mem::take(&mut words));
                }
            }
            (letter, None) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    commands.push(words);
    let within = |word: &String| Some(word.split_once("$(")?.1.split_once(')')?.0.to_owned());
    let inner: Vec<String> = commands.iter().flatten().filter_map(within).collect();
    commands.extend(inner.iter().flat_map(|line| self::commands(line)));
    commands.retain(|words| !words.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;

    #[test]
    fn commands_are_taken_out_of_lines() {
        let text = "```sh\nx=1 && windlass up --controllers \"\" \\\n  -v > out &   # then\ncat <<END\nwindlass no\nEND\n\
                    eval \"$(windlass down)\"\n```\n";
        let page = Page { path: "page.md".into(), text: text.to_owned() };
        let lines = lines(&page.blocks()[0]);
        assert_eq!(lines.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 4, 7]);
        let words: Vec<Vec<String>> = lines.iter().flat_map(|(_, line)| commands(line)).collect();
        let up = ["windlass", "up", "--controllers", "", "-v"].map(str::to_owned).to_vec();
        assert!(words.contains(&up), "{words:?}");
        assert!(words.iter().any(|words| words == &["windlass", "down"]), "{words:?}");
        assert!(!words.iter().any(|words| words == &["windlass", "no"]), "{words:?}");
    }
}
