//! From an empty directory to the first passing test: `windlass init` compared with `kubebuilder init`.
//!
//! Each tool creates the same project three times: once untimed, which downloads sources and fills caches; once with
//! empty caches of compiled code; once with the caches of the first run. The files of the result are then counted.

mod owned;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::json;
use windlass_bench::{
    child::processor_time_of_children,
    program::{build_windlass, target},
    table,
};

use self::owned::{Owned, count};

/// Create a project with windlass and with kubebuilder, build and test it, and count the files a person has to own
#[derive(Debug, Args)]
pub(crate) struct ProjectsArgs {
    /// kubebuilder program; also needs go and make
    #[arg(long, value_name = "FILE", env = "KUBEBUILDER", default_value = "kubebuilder")]
    kubebuilder: PathBuf,
    /// windlass program [default: built from this workspace]
    #[arg(long, value_name = "FILE")]
    windlass: Option<PathBuf>,
    /// Directory for the projects and caches [default: target/bench/projects]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Measure only one of them
    #[arg(long, value_enum)]
    only: Option<Tool>,
    /// Skip the runs with empty caches
    #[arg(long)]
    warm_only: bool,
    /// Write all numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A tool that creates projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tool {
    /// `windlass`
    Windlass,
    /// `kubebuilder`
    Kubebuilder,
}

/// A typed command and the shell commands that run for it.
struct Step {
    typed: &'static str,
    runs: &'static [&'static str],
    /// Whether it runs in the project directory, which exists by then.
    within: bool,
}

const WINDLASS: &[Step] = &[
    Step {
        typed: "windlass init guestbook --domain example.com",
        runs: &["\"$WINDLASS\" init guestbook --domain example.com --path \"$ROOT\""],
        within: false,
    },
    Step {
        typed: "windlass create api --group webapp --version v1 --kind Guestbook",
        runs: &["\"$WINDLASS\" create api --group webapp --version v1 --kind Guestbook"],
        within: true,
    },
    // The versions of the workspace, so that nothing is downloaded.
    Step { typed: "cargo test", runs: &["cp \"$ROOT/Cargo.lock\" .", "cargo test --offline"], within: true },
];

const KUBEBUILDER: &[Step] = &[
    Step { typed: "mkdir guestbook", runs: &["mkdir guestbook"], within: false },
    Step {
        typed: "kubebuilder init --domain example.com --repo example.com/guestbook",
        runs: &["\"$KUBEBUILDER\" init --domain example.com --repo example.com/guestbook"],
        within: true,
    },
    Step {
        typed: "kubebuilder create api --group webapp --version v1 --kind Guestbook --resource --controller",
        runs: &["\"$KUBEBUILDER\" create api --group webapp --version v1 --kind Guestbook --resource --controller"],
        within: true,
    },
    // All of `make test` except for the part that needs the envtest binaries: tests are compiled but not run.
    Step {
        typed: "make test",
        runs: &["make manifests generate fmt vet", "go test $(go list ./... | grep -v /e2e) -run '^$'"],
        within: true,
    },
];

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Kubebuilder => "kubebuilder",
        }
    }

    fn steps(self) -> &'static [Step] {
        match self {
            Self::Windlass => WINDLASS,
            Self::Kubebuilder => KUBEBUILDER,
        }
    }
}

/// Results of one tool.
struct Measured {
    cold: Option<Times>,
    warm: Times,
    owned: Owned,
}

/// Durations of one run.
#[derive(Clone, Copy)]
struct Times {
    /// Until the project exists.
    made: Duration,
    /// From there to the end of the tests.
    tested: Duration,
    /// Processor time of both, which depends less on other work on the machine.
    processor: Duration,
}

/// Creates the projects and prints the results.
pub(crate) fn run(args: ProjectsArgs) -> anyhow::Result<()> {
    let windlass = match (&args.windlass, args.only) {
        (Some(program), _) => std::path::absolute(program)?,
        (None, Some(Tool::Kubebuilder)) => PathBuf::new(),
        (None, _) => build_windlass()?,
    };
    let kubebuilder = match args.kubebuilder.components().count() {
        1 => args.kubebuilder.clone(),
        _ => std::path::absolute(&args.kubebuilder)?,
    };
    let data = std::path::absolute(args.data.clone().unwrap_or_else(|| target().join("bench/projects")))?;
    let tools: Vec<Tool> = args.only.map_or(vec![Tool::Windlass, Tool::Kubebuilder], |tool| vec![tool]);
    let mut measured = Vec::new();
    for tool in tools {
        let bench = Bench { tool, data: data.join(tool.name()), windlass: &windlass, kubebuilder: &kubebuilder };
        measured.push((tool, bench.measure(args.warm_only).with_context(|| tool.name())?));
    }
    println!("\n{}", table::render(&rows(&measured)));
    let Some(path) = &args.json else { return Ok(()) };
    fs::write(path, format!("{:#}\n", to_json(&measured))).with_context(|| format!("cannot write {}", path.display()))
}

struct Bench<'a> {
    tool: Tool,
    data: PathBuf,
    windlass: &'a Path,
    kubebuilder: &'a Path,
}

