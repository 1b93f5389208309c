//! The suites: dependencies, how each runs, and how its checks are counted.

mod aggregation;
mod examples;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read},
    ops::AddAssign,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};

use crate::{cargo, peers};

/// Time limit for a suite.
const DEADLINE: Duration = Duration::from_secs(600);

/// A program with checks.
pub(super) struct Suite {
    pub(super) name: &'static str,
    /// Installs its dependencies under the first directory and returns the command to run; the second directory has the
    /// peers.
    pub(super) prepare: fn(&Path, &Path) -> anyhow::Result<Command>,
}

/// All suites in the order in which they run.
pub(super) const SUITES: &[Suite] = &[
    Suite { name: "kubectl", prepare: kubectl },
    Suite { name: "pods", prepare: pods },
    Suite { name: "wardle", prepare: aggregation::wardle },
    Suite { name: "sample-apiserver", prepare: aggregation::sample_apiserver },
    Suite { name: "python", prepare: python },
    Suite { name: "javascript", prepare: javascript },
    Suite { name: "go", prepare: go },
    Suite { name: "go-operator", prepare: go_operator },
    Suite { name: "envtest", prepare: envtest },
    Suite { name: "controller-runtime", prepare: controller_runtime },
    Suite { name: "kopf", prepare: kopf },
    Suite { name: "sdk", prepare: sdk },
    Suite { name: "examples-go", prepare: examples::go },
    Suite { name: "examples-python", prepare: examples::python },
    Suite { name: "examples-java", prepare: examples::java },
];

/// Number of checks by outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// Tests of the SDK that said why they cannot run on a cluster. They return successfully, but do not count as passed.
    pub(super) skipped: usize,
}

impl Count {
    fn line(&mut self, line: &str) {
        // The second form is that of `cargo test`.
        let test = line.strip_prefix("test ").unwrap_or_default();
        self.passed += usize::from(line.starts_with("ok ") || test.ends_with(" ... ok"));
        self.failed += usize::from(line.starts_with("FAILED ") || test.ends_with(" ... FAILED"));
    }

    fn error_line(&mut self, line: &str) {
        self.skipped += usize::from(line.starts_with("SKIPPED "));
    }

