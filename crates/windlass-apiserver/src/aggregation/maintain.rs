//! Keeps the condition `Available` of APIServices of other servers, and what those servers say about their API.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::FutureExt as _;
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::{
    task::{AbortHandle, JoinSet},
    time::Instant,
};
use tracing::warn;
use windlass_builtins::kinds::api_service::{self, Availability};

use super::{
    Entry, GROUP, PLURAL,
    availability::{self, Backend},
    discovery,
    link::Link,
};
use crate::{bootstrap::request, meta, server::Inner, status::ApiError};

/// Interval between checks of an unchanged APIService.
const PERIOD: Duration = Duration::from_secs(30);
/// Interval at which the resources of a server are read again.
const REFRESH: Duration = Duration::from_secs(60);
/// The delay after a failure, which doubles with every further one.
const FIRST_RETRY: Duration = Duration::from_millis(5);

/// Checks all APIServices of other servers, each in a task of its own, until the server is dropped.
pub(crate) async fn run(server: Weak<Inner>) {
    let Some(objects) = server.upgrade().map(|server| server.aggregation.objects.clone()) else { return };
    let mut tasks = JoinSet::new();
    let mut known: HashMap<Arc<str>, AbortHandle> = HashMap::new();
    loop {
        let mut changed = pin!(objects.changed());
        changed.as_mut().enable();
        let Some(routes) = server.upgrade().map(|server| server.aggregation.routes()) else { return };
        known.retain(|name, task| {
            let kept = routes.remotes().any(|entry| entry.name == *name);
            if !kept {
                task.abort();
            }
            kept
        });
        for entry in routes.remotes() {
            if !known.contains_key(&entry.name) {
                let task = tasks.spawn(keep(server.clone(), entry.name.clone()).boxed());
                known.insert(entry.name.clone(), task);
            }
        }
        drop(routes);
        tokio::select! {
            () = changed => {}
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// The last check of an APIService.
struct Checked {
    link: Arc<Link>,
    /// The revisions of the service and its endpoints.
    revisions: Vec<u64>,
    available: bool,
    /// Time at which the resources of the server were read.
    refreshed: Option<Instant>,
    failures: u32,
    next: Instant,
}

impl Checked {
    /// Returns whether nothing has changed since.
    fn is_current(&self, entry: &Entry, link: &Arc<Link>, revisions: &[u64]) -> bool {
        Arc::ptr_eq(&self.link, link) && self.revisions == revisions && self.available == entry.available
    }
}

/// Checks an APIService whenever something changes that affects it, and periodically, until the task is aborted.
async fn keep(server: Weak<Inner>, name: Arc<str>) {
    let Some((objects, services, slices)) = server.upgrade().map(|server| {
        let cache = |prefix| server.storage.cache(prefix);
        (server.aggregation.objects.clone(), cache("/core/services/"), cache("/discovery.k8s.io/endpointslices/"))
    }) else {
        return;
    };
    let mut last: Option<Checked> = None;
    loop {
        let (mut object_changed, mut service_changed, mut slices_changed) =
            (pin!(objects.changed()), pin!(services.changed()), pin!(slices.changed()));
        object_changed.as_mut().enable();
        service_changed.as_mut().enable();
        slices_changed.as_mut().enable();
        let Some(running) = server.upgrade() else { return };
        let stopped = running.stopped();
        // A server that stops must not wait for a server that does not respond.
        tokio::select! {
            checked = next_check(&running, &name, last.take()) => last = checked,
            () = stopped => return,
        }
        drop(running);
        let next = last.as_ref().map_or_else(|| Instant::now() + PERIOD, |last| last.next);
        tokio::select! {
            () = object_changed => {}
            () = service_changed => {}
            () = slices_changed => {}
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

/// Checks an APIService if something has changed, or if it is time. Returns the last check; `None` if the APIService is
/// gone.
async fn next_check(server: &Arc<Inner>, name: &str, last: Option<Checked>) -> Option<Checked> {
    let entry = server.aggregation.remote_named(name)?;
    let link = entry.link.as_ref()?;
    let backend = Backend::of(server, link.service.as_ref()?);
    let revisions = backend.revisions();
    let now = Instant::now();
    let last = last.filter(|last| last.is_current(&entry, link, &revisions));
    if last.as_ref().is_some_and(|last| now < last.next) {
        return last;
    }
    let outcome = availability::check(server, &entry, link, &backend).await;
    let available = outcome.status == "True";
    let mut failed = outcome.reason == "FailedDiscoveryCheck";
    if let Err(error) = write_condition(server, name, &outcome).await {
        warn!(%error, "failed to update status of apiservice {name}");
        failed = true;
    }
    let mut refreshed = last.as_ref().and_then(|last| last.refreshed);
    if !available {
        link.forget();
        refreshed = None;
    } else if refreshed.is_none_or(|at| at + REFRESH <= now) {
        refreshed = Some(now);
        if let Err(error) = discovery::refresh(server, &entry, link).await {
            warn!(error, "failed to read the resources of apiservice {name}");
            link.forget();
            refreshed = None;
            failed = true;
        }
    }
    let failures = if failed { last.map_or(0, |last| last.failures).saturating_add(1) } else { 0 };
    let delay = match failures {
        0 => PERIOD,
        failures => FIRST_RETRY.saturating_mul(1 << failures.min(16)).min(PERIOD),
    };
    Some(Checked { link: link.clone(), revisions, available, refreshed, failures, next: now + delay })
}

/// Writes the condition, unless the object has it.
async fn write_condition(server: &Arc<Inner>, name: &str, availability: &Availability) -> Result<(), ApiError> {
    let Some(object) = server.aggregation.objects.get(name) else { return Ok(()) };
    let mut object: Value = object.to_value();
    if !api_service::set_available(&mut object, availability, &meta::format_time(server.now())) {
        return Ok(());
    }
    let path = format!("/apis/{GROUP}/v1/{PLURAL}/{name}/status");
    match request(server, Method::PUT, &path, &object).await {
        // Another writer was faster, and the change is noticed.
        Err(error) if matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(()),
        result => result,
    }
}
