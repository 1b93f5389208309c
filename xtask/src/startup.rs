//! `cargo xtask startup`: finds the code that runs when `windlass up` starts, and writes `crates/windlass-cli/startup.txt`,
//! by which the linker places this code in one piece. Needs valgrind and binutils.

mod select;
mod symbol;

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};

use crate::{cargo, peers};

const USAGE: &str = "usage: cargo xtask startup [--program FILE]";
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/windlass-cli/startup.txt");

/// Measures a release build with symbols, which is built unless it is given, and replaces the list.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let program = match args {
        [] => build()?,
        ["--program", file] => PathBuf::from(file),
        _ => bail!("{USAGE}"),
    };
    let folder = peers::target().join("startup");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let ran = functions_that_ran(&program, &folder)?;
    let mut functions: BTreeMap<String, select::Function> = BTreeMap::new();
    for (symbol, size) in sizes(&program)? {
        if let Some(path) = symbol::path(&symbol) {
            let function = functions.entry(path).or_default();
            function.size += size;
            function.ran += u64::from(ran.contains(&symbol));
        }
    }
    ensure!(functions.values().any(|function| function.ran > 0), "the program has no symbols of functions that ran");
    let prefixes = select::prefixes(&functions);
    let selected = |path: &String| prefixes.iter().any(|prefix| path.starts_with(prefix.as_str()));
    let size: u64 = functions.iter().filter(|(path, _)| selected(path)).map(|(_, function)| function.size).sum();
    let text = fs::read_to_string(LIST)?;
    let head: String = text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    fs::write(LIST, head + &prefixes.join("\n") + "\n")?;
    println!("{} lines for {size} bytes of code are in {LIST}", prefixes.len());
    Ok(())
}

fn build() -> anyhow::Result<PathBuf> {
    let mut command = Command::new(cargo::program());
    command.args(["build", "--release", "--package", "windlass-cli", "--config", "profile.release.strip=false"]);
    ensure!(cargo::forget(&mut command).status().context("cannot run cargo")?.success(), "the build failed");
    Ok(peers::target().join("release/windlass"))
}

/// Starts a plane without loops and nodes under callgrind, and returns the symbols of the functions that ran in its first
/// minute.
fn functions_that_ran(program: &Path, folder: &Path) -> anyhow::Result<HashSet<String>> {
    let profile = folder.join("callgrind");
    let output = Command::new("timeout")
        .args(["--signal=INT", "--kill-after=30", "60", "valgrind", "--tool=callgrind", "--demangle=no"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .args(["up", "--controllers", "", "--nodes", "0", "--port", "0", "--data-dir"])
        .arg(folder.join("data"))
        .output()
        .context("cannot run timeout and valgrind")?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.stdout.starts_with(b"export KUBECONFIG="), "the server did not start under valgrind:\n{log}");
    let text = fs::read_to_string(profile)?;
    let names = text.lines().filter_map(|line| line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")));
    let names = names.filter_map(|name| name.split_once(") "));
    // Recursive functions have a number.
    Ok(names.map(|(_, name)| name.split('\'').next().unwrap_or_default().to_owned()).collect())
}

/// Returns the functions of a program with their sizes.
fn sizes(program: &Path) -> anyhow::Result<Vec<(String, u64)>> {
    let output = Command::new("nm").arg("--print-size").arg(program).output().context("cannot run nm")?;
    ensure!(output.status.success(), "nm failed: {}", String::from_utf8_lossy(&output.stderr));
    let mut known = HashSet::new();
    let text = String::from_utf8(output.stdout)?;
    let functions = text.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (address, size, kind, name) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        // Identical functions have the same address.
        let is_code = ["t", "T", "w", "W"].contains(&kind) && known.insert(address);
        is_code.then(|| Some((name.to_owned(), u64::from_str_radix(size, 16).ok()?)))?
    });
    Ok(functions.collect())
}
