//! Creates and deletes networks.

use windlass::prelude::*;

use crate::{
    api::network::{Network, NetworkStatus},
    backend::Backend,
    plan::Plan,
};

/// Keeps a Network until the backend has released it.
pub const FINALIZER: &str = "samplecrd.k8s.io/release";

/// Watches Networks and creates them on a backend.
pub fn controller(backend: impl Backend) -> Controller<Network> {
    Controller::new("network", Networks { backend: Box::new(backend) })
        .cleans_up(FINALIZER)
        // A network may overlap with any other in its namespace. The initial list is skipped, because all of it is
        // reconciled anyway.
        .watches_by(Watch::new().filter(filter::generation_changed().and(not_initial())), namespace, namespace)
        .concurrency(2)
}

struct Networks {
    backend: Box<dyn Backend>,
}

impl Reconciler<Network> for Networks {
    async fn reconcile(&self, network: Arc<Network>, ctx: Context) -> Result<Action> {
        let key = ObjectKey::of(&*network);
        let problem = match Plan::new(&network.spec) {
            Err(invalid) => Some(("Invalid", invalid.to_string())),
            Ok(plan) => match older_overlap(&network, &plan, &ctx.list_in(key.namespace().unwrap_or_default())?) {
                Some(other) => Some(("Overlap", format!("{} overlaps with the network {other}", plan.cidr))),
                None => {
                    self.backend.ensure(&key, &plan).await?;
                    None
                }
            },
        };
        let mut status = NetworkStatus::default();
        match problem {
            None => {
                status.set_condition(ready(true).reason("Synced").message("the network exists"));
                ctx.set_status(&network, status).await?;
                ctx.event(&network).normal("Synced", "Network synced successfully");
            }
            Some((reason, message)) => {
                // Its previous addresses may conflict with others, or be outdated.
                self.backend.release(&key).await?;
                ctx.event(&network).warning(reason, &message);
                status.set_condition(ready(false).reason(reason).message(message));
                ctx.set_status(&network, status).await?;
            }
        }
        Ok(Action::done())
    }

    async fn cleanup(&self, network: Arc<Network>, _: Context) -> Result<Action> {
        self.backend.release(&ObjectKey::of(&*network)).await?;
        Ok(Action::done())
    }
}

/// Returns the name of an older network that overlaps.
fn older_overlap(network: &Network, plan: &Plan, others: &[Arc<Network>]) -> Option<String> {
    let age = |network: &Network| (network.metadata.creation_timestamp.clone(), network.metadata.name.clone());
    let older = others.iter().filter(|other| age(other) < age(network));
    let mut overlapping = older.filter(|other| Plan::new(&other.spec).is_ok_and(|other| other.overlaps(plan)));
    overlapping.next()?.metadata.name.clone()
}

/// Changes after the initial list.
fn not_initial() -> filter::Filter<Network> {
    filter::Filter::new(|change| !change.initial)
}

/// Returns the value that neighbours have in common.
fn namespace(network: &Network) -> Vec<String> {
    network.metadata.namespace.iter().cloned().collect()
}
