//! The shape of control loops: `add` and `reconcile` in `x.rs`, pure decisions in `x/`, and requests to the server in `x.rs`
//! or `x/cluster`.

use std::{fs, path::Path};

use anyhow::Context as _;

use super::files;

/// Every file here is a loop.
const LOOPS: &str = "crates/windlass-loops/src/loops";
/// The module of a loop that sends requests, if it has one.
const REQUESTS: &str = "cluster";
/// Words of code that sends requests or waits.
const REQUESTING: &[&str] = &["async", "await", "Context", "Client"];

/// Checks all control loops.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for path in files(root, &[LOOPS], |path| path.starts_with(LOOPS))? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        complaints.extend(of_file(path.strip_prefix(root).unwrap_or(&path), &text));
    }
    Ok(complaints)
}

fn of_file(path: &Path, text: &str) -> Vec<String> {
    let name = path.display();
    let parts: Vec<&str> = path.strip_prefix(LOOPS).unwrap_or(path).iter().filter_map(|part| part.to_str()).collect();
    let is = |part: &&str, module: &str| part.trim_end_matches(".rs") == module;
    let has = |function: &str| text.contains(&format!("fn {function}"));
    match parts[..] {
        [_] => {
            let missing = ["add(", "reconcile"].into_iter().filter(|function| !has(function));
            missing
                .map(|function| format!("{name}: a loop has a function `{}`", function.trim_end_matches('(')))
                .collect()
        }
        [_, module, ..] if is(&module, REQUESTS) || parts.iter().any(|part| is(part, "tests")) => Vec::new(),
        _ => {
            let lines = text.lines().enumerate().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
            let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
            let found = code.filter_map(|(number, line)| {
                let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                Some((number, words.find(|word| REQUESTING.contains(word))?))
            });
            found
                .map(|(number, word)| {
                    format!(
                        "{name}:{}: `{word}`: requests belong in the loop's file or its module `{REQUESTS}`",
                        number + 1
                    )
                })
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(file: &str, text: &str) -> usize {
        of_file(&Path::new(LOOPS).join(file), text).len()
    }

    #[test]
    fn a_loop_has_its_functions() {
        assert_eq!(complaints("job.rs", "pub(super) fn add() {}\nasync fn reconcile() {}"), 0);
        assert_eq!(complaints("job.rs", "pub(super) fn add() {}\nasync fn reconcile_pod() {}"), 0);
        assert_eq!(complaints("job.rs", "pub(super) fn add() {}"), 1);
        assert_eq!(complaints("job.rs", ""), 2);
    }

    #[test]
    fn only_one_module_of_a_loop_sends_requests() {
        for text in ["async fn a() {}", "a().await", "fn a(ctx: &Context) {}", "use kube::Client;"] {
            for file in ["job/a.rs", "job/a/b.rs", "job/a/cluster.rs"] {
                assert_eq!(complaints(file, text), 1, "{file}: {text}");
            }
            for file in ["job/cluster.rs", "job/cluster/a.rs", "job/a/tests.rs", "job/tests/a.rs"] {
                assert_eq!(complaints(file, text), 0, "{file}: {text}");
            }
            assert_eq!(complaints("job/a.rs", &format!("// {text}\n#[cfg(test)]\n{text}")), 0, "{text}");
        }
        assert_eq!(complaints("job/a.rs", "struct MatchContext; fn awaited() {}"), 0);
    }
}
