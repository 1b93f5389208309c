//! Recalculates the usage of resource quotas.
//!
//! Admission charges quotas when objects are created. This loop recalculates usage: when a quota is created or changed,
//! when limited objects are deleted or use less, and periodically. Pods, services and claims are counted in caches;
//! other resources, ResourceClaims among them, are counted by requests, and watched only if a quota names them.

mod cluster;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, ResourceQuotaStatus, Service},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::api::resource::Quantity as Text,
};
use kube::{ResourceExt as _, api::ListParams};
use serde::Serialize;
use serde_json::Value;
use windlass::{
    Result,
    context::{Context, ContextError},
    controller::{
        Action, Reconciler, Trigger, Watch,
        filter::{Change, Filter},
    },
    key::ObjectKey,
    object::Object,
    operator::Operator,
};
use windlass_builtins::quota::{self, Devices, Evaluator, Usage};
use windlass_schema::quantity::{Format, Quantity};
use windlass_schema::sorting::Gather as _;

use self::cluster::Monitors;
use crate::{json_text, loops::ClusterCertificates, pods};

const NAME: &str = "resourcequota-controller";
/// The plural name of ResourceClaims.
const CLAIMS: &str = "resourceclaims";
/// Number of quotas that are reconciled at the same time.
const CONCURRENCY: usize = 5;
/// Interval at which a quota is recalculated in any case.
const RESYNC: Duration = Duration::from_secs(5 * 60);
/// Delay before a quota whose usage has decreased is recalculated: a charged object may not have been stored yet.
const RECHECK: Duration = Duration::from_secs(1);

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let trigger = Trigger::new();
    let monitors = Arc::new(Monitors::new(trigger.clone()));
    let forgetting = monitors.clone();
    // Status changes by admission are ignored.
    let specified = Filter::<ResourceQuota>::new(|change| match (change.old, change.new) {
        (Some(old), Some(new)) => old.spec != new.spec || old.metadata.uid != new.metadata.uid,
        _ => true,
    });
    let definitions = Watch::metadata_of::<CustomResourceDefinition>();
    operator.controller(
        super::controller::<ResourceQuota>(NAME, Quotas { monitors })
            .filter(specified)
            .source(&trigger)
            .source(Watch::<Pod>::new().filter(released(pod_facts)).map(concerned::<Pod>(Evaluator::Pods)))
            .source(
                Watch::<Service>::new().filter(released(service_facts)).map(concerned::<Service>(Evaluator::Services)),
            )
            .source(Watch::<PersistentVolumeClaim>::new().filter(released(claim_facts)).map(concerned::<
                PersistentVolumeClaim,
            >(
                Evaluator::Claims
            )))
            .source(definitions.map(|definition, ctx| {
                let count = format!("count/{}", definition.metadata.name.as_deref().unwrap_or_default());
                naming(ctx, None, |name| name == count)
            }))
            .on_deleted(move |_, ctx| {
                forgetting.only(&named(&ctx));
                std::future::ready(Ok(()))
            })
            .concurrency(CONCURRENCY),
    )
}

/// Passes deletions, and changes of properties that usage depends on.
fn released<K: Object, F: PartialEq + 'static>(facts: fn(&K) -> F) -> Filter<K> {
    Filter::new(move |change: &Change<'_, K>| match (change.old, change.new) {
        (Some(old), Some(new)) => facts(old) != facts(new),
        (_, new) => new.is_none(),
    })
}

fn pod_facts(pod: &Pod) -> (bool, bool, Option<String>) {
    let deadline = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds).is_some_and(|seconds| seconds >= 0);
    let ended = matches!(pods::phase(pod), "Succeeded" | "Failed");
    let status = pod.status.as_ref();
    let containers = status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let sized: Vec<_> =
        containers.filter(|one| one.resources.is_some()).map(|one| (&one.name, &one.resources)).collect();
    let sizes = (!sized.is_empty()).then(|| serde_json::to_string(&sized).unwrap_or_default());
    (deadline, ended, sizes)
}

fn service_facts(service: &Service) -> Option<String> {
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.clone());
    kind.filter(|kind| matches!(kind.as_str(), "NodePort" | "LoadBalancer"))
}

fn claim_facts(claim: &PersistentVolumeClaim) -> (Option<BTreeMap<String, Text>>, Vec<Option<String>>) {
    let status = claim.status.as_ref();
    let modified = status.and_then(|status| status.modify_volume_status.as_ref());
    let classes = vec![
        claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone()),
        status.and_then(|status| status.current_volume_attributes_class_name.clone()),
        modified.and_then(|modified| modified.target_volume_attributes_class_name.clone()),
    ];
    (status.and_then(|status| status.allocated_resources.clone()), classes)
}

