//! `windlass rbac learn`: the least that a program has to be allowed.

mod child;
mod proxy;
mod records;
mod scene;

use std::{
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use self::{records::Records, scene::Scene};
use super::{
    compare,
    needs::{Needs, Recorded},
    print::{self, Owner},
    rules::{Narrow, Roles},
};
use crate::{
    cluster::ClusterArgs,
    failure::Advised,
    output::{self, Format},
    project,
    signals::Signals,
    threads,
};

/// The file that tests of operators write requests to, as windlass-testing knows it.
const RECORD_REQUESTS: &str = "WINDLASS_RECORD_REQUESTS";

/// The namespace that a program runs in.
const POD_NAMESPACE: &str = "POD_NAMESPACE";

/// Watch what a program asks of the API server, and print the least RBAC that allows it
///
/// Runs COMMAND with KUBECONFIG set to a server that passes everything on and writes down what was asked: to a control
/// plane of its own, or to the cluster that --kubeconfig or --context name. Tests that run operators on planes within
/// their process (`windlass rbac learn -- cargo test`) write down what the operators ask, not what the tests do. Without
/// COMMAND it goes on until Ctrl-C, for whoever uses the kubeconfig that is printed.
///
/// The rights to bind and escalate, and that to set owners that block deletion, are no requests, and cannot be seen.
#[derive(Debug, Args)]
pub(crate) struct LearnArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Manifests to apply before anything is written down, as definitions; may be repeated
    #[arg(long, value_name = "FILE")]
    apply: Vec<PathBuf>,
    /// How long to watch, as 30s, 10m or 1h30m [default: until COMMAND ends, or Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    time: Option<Duration>,
    /// Only requests of clients whose user agent begins so
    #[arg(long, value_name = "PREFIX")]
    user_agent: Option<String>,
    /// Name of the roles and of the service account [default: that of the project or of COMMAND]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// Namespace of the program and its service account; COMMAND gets it as POD_NAMESPACE [default: POD_NAMESPACE, or
    /// NAME-system]
    #[arg(long, value_parser = project::namespace)]
    namespace: Option<String>,
    /// No rights to elect a leader, unless it was seen to do so; operators elect one in a cluster only
    #[arg(long)]
    no_leader_election: bool,
    /// A Role for each namespace that something was asked in, in place of a ClusterRole for all
    #[arg(long)]
    namespace_scoped: bool,
    /// No resourceNames, even for what is named beforehand, as leases and secrets of the program
    #[arg(long)]
    no_names: bool,
    /// File or folder with roles: say what they grant that was never used, and what was used that they do not grant
    #[arg(long, value_name = "PATH")]
    compare: Option<PathBuf>,
    /// How to print the roles
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
    /// What to run
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command, and prints the roles.
pub(crate) fn run(args: LearnArgs) -> anyhow::Result<()> {
    if let Some(path) = args.compare.as_deref().filter(|path| !path.exists()) {
        let message = format!("there is no {}", path.display());
        return Err(Advised { message, hint: "give a file or folder with ClusterRoles or Roles".into() }.into());
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
        eprintln!("nothing has to be allowed");
    } else {
        let narrow = Narrow { own: &owner.namespace, namespaces: args.namespace_scoped, names: !args.no_names };
        output::print(&text(&Roles::of(&needs, narrow), &owner, args.output)?)?;
    }
    if let Some(status) = ended.filter(|status| !status.success()) {
        let message = format!("{} ended with {status}", args.command.first().map_or("the command", String::as_str));
        let hint = "the roles are those of what it asked before that; mend it, and learn again";
        return Err(Advised { message, hint: hint.into() }.into());
    }
    // Only now, as tests may have written them.
    let granted = args.compare.as_deref().map(compare::read).transpose()?;
    let Some(granted) = granted else { return Ok(()) };
    // What was only added need not be granted.
    let compare = |needs| compare::compare(&granted, needs, &owner.namespace);
    tell_difference(&compare(&seen).missing, &compare(&needs).unused)
}

/// Runs the command on the scene, and answers what was asked, and how it ended.
async fn watch(args: &LearnArgs, owner: &Owner) -> anyhow::Result<(Vec<Recorded>, Option<ExitStatus>)> {
    let mut signals = Signals::catch().context("cannot catch signals")?;
    let records = Records::default();
    let chosen = args.cluster.kubeconfig.is_some() || args.cluster.context.is_some();
    let scene = Scene::open(chosen.then_some(&args.cluster), &args.apply, args.user_agent.clone(), &records).await?;
    let has_namespace = scene.has_namespace(&owner.namespace).await;
    let file = scene.folder().join("requests");
    let ended = match args.command.split_first() {
        Some((program, arguments)) => {
            let mut variables = vec![("KUBECONFIG", scene.kubeconfig()), (RECORD_REQUESTS, file.as_path())];
            // What it has of its own, it has where it is deployed.
            if has_namespace {
                variables.push((POD_NAMESPACE, Path::new(&owner.namespace)));
            }
            Some(child::run(program, arguments, &variables, args.time, &mut signals).await?)
        }
        None => {
            eprintln!("export KUBECONFIG={}", scene.kubeconfig().display());
            eprintln!("watching what is asked; Ctrl-C prints the roles");
            tokio::select! {
                () = signals.first() => {}
                () = after(args.time) => {}
            }
            None
        }
    };
    records.add_file(&file).with_context(|| format!("cannot read {}", file.display()))?;
    scene.close().await;
    // Being told to end is how this ends when it was told so.
    Ok((records.all(), ended.flatten()))
}

/// Resolves after a time; never, if there is none.
async fn after(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Adds what operators of projects are known to do where nobody sees it.
fn add_unseen(needs: &mut Needs, operator: &str, own: &str, elects: bool) {
    if elects && needs.add_election(operator, own) {
        eprintln!("added leases: in a cluster, the operator elects a leader (--no-leader-election leaves them out)");
    }
    if needs.add_events() {
        eprintln!("added events: the operator may report them about whatever it watches");
    }
    if needs.add_renewal(own) {
        eprintln!("added what renews certificates of webhooks: after months, and where it is deployed");
    }
}

fn tell(answered: &[Recorded], refused: &[Recorded], needs: &Needs) {
    eprintln!("saw {} different requests", answered.len() + refused.len());
    if !refused.is_empty() {
        eprintln!("these were refused (403), and are not in the roles:");
        for Recorded { method, uri, .. } in refused {
            eprintln!("  {method} {uri}");
        }
    }
    if needs.grants_rights() {
        eprintln!(
            "it writes roles or bindings: for those it must have what they grant, or the verbs bind and escalate"
        );
    }
}

fn tell_difference(missing: &[String], unused: &[String]) -> anyhow::Result<()> {
    if !unused.is_empty() {
        eprintln!("granted, but never used:");
        unused.iter().for_each(|line| eprintln!("  {line}"));
    }
    if missing.is_empty() {
        eprintln!("everything that was used is granted");
        return Ok(());
    }
    let message = format!("used, but not granted:\n  {}", missing.join("\n  "));
    Err(Advised { message, hint: "grant it by the roles that are printed, or do not ask for it".into() }.into())
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
        return Err(Advised { message, hint: "say the operator's namespace with --namespace".into() }.into());
    }
    Ok(Owner { name, namespace, operator })
}

/// A name that roles and service accounts may have.
fn name(text: &str) -> Result<String, String> {
    match text.len() <= 253 && text.split('.').all(windlass_scaffold::names::is_dns_label) {
        true => Ok(text.to_owned()),
        false => Err("a name has lower-case letters, digits, - and . only, and begins and ends with a letter or digit"
            .to_owned()),
    }
}

fn text(roles: &Roles, owner: &Owner, output: Format) -> anyhow::Result<String> {
    let manifests = print::manifests(roles, owner);
    match output {
        // A document a role, as it is applied.
        Format::Yaml => Ok(print::to_yaml(&manifests)),
        other => other.text(&json!({"apiVersion": "v1", "kind": "List", "items": manifests}), || print::table(roles)),
    }
}

/// `1h30m`, `90s`, `45`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration: give it as 30s, 10m or 1h30m");
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
    fn durations_are_read() {
        for (text, seconds) in [("30s", 30), ("10m", 600), ("1h30m", 5400), ("45", 45)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "0", "m", "1d", "-1s", "99999999999999999999h", "18446744073709551615h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
