//! Gathers facts about this machine, without changing anything. Facts that cannot be determined are left open.

use std::{
    env, fs,
    io::{self, IsTerminal as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use http::Request;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustix::fs::{Access, access, statvfs};
use serde_json::Value;
use windlass_scaffold::{ScaffoldError, Source};

use super::facts::{Cluster, Facts, Folder, Machine, Port, ProjectFacts, Terminal, Tools};
use crate::{
    failure::ErrorWithHint,
    output, project,
    running::{Presence, RunningPlane},
};

/// Maximum time for a cluster to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Gathers all facts for a data directory and the working directory.
pub(super) async fn all(folder: &Path) -> Facts {
    let running = match Presence::of(folder) {
        Ok(Presence::Serving(running)) => Some(running),
        _ => None,
    };
    Facts {
        tools: tools(),
        machine: machine(folder, running.as_ref()),
        folder: data(folder, running.as_ref()),
        cluster: cluster().await,
        project: project_facts(),
        terminal: terminal(),
    }
}

fn tools() -> Tools {
    let kubectl = output_of("kubectl", &["version", "--client", "-o", "json"], false).and_then(|text| {
        let version: Value = serde_json::from_str(&text).ok()?;
        Some(version["clientVersion"]["gitVersion"].as_str()?.to_owned())
    });
    Tools {
        rustc: output_of("rustc", &["--version"], true),
        cargo: output_of("cargo", &["--version"], true),
        rustfmt: output_of("rustfmt", &["--version"], true),
        clippy: output_of("cargo-clippy", &["--version"], true),
        git: output_of("git", &["--version"], true),
        kubectl,
        engine: output_of("docker", &["--version"], true).or_else(|| output_of("podman", &["--version"], true)),
        musl: musl(),
    }
}

/// Returns the output of a program, or its first line; `None` if it does not exist or fails.
fn output_of(program: &str, arguments: &[&str], first_line: bool) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    if first_line { text.lines().next().map(|line| line.trim().to_owned()) } else { Some(text) }
}

/// Target for static binaries on Linux, and whether its standard library is installed.
fn musl() -> Option<(String, bool)> {
    let sysroot = output_of("rustc", &["--print", "sysroot"], true).filter(|_| cfg!(target_os = "linux"))?;
    let target = format!("{}-unknown-linux-musl", env::consts::ARCH);
    let installed = Path::new(&sysroot).join("lib/rustlib").join(&target).join("lib").is_dir();
    Some((target, installed))
}

fn machine(folder: &Path, running: Option<&RunningPlane>) -> Machine {
    let limit = |name: &str| {
        fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok().and_then(|text| text.trim().parse().ok())
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Machine {
        free: existing(folder).and_then(|folder| statvfs(folder).ok()).map(|disk| disk.f_bavail * disk.f_frsize),
        inotify_watches: limit("max_user_watches"),
        inotify_instances: limit("max_user_instances"),
        now: i64::try_from(now).unwrap_or(i64::MAX),
        port: match TcpListener::bind(("127.0.0.1", 6443)) {
            Ok(_) => Port::Free,
            Err(_) if running.is_some_and(|running| running.url.ends_with(":6443")) => Port::Ours,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Port::Taken,
            Err(error) => Port::Unusable(error.to_string()),
        },
    }
}

/// Returns the directory or its nearest existing ancestor.
fn existing(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.exists())
}

fn data(folder: &Path, running: Option<&RunningPlane>) -> Folder {
    let metadata = fs::metadata(folder).ok();
    let problem = match (&metadata, existing(folder)) {
        (Some(metadata), _) if !metadata.is_dir() => Some("it is not a directory".to_owned()),
        (_, Some(nearest)) if !nearest.is_dir() => Some(format!("{} is not a directory", nearest.display())),
        (_, Some(nearest)) => {
            let usable = access(nearest, Access::WRITE_OK | Access::EXEC_OK);
            usable.err().map(|error| format!("cannot write to {}: {error}", nearest.display()))
        }
        (_, None) => None,
    };
    Folder {
        path: folder.to_owned(),
        mode: metadata.map(|metadata| metadata.permissions().mode()),
        problem,
        open_secrets: secrets(folder).into_iter().filter(|file| is_open(file)).collect(),
        authority_expires: windlass_plane::authority_expires(&folder.join("pki")).map(|time| time.as_second()),
        serves: running.map(|running| running.url.clone()),
    }
}

/// Files of a data directory that contain private keys.
fn secrets(folder: &Path) -> Vec<PathBuf> {
    let keys = fs::read_dir(folder.join("pki")).into_iter().flatten().flatten().map(|entry| entry.path());
    let keys = keys.filter(|path| path.extension().is_some_and(|extension| extension == "key"));
    let mut files: Vec<PathBuf> = keys.chain([folder.join("kubeconfig")]).collect();
    files.sort();
    files
}

fn is_open(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

async fn cluster() -> Cluster {
    let paths: Vec<PathBuf> = match env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
        Some(value) => env::split_paths(&value).collect(),
        None => env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config")).into_iter().collect(),
    };
    let Some(kubeconfig) = paths.into_iter().find(|path| path.exists()) else { return Cluster::default() };
    let answer = match tokio::time::timeout(RESPONSE_TIMEOUT, query()).await {
        Ok(answer) => answer.map_err(|error| format!("{error:#}")),
        Err(_) => Err(format!("no response within {} s", RESPONSE_TIMEOUT.as_secs())),
    };
    Cluster { kubeconfig: Some(kubeconfig), answer: Some(answer) }
}

/// Queries the current cluster for its version and its clock.
async fn query() -> anyhow::Result<(String, Option<i64>)> {
    let kubeconfig = Kubeconfig::read().context("failed to read the kubeconfig")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(RESPONSE_TIMEOUT);
    let client = Client::try_from(config)?;
    let response = client.send(Request::get("/version").body(Body::empty())?).await?;
    let date = response.headers().get("date").and_then(|date| date.to_str().ok());
    let theirs = date.and_then(|date| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok());
    let ahead = theirs.map(|theirs| theirs.as_second() - jiff::Timestamp::now().as_second());
    let version = client.apiserver_version().await?;
    Ok((version.git_version, ahead))
}

fn project_facts() -> Option<ProjectFacts> {
    let here = env::current_dir().ok()?;
    let root = here.ancestors().find(|folder| folder.join("PROJECT").is_file())?.to_owned();
    let opened = project::open_current();
    let missing_checkout = opened.as_ref().ok().and_then(|opened| match &opened.project.windlass {
        Source::Path(path) => Some(root.join(path)).filter(|checkout| !project::is_checkout(checkout)),
        Source::Git(_) | Source::Version(_) => None,
    });
    let problem = opened.err().map(|error| {
        let hint = error.chain().find_map(|cause| {
            let scaffold = cause.downcast_ref::<ScaffoldError>().map(ScaffoldError::hint);
            scaffold.or_else(|| cause.downcast_ref::<ErrorWithHint>().map(|advised| advised.hint.clone().into_owned()))
        });
        (format!("{error:#}"), hint.unwrap_or_else(|| "make the PROJECT file readable".to_owned()))
    });
    let stale = newest(&root.join("src/api")) > newest(&root.join("deploy/crd")).or(Some(SystemTime::now()));
    Some(ProjectFacts { dependency: locked(&root), problem, missing_checkout, stale, root })
}

/// Version of Windlass in the lock file.
fn locked(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("Cargo.lock")).ok()?;
    let mut lines = text.lines().skip_while(|line| *line != "name = \"windlass\"");
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"').map(str::to_owned)
}

