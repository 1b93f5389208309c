//! One pass over all objects of a controller, for plans.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, time::Duration};

use futures_util::{FutureExt, future::join_all};
use kube::Client;

use crate::{
    context::{ContextError, SharedHandles},
    controller::{
        AnyController, Attempt,
        handler::Handler,
        run::{LAST_WRITES, Prepared},
        source::{Opened, PendingSubscription},
        worker::Handle as _,
    },
    key::ObjectKey,
    watch::UnreadableObject,
};

/// Outcome of a pass.
#[derive(Debug, Default)]
pub(crate) struct PassReport {
    pub(crate) reconciled: usize,
    /// Objects that could not be read or whose reconcile failed; without one if the pass could not begin.
    pub(crate) failures: Vec<(Option<ObjectKey>, String)>,
    /// Number of objects that were skipped because they are being deleted.
    pub(crate) terminating: usize,
    pub(crate) has_daemon: bool,
    /// The resource that the controller reconciles, if it is not served.
    pub(crate) absent: Option<String>,
}

impl AnyController {
    /// Replaces the controller's own client, if it has one.
    pub(crate) fn plan_with(&mut self, wrap: impl FnOnce(Client) -> Client) {
        self.client = self.client.take().map(wrap);
    }

    /// Reconciles every object once, in order, except for objects that are being deleted.
    pub(crate) async fn pass(mut self, handles: &SharedHandles, sync_limit: Duration) -> PassReport {
        self.prepare(handles);
        let mut report = PassReport::default();
        let Some(prepared) = self.prepared.take() else { return report };
        let Prepared { source_context, kind_info, primary, first, others, sets, daemons, .. } = prepared;
        report.has_daemon = daemons.is_some();
        // Kinds that are not served are reported as such, and fail the reconciles that need them.
        let settled = first.iter().chain(&others).map(async |subscription| {
            let problem = subscription.informer().settled().await?;
            Some((None, format!("failed to list {}: {problem}", subscription.resource().plural)))
        });
        match tokio::time::timeout(sync_limit, join_all(settled.map(FutureExt::boxed))).await {
            Ok(problems) => report.failures.extend(problems.into_iter().flatten()),
            Err(_) => report.failures.push((None, format!("the caches did not sync within {sync_limit:?}"))),
        }
        if !report.failures.is_empty() {
            return report;
        }
        if let Some(absent) = first.iter().find(|first| first.is_absent()) {
            let resource = absent.resource();
            report.absent = Some(format!("{}.{}", resource.plural, resource.group));
            return report;
        }
        let context = source_context.context.clone();
        report.failures.extend(unreadable(first.iter().chain(&others)));
        let mut keys: Vec<_> = primary.iter().flat_map(|informer| informer.keys()).collect();
        keys.sort();
        keys.dedup();
        // Their cached states are outdated.
        keys.retain(|key| !primary.iter().any(|informer| informer.unreadable(key).is_some()));
        let handler = Handler {
            primary,
            kind_info,
            reconciler: self.reconciler,
            finalizer: self.finalizer,
            reconcile_terminating: false,
            on_deleted: None,
            on_error: None,
            daemons: None,
            context: context.clone(),
        };
        // Unlike other sources, which would only add keys: reconciles read what they have added to a set.
        let _sets: Vec<Opened> = sets.into_iter().map(|open| open()).collect();
        for key in keys {
            if handler.is_terminating(&key) {
                report.terminating += 1;
                continue;
            }
            let about = Attempt::default();
            let attempt = AssertUnwindSafe(handler.handle(&key, &about)).catch_unwind();
            let limit = self.timeout.unwrap_or(Duration::MAX);
            let failure = match tokio::time::timeout(limit, attempt).await {
                Ok(Ok(Ok(_))) => None,
                Ok(Ok(Err(error))) => Some(error.to_string()),
                Ok(Err(panic)) => Some(format!("the reconcile panicked: {}", crate::panic::message(panic.as_ref()))),
                Err(_) => Some(format!("the reconcile took longer than {limit:?}")),
            };
            report.reconciled += 1;
            report.failures.extend(failure.map(|failure| (Some(key), failure)));
        }
        context.writes().end(LAST_WRITES).await;
        report
    }
}

/// Returns the objects of the controller's kinds that fail to deserialize, with the errors that reads of them return.
fn unreadable<'a>(
    subscriptions: impl Iterator<Item = &'a PendingSubscription>,
) -> BTreeSet<(Option<ObjectKey>, String)> {
    let of = |subscription: &PendingSubscription| {
        let kind = subscription.resource().kind.clone();
        let describe = move |UnreadableObject { key, problem, .. }| {
            let error = ContextError::Unreadable { kind: kind.clone(), key: key.clone(), problem };
            (Some(key), error.to_string())
        };
        subscription.informer().all_unreadable().into_iter().map(describe)
    };
    subscriptions.flat_map(of).collect()
}