impl Bench<'_> {
    fn measure(&self, warm_only: bool) -> anyhow::Result<Measured> {
        remove(&self.data)?;
        self.once("first", "filled")?;
        let cold = if warm_only { None } else { Some(self.once("cold", "empty")?) };
        let warm = self.once("warm", "filled")?;
        let owned = count(&self.data.join("warm/guestbook"))?;
        Ok(Measured { cold, warm, owned })
    }

    /// Creates a project with the caches of the given name, and keeps both.
    fn once(&self, run: &str, caches: &str) -> anyhow::Result<Times> {
        let folder = self.data.join(run);
        fs::create_dir_all(&folder)?;
        let mut times = Times { made: Duration::ZERO, tested: Duration::ZERO, processor: Duration::ZERO };
        let before = processor_time_of_children()?;
        let (last, first) = self.tool.steps().split_last().expect("a tool must have steps");
        for (step, time) in first.iter().map(|step| (step, false)).chain([(last, true)]) {
            let begun = Instant::now();
            for line in step.runs {
                self.shell(line, &folder, step.within, &self.data.join("caches").join(caches))?;
            }
            *(if time { &mut times.tested } else { &mut times.made }) += begun.elapsed();
        }
        times.processor = processor_time_of_children()?.saturating_sub(before);
        eprintln!(
            "{} {run}: made in {:.1} s, tested after {:.1} s more",
            self.tool.name(),
            times.made.as_secs_f64(),
            times.tested.as_secs_f64()
        );
        Ok(times)
    }

    fn shell(&self, line: &str, folder: &Path, within: bool, caches: &Path) -> anyhow::Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("bench must be in the workspace");
        let mut command = Command::new("sh");
        command.args(["-ec", line]).current_dir(if within { folder.join("guestbook") } else { folder.to_owned() });
        command.env("WINDLASS", self.windlass).env("KUBEBUILDER", self.kubebuilder).env("ROOT", root);
        // Go shares compiled code between all projects of a machine. Cargo does so if configured.
        command.env("GOCACHE", caches.join("go")).env("CARGO_BUILD_BUILD_DIR", caches.join("cargo"));
        for inherited in ["CARGO_TARGET_DIR", "RUSTFLAGS", "GOFLAGS", "UPDATE", "CI"] {
            command.env_remove(inherited);
        }
        let output = command.output().context("cannot run sh")?;
        let said = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&said));
        Ok(())
    }
}

fn rows(measured: &[(Tool, Measured)]) -> Vec<Vec<String>> {
    let row = |title: &str, of: &dyn Fn(Tool, &Measured) -> String| {
        let cells = measured.iter().map(|(tool, measured)| of(*tool, measured));
        std::iter::once(title.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    let seconds = |time: Option<Duration>| time.map_or(String::new(), |time| format!("{:.1} s", time.as_secs_f64()));
    vec![
        row("", &|tool, _| tool.name().to_owned()),
        row("commands typed", &|tool, _| tool.steps().len().to_string()),
        row("project made, caches warm", &|_, of| seconds(Some(of.warm.made))),
        row("then tested, caches warm", &|_, of| seconds(Some(of.warm.tested))),
        row("in all, caches warm", &|_, of| seconds(Some(of.warm.made + of.warm.tested))),
        row("processor time, caches warm", &|_, of| seconds(Some(of.warm.processor))),
        row("project made, caches empty", &|_, of| seconds(of.cold.map(|times| times.made))),
        row("then tested, caches empty", &|_, of| seconds(of.cold.map(|times| times.tested))),
        row("in all, caches empty", &|_, of| seconds(of.cold.map(|times| times.made + times.tested))),
        row("processor time, caches empty", &|_, of| seconds(of.cold.map(|times| times.processor))),
        row("files", &|_, of| of.owned.files.to_string()),
        row("files to own", &|_, of| of.owned.owned_files.to_string()),
        row("lines to own", &|_, of| table::thousands(of.owned.lines)),
        row("of them code and tests", &|_, of| table::thousands(of.owned.code)),
    ]
}

fn to_json(measured: &[(Tool, Measured)]) -> serde_json::Value {
    let times = |times: Times| {
        json!({
            "made": times.made.as_secs_f64(), "tested": times.tested.as_secs_f64(),
            "processor": times.processor.as_secs_f64(),
        })
    };
    let of = |tool: Tool, measured: &Measured| {
        json!({
            "commands": tool.steps().iter().map(|step| step.typed).collect::<Vec<_>>(),
            "warm": times(measured.warm), "cold": measured.cold.map(times),
            "files": measured.owned.files, "ownedFiles": measured.owned.owned_files,
            "lines": measured.owned.lines, "code": measured.owned.code, "ownedPaths": measured.owned.paths,
        })
    };
    measured
        .iter()
        .map(|(tool, measured)| (tool.name().to_owned(), of(*tool, measured)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match folder.exists() {
        // Go creates module directories that are read-only; caches of compiled code are writable.
        true => fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display())),
        false => Ok(()),
    }
}
