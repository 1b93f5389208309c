//! Maintains endpoint slices of services.

mod endpoint;
mod plan;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use windlass::{
    Result,
    cache::Index,
    context::{Context, ContextError},
    controller::{
        Action, Reconciler, Watch,
        filter::{Change, Filter},
    },
    key::ObjectKey,
    operator::Operator,
};
use windlass_schema::sorting;

use self::plan::Changes;
use crate::{
    loops::ClusterCertificates,
    services::{self, Triggers},
};

const NAME: &str = "endpointslice-controller";
/// Slice label with the name of the service.
pub(super) const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Slice label with the name of the managing controller.
pub(super) const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
/// Number of services that are reconciled at the same time.
const CONCURRENCY: usize = 5;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let triggers = Arc::new(Triggers::default());
    let forgotten = triggers.clone();
    let nodes = Watch::<Node>::new().filter(Filter::new(|change: &Change<'_, Node>| match (change.old, change.new) {
        (Some(old), Some(new)) => old.metadata.labels != new.metadata.labels,
        _ => true,
    }));
    let controller = super::controller(NAME, EndpointSliceReconciler { triggers })
        .source(services::pods_that_moved().map(services::services_of))
        .source(nodes.map(services_on_node))
        .watches::<EndpointSlice>(|slice, _| service_of_slice(slice).into_iter().collect())
        .on_deleted(move |key, _| {
            forgotten.remove(&key);
            async { Ok(()) }
        })
        .concurrency(CONCURRENCY);
    operator.controller(controller)
}

/// The reconciler, with the trigger times of changes.
struct EndpointSliceReconciler {
    triggers: Arc<Triggers>,
}

/// The service of a slice that this loop manages.
fn service_of_slice(slice: &EndpointSlice) -> Option<ObjectKey> {
    let labels = slice.metadata.labels.as_ref()?;
    let is_own = labels.get(MANAGED_BY_LABEL).is_some_and(|manager| manager == MANAGED_BY);
    let service = labels.get(SERVICE_LABEL).filter(|name| is_own && !name.is_empty())?;
    Some(ObjectKey::namespaced(slice.metadata.namespace.as_deref()?, service))
}

/// The services of the pods on a node.
fn services_on_node(node: &Node, ctx: &Context) -> Vec<ObjectKey> {
    let Ok(pods) = ctx.informer::<Pod>() else { return Vec::new() };
    let on_node = crate::pods::by_node(&pods).get(node.metadata.name.as_deref().unwrap_or_default());
    let mut keys: Vec<ObjectKey> = on_node.iter().flat_map(|pod| services::services_of(pod, ctx)).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// The slices of a service that a controller manages.
pub(super) fn slices_of(
    ctx: &Context,
    key: &ObjectKey,
    manager: &str,
) -> Result<Vec<Arc<EndpointSlice>>, ContextError> {
    let index: Index<EndpointSlice, ObjectKey> = ctx
        .informer::<EndpointSlice>()?
        .index("services/slices", |slice: &EndpointSlice| {
            let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_LABEL));
            let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
            service.map(|service| ObjectKey::namespaced(namespace, service)).into_iter().collect()
        })
        .expect("an index name must always have the same value type");
    let mut slices = index.get(key);
    slices.retain(|slice| {
        let managed_by = slice.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY_LABEL));
        slice.metadata.deletion_timestamp.is_none() && managed_by.is_some_and(|managed_by| managed_by == manager)
    });
    sorting::sort_by(&mut slices, |a, b| a.metadata.name.cmp(&b.metadata.name));
    Ok(slices)
}

impl Reconciler<Service> for EndpointSliceReconciler {
    async fn reconcile(&self, service: Arc<Service>, ctx: Context) -> Result<Action> {
        if services::selector(&service).is_none() {
            return Ok(Action::done());
        }
        let pods = services::pods_of(&ctx, &service)?;
        let existing = slices_of(&ctx, &ObjectKey::of(&*service), MANAGED_BY)?;
        let trigger = self.triggers.observe(&service, &pods);
        match write(&ctx, &service, &pods, existing, trigger).await {
            Ok(()) => Ok(Action::done()),
            Err(error) => {
                let (namespace, name) = (&service.metadata.namespace, &service.metadata.name);
                let note = format!(
                    "Error updating Endpoint Slices for Service {}/{}: {error}",
                    namespace.as_deref().unwrap_or_default(),
                    name.as_deref().unwrap_or_default(),
                );
                ctx.event(&service).warning("FailedToUpdateEndpointSlices", &note);
                Err(error)
            }
        }
    }
}

async fn write(
    ctx: &Context,
    service: &Service,
    pods: &[Arc<Pod>],
    existing: Vec<Arc<EndpointSlice>>,
    trigger: Option<Timestamp>,
) -> Result<()> {
    let types = endpoint::address_types(service);
    let (kept, mut unwanted): (Vec<_>, Vec<_>) =
        existing.into_iter().partition(|slice| types.contains(&slice.address_type.as_str()));
    let mut changes = Vec::new();
    {
        let node = |name: &str| ctx.get::<Node>(&ObjectKey::cluster(name)).ok().flatten();
        for address_type in types {
            let reached = pods.iter().filter_map(|pod| endpoint::reached(pod, service, address_type, &node)).collect();
            let existing: Vec<_> = kept.iter().filter(|slice| slice.address_type == address_type).cloned().collect();
            changes.push(plan::plan(service, address_type, &existing, reached)?);
        }
    }
    for Changes { create, update, delete } in changes {
        let is_going = service.metadata.deletion_timestamp.is_some();
        for mut slice in create.into_iter().filter(|_| !is_going) {
            stamp(&mut slice, trigger);
            match ctx.create(slice).await {
                Err(error) if error.is_namespace_terminating() => return Ok(()),
                answer => drop(answer?),
            }
        }
        for mut slice in update {
            stamp(&mut slice, trigger);
            ctx.update(slice).await?;
        }
        unwanted.extend(delete);
    }
    for slice in unwanted {
        ctx.delete(&slice).await?;
    }
    Ok(())
}

/// Sets the annotation with the time of the triggering change.
fn stamp(slice: &mut EndpointSlice, trigger: Option<Timestamp>) {
    let annotations = slice.metadata.annotations.get_or_insert_default();
    match trigger {
        Some(time) => annotations.insert(services::TRIGGER_TIME.to_owned(), time.to_string()),
        None => annotations.remove(services::TRIGGER_TIME),
    };
    if annotations.is_empty() {
        slice.metadata.annotations = None;
    }
}
