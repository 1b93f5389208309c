//! `cargo xtask fuzz`: runs the targets of `fuzz/` under libFuzzer, with limits on memory, stack and time.
//!
//! The instrumentation that libFuzzer needs consists of code generation flags, so the stable toolchain is enough. The
//! only other requirement is a C++ compiler, because `libfuzzer-sys` compiles libFuzzer.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::Mutex,
    thread,
};

use anyhow::{Context as _, bail, ensure};

use crate::{cargo, peers};

const USAGE: &str =
    "usage: cargo xtask fuzz [TARGET...] [--seconds N] [--jobs N] [--no-build | --build-only] [--input FILE]

Without targets, all of them run, for N seconds each (60 unless given). --input runs one target on one file.
--no-build runs the programs of the last build, and --build-only runs nothing.";

/// Coverage counters and traced comparisons, as `cargo fuzz` uses them.
const INSTRUMENTATION: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// The memory that a target may use, in MiB. The address space is limited to twice as much, so that a single large
/// allocation is found as well.
const MEMORY: u64 = 512;
/// The stack of a target in KiB: that of a worker thread of the server.
const STACK: u64 = 2048;
/// The longest input. Defects that need larger ones are for the tests of limits.
const INPUT_MAX: u64 = 4096;
/// Targets whose inputs are short, and the longest of those: more of them can be tried.
const SHORT_INPUTS: &[&str] = &["continue_token", "paths", "request_line", "scalars", "selectors"];
const SHORT_INPUT_MAX: u64 = 384;
/// The time after which one input is a finding. It is generous, because fuzzing often shares its machine.
const TIMEOUT_SECONDS: u64 = 60;

/// The arguments of the command.
#[derive(Default)]
struct Options {
    targets: Vec<String>,
    seconds: u64,
    jobs: usize,
    input: Option<PathBuf>,
    no_build: bool,
    build_only: bool,
}

/// The result of fuzzing one target.
struct Outcome {
    target: String,
    executions: u64,
    total: u64,
    coverage: Coverage,
    status: ExitStatus,
}

/// The code that a corpus reaches. Figures that do not grow over a long run, or are those of the seeds, mean that a
/// target rejects its inputs too early.
#[derive(Debug, Default, PartialEq, Eq)]
struct Coverage {
    /// Edges between basic blocks.
    edges: u64,
    /// Edges, how often they were taken, and results of comparisons.
    features: u64,
    /// The inputs of the corpus.
    inputs: u64,
}

/// Builds the targets and runs them.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let all = targets()?;
    let mut options = parse(args)?;
    if let Some(unknown) = options.targets.iter().find(|target| !all.contains(target)) {
        bail!("there is no fuzz target {unknown}; the targets are {}", all.join(", "));
    }
    if options.targets.is_empty() {
        options.targets = all;
    }
    ensure!(options.seconds > 0, "--seconds must be at least 1");
    let programs = if options.no_build { programs()? } else { build(&options.targets)? };
    if options.build_only {
        return Ok(());
    }
    if let Some(input) = &options.input {
        let [target] = &options.targets[..] else { bail!("--input needs one target\n{USAGE}") };
        let status = limited(&programs.join(target)).arg(input).status()?;
        ensure!(status.success(), "{target} fails on {}: {status}", input.display());
        return Ok(());
    }
    report(&fuzz(&options, &programs)?)
}

fn parse(args: &[&str]) -> anyhow::Result<Options> {
    let mut options = Options { seconds: 60, jobs: 1, ..Options::default() };
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        let mut value = || args.next().copied().with_context(|| format!("{arg} needs a value\n{USAGE}"));
        match arg {
            "--seconds" => options.seconds = value()?.parse()?,
            "--jobs" => options.jobs = value()?.parse()?,
            "--no-build" => options.no_build = true,
            "--build-only" => options.build_only = true,
            "--input" => options.input = Some(value()?.into()),
            _ if arg.starts_with('-') => bail!("{USAGE}"),
            target => options.targets.push(target.to_owned()),
        }
    }
    Ok(options)
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fuzz")
}

/// Returns the sorted names of all targets, which are the directories of seeds.
fn targets() -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(directory().join("corpus")).context("failed to read the seeds")?;
    let mut names: Vec<String> =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<std::io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Returns the platform of the programs.
fn host() -> anyhow::Result<String> {
    let version = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let version = String::from_utf8(version.stdout)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}

/// Returns the directory of the programs.
fn programs() -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(peers::target())?.join(host()?).join("release"))
}

/// Builds the programs of targets and returns their directory.
fn build(targets: &[String]) -> anyhow::Result<PathBuf> {
    let engine = directory().join("engine");
    // The same versions as in the workspace; cargo adds those that only the engine needs.
    fs::copy(directory().with_file_name("Cargo.lock"), engine.join("Cargo.lock"))?;
    let target_directory = std::path::absolute(peers::target())?;
    let mut command = Command::new(cargo::program());
    // With a target, the flags do not apply to build scripts and procedural macros.
    command.args(["build", "--release", "--target", &host()?]).current_dir(&engine);
    command.args(targets.iter().flat_map(|target| ["--bin", target]));
    command.env("RUSTFLAGS", INSTRUMENTATION).env("CARGO_TARGET_DIR", &target_directory);
    ensure!(cargo::forget(&mut command).status().context("cannot run cargo")?.success(), "failed to build the targets");
    programs()
}

