//! Availability of Deployments.

use std::time::Duration;

use kube::{Api, api::ListParams, core::DynamicObject};
use serde_json::Value;

use super::{Cluster, Reference, resources::Resources, wait};
use crate::failure::ErrorWithHint;

impl Cluster {
    /// Waits until all replicas of a Deployment are updated and available; reports progress.
    pub(crate) async fn wait_until_available(&self, deployment: &Reference, within: Duration) -> anyhow::Result<()> {
        let mut resources = Resources::new(self.client.clone(), self.namespace.clone());
        let Some((api, deployment)) = resources.find(deployment).await? else { return Ok(()) };
        let (mut said, mut why) = (String::new(), String::new());
        let seen = wait::until(within, async || {
            let object = api.get(&deployment.name).await?;
            let state = State::of(&object);
            let line = format!("{deployment}: {} of {} available", state.available, state.wanted);
            if line != said {
                eprintln!("{line}");
                said = line;
            }
            let reason = state.failure.clone();
            why = reason.unwrap_or_else(|| format!("{} of {} are available", state.available, state.wanted));
            Ok(state.is_available().then_some(()))
        });
        if seen.await?.is_some() {
            return Ok(());
        }
        let pods =
            Reference { api_version: "v1".into(), kind: "Pod".into(), name: String::new(), ..deployment.clone() };
        if let Some((pods, _)) = resources.find(&pods).await?
            && let Some(reason) = of_pods(&pods, &api.get(&deployment.name).await?).await
        {
            why = reason;
        }
        let message = format!("{deployment} is not available after {} seconds: {why}", within.as_secs());
        let namespace = deployment.namespace.as_deref().unwrap_or_default();
        let hint = format!(
            "inspect it with `kubectl -n {namespace} describe pods` and `kubectl -n {namespace} logs deployment/{}`; \
             wait longer with --timeout",
            deployment.name
        );
        Err(ErrorWithHint { message, hint: hint.into() }.into())
    }
}

struct State {
    wanted: i64,
    updated: i64,
    available: i64,
    all: i64,
    is_observed: bool,
    failure: Option<String>,
}

impl State {
    fn of(object: &DynamicObject) -> Self {
        let number = |path: &str| object.data.pointer(path).and_then(Value::as_i64);
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let failure = conditions
            .filter(|condition| {
                let is = |kind: &str, status: &str| condition["type"] == *kind && condition["status"] == *status;
                is("ReplicaFailure", "True") || is("Progressing", "False")
            })
            .find_map(|condition| condition["message"].as_str().map(str::to_owned));
        Self {
            wanted: number("/spec/replicas").unwrap_or(1),
            updated: number("/status/updatedReplicas").unwrap_or(0),
            available: number("/status/availableReplicas").unwrap_or(0),
            all: number("/status/replicas").unwrap_or(0),
            is_observed: number("/status/observedGeneration") >= object.metadata.generation,
            failure,
        }
    }

    fn is_available(&self) -> bool {
        let Self { wanted, updated, available, all, is_observed, .. } = self;
        *is_observed && updated >= wanted && available >= wanted && all <= updated
    }
}

/// Returns why the pods of a Deployment are not running, if one of them reports it.
async fn of_pods(pods: &Api<DynamicObject>, deployment: &DynamicObject) -> Option<String> {
    let labels = deployment.data.pointer("/spec/selector/matchLabels")?.as_object()?;
    let selector: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    let found = pods.list(&ListParams::default().labels(&selector.join(","))).await.ok()?;
    found.items.iter().find_map(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let containers = pod.data.pointer("/status/containerStatuses").and_then(Value::as_array);
        let waits = containers.into_iter().flatten().find_map(|container| {
            let waiting = container.pointer("/state/waiting").or_else(|| container.pointer("/lastState/terminated"))?;
            let text = |field: &str| waiting[field].as_str().unwrap_or_default().to_owned();
            Some(format!("{} {}", text("reason"), text("message")).trim().to_owned())
        });
        let conditions = pod.data.pointer("/status/conditions").and_then(Value::as_array);
        let unscheduled = || {
            let scheduled = conditions.into_iter().flatten().find(|condition| condition["type"] == "PodScheduled")?;
            (scheduled["status"] == "False").then(|| scheduled["message"].as_str().unwrap_or_default().to_owned())
        };
        waits.or_else(unscheduled).filter(|why| !why.is_empty()).map(|why| format!("pod {name}: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(generation: i64, status: Value) -> State {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "generation": generation},
            "spec": {"replicas": 2}, "status": status,
        });
        State::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_deployment_is_available_when_all_replicas_are_updated() {
        let status = |replicas: i64, observed: i64| json!({"replicas": replicas, "updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": observed});
        assert!(state(3, status(2, 3)).is_available());
        assert!(!state(3, status(3, 3)).is_available());
        assert!(!state(3, status(2, 2)).is_available());
        assert!(!state(1, json!({})).is_available());
        let failed = json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "no quota"}]});
        assert_eq!(state(1, failed).failure.as_deref(), Some("no quota"));
    }
}
