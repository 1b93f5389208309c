//! Maintains Endpoints, the older form of endpoint slices.

pub(super) mod subsets;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::{Endpoints, Service},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use windlass::{
    Result,
    context::Context,
    controller::{Action, Reconciler, Watch, filter::Filter},
    key::ObjectKey,
    operator::Operator,
};

use crate::{
    loops::ClusterCertificates,
    services::{self, Triggers},
};

const NAME: &str = "endpoints-controller";
const MANAGED_BY_LABEL: &str = "endpoints.kubernetes.io/managed-by";
const MANAGED_BY: &str = "endpoint-controller";
/// Annotation of endpoints with omitted addresses.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Annotation of endpoints that are used as a lock and belong to no service.
pub(super) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Number of services that are reconciled at the same time.
const CONCURRENCY: usize = 5;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let triggers = Arc::new(Triggers::default());
    let forgotten = triggers.clone();
    // Deleted endpoints are recreated, and existing ones may have lost their service before the loop started.
    // Writes of other clients are ignored.
    let endpoints = Watch::<Endpoints>::new().filter(Filter::new(|change| change.new.is_none() || change.initial));
    let controller = super::controller(NAME, EndpointsReconciler { triggers })
        .source(services::pods_that_moved().map(services::services_of))
        .source(endpoints.map(|endpoints, _| {
            let is_lock = endpoints.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(LEADER));
            if is_lock { Vec::new() } else { vec![ObjectKey::of(endpoints)] }
        }))
        .on_deleted(move |key, ctx| {
            forgotten.remove(&key);
            remove(key, ctx)
        })
        .concurrency(CONCURRENCY);
    operator.controller(controller)
}

/// The reconciler, with the trigger times of changes.
struct EndpointsReconciler {
    triggers: Arc<Triggers>,
}

/// Deletes the endpoints of a deleted service.
async fn remove(key: ObjectKey, ctx: Context) -> Result<()> {
    if let Some(endpoints) = ctx.get::<Endpoints>(&key)? {
        ctx.delete(&endpoints).await?;
    }
    Ok(())
}

impl Reconciler<Service> for EndpointsReconciler {
    async fn reconcile(&self, service: Arc<Service>, ctx: Context) -> Result<Action> {
        if services::selector(&service).is_none() {
            return Ok(Action::done());
        }
        let pods = services::pods_of(&ctx, &service)?;
        let trigger = self.triggers.observe(&service, &pods);
        let mut subsets = subsets::of(&service, &pods);
        let current = ctx.get::<Endpoints>(&ObjectKey::of(&*service))?;
        let labels = labels(&service);
        if current.as_ref().is_some_and(|current| says(current, &subsets, &labels)) {
            return Ok(Action::done());
        }
        let mut endpoints = current.as_deref().cloned().unwrap_or_else(|| Endpoints {
            metadata: ObjectMeta {
                name: service.metadata.name.clone(),
                namespace: service.metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            subsets: None,
        });
        let annotations = endpoints.metadata.annotations.get_or_insert_default();
        match trigger {
            Some(time) => annotations.insert(services::TRIGGER_TIME.to_owned(), time.to_string()),
            None => annotations.remove(services::TRIGGER_TIME),
        };
        if subsets::are_too_many(&subsets) {
            subsets::truncate(&mut subsets);
            annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
        } else {
            annotations.remove(OVER_CAPACITY);
        }
        if annotations.is_empty() {
            endpoints.metadata.annotations = None;
        }
        endpoints.metadata.labels = Some(labels);
        endpoints.subsets = (!subsets.is_empty()).then_some(subsets);
        match current {
            Some(_) => drop(ctx.update(endpoints).await?),
            None => match ctx.create(endpoints).await {
                Err(error) if error.is_namespace_terminating() => {}
                answer => drop(answer?),
            },
        }
        Ok(Action::done())
    }
}

/// The labels of a service's endpoints: those of the service, and the managed-by label.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(services::HEADLESS_LABEL);
    if services::is_headless(service) {
        labels.insert(services::HEADLESS_LABEL.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    labels
}

/// Returns whether endpoints are up to date.
fn says(
    current: &Endpoints,
    subsets: &[k8s_openapi::api::core::v1::EndpointSubset],
    labels: &BTreeMap<String, String>,
) -> bool {
    let own = current.subsets.as_deref().unwrap_or_default();
    let is_marked = current.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(OVER_CAPACITY));
    if subsets::are_too_many(subsets) {
        let mut fewer = subsets.to_vec();
        subsets::truncate(&mut fewer);
        return is_marked && own == fewer && current.metadata.labels.as_ref() == Some(labels);
    }
    let is_same = own == subsets || subsets::repacked(own) == subsets;
    is_same && !is_marked && current.metadata.labels.as_ref() == Some(labels)
}
