//! `cargo xtask conformance`: runs the conformance tests of Kubernetes, and compares the results with the lists of
//! `xtask/conformance`.
//!
//! `passes.txt` has a line for each test that must pass on simulated nodes, `passes-process.txt` for each test that
//! passes only with `--runtime process`. `cannot-pass.txt` has the tests that fail for a known reason, which follows
//! the name after ` # `. Without `--focus`, the tests that must pass run; with it, all tests whose names match. A test
//! that must pass and fails is an error.

mod images;
mod lists;
mod loops;
mod report;
mod web;

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};

use self::{
    lists::Lists,
    loops::ControllerManager,
    report::{Outcome, Spec},
};
use crate::{e2e::server::Server, peers};

const USAGE: &str =
    "usage: cargo xtask conformance [--focus REGEX]... [--skip REGEX]... [--against windlass|kubernetes|KUBECONFIG]
    [--runtime simulated|process] [--windlass FILE] [--peers DIR] [--processes COUNT] [--update true]";

/// The flags of `windlass up`: more than one node, because many tests need two.
const PLANE: [&str; 4] = ["--nodes", "3", "--store", "memory"];

pub(crate) use self::web::run as serve_files;

/// Runtime of pods on the nodes of Windlass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runtime {
    Simulated,
    Process,
}

#[derive(Debug)]
struct Options {
    runtime: Runtime,
    focus: Vec<String>,
    skip: Vec<String>,
    against: String,
    windlass: Option<PathBuf>,
    peers: PathBuf,
    processes: u32,
    update: bool,
}

