//! Derived properties of a pod for selectors and templates: `.facts`.

use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use serde_json::{Map, Value, json};
use windlass_schema::sorting::Gather as _;

use crate::{
    containers::{self, is_sidecar, items},
    ending::{self, End, end_of_init, ends_at},
    pull, sub_path,
};

/// Backoff before a container that has terminated twice is restarted, and its maximum, in milliseconds.
const FIRST_BACKOFF: u64 = 10_000;
const LONGEST_BACKOFF: u64 = 300_000;

/// Time that a pod takes to stop if it is deleted with a longer grace period than its own, in milliseconds.
const LONG_STOP: i64 = 1000;

/// Adds the facts to a pod.
pub(crate) fn with_facts(mut pod: Value, now: Timestamp) -> Value {
    let facts = facts(&pod, now);
    pod["facts"] = facts.into();
    pod
}

/// Returns the facts of a pod that have a value.
fn facts(pod: &Value, now: Timestamp) -> Map<String, Value> {
    let annotation = |name: &str| ending::annotation(pod, name);
    let text = |name: &str| annotation(name).map_or(Value::Null, Value::from);
    let code = |name: &str| annotation(name).and_then(|code| code.parse::<i64>().ok());
    let ready_delay = text("ready-delay").as_str().map(Value::from).or_else(|| probe_delay(pod));
    let wants_ready = annotation("ready") != Some("false");
    let status = Containers::of(pod);
    let init = Init::of(pod);
    let init_delay = init.is_slow.then_some(init.next.after);
    let ends_at = next_end(pod, now);
    let backoff = status.backoff();
    let held = annotation("waiting").or_else(|| pull::fails(pod).then_some(pull::REASON));
    let held = held.or_else(|| sub_path::fails(pod).then_some(sub_path::REASON));
    let prepares = annotation("start-delay").is_some() || init_delay.is_some() || held.is_some();
    let exists = |exists: bool| if exists { Value::Bool(true) } else { Value::Null };
    let all = [
        ("startDelay", text("start-delay")),
        ("initDelay", init_delay.map_or(Value::Null, |delay| (delay.as_secs_f64() * 1000.0).into())),
        ("initExitCode", init.next.code.into()),
        ("prepares", exists(prepares)),
        (
            "slow",
            exists(prepares && pod["status"]["startTime"].is_null() || init_delay.is_some() && status.init.is_some()),
        ),
        ("readyAtOnce", (ready_delay.is_none() && wants_ready).into()),
        ("readyDelay", ready_delay.unwrap_or_default()),
        ("wantsReady", wants_ready.into()),
        ("ends", ends_at.is_some().into()),
        ("endsAt", ends_at.map_or(Value::Null, |time| time.to_string().into())),
        ("runFor", annotation("run-for").unwrap_or("1s").into()),
        ("exitCode", code("exit-code").unwrap_or_default().into()),
        ("held", held.map_or(Value::Null, Value::from)),
        ("showsHeld", exists(held.is_some() && status.waiting == held)),
        ("initState", status.init.map_or(Value::Null, Value::from)),
        ("running", exists(status.running > 0)),
        ("ready", exists(status.ready > 0)),
        ("unready", exists(status.ready < status.running)),
        ("outdated", exists(status.outdated)),
        ("restarting", exists(status.restarting.is_some())),
        ("crashed", exists(status.crashed && backoff > 0)),
        ("crashedContainer", status.restarting.map_or(Value::Null, Value::from)),
        ("backoff", backoff.into()),
        ("backoffText", windlass_schema::time::format_duration(backoff as i64 * 1_000_000).into()),
        ("newEphemeral", exists(status.new_ephemeral)),
        ("deadline", deadline(pod).map_or(Value::Null, |deadline| deadline.to_string().into())),
        ("stopDelay", stop_delay(pod, annotation("stop-delay"))),
        ("removed", exists(pod["metadata"]["deletionGracePeriodSeconds"] == 0)),
        ("unobserved", exists(pod["metadata"]["generation"] != pod["status"]["observedGeneration"])),
        ("gates", gates(pod)),
    ];
    all.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).gather()
}

/// The init containers that run to completion.
struct Init {
    /// The end of the first one that has not succeeded.
    next: End,
    /// Whether they run one after the other, because one takes a while or fails. Otherwise they all end at once.
    is_slow: bool,
}

impl Init {
    fn of(pod: &Value) -> Self {
        let mut init = Self { next: End { after: Duration::ZERO, code: 0 }, is_slow: false };
        let mut found = false;
        for container in items(&pod["spec"], "initContainers").iter().filter(|container| !is_sidecar(container)) {
            let entry = status_of(pod, "initContainerStatuses", container);
            let end = end_of_init(pod, container, entry);
            // Failing init containers fail before the others start.
            init.is_slow |= end.code != 0 || !end.after.is_zero();
            if !found && !containers::has_succeeded(entry) {
                found = true;
                init.next = end;
            }
        }
        init
    }
}

/// Returns when the next container ends by itself.
fn next_end(pod: &Value, now: Timestamp) -> Option<Timestamp> {
    let containers = items(&pod["spec"], "containers").iter();
    containers
        .filter_map(|container| ends_at(pod, container, status_of(pod, "containerStatuses", container), now))
        .min()
}

fn status_of<'a>(pod: &'a Value, list: &str, container: &Value) -> &'a Value {
    let entry = items(&pod["status"], list).iter().find(|entry| entry["name"] == container["name"]);
    entry.unwrap_or(&Value::Null)
}

