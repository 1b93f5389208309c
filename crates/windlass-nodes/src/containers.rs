//! The container statuses of a pod, and how they change. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::ending;

/// A set of containers that change together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Which {
    /// Regular containers (`spec.containers`).
    Containers,
    /// Init containers that run to completion.
    Init,
    /// The first init container that has not succeeded.
    NextInit,
    /// Init containers that keep running alongside the regular containers.
    Sidecars,
    /// Ephemeral containers.
    Ephemeral,
    /// Containers and sidecars that have terminated and that the restart policy restarts.
    Restarting,
    /// Containers and sidecars that are running.
    Running,
    /// Running containers and sidecars whose image differs from the spec.
    Outdated,
    /// Running containers that end by themselves now, with their own exit codes.
    Ending,
}

/// The state of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum State {
    /// Waiting to start or to be restarted.
    Waiting,
    /// Running.
    Running,
    /// Terminated.
    Terminated,
}

/// A change to the statuses of some containers.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Change {
    /// The containers to change.
    pub(super) of: Which,
    /// The new state; unchanged if absent.
    #[serde(default)]
    pub(super) state: Option<State>,
    /// Whether they are ready; running containers are not, unless set.
    #[serde(default)]
    pub(super) ready: Option<bool>,
    /// Whether they have passed their startup probe.
    #[serde(default)]
    pub(super) started: Option<bool>,
    /// The reason for waiting or termination.
    #[serde(default)]
    pub(super) reason: Option<String>,
    /// The human-readable message for the reason.
    #[serde(default)]
    pub(super) message: Option<String>,
    /// The exit code of terminated containers.
    #[serde(default)]
    pub(super) exit_code: Option<i64>,
}

impl Change {
    /// A transition to a state.
    pub(super) fn new(of: Which, state: State) -> Self {
        Self { of, state: Some(state), ready: None, started: None, reason: None, message: None, exit_code: None }
    }
}

/// The container lists of a pod: field of the spec, field of the status.
pub(super) const LISTS: [(&str, &str); 3] = [
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
];

/// Adds a status for every container that has none; new containers are waiting.
pub(super) fn complete(pod: &Value, status: &mut Value) {
    let initializing = !items(&pod["spec"], "initContainers").is_empty();
    for (list, statuses) in LISTS {
        let specs = items(&pod["spec"], list);
        if specs.is_empty() {
            continue;
        }
        let present = items(status, statuses).to_vec();
        let all = specs.iter().map(|spec| {
            let found = present.iter().find(|entry| entry["name"] == spec["name"]).cloned();
            found.unwrap_or_else(|| {
                let is_later = initializing && list != "ephemeralContainers";
                let waits = if is_later { "PodInitializing" } else { "ContainerCreating" };
                let mut entry = json!({
                    "name": spec["name"], "image": spec["image"], "imageID": "", "restartCount": 0, "ready": false,
                    "lastState": {}, "state": {"waiting": {"reason": waits}},
                });
                // Init containers that run to completion do not report `started`.
                if list != "ephemeralContainers" {
                    entry["started"] = false.into();
                }
                entry
            })
        });
        let all: Vec<Value> = all.collect();
        status[statuses] = all.into();
    }
}

/// Changes statuses that are [complete].
pub(super) fn apply(pod: &Value, status: &mut Value, change: &Change, now: Timestamp) {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let mut first = true;
    for (list, statuses) in LISTS {
        let specs = items(&pod["spec"], list);
        let Some(entries) = status[statuses].as_array_mut() else { continue };
        for entry in entries {
            let Some(spec) = specs.iter().find(|spec| spec["name"] == entry["name"]) else { continue };
            let end = match change.of {
                Which::Ending if list == "containers" => ending::due(pod, spec, entry, now),
                _ => None,
            };
            let chosen = match change.of {
                Which::Ending => end.is_some(),
                Which::Containers => list == "containers",
                Which::Ephemeral => list == "ephemeralContainers",
                Which::Init => list == "initContainers" && !is_sidecar(spec),
                Which::Sidecars => list == "initContainers" && is_sidecar(spec),
                Which::NextInit => {
                    let next = list == "initContainers" && !is_sidecar(spec) && !has_succeeded(entry);
                    next && std::mem::take(&mut first)
                }
                Which::Restarting => restarts(pod, spec, list, entry),
                Which::Running => goes_on(spec, list) && entry["state"].get("running").is_some(),
                Which::Outdated => {
                    let runs = entry["state"].get("running").is_some();
                    goes_on(spec, list) && runs && entry["image"] != spec["image"]
                }
            };
            if chosen {
                let own_code = change.exit_code.or_else(|| end.map(|end| end.code));
                let change = Change { exit_code: own_code, ..change.clone() };
                change_one(entry, spec, &change, uid, now);
            }
        }
    }
}

/// Ends a running container and starts it again.
pub(super) fn restart(pod: &Value, entry: &mut Value, spec: &Value, ready: bool, now: Timestamp) {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let end = Change { exit_code: Some(143), ..Change::new(Which::Running, State::Terminated) };
    let start = Change { ready: Some(ready), started: Some(true), ..Change::new(Which::Running, State::Running) };
    for change in [end, start] {
        change_one(entry, spec, &change, uid, now);
    }
}

