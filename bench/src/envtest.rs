//! Test suites that start their own control planes with envtest, with the programs of `windlass assets` compared with
//! kube-apiserver and etcd.
//!
//! The suites are those of controller-runtime and of a project that kubebuilder creates, unmodified. They are compiled
//! once; every suite then runs with both pairs of programs, one after the other.

mod running;
mod sources;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::{Value, json};
use windlass_bench::{
    program::{build_windlass, target},
    table,
};

use self::running::{Outcome, run_suite};

/// Run the envtest suites of controller-runtime and of a kubebuilder project with both control planes
#[derive(Debug, Args)]
pub(crate) struct EnvtestArgs {
    /// Directory with kube-apiserver and etcd, as built by `cargo xtask peers` [default: target/peers]
    #[arg(long, value_name = "DIR", env = "WINDLASS_PEERS")]
    peers: Option<PathBuf>,
    /// windlass program [default: built from this workspace]
    #[arg(long, value_name = "FILE")]
    windlass: Option<PathBuf>,
    /// kubebuilder program, to include the suites of a new project; also needs make
    #[arg(long, value_name = "FILE", env = "KUBEBUILDER")]
    kubebuilder: Option<PathBuf>,
    /// Directory for sources and compiled suites [default: target/bench/envtest]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only suites whose name contains this string; may be repeated
    #[arg(long, value_name = "TEXT")]
    suite: Vec<String>,
    /// Measure only one pair of programs
    #[arg(long, value_enum)]
    only: Option<Pair>,
    /// Number of runs; the median of each number is reported
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,
    /// Write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Programs that envtest starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pair {
    /// The entries of `windlass assets`
    Windlass,
    /// kube-apiserver and etcd
    Kubernetes,
}

impl Pair {
    fn title(self) -> &'static str {
        match self {
            Self::Windlass => "Windlass",
            Self::Kubernetes => "kube-apiserver + etcd",
        }
    }
}

/// A compiled suite, which runs in the directory of its sources.
struct Suite {
    name: String,
    program: PathBuf,
    directory: PathBuf,
}

/// Compiles the suites, runs them, and prints the comparison.
pub(crate) fn run(args: EnvtestArgs) -> anyhow::Result<()> {
    ensure!(args.runs > 0, "--runs must be at least 1");
    let data = std::path::absolute(args.data.clone().unwrap_or_else(|| target().join("bench/envtest")))?;
    let pairs = args.only.map_or(vec![Pair::Windlass, Pair::Kubernetes], |pair| vec![pair]);
    let assets: Vec<(Pair, PathBuf)> = pairs
        .into_iter()
        .map(|pair| Ok((pair, assets(pair, &args, &data).with_context(|| pair.title())?)))
        .collect::<anyhow::Result<_>>()?;
    let is_wanted = |name: &str| args.suite.is_empty() || args.suite.iter().any(|text| name.contains(text));
    let mut suites = sources::controller_runtime(&data, &is_wanted).context("the suites of controller-runtime")?;
    if let Some(kubebuilder) = &args.kubebuilder {
        suites.extend(sources::kubebuilder(kubebuilder, &data, &is_wanted).context("the project of kubebuilder")?);
    }
    ensure!(!suites.is_empty(), "no suite has a name with {:?}", args.suite);

    let mut results = Vec::new();
    for suite in &suites {
        let mut outcomes = Vec::new();
        for (pair, assets) in &assets {
            let runs = (0..args.runs).map(|_| run_suite(suite, assets)).collect::<anyhow::Result<Vec<_>>>()?;
            let outcome = Outcome::median(runs);
            eprintln!("{} with {}: {outcome}", suite.name, pair.title());
            outcomes.push((*pair, outcome));
        }
        results.push((suite.name.clone(), outcomes));
    }
    println!("\n{}", table::render(&rows(&results)));
    let Some(path) = &args.json else { return Ok(()) };
    fs::write(path, format!("{:#}\n", to_json(&results))).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns a directory with the programs of a pair.
fn assets(pair: Pair, args: &EnvtestArgs, data: &Path) -> anyhow::Result<PathBuf> {
    let peers = std::path::absolute(args.peers.clone().unwrap_or_else(|| target().join("peers")))?;
    let directory = data.join("assets").join(pair.title().replace(" + ", "-"));
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    match pair {
        Pair::Windlass => {
            let windlass = args.windlass.clone().map_or_else(build_windlass, Ok)?;
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = std::env::join_paths(std::iter::once(peers).chain(std::env::split_paths(&path)))?;
            let output = Command::new(windlass).arg("assets").arg(&directory).env("PATH", path).output()?;
            ensure!(output.status.success(), "windlass assets: {}", String::from_utf8_lossy(&output.stderr));
        }
        Pair::Kubernetes => {
            for name in ["kube-apiserver", "etcd", "kubectl"] {
                let program = peers.join(name);
                ensure!(program.is_file(), "{} does not exist: run `cargo xtask peers`", program.display());
                symlink(program, directory.join(name))?;
            }
        }
    }
    Ok(directory)
}

type Results = [(String, Vec<(Pair, Outcome)>)];

fn rows(results: &Results) -> Vec<Vec<String>> {
    let mut header = vec!["suite".to_owned(), "specs".to_owned()];
    for (pair, _) in results.first().map_or(&[][..], |(_, outcomes)| outcomes) {
        header.extend([format!("{}, time", pair.title()), "memory".to_owned()]);
    }
    header.push("ratio".to_owned());
    let mut rows = vec![header];
    for (name, outcomes) in results {
        let specs = outcomes.first().map_or(0, |(_, outcome)| outcome.specs);
        let mut row = vec![format!("`{name}`"), specs.to_string()];
        for (_, outcome) in outcomes {
            row.extend([outcome.time_or_failure(), format!("{} MB", outcome.memory / 1_000_000)]);
        }
        let ratio = match &outcomes[..] {
            [(_, windlass), (_, kubernetes)] => format!("{:.1}x", ratio(kubernetes.time, windlass.time)),
            _ => String::new(),
        };
        row.push(ratio);
        rows.push(row);
    }
    rows
}

fn ratio(of: Duration, to: Duration) -> f64 {
    of.as_secs_f64() / to.as_secs_f64().max(f64::EPSILON)
}

fn to_json(results: &Results) -> Value {
    let suites = results.iter().map(|(name, outcomes)| {
        let pairs = outcomes.iter().map(|(pair, outcome)| (pair.title().to_owned(), outcome.to_json()));
        json!({ "suite": name, "pairs": pairs.collect::<serde_json::Map<_, _>>() })
    });
    suites.collect::<Vec<_>>().into()
}
