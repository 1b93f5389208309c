//! Deleting the contents of a namespace.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::{join_all, try_join_all};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams},
    core::{ApiResource, Request},
};
use serde::Deserialize;

use crate::discovery::{Served, ServedResource};

/// Estimated duration of finalizers, in seconds.
const FINALIZERS_TAKE: i64 = 15;

/// Number of resources that are processed at the same time.
const AT_ONCE: usize = 8;

/// The result of deleting the contents of a namespace.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Why discovery was incomplete.
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
struct Rest {
    count: usize,
    finalizers: BTreeMap<String, usize>,
    estimate: i64,
    failure: Option<String>,
}

impl Contents {
    /// Deletes everything in a namespace that was deleted `age` seconds ago.
    pub(super) async fn delete(
        client: &Client,
        namespace: &str,
        served: Result<Arc<Served>, kube::Error>,
        age: i64,
    ) -> Self {
        let mut contents = Self::default();
        let served = match served {
            Ok(served) => served,
            Err(error) => {
                contents.discovery_failure = Some(message(&error));
                return contents;
            }
        };
        if !served.unknown.is_empty() {
            contents.discovery_failure = Some(incomplete(&served.unknown));
        }
        let namespaced = served.preferred(&["delete"]).filter(|one| one.namespaced);
        let (pods, others): (Vec<_>, Vec<_>) =
            namespaced.partition(|one| one.resource.group.is_empty() && one.resource.plural == "pods");
        for pods in pods {
            let rest = delete_all(client, namespace, pods, age).await;
            contents.add(pods, rest);
        }
        if !contents.remaining.is_empty() {
            contents.only_pods = true;
            return contents;
        }
        for some in others.chunks(AT_ONCE) {
            let rests = join_all(some.iter().map(|one| delete_all(client, namespace, one, age))).await;
            for (one, rest) in some.iter().zip(rests) {
                contents.add(one, rest);
            }
        }
        contents
    }

    /// Returns whether anything remains.
    pub(super) fn remain(&self) -> bool {
        !self.remaining.is_empty()
    }

    pub(super) fn remaining_resources(&self) -> impl Iterator<Item = &ApiResource> {
        self.remaining.iter().map(|(resource, _)| resource)
    }

    /// Why the deletion has to be retried.
    pub(super) fn error(&self) -> Option<String> {
        let all: Vec<&str> = self.discovery_failure.iter().chain(&self.failures).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    fn add(&mut self, one: &ServedResource, rest: Rest) {
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

async fn delete_all(client: &Client, namespace: &str, one: &ServedResource, age: i64) -> Rest {
    let mut rest = Rest::default();
    if let Err(error) = try_delete_all(client, namespace, one, age, &mut rest).await {
        // A resource that is no longer served or does not support deletion does not keep a namespace.
        let unsupported = matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 405));
        if !unsupported {
            rest.failure = Some(message(&error));
        }
    }
    rest
}

async fn try_delete_all(
    client: &Client,
    namespace: &str,
    one: &ServedResource,
    age: i64,
    rest: &mut Rest,
) -> Result<(), kube::Error> {
    let resource = &one.resource;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let (everything, background) = (ListParams::default(), DeleteParams::background());
    let lists = one.has("list");
    let found = if lists { list(client, &api).await? } else { Vec::new() };
    if lists && found.is_empty() {
        return Ok(());
    }
    if resource.group.is_empty() && resource.plural == "pods" {
        let request = Request::new(api.resource_url()).list(&everything).map_err(kube::Error::BuildRequest)?;
        let pods: FoundPods = client.request(request).await?;
        rest.estimate = longest_grace(&pods.items);
        if age >= rest.estimate {
            rest.estimate = 0;
        }
    }
    if one.has("deletecollection") {
        let request = Request::new(api.resource_url()).delete_collection(&background, &everything);
        let Skipped {} = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    } else {
        let names = found.iter().filter_map(|object| object.metadata.name.as_deref());
        try_join_all(names.map(|name| delete_one(&api, name, &background))).await?;
    }
    let left = if lists { list(client, &api).await? } else { Vec::new() };
    if left.is_empty() {
        rest.estimate = 0;
        return Ok(());
    }
    rest.count = left.len();
    for finalizer in left.iter().flat_map(|object| object.metadata.finalizers.iter().flatten()) {
        *rest.finalizers.entry(finalizer.clone()).or_default() += 1;
    }
    if rest.estimate == 0 && !rest.finalizers.is_empty() {
        rest.estimate = FINALIZERS_TAKE;
    } else if rest.estimate == 0 {
        let ApiResource { group, version, plural, .. } = resource;
        rest.failure = Some(format!(
            "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={plural}"
        ));
    }
    Ok(())
}

/// A list of objects, of which only the parts are read that are needed: the rest may nest deeper than a parser accepts.
#[derive(Deserialize)]
struct Found {
    /// `None` in the lists of metadata that kube-apiserver returns if there are no objects.
    items: Option<Vec<FoundObject>>,
}

#[derive(Deserialize)]
struct FoundObject {
    metadata: FoundMetadata,
}

#[derive(Deserialize)]
struct FoundMetadata {
    name: Option<String>,
    finalizers: Option<Vec<String>>,
}

/// A list of pods, with the parts that decide how long they take to end.
#[derive(Deserialize)]
struct FoundPods {
    items: Vec<FoundPod>,
}

#[derive(Deserialize)]
struct FoundPod {
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

/// A response whose contents are not needed.
#[derive(Deserialize)]
struct Skipped {}

async fn list(client: &Client, api: &Api<DynamicObject>) -> Result<Vec<FoundObject>, kube::Error> {
    let request = Request::new(api.resource_url()).list_metadata(&ListParams::default());
    let found: Found = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(found.items.unwrap_or_default())
}

async fn delete_one(api: &Api<DynamicObject>, name: &str, params: &DeleteParams) -> Result<(), kube::Error> {
    match api.delete(name, params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => Ok(()),
        result => result.map(drop),
    }
}

/// The longest grace period of the pods that still run.
fn longest_grace(pods: &[FoundPod]) -> i64 {
    let runs = |pod: &&FoundPod| !matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let grace = |pod: &FoundPod| pod.spec.termination_grace_period_seconds;
    pods.iter().filter(runs).filter_map(grace).fold(0, i64::max)
}

/// The message of clients with incomplete discovery.
fn incomplete(unknown: &[String]) -> String {
    let mut groups: Vec<String> =
        unknown.iter().map(|version| format!("{version}: stale GroupVersion discovery: {version}")).collect();
    groups.sort();
    format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        unknown.len(),
        groups.join(", ")
    )
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