/// Returns whether an init container is a sidecar.
pub(super) fn is_sidecar(spec: &Value) -> bool {
    spec["restartPolicy"] == "Always"
}

/// Returns whether a container is expected to run for as long as the pod does.
fn goes_on(spec: &Value, list: &str) -> bool {
    list == "containers" || list == "initContainers" && is_sidecar(spec)
}

/// Returns whether a container has terminated successfully.
pub(super) fn has_succeeded(entry: &Value) -> bool {
    entry["state"]["terminated"]["exitCode"] == 0
}

/// Returns whether a container has terminated, or waits after termination, and has to be restarted.
pub(super) fn restarts(pod: &Value, spec: &Value, list: &str, entry: &Value) -> bool {
    let state = &entry["state"];
    let ended = state.get("terminated").or_else(|| {
        state.get("waiting").filter(|waiting| waiting["reason"] == "CrashLoopBackOff")?;
        entry["lastState"].get("terminated")
    });
    let Some(ended) = ended else { return false };
    let policy = match (list, is_sidecar(spec)) {
        ("ephemeralContainers", _) => "Never",
        ("initContainers", true) => "Always",
        // They have to succeed once.
        ("initContainers", false) if pod["spec"]["restartPolicy"] == "Always" => "OnFailure",
        _ => pod["spec"]["restartPolicy"].as_str().unwrap_or("Always"),
    };
    match policy {
        "Always" => true,
        "OnFailure" => ended["exitCode"] != 0,
        _ => false,
    }
}

fn change_one(entry: &mut Value, spec: &Value, change: &Change, uid: &str, now: Timestamp) {
    match change.state {
        None => {}
        Some(State::Waiting) => {
            remember(entry);
            entry["state"] = json!({"waiting": described(change, &mut Map::new())});
            entry["ready"] = false.into();
            entry["started"] = false.into();
        }
        // A running container keeps running.
        Some(State::Running) if entry["state"].get("running").is_some() => {}
        Some(State::Running) => {
            begin(entry, spec, uid);
            entry["state"] = json!({"running": {"startedAt": now.to_string()}});
        }
        Some(State::Terminated) => {
            let code = change.exit_code.unwrap_or_default();
            if entry["state"]["terminated"]["exitCode"] == code {
                return;
            }
            let running = entry["state"]["running"]["startedAt"].clone();
            if running.is_null() {
                begin(entry, spec, uid);
            }
            let reason = if code == 0 { "Completed" } else { "Error" };
            let since = if running.is_null() { json!(now.to_string()) } else { running };
            let mut ended = Map::new();
            ended.insert("exitCode".into(), code.into());
            ended.insert("reason".into(), reason.into());
            ended.insert("startedAt".into(), since);
            ended.insert("finishedAt".into(), now.to_string().into());
            ended.insert("containerID".into(), entry["containerID"].clone());
            entry["state"] = json!({"terminated": described(change, &mut ended)});
            entry["ready"] = false.into();
            entry["started"] = false.into();
        }
    }
    if let Some(ready) = change.ready {
        // A failed container is not ready, regardless of the change.
        entry["ready"] = (ready && (entry["state"].get("running").is_some() || has_succeeded(entry))).into();
    }
    if let Some(started) = change.started {
        entry["started"] = started.into();
    }
}

/// Starts a container: its previous state becomes the last state.
fn begin(entry: &mut Value, spec: &Value, uid: &str) {
    remember(entry);
    let before = entry["containerID"].as_str().is_some_and(|id| !id.is_empty());
    let restarts = entry["restartCount"].as_i64().unwrap_or_default() + i64::from(before);
    let name = spec["name"].as_str().unwrap_or_default();
    let image = spec["image"].as_str().unwrap_or_default();
    entry["restartCount"] = restarts.into();
    entry["image"] = image.into();
    entry["imageID"] = image_id(image).into();
    entry["containerID"] = format!("containerd://{}", digest(&[uid, name, &restarts.to_string()])).into();
}

/// Keeps the termination of a container as its last state.
fn remember(entry: &mut Value) {
    if entry["state"].get("terminated").is_some() {
        entry["lastState"] = entry["state"].take();
    }
}

fn described(change: &Change, into: &mut Map<String, Value>) -> Value {
    let texts = [("reason", &change.reason), ("message", &change.message)];
    for (field, text) in texts {
        if let Some(text) = text {
            into.insert(field.into(), text.as_str().into());
        }
    }
    std::mem::take(into).into()
}

/// A digest in place of the image's.
fn image_id(image: &str) -> String {
    let name = image.split('@').next().unwrap_or(image);
    let (path, last) = name.rsplit_once('/').map_or(("", name), |(path, last)| (path, last));
    let last = last.split(':').next().unwrap_or(last);
    let host = path.split('/').next().unwrap_or_default();
    let full = match path {
        "" => format!("docker.io/library/{last}"),
        _ if host.contains(['.', ':']) || host == "localhost" => format!("{path}/{last}"),
        _ => format!("docker.io/{path}/{last}"),
    };
    format!("{full}@sha256:{}", digest(&[image]))
}

/// Returns 64 hexadecimal digits, always the same for the same input. They need not be hard to guess.
pub(super) fn digest(words: &[&str]) -> String {
    let part = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, words).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    };
    (0..4).map(part).collect()
}

/// Returns the items of a list, or none if the field is absent.
pub(super) fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}
