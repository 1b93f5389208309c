//! The expected number of pods, from the scale of their controllers.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::{Pod, ReplicationController},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::{apis::meta::v1::OwnerReference, util::intstr::IntOrString},
};
use serde_json::Value;
use windlass::{context::Context, key::ObjectKey, object::Object, objects::owner::controller_of};

use super::budget::{Counts, scaled};

/// The UID of a controller, and its scale.
type Scale = (String, i32);

/// Returns the expected and desired numbers of pods of a budget, and the names of pods without a controller. An error
/// is the message for the budget's condition.
pub(super) async fn pods(
    ctx: &Context,
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
) -> Result<(Counts, Vec<String>), String> {
    let spec = budget.spec.as_ref();
    let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(bound) = spec.and_then(|spec| spec.max_unavailable.as_ref()) {
        let (expected, unmanaged) = wanted(ctx, namespace, pods).await?;
        let desired = expected.saturating_sub(scaled(bound, expected)?).max(0);
        return Ok((Counts { expected, desired, healthy: 0 }, unmanaged));
    }
    match spec.and_then(|spec| spec.min_available.as_ref()) {
        Some(IntOrString::Int(desired)) => {
            let expected = i32::try_from(pods.len()).unwrap_or(i32::MAX);
            Ok((Counts { expected, desired: *desired, healthy: 0 }, Vec::new()))
        }
        Some(bound) => {
            let (expected, unmanaged) = wanted(ctx, namespace, pods).await?;
            Ok((Counts { expected, desired: scaled(bound, expected)?, healthy: 0 }, unmanaged))
        }
        None => Ok((Counts::default(), Vec::new())),
    }
}

/// Returns the sum of the scales of the pods' controllers, and the names of pods without one.
async fn wanted(ctx: &Context, namespace: &str, pods: &[Arc<Pod>]) -> Result<(i32, Vec<String>), String> {
    let (mut scales, mut seen) = (HashMap::<String, i32>::new(), HashSet::<&str>::new());
    let mut unmanaged = Vec::new();
    for pod in pods {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let Some(owner) = controller_of(&pod.metadata) else {
            unmanaged.push(name.to_owned());
            continue;
        };
        if !seen.insert(owner.uid.as_str()) {
            continue;
        }
        match scale_of(ctx, namespace, owner).await? {
            Some((uid, replicas)) => scales.insert(uid, replicas),
            None => return Err(format!("found no controllers for pod {name:?}")),
        };
    }
    Ok((scales.values().fold(0, |sum: i32, replicas| sum.saturating_add(*replicas)), unmanaged))
}

async fn scale_of(ctx: &Context, namespace: &str, owner: &OwnerReference) -> Result<Option<Scale>, String> {
    let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
    let scale = match (group, owner.kind.as_str()) {
        ("", "ReplicationController") => find::<ReplicationController>(ctx, namespace, owner)?
            .map(|found| found.spec.as_ref().and_then(|spec| spec.replicas)),
        ("apps", "StatefulSet") => {
            find::<StatefulSet>(ctx, namespace, owner)?.map(|found| found.spec.as_ref().and_then(|spec| spec.replicas))
        }
        ("apps" | "extensions", "ReplicaSet") => {
            let Some(set) = find::<ReplicaSet>(ctx, namespace, owner)? else {
                return from_server(ctx, namespace, owner).await;
            };
            match controller_of(&set.metadata).filter(|parent| parent.kind == "Deployment") {
                Some(parent) => {
                    if let Some(found) = find::<Deployment>(ctx, namespace, parent)? {
                        let replicas = found.spec.as_ref().and_then(|spec| spec.replicas);
                        return Ok(Some((parent.uid.clone(), replicas.unwrap_or(1))));
                    }
                    None
                }
                None => Some(set.spec.as_ref().and_then(|spec| spec.replicas)),
            }
        }
        _ => None,
    };
    match scale {
        Some(replicas) => Ok(Some((owner.uid.clone(), replicas.unwrap_or(1)))),
        None => from_server(ctx, namespace, owner).await,
    }
}

/// Returns the object of an owner reference.
fn find<K: Object<DynamicType: Default>>(
    ctx: &Context,
    namespace: &str,
    owner: &OwnerReference,
) -> Result<Option<Arc<K>>, String> {
    let found = ctx.get::<K>(&ObjectKey::namespaced(namespace, &owner.name)).map_err(|error| error.to_string())?;
    Ok(found.filter(|found| found.meta().uid.as_deref() == Some(owner.uid.as_str())))
}

/// Reads the scale subresource of any resource that has one.
async fn from_server(ctx: &Context, namespace: &str, owner: &OwnerReference) -> Result<Option<Scale>, String> {
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    let (group, _) = api_version.split_once('/').unwrap_or_default();
    let root = if group.is_empty() { format!("/api/{api_version}") } else { format!("/apis/{api_version}") };
    let unknown = || format!("no matches for kind {kind:?} in version {api_version:?}");
    let served = fetch(ctx, &root).await?.ok_or_else(unknown)?;
    let resources = || served["resources"].as_array().into_iter().flatten();
    let plural = resources().find_map(|one| {
        one["name"].as_str().filter(|plural| one["kind"].as_str() == Some(kind.as_str()) && !plural.contains('/'))
    });
    let plural = plural.ok_or_else(unknown)?;
    let subresource = format!("{plural}/scale");
    if !resources().any(|one| one["name"].as_str() == Some(subresource.as_str())) {
        let dot = if group.is_empty() { "" } else { "." };
        return Err(format!("{plural}{dot}{group} does not implement the scale subresource"));
    }
    let scale = fetch(ctx, &format!("{root}/namespaces/{namespace}/{plural}/{name}/scale")).await?;
    let scale = scale.filter(|scale| scale["metadata"]["uid"].as_str() == Some(uid.as_str()));
    let replicas = |scale: Value| scale["spec"]["replicas"].as_i64().and_then(|number| number.try_into().ok());
    Ok(scale.map(|scale| (uid.clone(), replicas(scale).unwrap_or_default())))
}

/// Fetches a path. Returns `None` if it does not exist.
async fn fetch(ctx: &Context, path: &str) -> Result<Option<Value>, String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    match ctx.client().request::<Value>(request).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => Err(error.to_string()),
    }
}
