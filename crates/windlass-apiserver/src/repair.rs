//! Repair: checks at the start and periodically that addresses and ports are allocated as the stored services say.
//!
//! The allocator follows the stored services, so there is nothing to repair unless this server has a defect. Services
//! that share an address or a port can still be in the store: another program or an earlier version has written them.
//! They are reported by an event, as kube-apiserver does.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
    time::Duration,
};

use http::HeaderMap;
use serde_json::{Value, json};
use tracing::{error, warn};
use windlass_builtins::kinds::service::allocator::Problem;
use windlass_schema::sorting::Gather as _;

use crate::{
    call::Call,
    meta,
    options::WriteOptions,
    request_info::ResourceRequest,
    server::Inner,
    status::{ApiError, Result},
    user::User,
    write::{ManagedFieldsMode, allocate, create_object},
};

/// The interval of kube-apiserver's repair controllers.
const INTERVAL: Duration = Duration::from_secs(3 * 60);

/// Runs the check periodically until the server is dropped.
pub(crate) async fn run(server: Weak<Inner>) {
    let mut reported = BTreeSet::new();
    loop {
        {
            let Some(server) = server.upgrade() else { return };
            let problems = check(&server).await;
            for problem in problems.difference(&reported) {
                report(&server, problem).await;
            }
            reported = problems;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Corrects the allocator, and returns the problems of stored services.
async fn check(server: &Inner) -> BTreeSet<Problem> {
    let cache = server.storage.cache(allocate::SERVICES);
    loop {
        let services = {
            let mut allocator = server.services.lock();
            let services = cache.snapshot();
            // Only then have all these services been observed.
            if services.revision <= server.storage.applied() {
                for service in allocate::observe_all(&mut allocator, &services) {
                    error!(service, "repaired the allocation of a service's addresses and ports");
                }
                return allocator.problems().into_iter().gather();
            }
            services
        };
        server.storage.reached(services.revision).await;
    }
}

async fn report(server: &Arc<Inner>, problem: &Problem) {
    let Problem { service, reason, message, .. } = problem;
    warn!(service, reason, "{message}");
    if let Err(error) = create_event(server, problem).await {
        warn!(service, %error, "failed to create an event");
    }
}

/// Creates an event about a service.
async fn create_event(server: &Arc<Inner>, problem: &Problem) -> Result<()> {
    let Some(service) = server.storage.cache(allocate::SERVICES).get(&problem.service) else { return Ok(()) };
    let (namespace, name) = (&*service.header.namespace, &*service.header.name);
    let registry = server.registry.load_full();
    let endpoint = registry.endpoint("", "v1", "events").ok_or_else(ApiError::no_such_resource)?;
    let target = ResourceRequest { version: "v1", namespace, resource: "events", ..ResourceRequest::default() };
    let (user, headers) = (User::apiserver(), HeaderMap::new());
    let call = Call::internal(server, endpoint, target, &user, &headers);
    let event = endpoint.normalize(event(problem, namespace, name, &service.header.uid, server));
    create_object(&call, event, &WriteOptions::internal(), ManagedFieldsMode::AlreadySet).await.map(drop)
}

fn event(problem: &Problem, namespace: &str, name: &str, uid: &str, server: &Inner) -> Value {
    let now = meta::format_time(server.now());
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{}", meta::new_uid()), "namespace": namespace},
        "involvedObject": {"kind": "Service", "apiVersion": "v1", "namespace": namespace, "name": name, "uid": uid},
        "type": "Warning", "reason": problem.reason, "message": problem.message, "count": 1,
        "source": {"component": problem.controller}, "reportingComponent": problem.controller,
        "firstTimestamp": now, "lastTimestamp": now,
    })
}
