//! Deletes tokens in Secrets that were generated for service accounts and have not been used for a year.
//!
//! The API server labels such a Secret with the day on which its token was last used, and a ConfigMap has the date
//! since which it does so. An unused token is first marked as invalid, so that it is rejected. It is deleted when it
//! has been invalid for a year as well.
//!
//! Only Secrets that their service account lists were generated; others are kept.

mod decision;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, Patch, Preconditions};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use windlass::{
    Result, cache::Informer, context::Context, key::ObjectKey, operator::Operator, scope::Scope, shutdown::Shutdown,
};
use windlass_builtins::kinds::pod::references;

use self::decision::{Decision, INVALID_SINCE, Period, date, decide, generated_for, is_unused};
use super::ClusterCertificates;
use crate::json_text;

/// Interval at which tokens are checked.
const PERIOD: Duration = Duration::from_secs(24 * 3600);
const NAMESPACE: &str = "kube-system";
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    operator.leader_task("legacy-serviceaccount-token-cleaner-controller", run)
}

/// The objects that decide about a token.
struct Caches {
    secrets: Informer<Secret>,
    accounts: Informer<ServiceAccount>,
    pods: Informer<Pod>,
}

async fn run(ctx: Context, shutdown: Shutdown) -> Result<()> {
    let tokens = Scope::all().fields("type=kubernetes.io/service-account-token");
    let caches = Caches {
        secrets: ctx.caches().informer(&tokens),
        accounts: ctx.caches().informer(&Scope::all()),
        pods: ctx.caches().informer(&Scope::all()),
    };
    let passes = async {
        caches.secrets.synced().await;
        caches.accounts.synced().await;
        caches.pods.synced().await;
        let mut timer = interval(PERIOD);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            if let Err(error) = reconcile(&ctx, &caches).await {
                tracing::warn!(%error, "failed to look for unused service account tokens");
            }
        }
    };
    tokio::select! {
        () = passes => {}
        () = shutdown.draining() => {}
    }
    Ok(())
}

async fn reconcile(ctx: &Context, caches: &Caches) -> Result<()> {
    let now = windlass_clock::now();
    let Some(period) = tracked_since(ctx).await?.and_then(|since| Period::of(since, now)) else { return Ok(()) };
    let mut mounted: HashMap<String, HashSet<String>> = HashMap::new();
    for secret in caches.secrets.list().into_iter().filter(|secret| is_unused(secret, &period)) {
        let key = ObjectKey::of(secret.as_ref());
        let namespace = secret.metadata.namespace.clone().unwrap_or_default();
        let accounts = caches.accounts.list_in(&namespace);
        if !accounts.iter().any(|account| generated_for(&secret, account)) {
            continue;
        }
        let used = mounted.entry(namespace).or_insert_with_key(|namespace| used_secrets(&caches.pods, namespace));
        if used.contains(key.name()) {
            continue;
        }
        let acted = match decide(&secret, &period) {
            Decision::Keep => Ok(()),
            Decision::Invalidate => invalidate(ctx, &secret, &key, now).await,
            Decision::Delete => delete(ctx, &secret).await,
        };
        if let Err(error) = acted {
            tracing::warn!(%error, secret = %key, "failed to clean up an unused service account token");
        }
    }
    Ok(())
}

/// Returns the day since which uses of tokens are recorded; `None` if nothing records them.
async fn tracked_since(ctx: &Context) -> Result<Option<Date>> {
    let tracking = ctx.live().get::<ConfigMap>(&ObjectKey::namespaced(NAMESPACE, TRACKING)).await?;
    let data = tracking.and_then(|tracking| tracking.data).unwrap_or_default();
    Ok(data.get("since").and_then(|since| date(since)))
}

/// Returns the names of the Secrets that pods of a namespace refer to.
fn used_secrets(pods: &Informer<Pod>, namespace: &str) -> HashSet<String> {
    let mut used = HashSet::new();
    for pod in pods.list_in(namespace) {
        if let Ok(pod) = json_text::to_value(pod.as_ref()) {
            used.extend(references::secrets(&pod).map(str::to_owned));
        }
    }
    used
}

async fn invalidate(ctx: &Context, secret: &Arc<Secret>, key: &ObjectKey, now: Timestamp) -> Result<()> {
    let today = now.to_zoned(TimeZone::UTC).date().to_string();
    tracing::info!(secret = %key, "marking an unused service account token as invalid");
    let patch = json!({"metadata": {"uid": secret.metadata.uid, "labels": {INVALID_SINCE: today}}});
    ctx.kind::<Secret>().patch(key, &Patch::Merge(patch)).await?;
    Ok(())
}

async fn delete(ctx: &Context, secret: &Arc<Secret>) -> Result<()> {
    tracing::info!(secret = %ObjectKey::of(secret.as_ref()), "deleting an unused service account token");
    let preconditions = Preconditions { uid: None, resource_version: secret.metadata.resource_version.clone() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match ctx.delete_with(secret.as_ref(), &params).await {
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
