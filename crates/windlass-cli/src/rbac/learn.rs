//! `windlass rbac learn`: the minimal permissions of a program.

mod child;
mod proxy;
mod records;
mod reviews;
mod session;
mod verify;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use self::{
    child::Ended,
    records::Records,
    session::{RecordingSession, Upstream},
    verify::Proof,
};
use super::{
    compare,
    needs::{Needs, Recorded},
    print::{self, OwnOperator, Owner},
    rules::{Roles, RuleOptions},
};
use crate::{
    cluster::ClusterArgs,
    duration,
    failure::ErrorWithHint,
    output::{self, Format},
    project,
    signals::Signals,
    threads,
};

/// Environment variable of the file to which windlass-testing records requests.
const RECORD_REQUESTS: &str = "WINDLASS_RECORD_REQUESTS";

/// Roles that a project's operator generates.
const GENERATED_ROLES: &str = "deploy/rbac";

/// Environment variable with the namespace of the program.
const POD_NAMESPACE: &str = "POD_NAMESPACE";

/// Record the API requests of a program and print the minimal RBAC rules for them
///
/// Runs COMMAND with KUBECONFIG set to a recording proxy in front of its own control plane, or of the cluster selected
/// by --kubeconfig or --context. Tests that run operators on in-process control planes (`windlass rbac learn -- cargo
/// test`) record the requests of the operators, not those of the tests. Without COMMAND, requests are recorded until
/// Ctrl-C for any client that uses the printed kubeconfig.
///
/// The rules are then verified on a separate control plane: an API server with these rules must allow all recorded
/// requests, and COMMAND runs again as a service account with these rules.
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
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
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
    /// Omit the permissions for leader election that are added although the recording shows none
    #[arg(long)]
    no_leader_election: bool,
    /// Print a Role per namespace instead of a ClusterRole
    #[arg(long)]
    namespace_scoped: bool,
    /// Omit resourceNames, even for objects with fixed names such as the program's Leases and Secrets
    #[arg(long)]
    no_names: bool,
    /// File or directory with roles to compare: report unused and missing permissions, and fail if some are missing
    /// [default: deploy/rbac of the project, without failing]
    #[arg(long, value_name = "PATH")]
    compare: Option<PathBuf>,
    /// Print the roles without verifying them
    #[arg(long)]
    no_verify: bool,
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
    let (learned, verified) = threads::block_on_all(learn(&args, &owner))?;
    let Learned { seen, needs, ended } = learned;
    if needs.is_empty() {
        eprintln!("no permissions are needed");
    } else {
        let options = rule_options(&args, &owner);
        output::print(&text(&Roles::of(&needs, options), &owner, args.output)?)?;
    }
    if let Some(Ended::Exited(status)) = ended.filter(|ended| !is_success(*ended)) {
        let message = format!("{} exited with {status}", args.command.first().map_or("the command", String::as_str));
        let hint = "the roles only cover requests before that: fix it and record again";
        return Err(ErrorWithHint { message, hint: hint.into() }.into());
    }
    verified?;
    compare_grants(&args, &owner, &seen, &needs)
}

/// The result of a recording.
struct Learned {
    /// Permissions that were used.
    seen: Needs,
    /// These, and permissions that are needed outside the recording.
    needs: Needs,
    /// Result of the command.
    ended: Option<Ended>,
}

/// Records and verifies. The roles are printed even if they could not be verified.
async fn learn(args: &LearnArgs, owner: &Owner) -> anyhow::Result<(Learned, anyhow::Result<()>)> {
    let mut signals = Signals::catch().context("failed to install signal handlers")?;
    let Recording { requests, used_proxy, ended } = record(args, owner, &mut signals).await?;
    let (rejected, answered): (Vec<Recorded>, Vec<Recorded>) = requests.into_iter().partition(Recorded::is_rejected);
    let seen = Needs::of(&answered, &owner.namespace);
    report(&answered, &rejected, &seen);
    let mut needs = seen.clone();
    if let Some(operator) = owner.operator.as_ref().filter(|_| !needs.is_empty()) {
        add_unseen(&mut needs, &operator.name, &owner.namespace, !args.no_leader_election);
    }
    let has_failed = ended.is_some_and(|ended| !is_success(ended));
    if args.no_verify || has_failed || needs.is_empty() {
        return Ok((Learned { seen, needs, ended }, Ok(())));
    }
    let proof = Proof {
        args,
        owner,
        options: rule_options(args, owner),
        seen: &seen,
        rejected: &rejected,
        // The roles are not written to a user's cluster, and an interrupted command needs a user to stop it.
        runs_again: used_proxy && !is_cluster_chosen(args) && matches!(ended, Some(Ended::Exited(_) | Ended::TimedOut)),
    };
    let verified = proof.run(&mut needs, &mut signals).await;
    Ok((Learned { seen, needs, ended }, verified))
}

