//! Tests that the command lines in the book and the READMEs parse.

use clap::{CommandFactory as _, error::ErrorKind};
use windlass_book::{
    page::{Page, pages, root},
    shell,
};

/// Pages that are not part of the book.
const OTHERS: &[&str] = &["README.md", "docs/README.md", "bench/README.md"];

#[test]
fn the_book_names_only_commands_and_flags_that_exist() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for page in pages().into_iter().chain(OTHERS.iter().map(|path| Page::read(root().join(path)))) {
        for (number, line) in page.blocks().iter().flat_map(shell::lines) {
            for words in shell::commands(&line) {
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
                        wrong.push(format!("{}:{number}: {}: {why}", page.name(), ours.join(" ")));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 20, "only {checked} commands were found");
}
