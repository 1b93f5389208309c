//! `windlass status`: the state of the plane in a data directory.

use std::{fmt::Write as _, path::Path, time::Duration};

use anyhow::Context as _;
use clap::Args;
use http::Request;
use k8s_openapi::{
    api::core::v1::{Namespace, Node, Pod},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde::Serialize;

use crate::{
    cluster::ClusterArgs,
    data_dir::{self, DataDirArgs},
    failure::AlreadyReported,
    output::{self, Format},
    running::Presence,
    threads,
    up::background,
    version,
};

/// Maximum time for a healthy plane to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Show the status of the control plane
///
/// Exit codes: 0 if it is running and ready, 1 if not, 2 for a usage error.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Status of a plane.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<Objects>,
    data_dir: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubeconfig: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
enum State {
    /// No process holds the lock.
    #[default]
    Stopped,
    /// A process holds the lock but does not serve: it is starting or stopping.
    Busy,
    /// It should serve, but does not report that it is ready.
    Unhealthy,
    /// It is ready.
    Running,
}

/// Numbers of objects.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Objects {
    nodes: usize,
    ready_nodes: usize,
    pods: usize,
    running_pods: usize,
    namespaces: usize,
    crds: usize,
}

/// Prints the status; fails without a message if no plane is ready.
pub(crate) fn run(args: StatusArgs) -> anyhow::Result<()> {
    let folder = args.data_dir.resolve()?;
    let status = threads::block_on(gather(&folder))?;
    output::print(&args.output.text(&status, || table(&status, jiff::Timestamp::now()))?)?;
    match status.state {
        State::Running => Ok(()),
        _ => Err(AlreadyReported.into()),
    }
}

async fn gather(folder: &Path) -> anyhow::Result<Status> {
    let existing = |name: &Path| name.exists().then(|| name.display().to_string());
    let mut status = Status {
        data_dir: folder.display().to_string(),
        data_bytes: data_dir::size(folder).ok(),
        kubeconfig: existing(&folder.join("kubeconfig")),
        log: existing(&background::log(folder)),
        ..Status::default()
    };
    match Presence::of(folder)? {
        Presence::Nobody => {}
        Presence::Busy { pid } => (status.state, status.pid) = (State::Busy, pid),
        Presence::Serving(running) => {
            status.pid = Some(running.pid);
            status.url = Some(running.url);
            status.version = Some(running.version);
            status.since = Some(running.since);
            let asked = tokio::time::timeout(RESPONSE_TIMEOUT, ask(&folder.join("kubeconfig"))).await;
            match asked.unwrap_or_else(|_| Err(anyhow::anyhow!("no response within {} s", RESPONSE_TIMEOUT.as_secs())))
            {
                Ok(objects) => (status.state, status.objects) = (State::Running, Some(objects)),
                Err(error) => (status.state, status.problem) = (State::Unhealthy, Some(format!("{error:#}"))),
            }
        }
    }
    Ok(status)
}

/// Queries the server.
async fn ask(kubeconfig: &Path) -> anyhow::Result<Objects> {
    let client = ClusterArgs::of(kubeconfig).prepare().await?.client;
    let request = Request::get("/readyz").body(Vec::new()).context("failed to build the request")?;
    client.request_text(request).await.context("the API server is not ready")?;
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()));
    let nodes = nodes.list(&ListParams::default()).await.context("failed to list nodes")?;
    let ready = |node: &&DynamicObject| {
        let conditions = node.data["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let running = ListParams::default().fields("status.phase=Running");
    Ok(Objects {
        nodes: nodes.items.len(),
        ready_nodes: nodes.items.iter().filter(ready).count(),
        pods: count::<Pod>(&client, ListParams::default()).await?,
        running_pods: count_all(&Api::<Pod>::all(client.clone()), running).await?,
        namespaces: count::<Namespace>(&client, ListParams::default()).await?,
        crds: count::<CustomResourceDefinition>(&client, ListParams::default()).await?,
    })
}

/// Counts objects: the server sends one and counts the rest.
async fn count<K>(client: &Client, params: ListParams) -> anyhow::Result<usize>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let list = Api::<K>::all(client.clone()).list_metadata(&params.limit(1)).await;
    let list = list.with_context(|| format!("cannot count {}", K::plural(&())))?;
    let rest = list.metadata.remaining_item_count.and_then(|rest| usize::try_from(rest).ok());
    Ok(list.items.len() + rest.unwrap_or(0))
}