/// The quotas of a namespace that limit the resources of an evaluator's object.
fn concerned<K: Object>(evaluator: Evaluator) -> impl Fn(&K, &Context) -> Vec<ObjectKey> + Send + Sync + 'static {
    move |object, ctx| naming(ctx, object.meta().namespace.as_deref(), |name| evaluator.knows(name))
}

/// The quotas, in one namespace or in all, that limit a resource.
fn naming(ctx: &Context, namespace: Option<&str>, limits: impl Fn(&str) -> bool) -> Vec<ObjectKey> {
    let quotas = match namespace {
        Some(namespace) => ctx.list_in::<ResourceQuota>(namespace),
        None => ctx.list::<ResourceQuota>(),
    };
    let quotas = quotas.unwrap_or_default();
    let naming = quotas.iter().filter(|quota| hard(quota).any(&limits));
    naming.map(|quota| ObjectKey::of(&**quota)).collect()
}

/// The names of a quota's limits.
fn hard(quota: &ResourceQuota) -> impl Iterator<Item = &str> {
    quota.spec.iter().flat_map(|spec| spec.hard.iter().flatten()).map(|(name, _)| name.as_str())
}

/// The resources that are watched for any quota.
fn named(ctx: &Context) -> Vec<(String, String)> {
    let quotas = ctx.list::<ResourceQuota>().unwrap_or_default();
    quotas.iter().flat_map(|quota| hard(quota).filter_map(watched)).collect()
}

/// The group and plural name of the resource that an object count limit refers to.
fn counted(name: &str) -> Option<(String, String)> {
    if Evaluator::special().iter().any(|evaluator| evaluator.knows(name)) {
        return None;
    }
    let named = name.strip_prefix("count/").unwrap_or(name);
    let (plural, group) = named.split_once('.').unwrap_or((named, ""));
    let counts = Evaluator::of(group, plural).is_some_and(|evaluator| evaluator.knows(name));
    counts.then(|| (group.to_owned(), plural.to_owned()))
}

/// The group and plural name of the resource that is watched for a limit.
fn watched(name: &str) -> Option<(String, String)> {
    let claims = || Some((quota::DEVICE_GROUP.to_owned(), CLAIMS.to_owned()));
    if limits_devices(name) { claims() } else { counted(name) }
}

/// Returns whether a limit may apply to ResourceClaims.
fn limits_devices(name: &str) -> bool {
    Evaluator::ResourceClaims(Devices::default()).knows(name) || quota::may_be_device(name)
}

/// The reconciler, with its watches.
struct Quotas {
    monitors: Arc<Monitors>,
}

impl Reconciler<ResourceQuota> for Quotas {
    async fn reconcile(&self, quota: Arc<ResourceQuota>, ctx: Context) -> Result<Action> {
        self.monitors.only(&named(&ctx));
        let counted = self.count(&quota, &ctx).await?;
        let before = quota.status.clone().unwrap_or_default();
        let hard: BTreeMap<String, Text> =
            quota.spec.iter().flat_map(|spec| spec.hard.clone().unwrap_or_default()).gather();
        let mut used = usage(before.used.as_ref());
        used.extend(counted);
        used.retain(|name, _| hard.contains_key(name));
        if before.hard.is_some()
            && before.used.is_some()
            && usage(before.hard.as_ref()) == usage(Some(&hard))
            && usage(before.used.as_ref()) == used
        {
            // The cache may lack the last charge, for an object that has been deleted since.
            let is_current = self.charged(&quota, &ctx).await?.is_none_or(|charged| charged == used);
            return Ok(Action::requeue_after(if is_current { RESYNC } else { RECHECK }));
        }
        let was = usage(before.used.as_ref());
        let less = used.iter().any(|(name, sum)| was.get(name).is_some_and(|was| sum < was));
        let used = used.into_iter().map(|(name, sum)| (name, Text(sum.to_string()))).gather();
        let status = Some(ResourceQuotaStatus { hard: Some(hard), used: Some(used) });
        ctx.update_status(ResourceQuota { status, ..ResourceQuota::clone(&quota) }).await?;
        Ok(Action::requeue_after(if less { RECHECK } else { RESYNC }))
    }
}