/// Latest modification time in a directory tree.
fn newest(folder: &Path) -> Option<SystemTime> {
    let mut newest = None;
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let written = if metadata.is_dir() { self::newest(&entry.path()) } else { metadata.modified().ok() };
        newest = newest.max(written);
    }
    newest
}

fn terminal() -> Terminal {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = variable("LC_ALL").or_else(|| variable("LC_CTYPE")).or_else(|| variable("LANG")).unwrap_or_default();
    let locale = locale.to_uppercase();
    Terminal {
        is_terminal: io::stdout().is_terminal(),
        columns: rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|width| *width > 0),
        colour: output::colour_allowed() && variable("TERM").is_none_or(|term| term != "dumb"),
        utf8: locale.contains("UTF-8") || locale.contains("UTF8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_private_keys_are_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("pki")).unwrap();
        for (name, mode) in [("pki/ca.key", 0o640), ("pki/ca.crt", 0o644), ("pki/sa.key", 0o600), ("kubeconfig", 0o604)]
        {
            let file = folder.path().join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        let found = data(folder.path(), None);
        assert_eq!(found.open_secrets, [folder.path().join("kubeconfig"), folder.path().join("pki/ca.key")]);
        assert_eq!(found.problem, None);
        let file = data(&folder.path().join("kubeconfig"), None);
        assert_eq!(file.problem.as_deref(), Some("it is not a directory"));
        let within = data(&folder.path().join("kubeconfig/data"), None).problem.unwrap();
        assert!(within.ends_with("kubeconfig is not a directory"), "{within}");
    }

    #[test]
    fn the_locked_version_is_that_of_windlass_itself() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(locked(folder.path()), None);
        let text = "[[package]]\nname = \"windlass-clock\"\nversion = \"9.9.9\"\n\n[[package]]\nname = \"windlass\"\nversion = \"0.1.0\"\n";
        fs::write(folder.path().join("Cargo.lock"), text).unwrap();
        assert_eq!(locked(folder.path()).as_deref(), Some("0.1.0"));
    }

    #[test]
    fn missing_programs_have_no_version() {
        assert_eq!(output_of("no-such-program-at-all", &["--version"], true), None);
    }
}
