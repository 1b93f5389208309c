//! The contents of a namespace that is deleted. Pure.

use std::collections::BTreeMap;

use kube::core::ApiResource;
use serde::Deserialize;

use crate::discovery::ServedResource;

/// Estimated duration of finalizers, in seconds.
const FINALIZERS_TAKE: i64 = 15;

/// The result of deleting the contents of a namespace.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Reason why discovery was incomplete.
    pub(super) discovery_failure: Option<String>,
    /// Failed deletions.
    pub(super) failures: Vec<String>,
    /// Whether pods remain and nothing else has been processed.
    pub(super) only_pods: bool,
    /// Number of remaining objects, by resource.
    pub(super) remaining: Vec<(ApiResource, usize)>,
    /// Number of remaining objects, by finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// Estimated seconds until the rest is deleted; 0 if there is nothing to wait for.
    pub(super) estimate: i64,
}

/// The remaining objects of a resource.
#[derive(Default)]
pub(super) struct Rest {
    count: usize,
    finalizers: BTreeMap<String, usize>,
    pub(super) estimate: i64,
    pub(super) failure: Option<String>,
}

impl Contents {
    /// Returns whether anything remains.
    pub(super) fn remain(&self) -> bool {
        !self.remaining.is_empty()
    }

    pub(super) fn remaining_resources(&self) -> impl Iterator<Item = &ApiResource> {
        self.remaining.iter().map(|(resource, _)| resource)
    }

    /// Returns the reason why the deletion has to be retried.
    pub(super) fn error(&self) -> Option<String> {
        let all: Vec<&str> = self.discovery_failure.iter().chain(&self.failures).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    pub(super) fn add(&mut self, one: &ServedResource, rest: Rest) {
        self.failures.extend(rest.failure);
        self.estimate = self.estimate.max(rest.estimate);
        if rest.count > 0 {
            self.remaining.push((one.resource.clone(), rest.count));
            for (finalizer, count) in rest.finalizers {
                *self.finalizers.entry(finalizer).or_default() += count;
            }
        }
    }
}

impl Rest {
    /// Estimates how long pods take to end.
    pub(super) fn wait_for_pods(&mut self, pods: &[FoundPod], age: i64) {
        let grace = longest_grace(pods);
        self.estimate = if age >= grace { 0 } else { grace };
    }

    /// Sets the objects that remain after everything was deleted.
    pub(super) fn remain(&mut self, namespace: &str, resource: &ApiResource, left: &[FoundObject]) {
        self.count = left.len();
        for finalizer in left.iter().flat_map(|object| object.metadata.finalizers.iter().flatten()) {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
        if self.estimate == 0 && !self.finalizers.is_empty() {
            self.estimate = FINALIZERS_TAKE;
        } else if self.estimate == 0 {
            let ApiResource { group, version, plural, .. } = resource;
            self.failure = Some(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
            ));
        }
    }
}

/// A list of objects. Only the needed parts are read: the rest may nest deeper than a parser accepts.
#[derive(Deserialize)]
pub(super) struct Found {
    /// `None` in the lists of metadata that kube-apiserver returns if there are no objects.
    pub(super) items: Option<Vec<FoundObject>>,
}

#[derive(Deserialize)]
pub(super) struct FoundObject {
    pub(super) metadata: FoundMetadata,
}

#[derive(Deserialize)]
pub(super) struct FoundMetadata {
    pub(super) name: Option<String>,
    finalizers: Option<Vec<String>>,
}

/// A list of pods, with the parts that decide how long they take to end.
#[derive(Deserialize)]
pub(super) struct FoundPods {
    pub(super) items: Vec<FoundPod>,
}

#[derive(Deserialize)]
pub(super) struct FoundPod {
    spec: FoundPodSpec,
    #[serde(default)]
    status: FoundPodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundPodSpec {
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Deserialize, Default)]
struct FoundPodStatus {
    phase: Option<String>,
}

/// The longest grace period of the pods that still run.
fn longest_grace(pods: &[FoundPod]) -> i64 {
    let runs = |pod: &&FoundPod| !matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let grace = |pod: &FoundPod| pod.spec.termination_grace_period_seconds;
    pods.iter().filter(runs).filter_map(grace).fold(0, i64::max)
}

/// The message of clients with incomplete discovery.
pub(super) fn incomplete(unknown: &[String]) -> String {
    let mut groups: Vec<String> =
        unknown.iter().map(|version| format!("{version}: stale GroupVersion discovery: {version}")).collect();
    groups.sort();
    format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        unknown.len(),
        groups.join(", ")
    )
}

pub(super) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