/// Returns a command that runs a program within the limits.
fn limited(program: &Path) -> Command {
    let limits = format!("ulimit -v {} && ulimit -s {STACK} && exec \"$0\" \"$@\"", 2 * MEMORY * 1024);
    let mut command = Command::new("sh");
    command.args(["-c", &limits]).arg(program).env("MALLOC_ARENA_MAX", "1");
    command
}

/// Runs all targets, several at the same time.
fn fuzz(options: &Options, programs: &Path) -> anyhow::Result<Vec<Outcome>> {
    let work = std::path::absolute(peers::target())?.join("fuzz");
    let waiting = Mutex::new(options.targets.iter());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.next());
    let run_jobs = || -> anyhow::Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        while let Some(target) = next() {
            let outcome = fuzz_one(target, options.seconds, &programs.join(target), &work)?;
            let Coverage { edges, features, inputs } = outcome.coverage;
            println!("{target}: {} executions, {}", outcome.executions, outcome.status);
            println!("    {edges} edges and {features} features, reached by {inputs} inputs");
            outcomes.push(outcome);
        }
        Ok(outcomes)
    };
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(run_jobs)).collect();
        let results = jobs.into_iter().map(|job| job.join().unwrap_or_else(|_| bail!("a job panicked")));
        Ok(results.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

/// Runs one target. Its growing corpus, its log and its number of executions are kept in the working directory.
fn fuzz_one(target: &str, seconds: u64, program: &Path, work: &Path) -> anyhow::Result<Outcome> {
    let (corpus, log, count) =
        (work.join("corpus").join(target), work.join(format!("{target}.log")), work.join(format!("{target}.count")));
    fs::create_dir_all(&corpus)?;
    let dictionary = directory().join("dictionaries").join(format!("{target}.dict"));
    let input_max = if SHORT_INPUTS.contains(&target) { SHORT_INPUT_MAX } else { INPUT_MAX };
    let mut command = limited(program);
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    let status = command
        .args([&corpus, &directory().join("corpus").join(target)])
        .args([format!("-max_total_time={seconds}"), format!("-timeout={TIMEOUT_SECONDS}")])
        .args([format!("-rss_limit_mb={MEMORY}"), format!("-max_len={input_max}")])
        .args([format!("-artifact_prefix={}/{target}-", work.display()), "-print_final_stats=1".to_owned()])
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log)?)
        .status()?;
    let output = fs::read(&log)?;
    let output = String::from_utf8_lossy(&output);
    let (executions, coverage) = (executions(&output), coverage(&output));
    let before: u64 = fs::read_to_string(&count).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let total = before + executions;
    fs::write(&count, format!("{total}\n"))?;
    if !status.success() {
        println!("{target}: finding, see {} and the inputs {}/{target}-*", log.display(), work.display());
        println!("    reproduce it with: cargo xtask fuzz {target} --input FILE");
    }
    Ok(Outcome { target: target.to_owned(), executions, total, coverage, status })
}

/// Returns the number of executions in the log of libFuzzer: its final statistics, or the last line of its progress
/// if it was killed.
fn executions(log: &str) -> u64 {
    let last = |prefix: &str| {
        log.lines().rev().find_map(|line| {
            let digits = line.strip_prefix(prefix)?.trim_start();
            digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        })
    };
    last("stat::number_of_executed_units:").or_else(|| last("#")).unwrap_or(0)
}

/// Returns the last coverage in the log of libFuzzer: `cov: EDGES ft: FEATURES corp: INPUTS/SIZE`.
fn coverage(log: &str) -> Coverage {
    let last = |name: &str| {
        let mut lines = log.lines().rev().filter(|line| line.starts_with('#'));
        let number = |line: &str| {
            let after = line.split_once(name)?.1.trim_start();
            after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        lines.find_map(number).unwrap_or(0)
    };
    Coverage { edges: last("cov:"), features: last("ft:"), inputs: last("corp:") }
}

fn report(outcomes: &[Outcome]) -> anyhow::Result<()> {
    println!(
        "{:<14} {:>14} {:>17} {:>7} {:>8} {:>7}  finding",
        "target", "executions", "with earlier runs", "edges", "features", "inputs"
    );
    for Outcome { target, executions, total, coverage, status } in outcomes {
        let Coverage { edges, features, inputs } = coverage;
        let finding = if status.success() { "none" } else { "yes" };
        println!("{target:<14} {executions:>14} {total:>17} {edges:>7} {features:>8} {inputs:>7}  {finding}");
    }
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    println!("{:<14} {:>14} {:>17}", "total", sum(|outcome| outcome.executions), sum(|outcome| outcome.total));
    let failed: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.status.success()).map(|outcome| &*outcome.target).collect();
    ensure!(failed.is_empty(), "findings in {}", failed.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_from_the_statistics_or_the_progress() {
        let progress = "INFO: seed\n#2\tINITED cov: 3\n#1024\tpulse  cov: 5 ft: 6\n";
        assert_eq!(executions(progress), 1024);
        assert_eq!(executions(&format!("{progress}stat::number_of_executed_units: 2000\nstat::x: 1\n")), 2000);
        assert_eq!(executions("killed"), 0);
    }

    #[test]
    fn coverage_is_read_from_the_last_progress() {
        let log =
            "#2\tINITED cov: 3 ft: 4 corp: 1/1b exec/s: 0\n#8\tNEW    cov: 512 ft: 1024 corp: 7/9Kb lim: 4\n#9\tDONE\n";
        assert_eq!(coverage(log), Coverage { edges: 512, features: 1024, inputs: 7 });
        assert_eq!(coverage("killed"), Coverage::default());
    }
}
