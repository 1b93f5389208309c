//! The edit that a reader makes with the code of a page, as stated by the sentence before the block.
//!
//! | the sentence has | the block |
//! |---|---|
//! | a `` `path` `` | is the whole file |
//! | and `` `name` stays`` | is the whole file, in which `// ...` stands for the unchanged item |
//! | and "at the end of" | goes to the end; lines before a line `// ...` go to the `use` declarations |
//! | and ``in place of `name` `` | replaces that item |
//! | and ``after `line` `` | goes after that line |
//! | and "has" | is in the file already |
//! | "example" | is not typed |

use std::ops::Range;

use crate::page::Block;

/// Stands for code that is not shown.
pub const LEFT_OUT: &str = "// ...";

/// A code block that goes into a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Path of the file, relative to the root of the project.
    pub path: String,
    /// Place of the block in the file.
    pub place: Place,
    /// Whether later pages leave it unchanged: the sentence does not say "for now" or end with "this:".
    pub stays: bool,
}

/// Place of a block in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The block is the whole file.
    Whole,
    /// The block is the whole file, except for an item that stays.
    AllBut(String),
    /// At the end of the file.
    End,
    /// In place of an item.
    InPlaceOf(String),
    /// After a line.
    After(String),
    /// The file already has it.
    Has,
}

impl Edit {
    /// Returns the edit that a block makes, or `None` for an example.
    ///
    /// # Errors
    ///
    /// If the sentence before the block does not state an edit.
    pub fn of(block: &Block<'_>) -> Result<Option<Self>, String> {
        let sentence = block.before.rsplit(". ").next().unwrap_or_default();
        let lower = sentence.to_lowercase();
        if !sentence.ends_with(':') {
            return Err("the paragraph before this must end with a sentence that ends with a colon".to_owned());
        }
        if lower.contains("example") {
            return Ok(None);
        }
        let is_path = |word: &&str| word.contains('/') && (word.ends_with(".rs") || word.ends_with(".yaml"));
        let Some(path) = sentence.split('`').skip(1).step_by(2).find(is_path) else {
            return Err("the sentence before this names neither the file, nor says that it is an example".into());
        };
        let after = |words: &str| Some(sentence.split_once(&format!("{words} `"))?.1.split('`').next()?.to_owned());
        let stays = sentence.split_once("` stays").and_then(|(before, _)| before.rsplit('`').next());
        let place = if let Some(name) = stays {
            Place::AllBut(name.to_owned())
        } else if let Some(name) = after("in place of") {
            Place::InPlaceOf(name)
        } else if let Some(line) = after("after") {
            Place::After(line)
        } else if lower.contains("at the end of") {
            Place::End
        } else if sentence.contains("` has") {
            Place::Has
        } else {
            Place::Whole
        };
        let changes = lower.contains("for now") || sentence.ends_with("this:");
        Ok(Some(Self { path: path.to_owned(), place, stays: !changes }))
    }

    /// Applies the edit to a file.
    ///
    /// # Errors
    ///
    /// If the file does not have the expected contents.
    pub fn apply(&self, file: Option<&str>, shown: &str) -> Result<String, String> {
        if self.place == Place::Whole {
            return Ok(format!("{shown}\n"));
        }
        let file = file.ok_or_else(|| format!("{} does not exist", self.path))?;
        let item = |name: &str| item(file, name).ok_or_else(|| format!("{} has no {name}", self.path));
        match &self.place {
            Place::Whole => unreachable!("handled above"),
            Place::AllBut(name) => Ok(format!("{}\n", shown.replacen(LEFT_OUT, file[item(name)?].trim_end(), 1))),
            Place::InPlaceOf(name) => {
                let place = item(name)?;
                Ok(format!("{}{shown}\n{}", &file[..place.start], &file[place.end..]))
            }
            Place::End => {
                let (uses, shown) = shown.split_once(&format!("\n{LEFT_OUT}\n")).unwrap_or(("", shown));
                let first = lines(file).find(|place| file[place.clone()].starts_with("use "));
                let top = first.map_or(0, |place| place.start);
                let between = if file.trim_end().ends_with('}') { "\n" } else { "" };
                Ok(format!("{}{uses}{}{between}{}\n", &file[..top], &file[top..], shown.trim_start()))
            }
            Place::After(line) => {
                let mut places = lines(file).filter(|place| file[place.clone()].trim() == line);
                match (places.next(), places.next()) {
                    (Some(place), None) => Ok(format!("{}{shown}\n{}", &file[..place.end], &file[place.end..])),
                    _ => Err(format!("{} must have exactly one line `{line}`", self.path)),
                }
            }
            Place::Has => match missing(file, shown) {
                None => Ok(file.to_owned()),
                Some(piece) => Err(format!("{} does not have this, or not in this order:\n{piece}", self.path)),
            },
        }
    }
}

/// Returns the first shown piece that a file does not have in the same order, or `None` if it has all.
pub fn missing<'a>(file: &str, shown: &'a str) -> Option<&'a str> {
    let mut rest = file;
    for piece in shown.split(LEFT_OUT).map(str::trim).filter(|piece| !piece.is_empty()) {
        match rest.find(piece) {
            Some(place) => rest = &rest[place + piece.len()..],
            None => return Some(piece),
        }
    }
    None
}