impl Quotas {
    /// The usage in the status of a quota, from the API server; `None` if it does not exist any more. The role of the loop
    /// permits lists only.
    async fn charged(&self, quota: &ResourceQuota, ctx: &Context) -> Result<Option<Usage>> {
        let named = ListParams::default().fields(&format!("metadata.name={}", quota.name_any()));
        let found = ctx.live().list::<ResourceQuota>(quota.metadata.namespace.as_deref(), &named).await?;
        let status = found.items.into_iter().next().map(|quota| quota.status.unwrap_or_default());
        Ok(status.map(|status| usage(status.used.as_ref())))
    }

    /// The usage of a quota, as far as it can be determined.
    async fn count(&self, quota: &ResourceQuota, ctx: &Context) -> Result<Usage> {
        let namespace = quota.metadata.namespace.as_deref().unwrap_or_default();
        let value = json_text::to_value(quota)?;
        let mut used = Usage::new();
        for evaluator in Evaluator::special() {
            if !hard(quota).any(|name| evaluator.knows(name)) {
                continue;
            }
            let objects = match &evaluator {
                Evaluator::Pods => values::<Pod>(ctx, namespace)?,
                Evaluator::Services => values::<Service>(ctx, namespace)?,
                _ => values::<PersistentVolumeClaim>(ctx, namespace)?,
            };
            used.extend(evaluator.total(&value, objects.iter(), windlass_clock::now()));
        }
        for (name, sum) in self.devices(&value, namespace, ctx).await? {
            match used.get_mut(&name) {
                Some(used) => used.add(&sum),
                None => drop(used.insert(name, sum)),
            }
        }
        let scoped = quota.spec.as_ref().is_some_and(|spec| {
            spec.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty()) || spec.scope_selector.is_some()
        });
        for (name, (group, plural)) in hard(quota).filter_map(|name| Some((name, counted(name)?))) {
            if let Some(number) = self.monitors.count(ctx, namespace, &group, &plural).await? {
                // Scopes do not apply to object counts.
                let number = if scoped { 0 } else { number };
                used.insert(name.to_owned(), Quantity::new(number, Format::DecimalSi));
            }
        }
        Ok(used)
    }
}

impl Quotas {
    /// The usage of ResourceClaims.
    async fn devices(&self, quota: &Value, namespace: &str, ctx: &Context) -> Result<Usage> {
        let limits = quota::names(quota, "/spec/hard");
        if !limits.iter().any(|name| limits_devices(name)) {
            return Ok(Usage::new());
        }
        let classes = match limits.iter().any(|name| quota::may_be_device(name)) {
            true => cluster::list_all(ctx, quota::DEVICE_GROUP, "deviceclasses").await?.unwrap_or_default(),
            false => Vec::new(),
        };
        let claims = self.monitors.list(ctx, namespace, quota::DEVICE_GROUP, CLAIMS).await?;
        let Some(claims) = claims else { return Ok(Usage::new()) };
        let now = windlass_clock::now();
        let mut devices = Devices::of_classes(classes.iter());
        for claim in &claims {
            if let Some((name, _)) = quota::pod_of(claim)
                && let Some(pod) = ctx.get::<Pod>(&ObjectKey::namespaced(namespace, name))?
            {
                devices.charge(claim, &json_text::to_value(&*pod)?, claims.iter(), now);
            }
        }
        Ok(Evaluator::ResourceClaims(devices).total(quota, claims.iter(), now))
    }
}

fn values<K: Object<DynamicType: Default> + Serialize>(
    ctx: &Context,
    namespace: &str,
) -> Result<Vec<Value>, ContextError> {
    let objects = ctx.list_in::<K>(namespace)?;
    Ok(objects.iter().filter_map(|object| json_text::to_value(&**object).ok()).collect())
}

fn usage(list: Option<&BTreeMap<String, Text>>) -> Usage {
    let list = list.into_iter().flatten();
    list.filter_map(|(name, text)| Some((name.clone(), Quantity::parse(&text.0).ok()?))).gather()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_object_counts_are_parsed() {
        for (name, expected) in [
            ("count/foos.example.com", Some(("example.com", "foos"))),
            ("count/deployments.apps", Some(("apps", "deployments"))),
            ("secrets", Some(("", "secrets"))),
            ("count/secrets", Some(("", "secrets"))),
            ("pods", None),
            ("count/pods", None),
            ("requests.cpu", None),
            ("requests.example.com/gpu", None),
            ("count/events", None),
            ("bananas", None),
        ] {
            let expected = expected.map(|(group, plural)| (group.to_owned(), plural.to_owned()));
            assert_eq!(counted(name), expected, "{name}");
        }
    }
}