fn rule_options<'a>(args: &LearnArgs, owner: &'a Owner) -> RuleOptions<'a> {
    RuleOptions { own: &owner.namespace, namespaces: args.namespace_scoped, names: !args.no_names }
}

fn is_success(ended: Ended) -> bool {
    !matches!(ended, Ended::Exited(status) if !status.success())
}

fn is_cluster_chosen(args: &LearnArgs) -> bool {
    args.cluster.kubeconfig.is_some() || args.cluster.context.is_some()
}

/// Compares the permissions with those granted by the roles of --compare, or else of the project.
fn compare_grants(args: &LearnArgs, owner: &Owner, seen: &Needs, needs: &Needs) -> anyhow::Result<()> {
    let granted = match (&args.compare, &owner.operator) {
        // Read only now, as tests may have written them.
        (Some(path), _) => compare::read(path)?,
        (None, Some(operator)) if !needs.is_empty() => {
            let folder = operator.root.join(GENERATED_ROLES);
            let Ok(granted) = compare::read(&folder) else { return Ok(()) };
            eprintln!("compared with {}:", folder.display());
            granted
        }
        _ => return Ok(()),
    };
    // Permissions that were only added need not be granted.
    let compare = |needs| compare::compare(&granted, needs, &owner.namespace);
    let told = report_difference(&compare(seen).missing, &compare(needs).unused);
    match (&args.compare, told) {
        (None, Err(error)) => {
            eprintln!("{error:#}");
            Ok(())
        }
        (_, told) => told,
    }
}

/// Recording of a command.
struct Recording {
    requests: Vec<Recorded>,
    /// Whether some requests were sent to the proxy, as opposed to planes of tests.
    used_proxy: bool,
    /// Result of the command; `None` if none was given.
    ended: Option<Ended>,
}

/// Runs the command and records its requests.
async fn record(args: &LearnArgs, owner: &Owner, signals: &mut Signals) -> anyhow::Result<Recording> {
    let records = Records::default();
    let upstream = if is_cluster_chosen(args) { Upstream::Cluster(&args.cluster) } else { Upstream::Plane };
    let opening = async {
        let session = RecordingSession::open(upstream, &args.apply, args.user_agent.clone(), &records).await?;
        let variables = session.variables(&owner.namespace).await;
        Ok((session, variables))
    };
    let (session, variables) = signals.interrupt(opening).await?;
    let ended = match args.command.split_first() {
        Some((program, arguments)) => {
            let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_path())).collect();
            Some(child::run(program, arguments, &variables, args.time, signals).await?)
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
    let used_proxy = !records.all().is_empty();
    let file = session.requests();
    records.add_file(&file).with_context(|| format!("cannot read {}", file.display()))?;
    session.close().await;
    Ok(Recording { requests: records.all(), used_proxy, ended })
}

/// Resolves after a time; never resolves without a time.
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

fn report(answered: &[Recorded], rejected: &[Recorded], needs: &Needs) {
    eprintln!("recorded {} distinct requests", answered.len() + rejected.len());
    if !rejected.is_empty() {
        eprintln!("these requests were forbidden (403) and are not in the roles:");
        for Recorded { method, uri, .. } in rejected {
            eprintln!("  {method} {uri}");
        }
    }
    if needs.grants_rights() {
        eprintln!(
            "the program writes roles or bindings: it also needs the permissions they grant, or the verbs bind and escalate"
        );
    }
}

fn report_difference(missing: &[String], unused: &[String]) -> anyhow::Result<()> {
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
    let operator =
        project::open().ok().map(|opened| OwnOperator { name: opened.project.project_name, root: opened.root });
    let of_command = || {
        let program = Path::new(args.command.first()?).file_stem()?.to_str()?;
        let name: String =
            program.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        Some(name.to_ascii_lowercase().trim_matches('-').to_owned()).filter(|name| !name.is_empty())
    };
    let name = args
        .name
        .clone()
        .or(operator.as_ref().map(|operator| operator.name.clone()))
        .or_else(of_command)
        .unwrap_or_else(|| "learned".to_owned());
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
