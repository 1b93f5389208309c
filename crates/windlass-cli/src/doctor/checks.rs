//! Evaluation of facts. Pure functions.

use serde::Serialize;

use super::facts::{Cluster, Facts, Folder, Machine, Port, ProjectFacts, Terminal, Tools};
use crate::output::bytes;

/// Minimum Rust version of Windlass and its projects.
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");
/// Minor version of the served Kubernetes API.
const MINOR: u64 = 36;
/// Thresholds of free disk space for a problem and for a warning.
const MIN_FREE_PROBLEM: u64 = 100_000_000;
const MIN_FREE_WARNING: u64 = 2_000_000_000;
/// Minimum numbers of inotify watches and instances.
const WATCHES: u64 = 8192;
const INSTANCES: u64 = 64;
/// A clock before this time is wrong: the start of 2026.
const PAST: i64 = 1_767_225_600;
/// Clock skew in seconds that affects tokens and certificates.
const APART: i64 = 30;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    /// Something does not work, or not as well as it could.
    Warning,
    /// Commands will fail.
    Problem,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    #[serde(rename = "result")]
    pub(super) level: Level,
    pub(super) said: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

fn ok(check: &'static str, said: impl Into<String>) -> Finding {
    Finding { check, level: Level::Ok, said: said.into(), hint: None }
}

fn warning<S: Into<String>, H: Into<String>>(check: &'static str, said: S, hint: H) -> Finding {
    Finding { check, level: Level::Warning, said: said.into(), hint: Some(hint.into()) }
}

fn problem<S: Into<String>, H: Into<String>>(check: &'static str, said: S, hint: H) -> Finding {
    Finding { check, level: Level::Problem, said: said.into(), hint: Some(hint.into()) }
}

/// Runs all checks, in the order of the report.
pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let Facts { tools, machine, folder, cluster, project, terminal } = facts;
    let mut findings = vec![
        rust(tools, project.is_some()),
        cargo(tools, project.is_some()),
        component("rustfmt", &tools.rustfmt, "formats generated code", "rustup component add rustfmt"),
        component("clippy", &tools.clippy, "lints projects", "rustup component add clippy"),
        component("git", &tools.git, "shows what a command changed", "install git"),
        kubectl(tools),
        component("images", &tools.engine, "builds images of operators", "install docker or podman"),
    ];
    findings.extend(tools.musl.as_ref().map(|(target, installed)| static_programs(target, *installed)));
    findings.extend(disk(machine));
    findings.extend(inotify(machine));
    findings.push(port(machine));
    findings.push(data(folder, machine.now));
    findings.extend(clock(machine, cluster));
    findings.push(reached(cluster));
    findings.extend(project.iter().flat_map(of_project));
    findings.extend(of_terminal(terminal));
    findings
}

fn rust(tools: &Tools, in_project: bool) -> Finding {
    let severe = if in_project { problem::<String, &str> } else { warning::<String, &str> };
    let Some(said) = &tools.rustc else {
        let none = "Rust is not installed: projects cannot be built".to_owned();
        return severe("rust", none, "install it from https://rustup.rs");
    };
    match (number(said), number(RUST)) {
        (Some(there), Some(wanted)) if there < wanted => {
            severe("rust", format!("{said} is older than {RUST}"), "rustup update stable")
        }
        _ => ok("rust", said),
    }
}

fn cargo(tools: &Tools, in_project: bool) -> Finding {
    match &tools.cargo {
        Some(said) => ok("cargo", said),
        None if in_project => problem("cargo", "cargo is not installed", "install it from https://rustup.rs"),
        None => warning("cargo", "cargo is not installed", "install it from https://rustup.rs"),
    }
}

/// An optional tool and its purpose.
fn component(check: &'static str, said: &Option<String>, purpose: &str, hint: &str) -> Finding {
    match said {
        Some(said) => ok(check, said),
        None => warning(check, format!("not installed; it {purpose}"), hint),
    }
}

fn kubectl(tools: &Tools) -> Finding {
    let Some(version) = &tools.kubectl else {
        return warning(
            "kubectl",
            "not installed; it inspects clusters",
            "install it from https://kubernetes.io/docs/tasks/tools",
        );
    };
    match number(version) {
        Some((1, minor)) if minor.abs_diff(MINOR) > 1 => warning(
            "kubectl",
            format!("kubectl {version} is more than one version away from v1.{MINOR}"),
            format!("install kubectl v1.{MINOR}; other versions mostly work"),
        ),
        _ => ok("kubectl", format!("kubectl {version}")),
    }
}

fn static_programs(target: &str, installed: bool) -> Finding {
    match installed {
        true => ok("static", format!("{target} is installed")),
        false => warning(
            "static",
            format!("{target} is not installed; it is needed to build static binaries for distroless images"),
            format!("rustup target add {target}; not needed by the generated Dockerfile"),
        ),
    }
}

fn disk(machine: &Machine) -> Option<Finding> {
    let free = machine.free?;
    let said = format!("{} free for the data directory", bytes(free));
    Some(match free {
        ..MIN_FREE_PROBLEM => problem("disk", said, "free up disk space, or choose another disk with --data-dir"),
        MIN_FREE_PROBLEM..MIN_FREE_WARNING => warning("disk", said, "builds and data grow: free up disk space soon"),
        _ => ok("disk", said),
    })
}

fn inotify(machine: &Machine) -> Option<Finding> {
    let (watches, instances) = (machine.inotify_watches?, machine.inotify_instances?);
    let said = format!("{watches} watches and {instances} instances are allowed");
    Some(if watches < WATCHES {
        warning("inotify", said, "sudo sysctl fs.inotify.max_user_watches=524288, or file changes are missed")
    } else if instances < INSTANCES {
        warning("inotify", said, "sudo sysctl fs.inotify.max_user_instances=512, or file changes are missed")
    } else {
        ok("inotify", said)
    })
}

