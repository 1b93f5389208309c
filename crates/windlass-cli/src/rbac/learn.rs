//! `windlass rbac learn`: the minimal permissions of a program.

mod child;
mod proxy;
mod records;
mod session;

use std::{
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use self::{records::Records, session::RecordingSession};
use super::{
    compare,
    needs::{Needs, Recorded},
    print::{self, Owner},
    rules::{Roles, RuleOptions},
};
use crate::{
    cluster::ClusterArgs,
    failure::ErrorWithHint,
    output::{self, Format},
    project,
    signals::Signals,
    threads,
};

/// Environment variable of the file to which windlass-testing records requests.
const RECORD_REQUESTS: &str = "WINDLASS_RECORD_REQUESTS";

/// Environment variable of the namespace that a program runs in.
const POD_NAMESPACE: &str = "POD_NAMESPACE";

/// Record the API requests of a program and print the minimal RBAC rules for them
///
/// Runs COMMAND with KUBECONFIG set to a recording proxy in front of its own control plane, or of the cluster selected
/// by --kubeconfig or --context. Tests that run operators on in-process control planes (`windlass rbac learn -- cargo
/// test`) record the requests of the operators, not those of the tests. Without COMMAND, requests are recorded until
/// Ctrl-C for any client that uses the printed kubeconfig.
///
/// The permissions to bind, to escalate, and to set owner references that block deletion do not show up in requests and
/// cannot be detected.
#[derive(Debug, Args)]
pub(crate) struct LearnArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Manifest to apply before recording, for example CRDs; may be repeated
    #[arg(long, value_name = "FILE")]
    apply: Vec<PathBuf>,
    /// Recording time, for example 30s, 10m or 1h30m [default: until COMMAND exits, or Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    time: Option<Duration>,
    /// User agent prefix of the clients to record
    #[arg(long, value_name = "PREFIX")]
    user_agent: Option<String>,
    /// Name of the roles and the service account [default: the name of the project or of COMMAND]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// Namespace of the program and its service account, passed to COMMAND as POD_NAMESPACE [default: POD_NAMESPACE, or
    /// NAME-system]
    #[arg(long, value_parser = project::namespace)]
    namespace: Option<String>,
    /// Omit permissions for leader election unless requested; operators only elect a leader in a cluster
    #[arg(long)]
    no_leader_election: bool,
    /// Print a Role per namespace instead of a ClusterRole
    #[arg(long)]
    namespace_scoped: bool,
    /// Omit resourceNames, even for objects with fixed names such as the program's Leases and Secrets
    #[arg(long)]
    no_names: bool,
    /// File or directory with roles to compare: report unused and missing permissions
    #[arg(long, value_name = "PATH")]
    compare: Option<PathBuf>,
    /// Output format of the roles
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
    /// Command to run
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command and prints the roles.
pub(crate) fn run(args: LearnArgs) -> anyhow::Result<()> {
    if let Some(path) = args.compare.as_deref().filter(|path| !path.exists()) {
        let message = format!("{} does not exist", path.display());
        return Err(ErrorWithHint { message, hint: "use a file or directory with ClusterRoles or Roles".into() }.into());
    }
    let owner = owner(&args)?;
    let (recorded, ended) = threads::block_on_all(watch(&args, &owner))?;

    let (refused, answered): (Vec<Recorded>, Vec<Recorded>) = recorded.into_iter().partition(Recorded::is_refused);
    let seen = Needs::of(&answered, &owner.namespace);
    tell(&answered, &refused, &seen);
    let mut needs = seen.clone();
    if let Some(operator) = owner.operator.as_ref().filter(|_| !needs.is_empty()) {
        add_unseen(&mut needs, operator, &owner.namespace, !args.no_leader_election);
    }
    if needs.is_empty() {
        eprintln!("no permissions are needed");
    } else {
        let options = RuleOptions { own: &owner.namespace, namespaces: args.namespace_scoped, names: !args.no_names };
        output::print(&text(&Roles::of(&needs, options), &owner, args.output)?)?;
    }
    if let Some(status) = ended.filter(|status| !status.success()) {
        let message = format!("{} exited with {status}", args.command.first().map_or("the command", String::as_str));
        let hint = "the roles only cover requests before that: fix it and record again";
        return Err(ErrorWithHint { message, hint: hint.into() }.into());
    }
    // Read only now, as tests may have written them.
    let granted = args.compare.as_deref().map(compare::read).transpose()?;
    let Some(granted) = granted else { return Ok(()) };
    // Permissions that were only added need not be granted.
    let compare = |needs| compare::compare(&granted, needs, &owner.namespace);
    tell_difference(&compare(&seen).missing, &compare(&needs).unused)
}

/// Runs the command, and returns the recorded requests and how the command exited.
async fn watch(args: &LearnArgs, owner: &Owner) -> anyhow::Result<(Vec<Recorded>, Option<ExitStatus>)> {
    let mut signals = Signals::catch().context("failed to install signal handlers")?;
    let records = Records::default();
    let chosen = args.cluster.kubeconfig.is_some() || args.cluster.context.is_some();
    let session =
        RecordingSession::open(chosen.then_some(&args.cluster), &args.apply, args.user_agent.clone(), &records).await?;
    let has_namespace = session.has_namespace(&owner.namespace).await;
    let file = session.folder().join("requests");
    let ended = match args.command.split_first() {
        Some((program, arguments)) => {
            let mut variables = vec![("KUBECONFIG", session.kubeconfig()), (RECORD_REQUESTS, file.as_path())];
            // The namespace-local objects of the program belong to its namespace.
            if has_namespace {
                variables.push((POD_NAMESPACE, Path::new(&owner.namespace)));
            }
            Some(child::run(program, arguments, &variables, args.time, &mut signals).await?)
        }
        None => {
            eprintln!("export KUBECONFIG={}", session.kubeconfig().display());
            eprintln!("recording requests; press Ctrl-C to print the roles");
            tokio::select! {
                () = signals.first() => {}
                () = after(args.time) => {}
            }
            None
        }
    };
    records.add_file(&file).with_context(|| format!("cannot read {}", file.display()))?;
    session.close().await;
    // A command that was told to stop has no exit status to report.
    Ok((records.all(), ended.flatten()))
}

/// Resolves after a time; never if there is none.
async fn after(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Adds permissions that operators need, but that were not exercised.
fn add_unseen(needs: &mut Needs, operator: &str, own: &str, elects: bool) {
    if elects && needs.add_election(operator, own) {
        eprintln!("added leases: in a cluster, the operator elects a leader (omit with --no-leader-election)");
    }
    if needs.add_events() {
        eprintln!("added events: the operator may record them for any object it watches");
    }
    if needs.add_renewal(own) {
        eprintln!("added renewal of webhook certificates: it only happens after months, in a deployment");
    }
}

fn tell(answered: &[Recorded], refused: &[Recorded], needs: &Needs) {
    eprintln!("recorded {} distinct requests", answered.len() + refused.len());
    if !refused.is_empty() {
        eprintln!("these requests were forbidden (403) and are not in the roles:");
        for Recorded { method, uri, .. } in refused {
            eprintln!("  {method} {uri}");
        }
    }
    if needs.grants_rights() {
        eprintln!(
            "the program writes roles or bindings: it also needs the permissions they grant, or the verbs bind and escalate"
        );
    }
}

fn tell_difference(missing: &[String], unused: &[String]) -> anyhow::Result<()> {
    if !unused.is_empty() {
        eprintln!("granted, but never used:");
        unused.iter().for_each(|line| eprintln!("  {line}"));
    }
    if missing.is_empty() {
        eprintln!("all used permissions are granted");
        return Ok(());
    }
    let message = format!("used, but not granted:\n  {}", missing.join("\n  "));
    Err(ErrorWithHint { message, hint: "use the printed roles, or avoid these requests".into() }.into())
}

fn owner(args: &LearnArgs) -> anyhow::Result<Owner> {
    let operator = project::open().ok().map(|opened| opened.project.project_name);
    let of_command = || {
        let program = Path::new(args.command.first()?).file_stem()?.to_str()?;
        let name: String =
            program.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        Some(name.to_ascii_lowercase().trim_matches('-').to_owned()).filter(|name| !name.is_empty())
    };
    let name = args.name.clone().or(operator.clone()).or_else(of_command).unwrap_or_else(|| "learned".to_owned());
    let of_pod = || std::env::var(POD_NAMESPACE).ok().filter(|namespace| !namespace.is_empty());
    let namespace = args.namespace.clone().or_else(of_pod).unwrap_or_else(|| format!("{name}-system"));
    if let Err(message) = project::namespace(&namespace) {
        return Err(ErrorWithHint { message, hint: "set the operator's namespace with --namespace".into() }.into());
    }
    Ok(Owner { name, namespace, operator })
}

/// Parses a name for roles and service accounts.
fn name(text: &str) -> Result<String, String> {
    match text.len() <= 253 && text.split('.').all(windlass_scaffold::names::is_dns_label) {
        true => Ok(text.to_owned()),
        false => Err(
            "a name must consist of lower-case letters, digits, '-' and '.', and start and end with a letter or digit"
                .to_owned(),
        ),
    }
}

fn text(roles: &Roles, owner: &Owner, output: Format) -> anyhow::Result<String> {
    let manifests = print::manifests(roles, owner);
    match output {
        // One document per object, ready to apply.
        Format::Yaml => Ok(print::to_yaml(&manifests)),
        other => other.text(&json!({"apiVersion": "v1", "kind": "List", "items": manifests}), || print::table(roles)),
    }
}

/// Parses `1h30m`, `90s` or `45`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 30s, 10m or 1h30m");
    let (mut seconds, mut number) = (0_u64, String::new());
    for letter in text.chars() {
        let factor = match letter {
            '0'..='9' => {
                number.push(letter);
                continue;
            }
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return Err(wrong()),
        };
        let count: u64 = std::mem::take(&mut number).parse().map_err(|_| wrong())?;
        seconds = count.checked_mul(factor).and_then(|more| seconds.checked_add(more)).ok_or_else(wrong)?;
    }
    if !number.is_empty() {
        seconds = number.parse::<u64>().ok().and_then(|more| seconds.checked_add(more)).ok_or_else(wrong)?;
    }
    if seconds == 0 { Err(wrong()) } else { Ok(Duration::from_secs(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        for (text, seconds) in [("30s", 30), ("10m", 600), ("1h30m", 5400), ("45", 45)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "0", "m", "1d", "-1s", "99999999999999999999h", "18446744073709551615h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
