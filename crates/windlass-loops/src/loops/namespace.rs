//! Deletes the contents of terminating namespaces.
//!
//! Pods are deleted before everything else, so that the objects they depend on exist until they end. Remaining objects
//! are reported in conditions and waited for. Then the entry `kubernetes` is removed from `spec.finalizers`, and the
//! server removes the namespace unless there are other finalizers.

mod cluster;
mod conditions;
mod contents;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, NamespaceSpec};
use kube::{Api, api::PostParams};
use windlass::{
    Result,
    context::Context,
    controller::{Action, Reconciler, Trigger},
    key::ObjectKey,
    operator::Operator,
    queue::RateLimit,
};

use self::cluster::{Waiting, delete_contents};
use crate::{
    discovery::Served,
    loops::{ClusterCertificates, FIELD_MANAGER},
};

/// The entry of `spec.finalizers` that stands for the contents.
const CONTENTS: &str = "kubernetes";

/// Number of namespaces that are processed at the same time.
const WORKERS: usize = 10;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let trigger = Trigger::new();
    let waiting = Arc::new(Waiting::new(trigger.clone()));
    let forgetting = waiting.clone();
    let rate_limit = RateLimit { max: Duration::from_secs(60), ..RateLimit::default() };
    let controller = super::controller::<Namespace>("namespace-controller", Deletion { waiting })
        .source(&trigger)
        .concurrency(WORKERS)
        .rate_limit(rate_limit)
        .on_deleted(move |key, _ctx| {
            forgetting.remove(key.name());
            async { Ok(()) }
        });
    operator.controller(controller)
}

struct Deletion {
    waiting: Arc<Waiting>,
}

impl Reconciler<Namespace> for Deletion {
    async fn reconcile(&self, namespace: Arc<Namespace>, ctx: Context) -> Result<Action> {
        let Some(deleted_at) = &namespace.metadata.deletion_timestamp else { return Ok(Action::done()) };
        let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
        let namespace = if phase == Some("Terminating") {
            namespace.clone()
        } else {
            let mut marked = Namespace::clone(&namespace);
            marked.status.get_or_insert_default().phase = Some("Terminating".into());
            ctx.update_status(marked).await?
        };
        if finalizers(&namespace).is_empty() {
            return Ok(Action::done());
        }
        let key = ObjectKey::of(&*namespace);
        let name = key.name();
        let served = Served::fetch(&ctx.client()).await;
        let age = windlass_clock::now().duration_since(deleted_at.0).as_secs();
        let contents = delete_contents(&ctx.client(), name, served, age).await;

        let mut told = Namespace::clone(&namespace);
        let status = told.status.get_or_insert_default();
        let changed = conditions::update(status, &contents, windlass_clock::now_in_seconds());
        let namespace = if changed { ctx.update_status(told).await? } else { namespace };

        if contents.remain() {
            self.waiting.wait_for(&ctx.client(), name, contents.remaining_resources());
        } else {
            self.waiting.remove(name);
        }
        if let Some(error) = contents.error() {
            return Err(windlass::Error::new(error));
        }
        if contents.estimate > 0 {
            let seconds = u64::try_from(contents.estimate / 2 + 1).unwrap_or(1);
            return Ok(Action::requeue_after(Duration::from_secs(seconds)));
        }
        finalize(&ctx, &namespace).await?;
        Ok(Action::done())
    }
}

fn finalizers(namespace: &Namespace) -> &[String] {
    namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default()
}

/// Removes the finalizer.
async fn finalize(ctx: &Context, namespace: &Namespace) -> Result<()> {
    if !finalizers(namespace).iter().any(|name| name == CONTENTS) {
        return Ok(());
    }
    let mut others: Vec<String> = finalizers(namespace).iter().filter(|name| *name != CONTENTS).cloned().collect();
    others.sort();
    others.dedup();
    let finalized = Namespace {
        metadata: namespace.metadata.clone(),
        spec: Some(NamespaceSpec { finalizers: Some(others) }),
        status: None,
    };
    let key = ObjectKey::of(namespace);
    let api: Api<Namespace> = Api::all(ctx.client());
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.replace_subresource("finalize", key.name(), &params, &finalized).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
