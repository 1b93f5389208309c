//! The tests that must pass and those that cannot.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use anyhow::{Context as _, ensure};

/// Between the name of a test that cannot pass and its reason.
const REASON: &str = " # ";

#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) passes: BTreeSet<String>,
    /// The reasons by test.
    pub(super) cannot_pass: BTreeMap<String, String>,
}

impl Lists {
    pub(super) fn load() -> anyhow::Result<Self> {
        let read = |name: &str| {
            let path = path(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        Self::parse(&read("passes.txt")?, &read("cannot-pass.txt")?)
    }

    fn parse(passes: &str, cannot_pass: &str) -> anyhow::Result<Self> {
        let mut lists = Self::default();
        let lines =
            |text: &str| text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect::<Vec<_>>();
        lists.passes.extend(lines(passes));
        for line in lines(cannot_pass) {
            let (name, reason) = line.split_once(REASON).with_context(|| format!("no reason: {line}"))?;
            ensure!(!lists.passes.contains(name), "a test that passes is in the list of those that cannot: {name}");
            lists.cannot_pass.insert(name.to_owned(), reason.to_owned());
        }
        Ok(lists)
    }

    /// Adds tests that pass.
    pub(super) fn add<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            self.cannot_pass.remove(name);
            self.passes.insert(name.to_owned());
        }
    }

    pub(super) fn save(&self) -> anyhow::Result<()> {
        let passes: String = self.passes.iter().map(|name| format!("{name}\n")).collect();
        let cannot = self.cannot_pass.iter().map(|(name, reason)| format!("{name}{REASON}{reason}\n"));
        fs::write(path("passes.txt"), passes)?;
        fs::write(path("cannot-pass.txt"), cannot.collect::<String>())?;
        Ok(())
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("conformance").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_in_one_list_and_cannot_pass_for_a_reason() {
        let mut lists = Lists::parse("[a] one\n", "[b] two # needs a container\n").unwrap();
        assert_eq!(lists.cannot_pass["[b] two"], "needs a container");
        lists.add(["[b] two"].into_iter());
        assert_eq!((lists.passes.len(), lists.cannot_pass.len()), (2, 0));
        assert!(Lists::parse("[a] one\n", "[a] one # why\n").is_err());
        assert!(Lists::parse("", "[a] one\n").is_err());
    }

    #[test]
    fn the_lists_in_the_repository_are_valid_and_sorted() {
        let lists = Lists::load().unwrap();
        let text = fs::read_to_string(path("passes.txt")).unwrap();
        assert_eq!(text.lines().collect::<Vec<_>>(), lists.passes.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
