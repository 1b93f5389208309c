//! The command line of an operator.

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::{
    Flags, LogError, Operator, OperatorError, Options, logs,
    manifests::{self, Format, ManifestFlags},
};
use crate::{
    client::{self, ClientOptions},
    shutdown::Shutdown,
};

#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Subcommand)]
enum Command {
    /// Run the operator; the default without a subcommand
    Run(Box<Flags>),
    /// Print what the operator would change, without changing it; exits with 2 if there is something
    Plan(Box<PlanFlags>),
    /// Print the manifests that install the operator
    Manifests(ManifestFlags),
    /// Print the CustomResourceDefinitions
    Crds {
        /// Output format
        #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "yaml")]
        output: Format,
    },
}

// A doc comment would show up in the help.
#[derive(clap::Args)]
struct PlanFlags {
    #[command(flatten)]
    flags: Flags,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    output: PlanFormat,
}

/// Output format of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PlanFormat {
    /// A line per changed field
    Text,
    /// JSON
    Json,
}

pub(super) async fn main(operator: Operator, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let code = execute(operator, arguments, &mut std::io::stdout(), &mut std::io::stderr()).await;
    ExitCode::from(code)
}

/// Executes a command line. Data is written to `out`, everything else to `err`.
async fn execute(
    operator: Operator,
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut impl Write,
    err: &mut impl Write,
) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let plans = arguments.get(1).is_some_and(|first| first == "plan");
    let cli = match parse(&operator, arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let text = error.render();
            // Help and version are requested output, not errors.
            let _ = if error.use_stderr() { write!(err, "{text}") } else { write!(out, "{text}") };
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            // The exit code 2 of a plan means that there are changes.
            return if plans { code.min(1) } else { code };
        }
    };
    let done = match cli.command {
        None => run(operator, &cli.flags).await,
        Some(Command::Run(flags)) => run(operator, &flags).await,
        Some(Command::Plan(flags)) => match plan(operator, &flags, out).await {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Some(Command::Manifests(flags)) => write(manifests::print(operator, flags), out),
        Some(Command::Crds { output }) => write(manifests::print_definitions(&operator, output), out),
    };
    let Err(error) = done else { return 0 };
    let _ = writeln!(err, "error: {}", error.chain());
    if let Some(hint) = error.hint() {
        let _ = writeln!(err, "hint: {hint}");
    }
    if plans { 1 } else { error.exit_code() }
}

fn parse(operator: &Operator, arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command().bin_name(operator.name.clone()).display_name(operator.name.clone());
    if let Some(about) = operator.about {
        command = command.about(about);
    }
    if let Some(version) = operator.version {
        command = command.version(version);
    }
    let matches = command.try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches)
}

fn write(text: Result<String, crate::manifests::ManifestError>, out: &mut impl Write) -> Result<(), OperatorError> {
    out.write_all(text?.as_bytes()).map_err(OperatorError::Write)
}

