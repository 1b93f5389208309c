//! The command lines of the book and of the READMEs are ones that this program understands.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{CommandFactory as _, error::ErrorKind};

/// Pages beside those of the book.
const OTHERS: &[&str] = &["README.md", "docs/README.md", "bench/README.md"];

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> = OTHERS.iter().map(|path| root.join(path)).collect();
    let mut pending = vec![root.join("docs/src")];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// What is typed, a line each with its number: shell blocks, and lines after a prompt.
fn typed(text: &str) -> Vec<(usize, String)> {
    let (mut block, mut document) = (None, None);
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            (block, document, goes_on) = (block.is_none().then_some(info), None, false);
            continue;
        }
        if document.is_some() {
            document = document.filter(|end: &String| end != line);
            continue;
        }
        let shown = match block {
            Some("sh") => Some(line.strip_prefix("$ ").unwrap_or(line)),
            Some("console") => line.strip_prefix("$ "),
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
            _ => lines.push((number + 1, shown.to_owned())),
        }
        goes_on = more;
    }
    lines
}

/// The commands of a line, each a list of words. Quotes are taken away, comments and redirections left out.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
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
                commands.last_mut().unwrap().extend(word.take());
                if letter != ' ' {
                    commands.push(Vec::new());
                }
            }
            (letter, None) => word.get_or_insert_default().push(letter),
        }
    }
    commands.last_mut().unwrap().extend(word);
    let within = |word: &String| Some(word.split_once("$(")?.1.split_once(')')?.0.to_owned());
    let inner: Vec<String> = commands.iter().flatten().filter_map(within).collect();
    commands.extend(inner.iter().flat_map(|line| self::commands(line)));
    commands
}

#[test]
fn commands_are_taken_out_of_lines() {
    let text = "```sh\nx=1 && windlass up --controllers \"\" \\\n  -v > out &   # then\ncat <<END\nwindlass no\nEND\neval \"$(windlass down)\"\n```\n";
    let lines = typed(text);
    assert_eq!(lines[0].0, 2);
    let words: Vec<Vec<String>> = lines.iter().flat_map(|(_, line)| commands(line)).collect();
    assert!(words.contains(&["windlass", "up", "--controllers", "", "-v"].map(str::to_owned).to_vec()), "{words:?}");
    assert!(words.iter().any(|words| words == &["windlass", "down"]), "{words:?}");
    assert!(!words.iter().any(|words| words == &["windlass", "no"]), "{words:?}");
}

#[test]
fn the_book_names_only_commands_and_flags_that_exist() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        for (number, line) in typed(&fs::read_to_string(&page).unwrap()) {
            for words in commands(&line) {
                // `cargo run -- up` at the root of the repository is the same.
                let ours = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                    ["windlass", ..] => &words[..],
                    ["cargo", "run", "--release", "--", ..] => &words[3..],
                    _ => continue,
                };
                checked += 1;
                if let Err(error) = super::Cli::command().try_get_matches_from(ours) {
                    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
                    if !is_help {
                        let why = error.to_string();
                        let why = why.lines().next().unwrap_or_default();
                        wrong.push(format!("{}:{number}: {}: {why}", page.display(), ours.join(" ")));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 20, "only {checked} commands were found");
}
