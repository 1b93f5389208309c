//! The pages, taken apart as far as checks need it. What cannot be read is a defect of the book, and panics.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A page.
pub struct Page {
    /// Its path, from the folder of the book.
    pub path: PathBuf,
    /// Everything in it.
    pub text: String,
}

/// A block of code.
pub struct Block<'a> {
    /// What is said of it, as `rust,no_run`.
    pub info: &'a str,
    /// Where it begins.
    pub line: usize,
    /// The paragraph before it, in one line.
    pub before: String,
    /// What is in it.
    pub lines: Vec<&'a str>,
}

impl Block<'_> {
    /// The language.
    pub fn language(&self) -> &str {
        self.info.split(',').next().unwrap_or_default()
    }

    /// What a reader sees.
    pub fn shown(&self) -> String {
        let hidden = |line: &&&str| self.language() == "rust" && (**line == "#" || line.starts_with("# "));
        let shown: Vec<&str> = self.lines.iter().filter(|line| !hidden(line)).copied().collect();
        shown.join("\n").trim().to_owned()
    }
}

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the book must lie in the repository").to_owned()
}

/// The folder of the pages.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// All pages.
pub fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    let mut pending = vec![folder()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).expect("the folder of the book must be readable") {
            let path = entry.expect("the folder of the book must be readable").path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(Page::read(path));
            }
        }
    }
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    pages
}

impl Page {
    /// Reads a page.
    pub fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    /// The path, for what is said.
    pub fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }

    /// Its code.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let (mut open, mut paragraph) = (false, Vec::new());
        // A paragraph is over with an empty line, but it is still the last one.
        let mut is_over = true;
        for (number, line) in self.text.lines().enumerate() {
            match (line.strip_prefix("```"), open) {
                (Some(_), true) => (open, is_over) = (false, true),
                (Some(info), false) => {
                    blocks.push(Block { info, line: number + 1, before: paragraph.join(" "), lines: Vec::new() });
                    (open, paragraph) = (true, Vec::new());
                }
                (None, true) => blocks.last_mut().expect("an open block must be there").lines.push(line),
                (None, false) if line.is_empty() => is_over = true,
                (None, false) => {
                    if std::mem::take(&mut is_over) {
                        paragraph.clear();
                    }
                    paragraph.push(line);
                }
            }
        }
        assert!(!open, "{}: a block of code has no end", self.name());
        blocks
    }

    /// Its lines outside of code, with numbers.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut open = false;
        self.text.lines().enumerate().filter_map(move |(number, line)| {
            let fence = line.starts_with("```");
            open ^= fence;
            (!open && !fence).then_some((number + 1, line))
        })
    }

    /// The anchors of its headings, as mdBook and GitHub make them.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.prose().filter_map(|(_, line)| {
            let title = line.trim_start_matches('#');
            (title.len() < line.len()).then(|| title.trim())
        });
        headings.map(anchor).collect()
    }

    /// Where its links and pictures lead, with the line.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (number, line) in self.prose() {
            let mut rest = line;
            while let Some((_, after)) = rest.split_once("](") {
                let Some((target, after)) = after.split_once(')') else { break };
                links.push((number, target.to_owned()));
                rest = after;
            }
            let mut rest = line;
            while let Some((_, after)) = rest.split_once("src=\"") {
                let Some((target, after)) = after.split_once('"') else { break };
                links.push((number, target.to_owned()));
                rest = after;
            }
        }
        links
    }
}

fn anchor(title: &str) -> String {
    let kept = title
        .to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
        .collect::<String>();
    kept.replace(' ', "-")
}
