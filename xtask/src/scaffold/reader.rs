//! A reader of the book, who types what its pages say: commands into a shell, code into files.
//!
//! Blocks of a shell are typed if they need nothing but `windlass` and `cargo`. Those with other programs need a
//! cluster, or something else that is not here. What becomes of code is in the sentence before it, see [`Edit`].

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Error, bail};
use windlass_book::{
    edit::Edit,
    page::{self, Block, Page},
    shell,
};

use super::{CLIPPY, Workshop, run};

/// Somebody at a terminal.
pub(super) struct Reader<'a> {
    workshop: &'a Workshop,
    /// Where they are.
    folder: PathBuf,
    /// What was typed into files since the project was last seen to compile.
    typed: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(workshop: &'a Workshop) -> Self {
        Self { workshop, folder: workshop.folder.clone(), typed: Vec::new() }
    }

    /// Types the pages whose paths begin so, in the order of the book. Each has to leave a project that compiles.
    /// Answers with the project.
    pub(super) fn read(mut self, pages: &str) -> anyhow::Result<PathBuf> {
        let summary = Page::read(page::folder().join("SUMMARY.md"));
        for (_, path) in summary.links().iter().filter(|(_, path)| path.starts_with(pages)) {
            let page = Page::read(page::folder().join(path));
            for block in page.blocks() {
                let place = format!("{}:{}", page.name(), block.line);
                match block.language() {
                    "sh" => self.shell(&page, &block, &place)?,
                    "rust" => {
                        let edit = Edit::of(&block).map_err(Error::msg).with_context(|| place.clone())?;
                        edit.map_or(Ok(()), |edit| self.code(&edit, &block, &place)).with_context(|| place.clone())?;
                    }
                    // Manifests are also shown to be looked at.
                    "yaml" if let Ok(Some(edit)) = Edit::of(&block) => {
                        self.code(&edit, &block, &place).with_context(|| place.clone())?;
                    }
                    _ => {}
                }
            }
            if !self.typed.is_empty() {
                for arguments in [&["fmt"], CLIPPY] {
                    self.workshop.cargo(&self.folder, arguments).with_context(|| self.at(&page.name()))?;
                }
                self.typed.clear();
            }
        }
        Ok(self.folder)
    }

    fn shell(&mut self, page: &Page, block: &Block<'_>, place: &str) -> anyhow::Result<()> {
        let lines = shell::lines(block);
        let others = lines.iter().flat_map(|(_, line)| shell::commands(line)).find(|words| !is_typed(words));
        if let Some(other) = others {
            println!("{place}: not typed, because of {}", other.join(" "));
            return Ok(());
        }
        for (number, line) in lines {
            let place = format!("{}:{number}: {}", page.name(), line.trim());
            for words in shell::commands(&line) {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.command(&words).with_context(|| self.at(&place))?;
            }
        }
        Ok(())
    }

    fn command(&mut self, words: &[&str]) -> anyhow::Result<()> {
        match words {
            ["cd", folder] => self.folder.push(folder),
            ["windlass", init @ ..] if init.starts_with(&["init"]) => drop(self.workshop.init(init)?),
            ["windlass", "run", ..] => run::until_ready(self.workshop, &self.folder)?,
            ["windlass", arguments @ ..] => self.workshop.windlass(&self.folder, arguments)?,
            // What is not published is where it is.
            ["cargo", "add", name] if name.starts_with("windlass") => {
                self.workshop
                    .cargo(&self.folder, &["add", "--path", &format!("{}/crates/{name}", self.workshop.root)])?;
            }
            ["cargo", arguments @ ..] => self.workshop.cargo(&self.folder, arguments)?,
            _ => bail!("this cannot be typed"),
        }
        Ok(())
    }

    fn code(&mut self, edit: &Edit, block: &Block<'_>, place: &str) -> anyhow::Result<()> {
        let file = self.folder.join(&edit.path);
        let there = fs::read_to_string(&file).ok();
        let text = edit.apply(there.as_deref(), &block.shown()).map_err(Error::msg)?;
        if there.as_ref() != Some(&text) {
            fs::write(&file, text).with_context(|| format!("cannot write {}", edit.path))?;
            self.typed.push(format!("{place} into {}", edit.path));
        }
        Ok(())
    }

    /// A place, and what may be to blame if something fails there.
    fn at(&self, place: &str) -> String {
        let typed = self.typed.iter().map(|typed| format!("\n  after typing {typed}"));
        format!("{place}{}", typed.collect::<String>())
    }
}

/// Whether a reader types a command here.
fn is_typed(words: &[String]) -> bool {
    match words.first().map(String::as_str) {
        Some("cargo") => words.get(1).is_none_or(|command| command != "install"),
        program => matches!(program, Some("cd" | "windlass")),
    }
}