    /// A suite that fails without a failed check, or succeeds without any check, counts as one failure.
    fn end(&mut self, success: bool) {
        self.passed = self.passed.saturating_sub(self.skipped);
        if success != (self.failed == 0) || self.passed + self.failed == 0 {
            self.failed += 1;
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// A line that a suite prints.
enum Line {
    Output(String),
    Error(String),
}

/// Runs a suite, forwards its output and counts its checks.
pub(super) fn run(mut command: Command) -> anyhow::Result<Count> {
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (sender, lines) = mpsc::channel();
    let output = process.stdout.take().context("standard output must be piped")?;
    forward(output, Line::Output, sender.clone());
    forward(process.stderr.take().context("standard error must be piped")?, Line::Error, sender);
    let mut count = Count::default();
    loop {
        match lines.recv_timeout(DEADLINE) {
            Ok(Line::Output(line)) => {
                println!("{line}");
                count.line(&line);
            }
            Ok(Line::Error(line)) => {
                eprintln!("{line}");
                count.error_line(&line);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ = process.kill();
                println!("FAILED no output for {} s", DEADLINE.as_secs());
                break;
            }
        }
    }
    let status = process.wait()?;
    count.end(status.success());
    if !status.success() && count.failed == 0 {
        println!("FAILED {status}");
    }
    Ok(count)
}

/// Sends the lines of a stream, on a thread that ends with the stream, which ends with the process.
fn forward(stream: impl Read + Send + 'static, line: fn(String) -> Line, sender: mpsc::Sender<Line>) {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    thread::spawn(move || lines.map(line).try_for_each(|line| sender.send(line)));
}

fn kubectl(_: &Path, peers: &Path) -> anyhow::Result<Command> {
    kubectl_script("kubectl.py", peers)
}

/// Starts a server of its own, regardless of which server the other suites use.
fn pods(_: &Path, peers: &Path) -> anyhow::Result<Command> {
    kubectl_script("pods.py", peers)
}

fn kubectl_script(script: &str, peers: &Path) -> anyhow::Result<Command> {
    let program = peers::find(peers, "kubectl")?;
    let mut command = tool("python3", "--version")?;
    // Independent of the server: the output of `windlass crd upgrade` is valid for all.
    command.arg(scripts().join(script)).env("KUBECTL", program).env("WINDLASS", cargo::windlass()?);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

fn python(folder: &Path, _: &Path) -> anyhow::Result<Command> {
    python_script(&folder.join("python"), "requirements.txt", "client.py")
}

/// An operator in Python, with a server of its own, because it needs control loops and a node.
fn kopf(folder: &Path, _: &Path) -> anyhow::Result<Command> {
    let mut command = python_script(&folder.join("kopf"), "kopf_requirements.txt", "kopf_checks.py")?;
    command.env("WINDLASS", cargo::windlass()?);
    Ok(command)
}

/// A script with its dependencies in a directory of its own.
fn python_script(venv: &Path, requirements: &str, script: &str) -> anyhow::Result<Command> {
    install(venv, &scripts().join(requirements), |requirements| {
        must(tool("python3", "--version")?.args(["-m", "venv", "--clear"]).arg(venv))?;
        must(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "--requirement"]).arg(requirements))
    })?;
    let mut command = Command::new(venv.join("bin/python"));
    command.arg(scripts().join(script)).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

fn javascript(folder: &Path, _: &Path) -> anyhow::Result<Command> {
    let modules = folder.join("javascript");
    let mut command = tool("node", "--version")?;
    install(&modules, &scripts().join("package.json"), |package| {
        fs::create_dir_all(&modules)?;
        fs::copy(package, modules.join("package.json"))?;
        must(tool("npm", "--version")?.args(["install", "--silent", "--no-audit", "--no-fund"]).current_dir(&modules))
    })?;
    command.arg(scripts().join("client.mjs")).current_dir(&modules);
    Ok(command)
}

fn go(folder: &Path, _: &Path) -> anyhow::Result<Command> {
    let program = folder.join("go-client");
    must(tool("go", "version")?.args(["build", "-o"]).arg(&program).arg(".").current_dir(scripts().join("go")))?;
    let mut command = Command::new(program);
    // Informers then start with a watch, as those of newer client-go do, instead of a list.
    command.env("KUBE_FEATURE_WatchListClient", "true");
    Ok(command)
}

/// An operator in Go, with servers of its own, because it needs control loops and a node.
fn go_operator(_: &Path, _: &Path) -> anyhow::Result<Command> {
    let mut command = tool("go", "version")?;
    command
        .args(["test", "-count=1", "./operator"])
        .current_dir(scripts().join("go"))
        .env("WINDLASS", cargo::windlass()?);
    Ok(command)
}

/// Tests with controller-runtime's envtest, which starts the programs of `windlass assets`; with `--against kubernetes` also
/// those of Kubernetes, to compare time and memory.
fn envtest(_: &Path, peers: &Path) -> anyhow::Result<Command> {
    tool("go", "version")?;
    let mut command = tool("python3", "--version")?;
    command.arg(scripts().join("envtest.py")).env("PEERS", peers).env("WINDLASS", cargo::windlass()?);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// The tests of the filter with which controller-runtime protects metrics: it asks the server for the user of a token,
/// and whether the user may read them.
fn controller_runtime(folder: &Path, _: &Path) -> anyhow::Result<Command> {
    const FILTERS: &str = "sigs.k8s.io/controller-runtime/pkg/metrics/filters";
    let folder = folder.join("controller-runtime");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if !folder.join("go.sum").is_file() {
        let _ = fs::remove_file(folder.join("go.mod"));
        must(tool("go", "version")?.args(["mod", "init", "e2e"]).current_dir(&folder))?;
        must(tool("go", "version")?.args(["get", "-t", &format!("{FILTERS}@v0.24.1")]).current_dir(&folder))?;
    }
    let mut command = tool("go", "version")?;
    command.args(["test", "-count=1", FILTERS]).current_dir(&folder).env("USE_EXISTING_CLUSTER", "true");
    Ok(command)
}

fn sdk(_: &Path, _: &Path) -> anyhow::Result<Command> {
    const TEST: [&str; 5] = ["test", "--package", "windlass-runtime", "--test", "it"];
    let cargo = cargo::program();
    must(Command::new(&cargo).args(TEST).args(["--quiet", "--no-run"]))?;
    // Tests in which the server calls this machine need a server that can reach it, and those that restart it need it for
    // themselves.
    let script = r#"
        export WINDLASS_TEST_KUBECONFIG=$KUBECONFIG
        if [ "$E2E_AGAINST" != kubernetes ]; then exec "$@"; fi
        "$@" -- --include-ignored --skip restarts::
        tests=$?
        WINDLASS_TEST_RESTART="kill -HUP $E2E_SERVER" "$@" restarts:: -- --ignored --test-threads 1 && exit $tests"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sdk"]).arg(cargo).args(TEST);
    Ok(command)
}

/// Installs the dependencies listed in a file, unless that has been done for the same contents.
fn install(folder: &Path, list: &Path, install: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let wanted = fs::read(list).with_context(|| format!("cannot read {}", list.display()))?;
    let stamp = folder.join("installed");
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    install(list)?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}

/// Returns a program that must be installed on this machine.
fn tool(name: &str, check: &str) -> anyhow::Result<Command> {
    match Command::new(name).arg(check).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(Command::new(name)),
        _ => bail!("{name} is not installed: install it, or choose other suites with --only"),
    }
}

fn must(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask must be in the workspace").join("e2e")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(script: &str) -> Count {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command).unwrap()
    }

    #[test]
    fn checks_are_counted_and_a_bad_end_is_a_failure() {
        let count = |passed, failed| Count { passed, failed, skipped: 0 };
        assert_eq!(suite("echo ok a; echo ok b; echo noise"), count(2, 0));
        assert_eq!(suite("echo ok a; echo FAILED b; exit 1"), count(1, 1));
        assert_eq!(suite("echo ok a; exit 1"), count(1, 1));
        assert_eq!(suite("true"), count(0, 1));
    }

    #[test]
    fn tests_that_skip_themselves_do_not_count_as_passed() {
        let skipping = "echo test a ... ok; echo test b ... ok; echo 'SKIPPED b: it needs days' >&2";
        assert_eq!(suite(skipping), Count { passed: 1, failed: 0, skipped: 1 });
        let nothing_else = "echo test b ... ok; echo 'SKIPPED b: it needs days' >&2";
        assert_eq!(suite(nothing_else), Count { passed: 0, failed: 1, skipped: 1 });
    }

    #[test]
    fn tests_of_cargo_are_counted_but_not_ignored_ones_or_summaries() {
        let mut count = Count::default();
        for line in [
            "running 4 tests",
            "test watch::a_test ... ok",
            "test watch::another - should panic ... ok",
            "test watch::bad ... FAILED",
            "test watch::far ... ignored, needs a cluster",
            "test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out",
        ] {
            count.line(line);
        }
        assert_eq!(count, Count { passed: 2, failed: 1, skipped: 0 });
    }
}