/// A summary of a pod's container statuses.
#[derive(Debug, Default)]
struct Containers<'a> {
    /// The state of the current init container: `waiting`, `running` or `failed`; `None` if all have succeeded.
    init: Option<&'static str>,
    /// The reason of the first waiting container.
    waiting: Option<&'a str>,
    running: usize,
    ready: usize,
    outdated: bool,
    /// The first container that has terminated and is restarted.
    restarting: Option<&'a str>,
    /// Whether one of those has not entered backoff yet.
    crashed: bool,
    restarts: u64,
    new_ephemeral: bool,
}

impl<'a> Containers<'a> {
    fn of(pod: &'a Value) -> Self {
        let mut all = Self::default();
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let find = |list: &str, name: &Value| items(status, list).iter().find(|entry| entry["name"] == *name);
        for container in items(spec, "initContainers") {
            let entry = find("initContainerStatuses", &container["name"]);
            if !is_sidecar(container) && all.init.is_none() {
                all.init = match entry {
                    None => Some("waiting"),
                    Some(entry) if entry["state"].get("running").is_some() => Some("running"),
                    Some(entry) if containers::has_succeeded(entry) => None,
                    Some(entry) if entry["state"].get("terminated").is_some() => Some("failed"),
                    Some(entry) if entry["state"]["waiting"]["reason"] == "CrashLoopBackOff" => Some("failed"),
                    Some(_) => Some("waiting"),
                };
            }
            if let Some(entry) = entry {
                all.add(pod, container, "initContainers", entry);
            }
        }
        for container in items(spec, "containers") {
            if let Some(entry) = find("containerStatuses", &container["name"]) {
                all.waiting = all.waiting.or_else(|| entry["state"]["waiting"]["reason"].as_str());
                all.add(pod, container, "containers", entry);
            }
        }
        all.new_ephemeral = items(spec, "ephemeralContainers").iter().any(|container| {
            let status = find("ephemeralContainerStatuses", &container["name"]);
            status.is_none_or(|status| status["state"].get("waiting").is_some())
        });
        all
    }

    fn add(&mut self, pod: &Value, container: &'a Value, list: &str, entry: &'a Value) {
        let goes_on = list == "containers" || is_sidecar(container);
        if goes_on && entry["state"].get("running").is_some() {
            self.running += 1;
            self.ready += usize::from(entry["ready"] == true);
            self.outdated |= entry["image"] != container["image"];
        }
        if containers::restarts(pod, container, list, entry) {
            self.restarting = self.restarting.or(container["name"].as_str());
            self.crashed |= entry["state"].get("terminated").is_some();
            self.restarts = self.restarts.max(entry["restartCount"].as_u64().unwrap_or_default());
        }
    }

    /// The backoff before a container is restarted: none the first time, then doubling.
    fn backoff(&self) -> u64 {
        match self.restarts {
            0 => 0,
            restarts => FIRST_BACKOFF.saturating_mul(1 << (restarts - 1).min(16)).min(LONGEST_BACKOFF),
        }
    }
}

/// The initial delay of the readiness probes.
fn probe_delay(pod: &Value) -> Option<Value> {
    let delay = |container: &Value| {
        let of = |probe: &str| container[probe]["initialDelaySeconds"].as_i64().unwrap_or_default();
        of("startupProbe").max(0) + of("readinessProbe").max(0)
    };
    let longest = items(&pod["spec"], "containers").iter().map(delay).max().filter(|seconds| *seconds > 0);
    longest.map(|seconds| format!("{seconds}s").into())
}

/// Returns the time at which a pod exceeds its active deadline.
fn deadline(pod: &Value) -> Option<Timestamp> {
    let seconds = pod["spec"]["activeDeadlineSeconds"].as_i64()?;
    let start: Timestamp = pod["status"]["startTime"].as_str()?.parse().ok()?;
    start.checked_add(seconds.seconds()).ok()
}

/// Returns how long the containers of a terminating pod keep running: the configured time, or that of their `preStop`
/// sleep, limited by the grace period. A pod that is deleted with more time than it needs uses a part of it.
fn stop_delay(pod: &Value, said: Option<&str>) -> Value {
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default().max(0);
    let hooks = items(&pod["spec"], "containers").iter().map(|container| &container["lifecycle"]["preStop"]["sleep"]);
    let sleep = hooks.filter_map(|sleep| sleep["seconds"].as_i64()).max();
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(i64::MAX);
    let milliseconds = match (said, sleep) {
        (Some(said), _) => windlass_schema::time::parse_duration(said).unwrap_or_default().max(0) / 1_000_000,
        (None, Some(seconds)) => seconds.saturating_mul(1000),
        (None, None) if grace > own => LONG_STOP,
        (None, None) => return Value::Null,
    };
    json!(milliseconds.min(grace.saturating_mul(1000)))
}

/// The readiness gates of a pod and the statuses of their conditions, if it has any.
fn gates(pod: &Value) -> Value {
    let gates = items(&pod["spec"], "readinessGates");
    if gates.is_empty() {
        return Value::Null;
    }
    let conditions = items(&pod["status"], "conditions");
    let open = |gate: &Value| {
        let condition = conditions.iter().find(|condition| condition["type"] == gate["conditionType"]);
        condition.is_some_and(|condition| condition["status"] == "True")
    };
    let containers = conditions.iter().any(|one| one["type"] == "ContainersReady" && one["status"] == "True");
    let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    if (containers && gates.iter().all(open)) == ready { "settled".into() } else { "changed".into() }
}
