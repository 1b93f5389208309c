//! A reader of the documentation, who types what its pages show: commands into a shell, code into files.
//!
//! The README and the quick start are typed completely and verbatim in a [`Terminal`]. Blocks of the tutorial, and of the
//! README of a generated project, that only need `windlass` and `cargo` are typed in the project, others in a terminal of
//! their own, unless they need a registry. The sentence before a code block says what to do with it; see [`Edit`].

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Error, bail, ensure};
use windlass_book::{
    edit::Edit,
    page::{self, Block, Page},
    shell,
};

use super::{
    CLIPPY, Workshop, run,
    terminal::{self, Terminal},
};

/// Someone at a terminal.
pub(super) struct Reader<'a> {
    workshop: &'a Workshop,
    /// Types everything as it stands; `None` for pages with some blocks that cannot be typed.
    terminal: Option<Terminal<'a>>,
    /// The working directory, without a terminal.
    folder: PathBuf,
    /// Code typed into files since the project last compiled.
    typed: Vec<String>,
}

impl<'a> Reader<'a> {
    /// A reader who types every command, at the root of the repository.
    pub(super) fn of_everything(workshop: &'a Workshop) -> anyhow::Result<Self> {
        Ok(Self { terminal: Some(Terminal::open(workshop)?), ..Self::of_some(workshop) })
    }

    /// A reader who types most blocks.
    pub(super) fn of_some(workshop: &'a Workshop) -> Self {
        Self { workshop, terminal: None, folder: workshop.folder.clone(), typed: Vec::new() }
    }

    /// Types the README. Returns the project it creates.
    pub(super) fn read_readme(mut self) -> anyhow::Result<PathBuf> {
        let page = Page::read(page::root().join("README.md"));
        for block in page.blocks() {
            if matches!(block.language(), "sh" | "console") {
                self.shell(&page, &block)?;
            }
        }
        self.project()
    }

    /// Types the README of a project, except for blocks that need a registry.
    pub(super) fn read_project(mut self, project: &Path) -> anyhow::Result<()> {
        self.folder = project.to_owned();
        let page = Page::read(project.join("README.md"));
        let blocks = page.blocks();
        let shell: Vec<&Block<'_>> = blocks.iter().filter(|block| block.language() == "sh").collect();
        ensure!(!shell.is_empty(), "{} shows no commands", page.name());
        shell.into_iter().try_for_each(|block| self.shell(&page, block))
    }

    /// Types the pages of the book whose paths have a prefix, in order. Each must leave a project that compiles.
    /// Returns the project.
    pub(super) fn read_book(mut self, pages: &str) -> anyhow::Result<PathBuf> {
        let summary = Page::read(page::folder().join("SUMMARY.md"));
        for (_, path) in summary.links().iter().filter(|(_, path)| path.starts_with(pages)) {
            let page = Page::read(page::folder().join(path));
            for block in page.blocks() {
                let place = format!("{}:{}", page.name(), block.line);
                match block.language() {
                    "sh" => self.shell(&page, &block)?,
                    "rust" => {
                        let edit = Edit::of(&block).map_err(Error::msg).with_context(|| place.clone())?;
                        edit.map_or(Ok(()), |edit| self.code(&edit, &block, &place)).with_context(|| place.clone())?;
                    }
                    // Manifests are also shown as examples.
                    "yaml" if let Ok(Some(edit)) = Edit::of(&block) => {
                        self.code(&edit, &block, &place).with_context(|| place.clone())?;
                    }
                    _ => {}
                }
            }
            if !self.typed.is_empty() {
                for arguments in [&["fmt"], CLIPPY] {
                    self.workshop.cargo(self.folder(), arguments).with_context(|| self.at(&page.name()))?;
                }
                self.typed.clear();
            }
        }
        self.project()
    }

    fn project(&self) -> anyhow::Result<PathBuf> {
        match &self.terminal {
            Some(terminal) => terminal.project.clone().context("no project was created"),
            None => Ok(self.folder.clone()),
        }
    }

    fn folder(&self) -> &PathBuf {
        self.terminal.as_ref().map_or(&self.folder, |terminal| &terminal.folder)
    }

    fn shell(&mut self, page: &Page, block: &Block<'_>) -> anyhow::Result<()> {
        let lines = shell::lines(block);
        if let Some(terminal) = &mut self.terminal {
            for (number, line) in lines {
                terminal.type_line(&line, &format!("{}:{number}", page.name()))?;
            }
            return Ok(());
        }
        if let Some(other) = terminal::untypable(&lines) {
            for (number, line) in &lines {
                let place = format!("{}:{number}", page.name());
                self.workshop.skip(&place, line.trim(), &format!("the block needs `{other}`"));
            }
            return Ok(());
        }
        if !lines.iter().flat_map(|(_, line)| shell::commands(line)).all(|words| is_typed(&words)) {
            let mut terminal = Terminal::open(self.workshop)?;
            terminal.folder.clone_from(&self.folder);
            for (number, line) in lines {
                terminal.type_line(&line, &format!("{}:{number}", page.name()))?;
            }
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
            ["windlass", "run", arguments @ ..] => {
                let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
                run::until_ready(self.workshop, &self.folder, &arguments)?;
            }
            ["windlass", arguments @ ..] => self.workshop.windlass(&self.folder, arguments)?,
            // The crates of this checkout stand in for published ones.
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
        let file = self.folder().join(&edit.path);
        let current = fs::read_to_string(&file).ok();
        let text = edit.apply(current.as_deref(), &block.shown()).map_err(Error::msg)?;
        if current.as_ref() != Some(&text) {
            fs::write(&file, text).with_context(|| format!("cannot write {}", edit.path))?;
            self.typed.push(format!("{place} into {}", edit.path));
        }
        Ok(())
    }

    /// A place, and the code that may have caused a failure there.
    fn at(&self, place: &str) -> String {
        let typed = self.typed.iter().map(|typed| format!("\n  after typing {typed}"));
        format!("{place}{}", typed.collect::<String>())
    }
}

/// Returns whether a command is typed without a terminal.
fn is_typed(words: &[String]) -> bool {
    match words.first().map(String::as_str) {
        Some("cargo") => words.get(1).is_none_or(|command| command != "install"),
        program => matches!(program, Some("cd" | "windlass")),
    }
}