/// Counts objects that match a selector, for which servers do not report a remaining count.
async fn count_all(pods: &Api<Pod>, params: ListParams) -> anyhow::Result<usize> {
    Ok(pods.list_metadata(&params).await.context("failed to count pods")?.items.len())
}

/// Human-readable output.
fn table(status: &Status, now: jiff::Timestamp) -> String {
    let state = match status.state {
        State::Running => "running",
        State::Stopped => "stopped",
        State::Busy => "starting or stopping",
        State::Unhealthy => "not healthy",
    };
    let mut lines = vec![("plane", state.to_owned())];
    let mut add = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
    add("problem", status.problem.clone());
    add("url", status.url.clone());
    add("process", status.pid.map(|pid| pid.to_string()));
    add("version", status.version.as_ref().map(|version| format!("v{version} (Kubernetes {})", version::KUBERNETES)));
    let for_how_long = |since: &String| {
        let begun: jiff::Timestamp = since.parse().ok()?;
        let seconds = u64::try_from((now - begun).get_seconds()).ok()?;
        Some(format!("{since} ({})", duration(seconds)))
    };
    add("since", status.since.as_ref().map(|since| for_how_long(since).unwrap_or_else(|| since.clone())));
    if let Some(objects) = &status.objects {
        add("nodes", Some(format!("{} of {} ready", objects.ready_nodes, objects.nodes)));
        add("pods", Some(format!("{} of {} running", objects.running_pods, objects.pods)));
        add("namespaces", Some(objects.namespaces.to_string()));
        add("crds", Some(objects.crds.to_string()));
    }
    let size = status.data_bytes.map(|size| format!(" ({})", output::bytes(size))).unwrap_or_default();
    add("data", Some(format!("{}{size}", status.data_dir)));
    add("kubeconfig", status.kubeconfig.clone());
    add("log", status.log.clone());
    lines.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name:<12} {value}");
        text
    })
}

/// Formats a duration with at most two units: `3d 4h`.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_status_of_a_running_plane_is_a_table() {
        let status = Status {
            state: State::Running,
            pid: Some(7),
            url: Some("https://127.0.0.1:6443".into()),
            version: Some("0.1.0".into()),
            since: Some("2026-01-01T00:00:00Z".into()),
            objects: Some(Objects { nodes: 2, ready_nodes: 1, pods: 4, running_pods: 3, namespaces: 4, crds: 0 }),
            data_dir: "/data".into(),
            data_bytes: Some(1_500_000),
            kubeconfig: Some("/data/kubeconfig".into()),
            ..Status::default()
        };
        let now = "2026-01-01T01:01:01Z".parse().unwrap();
        expect![[r#"
            plane        running
            url          https://127.0.0.1:6443
            process      7
            version      v0.1.0 (Kubernetes v1.36)
            since        2026-01-01T00:00:00Z (1h 1m)
            nodes        1 of 2 ready
            pods         3 of 4 running
            namespaces   4
            crds         0
            data         /data (1.5 MB)
            kubeconfig   /data/kubeconfig
        "#]]
        .assert_eq(&table(&status, now));
    }

    #[test]
    fn the_status_of_a_stopped_plane_is_short() {
        let status = Status { data_dir: "/data".into(), ..Status::default() };
        expect![[r#"
            plane        stopped
            data         /data
        "#]]
        .assert_eq(&table(&status, jiff::Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in
            [(0, "0s"), (59, "59s"), (61, "1m 1s"), (3660, "1h 1m"), (90_000, "1d 1h"), (864_000, "10d 0h")]
        {
            assert_eq!(duration(seconds), expected);
        }
    }
}
