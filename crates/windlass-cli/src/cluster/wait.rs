//! Waiting for what the cluster does in its own time.

use std::time::{Duration, Instant};

use kube::{Api, core::DynamicObject};
use serde_json::Value;

use super::Reference;
use crate::failure::Advised;

const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A definition is served.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(60);

/// Waits until a definition is served.
pub(super) async fn established(api: &Api<DynamicObject>, definition: &Reference) -> anyhow::Result<()> {
    until(ESTABLISHED_WITHIN, async || {
        let object = api.get(&definition.name).await?;
        let state = |kind: &str| {
            let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
            conditions.into_iter().flatten().find(|condition| condition["type"] == kind).cloned()
        };
        if let Some(refused) = state("NamesAccepted").filter(|condition| condition["status"] == "False") {
            let why = refused["message"].as_str().unwrap_or("another definition has them");
            let message = format!("the names of {definition} are not accepted: {why}");
            return Err(Advised { message, hint: "remove the other definition, or choose other names".into() }.into());
        }
        match state("Established").is_some_and(|condition| condition["status"] == "True") {
            true => Ok(Some(())),
            false => Ok(None),
        }
    })
    .await?
    .ok_or_else(|| {
        let message = format!("{definition} was not served within {} seconds", ESTABLISHED_WITHIN.as_secs());
        Advised { message, hint: "look at its conditions with `kubectl describe`".into() }.into()
    })
}

/// Waits until the object is gone, or another is in its place. Says whether that has come to pass.
pub(super) async fn gone(api: &Api<DynamicObject>, name: &str, uid: &str, within: Duration) -> anyhow::Result<bool> {
    let seen = until(within, async || match api.get_opt(name).await? {
        Some(object) if object.metadata.uid.as_deref() == Some(uid) => Ok(None),
        _ => Ok(Some(())),
    });
    Ok(seen.await?.is_some())
}

/// Asks again and again, until there is an answer or the time is over.
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
