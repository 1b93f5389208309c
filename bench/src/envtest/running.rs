//! One run of a suite: its time, its result, and the memory of the control planes that it starts.

use std::{
    collections::HashSet,
    ffi::OsString,
    fmt,
    fs::{self, DirEntry},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::{Value, json};
use windlass_bench::child::memory_of;

use super::Suite;

/// Delay between two measurements of memory.
const SAMPLE: Duration = Duration::from_millis(100);
/// Time that envtest gives each program to start and to stop. Its default of 20 seconds is too short for kube-apiserver
/// on a busy machine.
const TIMEOUT: &str = "120s";

/// The result of a suite.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) time: Duration,
    /// Largest resident memory of all programs of the control planes together, in bytes.
    pub(super) memory: u64,
    /// Number of specs that ran.
    pub(super) specs: usize,
    /// Number of specs that failed; `None` if the suite ended before its specs ran.
    failed: Option<usize>,
}

impl Outcome {
    /// Returns the run with the median time, with the largest memory and the most failures of all runs.
    pub(super) fn median(mut runs: Vec<Self>) -> Self {
        runs.sort_by_key(|run| run.time);
        let memory = runs.iter().map(|run| run.memory).max().unwrap_or(0);
        let failed = runs.iter().map(|run| run.failed).reduce(|one, other| Some(one?.max(other?))).flatten();
        Self { memory, failed, ..runs.swap_remove(runs.len() / 2) }
    }

    pub(super) fn time_or_failure(&self) -> String {
        let time = format!("{:.1} s", self.time.as_secs_f64());
        match self.failed {
            Some(0) => time,
            Some(failed) => format!("{time}, {failed} failed"),
            None => format!("{time}, did not run"),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "seconds": self.time.as_secs_f64(), "memory": self.memory, "specs": self.specs, "failed": self.failed })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} specs in {}, {} MB", self.specs, self.time_or_failure(), self.memory / 1_000_000)
    }
}

/// Runs a suite with the programs of a directory.
pub(super) fn run_suite(suite: &Suite, assets: &Path) -> anyhow::Result<Outcome> {
    let programs = ["kube-apiserver", "etcd"].map(|name| assets.join(name));
    let log = suite.program.with_extension("log");
    let output = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    // Some suites leave control planes behind.
    let earlier: HashSet<OsString> = processes_of(&programs).map(|process| process.file_name()).collect();
    let (is_over, memory) = (AtomicBool::new(false), AtomicU64::new(0));
    let (time, passed) = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                memory.fetch_max(memory_of_programs(&programs, &earlier), Ordering::Relaxed);
                thread::sleep(SAMPLE);
            }
        });
        let begun = Instant::now();
        let status = Command::new(&suite.program)
            .args(["-test.timeout=30m", "--ginkgo.no-color"])
            .current_dir(&suite.directory)
            .env("KUBEBUILDER_ASSETS", assets)
            .env("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", TIMEOUT)
            .env("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", TIMEOUT)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status();
        let time = begun.elapsed();
        is_over.store(true, Ordering::Relaxed);
        anyhow::Ok((time, status.with_context(|| format!("cannot run {}", suite.program.display()))?.success()))
    })?;
    let summary = summary(&fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))?);
    let (specs, failed) = summary.map_or((0, None), |(specs, failed)| (specs, Some(failed)));
    // A suite can also fail outside of its specs.
    let failed = if passed { failed } else { failed.map(|failed| failed.max(1)) };
    Ok(Outcome { time, memory: memory.into_inner(), specs, failed })
}

/// Returns the numbers of specs that ran and that failed, from the last lines of Ginkgo.
fn summary(log: &str) -> Option<(usize, usize)> {
    let ran = log.lines().rev().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok())?;
    let counts = log.lines().rev().find(|line| line.contains(" Passed | "))?;
    let before_failed = counts.split(" Failed").next()?;
    let failed = before_failed.rsplit(' ').next()?.parse().ok()?;
    Some((ran, failed))
}

/// Resident memory of all processes of the programs, except for `earlier` ones.
fn memory_of_programs(programs: &[PathBuf], earlier: &HashSet<OsString>) -> u64 {
    let processes = processes_of(programs).filter(|process| !earlier.contains(&process.file_name()));
    // Processes that end in the meantime are skipped.
    processes.filter_map(|process| memory_of(&fs::read_to_string(process.path().join("status")).ok()?, "VmRSS")).sum()
}

/// Returns the directories in `/proc` of all processes of the programs.
fn processes_of(programs: &[PathBuf]) -> impl Iterator<Item = DirEntry> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter(|process| {
        let Ok(command) = fs::read(process.path().join("cmdline")) else { return false };
        let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
        programs.iter().any(|path| path.as_os_str().as_encoded_bytes() == program)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_ginkgo_is_read() {
        let log = "Running Suite: A\n\nRan 32 of 33 Specs in 1.5 seconds\n\
                   FAIL! -- 30 Passed | 2 Failed | 0 Pending | 1 Skipped\nFAIL\n";
        assert_eq!(summary(log), Some((32, 2)));
        assert_eq!(summary("panic: no etcd\n"), None);
    }

    #[test]
    fn the_median_of_runs_keeps_their_failures() {
        let run = |seconds, memory, failed| Outcome { time: Duration::from_secs(seconds), memory, specs: 2, failed };
        let median = Outcome::median(vec![run(3, 1, Some(0)), run(1, 5, Some(1)), run(2, 4, Some(0))]);
        assert_eq!(median.to_string(), "2 specs in 2.0 s, 1 failed, 0 MB");
        assert_eq!(median.memory, 5);
        let median = Outcome::median(vec![run(1, 0, Some(0)), run(2, 0, None)]);
        assert_eq!(median.time_or_failure(), "2.0 s, did not run");
    }
}