/// Returns the ranges of all lines, including their line breaks.
fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.split_inclusive('\n').scan(0, |start, line| {
        let place = *start..*start + line.len();
        *start = place.end;
        Some(place)
    })
}

/// Returns the range of a function, type or constant in rustfmt's format, including comments and attributes above it.
fn item(text: &str, name: &str) -> Option<Range<usize>> {
    let is_named = |line: &str| {
        let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let keyword = words.find(|word| ["fn", "struct", "enum", "const", "mod"].contains(word));
        !line.starts_with([' ', '/', '#']) && keyword.is_some() && words.next() == Some(name)
    };
    let (mut start, mut found) = (0, false);
    for place in lines(text) {
        let line = text[place.clone()].trim_end();
        found |= is_named(line);
        if found && (line.starts_with('}') || (!line.starts_with(' ') && line.ends_with([';', '}']))) {
            return Some(start..place.end);
        }
        let is_above = line.starts_with("///") || line.starts_with("#[") || line.starts_with([' ', ')']);
        if !found && !is_above {
            start = place.end;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;

    const FILE: &str =
        "//! Doc.\n\nuse b;\n\n/// One.\n#[test]\nfn one() {\n    1\n}\n\nconst TWO: u8 = 2;\n\nfn ones() {}\n";

    fn edit(before: &str) -> Result<Option<Edit>, String> {
        let page = Page { path: "page.md".into(), text: format!("# Title\n\n{before}\n\n```rust\nx\n```\n") };
        Edit::of(&page.blocks()[0])
    }

    #[test]
    fn the_sentence_before_a_block_says_where_it_goes() {
        let item = |name: &str| name.to_owned();
        for (sentence, place, stays) in [
            ("This is `other`. `src/a.rs`:", Place::Whole, true),
            ("In the end it is this; `src/a.rs`:", Place::Whole, true),
            ("For now, `src/a.rs` is\nthis:", Place::Whole, false),
            ("At the end of `src/a.rs`:", Place::End, true),
            ("At the end of `src/a.rs`, for now:", Place::End, false),
            ("In `src/a.rs`, in place of `one`:", Place::InPlaceOf(item("one")), true),
            ("In `src/a.rs`, after `x.push(y);`:", Place::After(item("x.push(y);")), true),
            ("`src/a.rs`, in which `one` stays:", Place::AllBut(item("one")), true),
            ("`src/a.rs` has it already:", Place::Has, true),
        ] {
            assert_eq!(edit(sentence), Ok(Some(Edit { path: item("src/a.rs"), place, stays })), "{sentence}");
        }
        assert_eq!(edit("For example:"), Ok(None));
        assert!(edit("See `src/a.rs`.").unwrap_err().contains("ends with a colon"));
        assert!(edit("See `other`:").unwrap_err().contains("names neither the file"));
    }

    #[test]
    fn files_become_what_a_page_says() {
        for (sentence, shown, expected) in [
            ("`a/a.rs`:", "fn x() {}", "fn x() {}\n".to_owned()),
            ("`a/a.rs`, `TWO` stays:", "use c;\n\n// ...\n\nx();", "use c;\n\nconst TWO: u8 = 2;\n\nx();\n".to_owned()),
            ("At the end of `a/a.rs`:", "fn x() {}", format!("{FILE}\nfn x() {{}}\n")),
            (
                "At the end of `a/a.rs`:",
                "use a;\n\n// ...\n\nfn x() {\n    // ...\n}",
                format!("{}\nfn x() {{\n    // ...\n}}\n", FILE.replace("use b", "use a;\nuse b")),
            ),
            ("In `a/a.rs`, in place of `one`:", "x", format!("{}x\n\n{}", &FILE[..18], &FILE[55..])),
            ("In `a/a.rs`, in place of `ones`:", "x", FILE.replace("fn ones() {}", "x")),
            ("In `a/a.rs`, after `1`:", "    x", FILE.replace("    1\n", "    1\n    x\n")),
            ("`a/a.rs` has:", "fn one() {\n// ...\nfn ones()", FILE.to_owned()),
        ] {
            let edit = edit(sentence).unwrap().unwrap();
            assert_eq!(edit.apply(Some(FILE), shown).as_deref(), Ok(expected.as_str()), "{sentence}");
        }
    }

    #[test]
    fn an_unexpected_file_is_reported() {
        for (sentence, file, expected) in [
            ("At the end of `a/a.rs`:", None, "a/a.rs does not exist"),
            ("In `a/a.rs`, in place of `three`:", Some(FILE), "a/a.rs has no three"),
            ("In `a/a.rs`, after `3`:", Some(FILE), "a/a.rs must have exactly one line `3`"),
            ("`a/a.rs` has:", Some(FILE), "a/a.rs does not have this, or not in this order:\nx"),
        ] {
            assert_eq!(edit(sentence).unwrap().unwrap().apply(file, "x"), Err(expected.to_owned()));
        }
    }
}
