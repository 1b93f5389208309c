//! Waiting for conditions.

use std::time::{Duration, Instant};

use kube::{Api, core::DynamicObject};
use serde_json::Value;

use super::Reference;
use crate::failure::ErrorWithHint;

const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Timeout for establishing a CRD.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(60);

/// Waits until a CRD is established.
pub(super) async fn established(api: &Api<DynamicObject>, definition: &Reference) -> anyhow::Result<()> {
    until(ESTABLISHED_WITHIN, async || {
        let object = api.get(&definition.name).await?;
        let state = |kind: &str| {
            let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
            conditions.into_iter().flatten().find(|condition| condition["type"] == kind).cloned()
        };
        if let Some(rejected) = state("NamesAccepted").filter(|condition| condition["status"] == "False") {
            let why = rejected["message"].as_str().unwrap_or("another CustomResourceDefinition uses them");
            let message = format!("the names of {definition} are not accepted: {why}");
            return Err(ErrorWithHint {
                message,
                hint: "delete the other CustomResourceDefinition, or choose other names".into(),
            }
            .into());
        }
        match state("Established").is_some_and(|condition| condition["status"] == "True") {
            true => Ok(Some(())),
            false => Ok(None),
        }
    })
    .await?
    .ok_or_else(|| {
        let message = format!("{definition} was not established within {} seconds", ESTABLISHED_WITHIN.as_secs());
        ErrorWithHint { message, hint: "check its conditions with `kubectl describe`".into() }.into()
    })
}

/// Waits until the object is deleted or replaced. Returns whether that happened in time.
pub(super) async fn gone(api: &Api<DynamicObject>, name: &str, uid: &str, within: Duration) -> anyhow::Result<bool> {
    let seen = until(within, async || match api.get_opt(name).await? {
        Some(object) if object.metadata.uid.as_deref() == Some(uid) => Ok(None),
        _ => Ok(Some(())),
    });
    Ok(seen.await?.is_some())
}

/// Polls until there is a result or the time has passed.
pub(crate) async fn until<T>(
    within: Duration,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let start = Instant::now();
    let mut pause = PAUSE;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(Some(answer));
        }
        if start.elapsed() >= within {
            return Ok(None);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