fn port(machine: &Machine) -> Finding {
    match &machine.port {
        Port::Free => ok("port", "6443 is free"),
        Port::Ours => ok("port", "6443 is used by the running control plane"),
        Port::Taken => warning(
            "port",
            "6443 is in use by another process",
            "use windlass up --port 0 to pick a free port, or stop the other process",
        ),
        Port::Unusable(why) => {
            warning("port", format!("cannot listen on 6443: {why}"), "use windlass up --port 0 to pick a free port")
        }
    }
}

/// Remaining validity of a certificate authority that is reported, in seconds.
const CA_EXPIRES_SOON: i64 = 30 * 24 * 3600;

fn data(folder: &Folder, now: i64) -> Finding {
    let path = folder.path.display();
    if let Some(why) = &folder.problem {
        return problem("data", format!("{path}: {why}"), "choose a writable data directory");
    }
    if !folder.open_secrets.is_empty() {
        let names: Vec<String> = folder.open_secrets.iter().map(|file| crate::shell::word(file)).collect();
        let names = names.join(" ");
        return problem("data", format!("other users can read {names}"), format!("chmod 600 {names}"));
    }
    if let Some(left) = folder.authority_expires.map(|end| end - now).filter(|left| *left < CA_EXPIRES_SOON) {
        let message = match left {
            ..0 => format!("the certificate authority in {path} has expired"),
            _ => format!("the certificate authority in {path} expires in {} days", left / (24 * 3600)),
        };
        return warning("data", message, "restart windlass; all clients then need the new kubeconfig");
    }
    match (folder.mode, &folder.serves) {
        (None, _) => ok("data", format!("{path} will be created")),
        (Some(mode), _) if mode & 0o022 != 0 => warning(
            "data",
            format!("other users can write to {path}"),
            format!("chmod 700 {}", crate::shell::word(&folder.path)),
        ),
        (_, Some(url)) => ok("data", format!("{path}, served at {url}")),
        (_, None) => ok("data", path.to_string()),
    }
}

fn clock(machine: &Machine, cluster: &Cluster) -> Vec<Finding> {
    if machine.now < PAST {
        return vec![problem(
            "clock",
            "the clock is years behind: no certificate will be valid",
            "set the clock, for example with `timedatectl set-ntp true`",
        )];
    }
    match &cluster.answer {
        Some(Ok((_, Some(ahead)))) if ahead.abs() > APART => vec![warning(
            "clock",
            format!("the cluster's clock is {} s {}", ahead.abs(), if *ahead > 0 { "ahead" } else { "behind" }),
            "synchronize the clocks: tokens, leases and certificates depend on them",
        )],
        _ => vec![ok("clock", "the clock is set")],
    }
}

fn reached(cluster: &Cluster) -> Finding {
    let Some(path) = &cluster.kubeconfig else {
        return ok("cluster", "no kubeconfig; `windlass up` creates one");
    };
    let path = path.display();
    match &cluster.answer {
        None => ok("cluster", format!("{path} was not checked")),
        Some(Ok((version, _))) => match number(version) {
            Some((1, minor)) if minor + 3 < MINOR => warning(
                "cluster",
                format!("Kubernetes {version} of {path} is old"),
                "features that need a newer API do not work there",
            ),
            _ => ok("cluster", format!("Kubernetes {version} of {path}")),
        },
        Some(Err(why)) => warning(
            "cluster",
            format!("the cluster of {path} does not respond: {why}"),
            "start it, or run `windlass up --background` and eval \"$(windlass kubectl-env)\"",
        ),
    }
}

fn of_project(project: &ProjectFacts) -> Vec<Finding> {
    let root = project.root.display();
    if let Some((why, hint)) = &project.problem {
        return vec![problem("project", why.clone(), hint.clone())];
    }
    let mut findings = vec![ok("project", root.to_string())];
    let ours = env!("CARGO_PKG_VERSION");
    if let Some(checkout) = &project.missing_checkout {
        findings.push(problem(
            "dependency",
            format!("the project depends on {}, which is not a checkout of Windlass", checkout.display()),
            "choose another source with `windlass edit --path DIR`, --git URL or --windlass-version VERSION",
        ));
    } else if let Some(version) = &project.dependency {
        findings.push(match number(version) == number(ours) {
            true => ok("dependency", format!("windlass {version}")),
            false => warning(
                "dependency",
                format!("the project uses windlass {version}, but this is windlass {ours}"),
                "run `windlass upgrade`, or install windlass of that version",
            ),
        });
    }
    if project.stale {
        findings.push(warning(
            "manifests",
            "types have changed since deploy/crd was generated",
            "run `windlass generate`; `windlass generate --check` lists the files",
        ));
    }
    findings
}

fn of_terminal(terminal: &Terminal) -> Option<Finding> {
    if !terminal.is_terminal {
        return None;
    }
    let columns = terminal.columns.unwrap_or(80);
    let colours = if terminal.colour { "colours" } else { "no colours" };
    let said = format!("{columns} columns, {colours}");
    Some(if !terminal.utf8 {
        warning("terminal", format!("{said}, not UTF-8"), "set LANG to a UTF-8 locale such as C.UTF-8")
    } else if columns < 80 {
        warning("terminal", said, "make it wider: tables are truncated below 80 columns")
    } else {
        ok("terminal", said)
    })
}

/// Returns the first two numbers of the first version in a string: (1, 95) for `rustc 1.95.0 (…)`.
fn number(text: &str) -> Option<(u64, u64)> {
    text.split([' ', 'v', '(', '+']).find_map(|word| {
        let mut parts = word.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests;
