//! The tests that must pass, and the tests that cannot.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use anyhow::{Context as _, ensure};

use super::Runtime;

/// Between the name of a test that cannot pass and its reason.
const REASON: &str = " # ";

#[derive(Debug, Default)]
pub(super) struct Lists {
    /// The tests that pass on simulated nodes.
    pub(super) simulated: BTreeSet<String>,
    /// The tests that pass only if the containers of pods run as processes.
    pub(super) process: BTreeSet<String>,
    /// The reasons by test.
    pub(super) cannot_pass: BTreeMap<String, String>,
}

impl Lists {
    pub(super) fn load() -> anyhow::Result<Self> {
        let read = |name: &str| {
            let path = path(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        Self::parse(&read("passes.txt")?, &read("passes-process.txt")?, &read("cannot-pass.txt")?)
    }

    fn parse(simulated: &str, process: &str, cannot_pass: &str) -> anyhow::Result<Self> {
        let mut lists = Self::default();
        let lines =
            |text: &str| text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect::<Vec<_>>();
        lists.simulated.extend(lines(simulated));
        for name in lines(process) {
            ensure!(
                !lists.simulated.contains(&name),
                "a test that passes on simulated nodes needs no processes: {name}"
            );
            lists.process.insert(name);
        }
        for line in lines(cannot_pass) {
            let (name, reason) = line.split_once(REASON).with_context(|| format!("no reason: {line}"))?;
            let passes = lists.simulated.contains(name) || lists.process.contains(name);
            ensure!(!passes, "a test that passes is in the list of tests that cannot pass: {name}");
            lists.cannot_pass.insert(name.to_owned(), reason.to_owned());
        }
        Ok(lists)
    }

    /// Returns the tests that must pass with a runtime.
    pub(super) fn passes(&self, runtime: Runtime) -> &BTreeSet<String> {
        match runtime {
            Runtime::Simulated => &self.simulated,
            Runtime::Process => &self.process,
        }
    }

    /// Adds tests that pass with a runtime.
    pub(super) fn add<'a>(&mut self, runtime: Runtime, names: impl Iterator<Item = &'a str>) {
        for name in names {
            self.cannot_pass.remove(name);
            match runtime {
                Runtime::Simulated => {
                    self.process.remove(name);
                    self.simulated.insert(name.to_owned());
                }
                Runtime::Process if self.simulated.contains(name) => {}
                Runtime::Process => drop(self.process.insert(name.to_owned())),
            }
        }
    }

    pub(super) fn save(&self) -> anyhow::Result<()> {
        let lines = |names: &BTreeSet<String>| names.iter().map(|name| format!("{name}\n")).collect::<String>();
        let cannot = self.cannot_pass.iter().map(|(name, reason)| format!("{name}{REASON}{reason}\n"));
        fs::write(path("passes.txt"), lines(&self.simulated))?;
        fs::write(path("passes-process.txt"), lines(&self.process))?;
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
        let mut lists = Lists::parse("[a] one\n", "[c] three\n", "[b] two # needs a container\n").unwrap();
        assert_eq!(lists.cannot_pass["[b] two"], "needs a container");
        lists.add(Runtime::Process, ["[a] one", "[b] two"].into_iter());
        let sizes = |lists: &Lists| (lists.simulated.len(), lists.process.len(), lists.cannot_pass.len());
        assert_eq!(sizes(&lists), (1, 2, 0));
        lists.add(Runtime::Simulated, ["[b] two"].into_iter());
        assert_eq!(sizes(&lists), (2, 1, 0));
        assert!(Lists::parse("[a] one\n", "", "[a] one # why\n").is_err());
        assert!(Lists::parse("", "[a] one\n", "[a] one # why\n").is_err());
        assert!(Lists::parse("[a] one\n", "[a] one\n", "").is_err());
        assert!(Lists::parse("", "", "[a] one\n").is_err());
    }

    #[test]
    fn the_lists_in_the_repository_are_valid_and_sorted() {
        let lists = Lists::load().unwrap();
        for (name, names) in [("passes.txt", &lists.simulated), ("passes-process.txt", &lists.process)] {
            let text = fs::read_to_string(path(name)).unwrap();
            assert_eq!(text.lines().collect::<Vec<_>>(), names.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}