/// Builds and runs the tests, and fails if a test fails that must pass.
pub(crate) fn run(args: &[&str]) -> anyhow::Result<()> {
    let mut options = parse(args)?;
    let is_real = options.against == "kubernetes";
    let mut others = Vec::new();
    others.extend(is_real.then_some("kube-controller-manager"));
    others.extend((options.runtime == Runtime::Process).then_some(peers::POD_AGNHOST));
    peers::conformance(&options.peers, &others).context("failed to build the conformance tests")?;
    let mut lists = Lists::load()?;
    if options.focus.is_empty() {
        let passes = lists.passes(options.runtime);
        ensure!(!passes.is_empty(), "no test is expected to pass: choose tests with --focus\n{USAGE}");
        options.focus = passes.iter().map(|name| escape(name)).collect();
    }
    let folder = peers::target().join("conformance");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut flags = PLANE.map(str::to_owned).to_vec();
    flags.extend(issuer()?);
    if options.runtime == Runtime::Process {
        let file = images::prepare(&options.peers, &folder)?;
        flags.extend(["--runtime".to_owned(), "process".to_owned(), "--images".to_owned(), file]);
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut server =
        Server::start_with(&options.against, options.windlass.as_deref(), &flags, &options.peers, &folder)?;
    let loops = is_real.then(|| ControllerManager::start(&options.peers, server.kubeconfig(), &folder)).transpose()?;
    let specs = test(&options, server.kubeconfig(), &folder)?;
    drop(loops);
    server.check_running()?;
    server.stop()?;
    let regressions = print(&specs, &lists, options.runtime);
    if options.update {
        lists.add(
            options.runtime,
            specs.iter().filter(|spec| spec.outcome == Outcome::Passed).map(|spec| spec.name.as_str()),
        );
        lists.save()?;
    }
    ensure!(regressions == 0, "{regressions} tests failed that are expected to pass");
    Ok(())
}

/// Returns flags for an issuer of service account tokens that processes reach: the server itself, on a port that is free
/// now.
fn issuer() -> anyhow::Result<Vec<String>> {
    let port = TcpListener::bind("127.0.0.1:0").context("no port is free")?.local_addr()?.port();
    let url = format!("https://127.0.0.1:{port}");
    let keys = format!("{url}/openid/v1/jwks");
    let flags = ["--port", &port.to_string(), "--service-account-issuer", &url, "--service-account-jwks-uri", &keys];
    Ok(flags.map(str::to_owned).to_vec())
}

/// Runs the tests, in parallel unless they are serial, and returns their results.
fn test(options: &Options, kubeconfig: &Path, folder: &Path) -> anyhow::Result<Vec<Spec>> {
    let report = folder.join("report.json");
    let _ = fs::remove_file(&report);
    let ginkgo = peers::find(&options.peers, "ginkgo")?;
    let tests = peers::find(&options.peers, "e2e.test")?;
    let kubectl = peers::find(&options.peers, "kubectl")?;
    let mut command = Command::new(ginkgo);
    command.arg(format!("--procs={}", options.processes)).args(["--no-color", "--timeout=24h", "--succinct"]);
    command.args(["--json-report=report.json", "--output-dir"]).arg(folder);
    command.args(options.focus.iter().map(|focus| format!("--focus={focus}")));
    command.args(options.skip.iter().map(|skip| format!("--skip={skip}")));
    command.arg(tests).arg("--").arg("--kubeconfig").arg(kubeconfig).arg("--kubectl-path").arg(kubectl);
    command.args(["--provider=skeleton", "--dump-logs-on-failure=false", "--allowed-not-ready-nodes=-1"]);
    // Nodes, their containers and the DNS server of the cluster cannot be reached.
    command.args(["--minStartupPods=0", "--system-pods-startup-timeout=1m", "--num-nodes=3"]);
    command.arg("--e2e-output-dir").arg(folder);
    let log = folder.join("tests.log");
    println!("running the tests; their output is in {}", log.display());
    let output = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    // The status says only whether a test failed, as does the report.
    command.stdout(output.try_clone()?).stderr(output).status().context("cannot run ginkgo")?;
    let text = fs::read_to_string(&report)
        .with_context(|| format!("the tests wrote no report: see the end of {}", log.display()))?;
    report::parse(&text)
}

/// Prints the results, and returns the number of tests that should have passed.
fn print(specs: &[Spec], lists: &Lists, runtime: Runtime) -> usize {
    let mut regressions = 0;
    for spec in specs {
        let name = &spec.name;
        match (&spec.outcome, lists.passes(runtime).contains(name), lists.cannot_pass.get(name)) {
            (Outcome::Passed, true, _) => {}
            (Outcome::Passed, false, _) if lists.simulated.contains(name) => {}
            (Outcome::Passed, false, _) => println!("new    {name}"),
            (Outcome::Skipped(why), false, _) => println!("skip   {name}\n       {why}"),
            (Outcome::Failed(_), false, Some(reason)) => println!("known  {name}\n       {reason}"),
            (Outcome::Failed(why), false, None) => println!("fails  {name}\n       {why}"),
            (Outcome::Failed(why) | Outcome::Skipped(why), true, _) => {
                println!("FAILED {name}\n       {why}");
                regressions += 1;
            }
        }
    }
    let count = |outcome: fn(&Outcome) -> bool| specs.iter().filter(|spec| outcome(&spec.outcome)).count();
    println!(
        "\n{} passed, {} failed, {} skipped",
        count(|outcome| matches!(outcome, Outcome::Passed)),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
    );
    regressions
}

fn parse(args: &[&str]) -> anyhow::Result<Options> {
    let mut options = Options {
        runtime: Runtime::Simulated,
        focus: Vec::new(),
        skip: Vec::new(),
        against: "windlass".to_owned(),
        windlass: None,
        peers: peers::folder(),
        processes: 4,
        update: false,
    };
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| USAGE)?;
        match *flag {
            "--focus" => options.focus.push((*value).to_owned()),
            "--skip" => options.skip.push((*value).to_owned()),
            "--against" => options.against = (*value).to_owned(),
            "--runtime" => {
                options.runtime = match *value {
                    "simulated" => Runtime::Simulated,
                    "process" => Runtime::Process,
                    _ => bail!("{USAGE}"),
                };
            }
            "--windlass" => options.windlass = Some(value.into()),
            "--peers" => options.peers = value.into(),
            "--processes" => options.processes = value.parse().with_context(|| USAGE)?,
            "--update" => options.update = value.parse().with_context(|| USAGE)?,
            _ => bail!("{USAGE}"),
        }
    }
    Ok(options)
}

/// Returns a regular expression of Go that matches only this string.
fn escape(text: &str) -> String {
    let special = |letter: char| r"\.+*?()|[]{}^$".contains(letter);
    text.chars().flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_select_tests_and_unknown_ones_are_rejected() {
        let options = parse(&["--focus", "a", "--focus", "b", "--against", "kubernetes", "--update", "true"]).unwrap();
        assert_eq!(
            (options.focus, options.against.as_str(), options.update),
            (vec!["a".into(), "b".into()], "kubernetes", true)
        );
        assert_eq!(parse(&["--runtime", "process"]).unwrap().runtime, Runtime::Process);
        assert!(parse(&["--runtime", "docker"]).is_err());
        assert!(parse(&["--focus"]).is_err());
        assert!(parse(&["--fast", "yes"]).is_err());
        assert!(parse(&["--processes", "many"]).is_err());
    }

    #[test]
    fn names_of_tests_are_literal() {
        assert_eq!(escape("[sig-auth] a (b) c.d"), r"\[sig-auth\] a \(b\) c\.d");
    }
}
