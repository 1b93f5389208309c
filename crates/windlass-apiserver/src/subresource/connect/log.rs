//! The log of a pod.

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::{container, current, node, target, upgrade};
use crate::{
    body::Body,
    call::{Answer, Call},
    pod_connections::LogOptions,
    status::{ApiError, Result},
};

/// Returns the log of a container. A pod without a node has none.
pub(crate) async fn log(call: &Call<'_>) -> Result<Answer> {
    let options = options(call)?;
    let pod = current(call).await?;
    let container = container(&pod, call.query.text("container"), call.target.name)?;
    if node(&pod).is_none() {
        let mut response = http::Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(Answer::Response(Box::new(response)));
    }
    let target = target(call, &pod)?;
    has_started(&pod, call.target.name, &container, options.previous)?;
    let chunks = target.connections.log(&target.pod, &container, options).await?;
    if upgrade::is_websocket(call.headers) {
        return upgrade::log(call, until_stop(call, chunks));
    }
    Ok(Answer::Watch { chunks: until_stop(call, chunks), content_type: "text/plain" })
}

/// Ends a log when the server stops.
fn until_stop(call: &Call<'_>, chunks: crate::body::Chunks) -> crate::body::Chunks {
    use futures_util::StreamExt as _;
    Box::pin(chunks.take_until(call.server.stopped()))
}

fn options(call: &Call<'_>) -> Result<LogOptions> {
    let query = &call.query;
    let (tail, limit) = (query.integer("tailLines")?, query.integer("limitBytes")?);
    let since_seconds = query.integer("sinceSeconds")?;
    let since_time = match query.text("sinceTime") {
        "" => None,
        text => Some(text.parse::<Timestamp>().map_err(|_| {
            let quoted = windlass_schema::field::quote(text);
            ApiError::bad_request(format!(
                "parsing time {quoted} as \"2006-01-02T15:04:05Z07:00\": cannot parse {quoted} as \"2006\""
            ))
        })?),
    };
    let mut errors = ErrorList::new();
    let mut check = |name: &str, value: Option<i64>, least: i64, why: &str| {
        if let Some(value) = value.filter(|value| *value < least) {
            errors.push(FieldError::invalid(&Path::new(name), &json!(value), why));
        }
    };
    check("tailLines", tail, 0, "must be greater than or equal to 0");
    check("limitBytes", limit, 1, "must be greater than 0");
    if since_time.is_none() {
        check("sinceSeconds", since_seconds, 1, "must be greater than 0");
    } else if since_seconds.is_some() {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden(&Path::new("[]"), why));
    }
    // Streams are selected only with the feature gate PodLogsQuerySplitStreams.
    if !query.text("stream").is_empty() {
        errors.push(FieldError::forbidden(&Path::new("stream"), "may not be specified"));
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid("PodLogOptions", "", call.target.name, &errors));
    }
    let ago = |seconds| call.server.now().checked_sub(SignedDuration::from_secs(seconds)).ok();
    Ok(LogOptions {
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        since: since_time.or_else(|| ago(since_seconds?)),
        tail_lines: tail.and_then(|tail| usize::try_from(tail).ok()),
        limit_bytes: limit.and_then(|limit| u64::try_from(limit).ok()),
    })
}

/// Checks that the container can have a log, as the kubelet decides by the pod's status.
fn has_started(pod: &Value, name: &str, container: &str, previous: bool) -> Result<()> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod["status"][*list].as_array()).flatten();
    let reject = |text: String| Err(ApiError::bad_request(text));
    let Some(status) = statuses.into_iter().find(|status| status["name"] == *container) else {
        return reject(format!("container {container:?} in pod {name:?} is not available"));
    };
    let id = |state: &Value| state["containerID"].as_str().is_some_and(|id| !id.is_empty());
    let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
    if previous {
        return match id(last) {
            true => Ok(()),
            false => reject(format!("previous terminated container {container:?} in pod {name:?} not found")),
        };
    }
    if !state["running"].is_null() || id(&state["terminated"]) || id(last) {
        return Ok(());
    }
    if !state["terminated"].is_null() || !last.is_null() {
        return reject(format!("container {container:?} in pod {name:?} is terminated"));
    }
    let why = match state["waiting"]["reason"].as_str() {
        _ if state["waiting"].is_null() => {
            return reject(format!("container {container:?} in pod {name:?} is waiting to start - no logs yet"));
        }
        Some("ErrImagePull") => "image can't be pulled",
        Some("ImagePullBackOff") => "trying and failing to pull image",
        reason => reason.unwrap_or_default(),
    };
    reject(format!("container {container:?} in pod {name:?} is waiting to start: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_rejected_with_the_message_of_the_kubelet_until_the_container_has_started() {
        let pod = |status: Value| json!({"status": {"containerStatuses": [status]}});
        let ended = json!({"terminated": {"exitCode": 1, "containerID": "process://1"}});
        let never = json!({"terminated": {"exitCode": 1}});
        for (status, previous, expected) in [
            (json!({"name": "c", "state": {"running": {}}}), false, ""),
            (
                json!({"name": "c", "state": {"running": {}}}),
                true,
                "previous terminated container \"c\" in pod \"p\" not found",
            ),
            (json!({"name": "c", "state": ended}), false, ""),
            (json!({"name": "c", "state": never}), false, "container \"c\" in pod \"p\" is terminated"),
            (json!({"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}), true, ""),
            (json!({"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}), false, ""),
            (
                json!({"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}),
                false,
                "container \"c\" in pod \"p\" is waiting to start: ContainerCreating",
            ),
            (
                json!({"name": "c", "state": {"waiting": {"reason": "ErrImagePull"}}}),
                false,
                "container \"c\" in pod \"p\" is waiting to start: image can't be pulled",
            ),
            (json!({"name": "c"}), false, "container \"c\" in pod \"p\" is waiting to start - no logs yet"),
            (json!({"name": "d"}), false, "container \"c\" in pod \"p\" is not available"),
        ] {
            let answer = has_started(&pod(status.clone()), "p", "c", previous);
            assert_eq!(answer.err().map(|error| error.message).unwrap_or_default(), expected, "{status}");
        }
    }
}