/// Runs with logging and tracing.
async fn run(operator: Operator, flags: &Flags) -> Result<(), OperatorError> {
    #[cfg(feature = "otel")]
    let telemetry = super::telemetry::Telemetry::from_environment(&operator.name)?;
    #[cfg(feature = "otel")]
    let layers = telemetry.iter().map(super::telemetry::Telemetry::layer).collect();
    #[cfg(not(feature = "otel"))]
    let layers = Vec::new();
    match logs::start_with(&flags.log_level, flags.log_format, layers) {
        // The program has its own subscriber, which is fine.
        Ok(()) | Err(LogError::Taken(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let outcome = work(operator, flags).await;
    #[cfg(feature = "otel")]
    if let Some(telemetry) = telemetry {
        telemetry.finish().await;
    }
    outcome
}

/// Prints a plan, and returns the exit code.
async fn plan(operator: Operator, flags: &PlanFlags, out: &mut impl Write) -> Result<u8, OperatorError> {
    let PlanFlags { flags, output } = flags;
    // In addition to the plan, only problems are of interest.
    let level = if flags.log_level == "info" { "warn" } else { &flags.log_level };
    match logs::start(level, flags.log_format) {
        Ok(()) | Err(LogError::Taken(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let config = client::configuration(&flags.target()).await?;
    let options = Options::from_flags(flags, &operator.name, &config)?;
    let version = operator.version.unwrap_or("unknown");
    let mut talking = ClientOptions::new(format!("{}/{version}", operator.name));
    talking.rate = flags.rate();
    let plan = operator.plan(client::connect(&config, talking)?, options).await?;
    let text = match output {
        PlanFormat::Text => plan.to_text(),
        PlanFormat::Json => format!("{:#}\n", plan.to_json()),
    };
    out.write_all(text.as_bytes()).map_err(OperatorError::Write)?;
    Ok(plan.exit_code())
}

async fn work(operator: Operator, flags: &Flags) -> Result<(), OperatorError> {
    let shutdown = Shutdown::on_signals().map_err(OperatorError::Signals)?;
    let config = client::configuration(&flags.target()).await?;
    let options = Options::from_flags(flags, &operator.name, &config)?;
    let version = operator.version.unwrap_or("unknown");
    let mut talking = ClientOptions::new(format!("{}/{version}", operator.name)).metrics(operator.metrics.clone());
    talking.rate = flags.rate();
    talking.measure_durations = flags.metrics_request_durations;
    let client = client::connect(&config, talking)?;
    tracing::info!(operator = operator.name, version, server = %config.cluster_url, "starting");
    operator.run_with(client, options, shutdown).await
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::controller::{Action, Controller};

    async fn execute_with(arguments: &[&str]) -> (u8, String, String) {
        let controller = Controller::<ConfigMap>::new("maps", async |_, _| Ok(Action::done()));
        let operator = Operator::new("map-operator").version("1.2.3").about("Maps").controller(controller);
        let arguments = ["map-operator"].iter().chain(arguments).map(OsString::from);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = execute(operator, arguments, &mut out, &mut err).await;
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[tokio::test]
    async fn manifests_are_printed() {
        let (code, out, err) = execute_with(&["manifests"]).await;
        assert_eq!((code, err.as_str()), (0, ""));
        for expected in
            ["kind: Deployment", "map-operator:1.2.3", "namespace: map-operator-system", "kind: ClusterRole"]
        {
            assert!(out.contains(expected), "{expected} in {out}");
        }

        let (_, out, _) = execute_with(&["manifests", "--only=rbac", "--watch-namespaces=a,b", "-o", "json"]).await;
        let list: serde_json::Value = serde_json::from_str(&out).unwrap();
        let kinds: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["kind"].clone()).collect();
        assert!(kinds.iter().all(|kind| kind != "Deployment"), "{kinds:?}");
        let maps = |item: &&serde_json::Value| item["rules"].to_string().contains("configmaps");
        let with_maps: Vec<_> = list["items"].as_array().unwrap().iter().filter(maps).collect();
        let places: Vec<_> = with_maps.iter().map(|role| role["metadata"]["namespace"].as_str()).collect();
        assert_eq!(places, [Some("a"), Some("b")], "{out}");
    }

    #[tokio::test]
    async fn help_and_version_are_not_errors() {
        let (code, out, err) = execute_with(&["--help"]).await;
        assert_eq!((code, err.as_str()), (0, ""));
        for expected in ["Maps", "Usage: map-operator", "--leader-elect", "manifests", "WINDLASS_METRICS_BIND_ADDRESS"]
        {
            assert!(out.contains(expected), "{expected} in {out}");
        }
        let (code, out, _) = execute_with(&["--version"]).await;
        assert_eq!((code, out.trim()), (0, "map-operator 1.2.3"));
    }

    #[tokio::test]
    async fn unknown_arguments_are_usage_errors() {
        let (code, out, err) = execute_with(&["--moon"]).await;
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("--moon"), "{err}");
    }

    #[tokio::test]
    async fn all_errors_of_a_plan_have_the_same_exit_code() {
        let _ = tracing_subscriber::fmt().with_writer(std::io::sink).try_init();
        for (argument, expected) in [("--moon", "unexpected argument"), ("--kubeconfig=/nowhere/at/all", "hint: ")] {
            let (code, out, err) = execute_with(&["plan", argument]).await;
            assert_eq!((code, out.as_str()), (1, ""), "2 means that there are changes");
            assert!(err.contains(expected), "{err}");
        }
        assert_eq!(execute_with(&["plan", "--help"]).await.0, 0);
    }

    #[tokio::test]
    async fn errors_come_with_a_hint() {
        // The program may have set up logging itself.
        let _ = tracing_subscriber::fmt().with_writer(std::io::sink).try_init();
        let (code, out, err) = execute_with(&["--kubeconfig=/nowhere/at/all", "--log-level=off"]).await;
        assert_eq!((code, out.as_str()), (3, ""));
        assert!(err.starts_with("error: failed to connect to a cluster: invalid kubeconfig: "), "{err}");
        assert!(err.ends_with("hint: check --kubeconfig, --context and KUBECONFIG\n"), "{err}");
    }
}
