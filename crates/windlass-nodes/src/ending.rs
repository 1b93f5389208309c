//! Ends of the containers of a simulated pod: time and exit code. Pure.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::time::parse_duration;

use crate::{
    command::{Behaviour, behaviour},
    containers::items,
};

/// Prefix of the annotations that control how a pod behaves.
pub(super) const PREFIX: &str = "windlass.dev/";
/// Run time of containers that are known to end, without a known time.
pub(super) const RUN: Duration = Duration::from_secs(1);
/// Run time of init containers that never end.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// The times in a status have whole seconds.
const PRECISION: Duration = Duration::from_secs(1);

/// The end of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// The time since its start.
    pub(super) after: Duration,
    /// Its exit code.
    pub(super) code: i64,
}

/// Returns the value of an annotation that controls how a pod behaves.
pub(super) fn annotation<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    pod["metadata"]["annotations"].get(format!("{PREFIX}{name}"))?.as_str()
}

/// Returns how a container ends by itself; `None` if it does not. Annotations decide first, then its command. Without
/// either, containers of pods that are expected to terminate succeed.
pub(super) fn end(pod: &Value, container: &Value, status: &Value) -> Option<End> {
    let (time, code) = (annotation(pod, "run-for"), annotation(pod, "exit-code"));
    if time.is_some() || code.is_some() {
        let after = time.map_or(RUN, duration);
        return Some(End { after, code: code.and_then(|code| code.parse().ok()).unwrap_or_default() });
    }
    match behaviour(pod, container, restarts(status)) {
        Some(Behaviour::Ends { after, code }) => Some(End { after, code }),
        Some(Behaviour::Runs) => None,
        None => is_one_shot(pod).then_some(End { after: RUN, code: 0 }),
    }
}

/// Returns how an init container ends. Without annotations and a known command, it succeeds at once.
pub(super) fn end_of_init(pod: &Value, container: &Value, status: &Value) -> End {
    let (time, code) = (annotation(pod, "init-duration"), annotation(pod, "init-exit-code"));
    let known = match behaviour(pod, container, restarts(status)) {
        _ if time.is_some() || code.is_some() => End { after: Duration::ZERO, code: 0 },
        Some(Behaviour::Ends { after, code }) => End { after, code },
        Some(Behaviour::Runs) => End { after: LONGEST, code: 0 },
        None => End { after: Duration::ZERO, code: 0 },
    };
    End {
        after: time.map_or(known.after, duration),
        code: code.and_then(|code| code.parse().ok()).unwrap_or(known.code),
    }
}

/// Returns the time at which a running container ends by itself.
pub(super) fn ends_at(pod: &Value, container: &Value, status: &Value, now: Timestamp) -> Option<Timestamp> {
    let started: Timestamp = status["state"]["running"]["startedAt"].as_str()?.parse().ok()?;
    let end = end(pod, container, status)?;
    // A container must not end early because the time of its start is rounded.
    let is_new = Duration::try_from(now.duration_since(started)).is_ok_and(|age| age < PRECISION);
    let started = if is_new { now } else { started.checked_add(PRECISION).ok()? };
    started.checked_add(end.after).ok()
}

/// Returns the end of a running container if it is due.
pub(super) fn due(pod: &Value, container: &Value, status: &Value, now: Timestamp) -> Option<End> {
    let started: Timestamp = status["state"]["running"]["startedAt"].as_str()?.parse().ok()?;
    let end = end(pod, container, status)?;
    let limit = now.checked_add(PRECISION).ok()?;
    (started.checked_add(end.after).ok()? < limit).then_some(end)
}

/// Returns whether a pod is expected to terminate: that of a Job, or of a Helm hook such as a test.
fn is_one_shot(pod: &Value) -> bool {
    let owners = items(&pod["metadata"], "ownerReferences");
    let of_job = owners.iter().any(|owner| owner["kind"] == "Job" && owner["controller"] == true);
    let is_hook = pod["metadata"]["annotations"].get("helm.sh/hook").is_some();
    of_job || is_hook && pod["spec"]["restartPolicy"] != "Always"
}

fn restarts(status: &Value) -> u64 {
    status["restartCount"].as_u64().unwrap_or_default()
}

/// Parses a duration; an invalid one is zero.
fn duration(text: &str) -> Duration {
    let nanoseconds = parse_duration(text).unwrap_or_default();
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
}
