//! `/metrics`: the server's metrics under the names of kube-apiserver.

use std::{
    collections::HashMap,
    fmt::Write,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use http::StatusCode;
use parking_lot::Mutex;
use windlass_builtins::{
    kinds::service::allocator::NetworkUsage,
    resource::{Resource, Subresource},
};
use windlass_schema::types::Str;
use windlass_store::Usage;

use crate::{
    endpoint::Endpoint,
    flow_control::histogram::{Histogram, Unit, nanoseconds},
    pieces::HeldBytes,
    server::Inner,
    verb::Verb,
};

const MICROS: u64 = 1_000;
const MILLIS: u64 = 1_000_000;

/// The upper bounds of the latency histogram, in nanoseconds.
const BUCKETS: [u64; 12] = [
    500 * MICROS,
    MILLIS,
    2_500 * MICROS,
    5 * MILLIS,
    10 * MILLIS,
    25 * MILLIS,
    50 * MILLIS,
    100 * MILLIS,
    250 * MILLIS,
    500 * MILLIS,
    1_000 * MILLIS,
    5_000 * MILLIS,
];

/// The latencies of requests with the same labels.
type Series = Histogram<12>;

/// The counters of a server.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<HashMap<Labels, Arc<Series>>>,
    inflight: AtomicI64,
    /// Encoded pieces of lists in memory.
    pub(crate) lists: HeldBytes,
}

/// The labels of a series. They name served resources only, so that arbitrary requests create no series.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Labels {
    group: Str,
    version: Str,
    resource: Str,
    subresource: Str,
    verb: Verb,
    code: u16,
}

/// The series of the requests for the objects of an endpoint that succeed, by verb. They are looked up only once.
#[derive(Default)]
pub(crate) struct UsualSeries([OnceLock<Arc<Series>>; Verb::Unknown as usize]);

/// A request being served.
pub(crate) struct Served<'a> {
    metrics: &'a Metrics,
    start: Instant,
    target: Option<(Verb, Arc<Endpoint>, Option<Str>)>,
}

impl Metrics {
    pub(crate) fn begin(&self) -> Served<'_> {
        self.inflight.fetch_add(1, Ordering::Relaxed);
        Served { metrics: self, start: Instant::now(), target: None }
    }

    fn series(&self, labels: Labels) -> Arc<Series> {
        let new = || Arc::new(Series::new(Unit::Nanosecond, &BUCKETS));
        self.requests.lock().entry(labels).or_insert_with(new).clone()
    }

    /// Returns the metrics in the Prometheus text format.
    pub(crate) fn render(&self, server: &Inner) -> String {
        let mut out = String::new();
        let requests = self.requests.lock();
        let mut requests: Vec<_> = requests.iter().collect();
        requests.sort_unstable_by_key(|(labels, _)| *labels);
        out += "# HELP apiserver_request_total Counter of requests broken out for each verb, resource and code.\n";
        out += "# TYPE apiserver_request_total counter\n";
        for (labels, series) in &requests {
            let _ = writeln!(out, "apiserver_request_total{{{}}} {}", labels.text(), series.count());
        }
        out += "# HELP apiserver_request_duration_seconds Response latency in seconds, watches excepted.\n";
        out += "# TYPE apiserver_request_duration_seconds histogram\n";
        for (labels, series) in requests.iter().filter(|(labels, _)| labels.verb != Verb::Watch) {
            series.render("apiserver_request_duration_seconds", &labels.text(), &mut out);
        }
        out += "# HELP apiserver_current_inflight_requests Number of requests being served.\n";
        out += "# TYPE apiserver_current_inflight_requests gauge\n";
        let _ = writeln!(out, "apiserver_current_inflight_requests {}", self.inflight.load(Ordering::Relaxed));
        let (open, evicted, rejected) = server.connections.counts();
        out += "# HELP windlass_open_connections Number of open connections.\n";
        out += "# TYPE windlass_open_connections gauge\n";
        let _ = writeln!(out, "windlass_open_connections {open}");
        out += "# HELP windlass_closed_connections_total Number of connections closed because of a limit.\n";
        out += "# TYPE windlass_closed_connections_total counter\n";
        let _ = writeln!(out, "windlass_closed_connections_total{{reason=\"idle\"}} {evicted}");
        let _ = writeln!(out, "windlass_closed_connections_total{{reason=\"rejected\"}} {rejected}");
        let (bytes, rejected) = server.uploads.counts();
        out += "# HELP windlass_request_body_bytes Memory charged for request bodies.\n";
        out += "# TYPE windlass_request_body_bytes gauge\n";
        let _ = writeln!(out, "windlass_request_body_bytes {bytes}");
        out += "# HELP windlass_rejected_request_bodies_total Number of requests rejected by the memory budget.\n";
        out += "# TYPE windlass_rejected_request_bodies_total counter\n";
        let _ = writeln!(out, "windlass_rejected_request_bodies_total {rejected}");
        out += "# HELP windlass_encoded_list_bytes Memory of encoded parts of lists, shared or not sent yet.\n";
        out += "# TYPE windlass_encoded_list_bytes gauge\n";
        let _ = writeln!(out, "windlass_encoded_list_bytes {}", self.lists.count());
        server.flow_control.render(&mut out);
        server.policies.metrics.render(&mut out);
        server.audit.render(&mut out);
        server.authentication.render(&mut out);
        if let Some(jwt) = &server.jwt {
            jwt.render(&mut out);
        }
        server.chain.render(&mut out);
        out += "# HELP windlass_store_revision Newest revision in the caches.\n";
        out += "# TYPE windlass_store_revision gauge\n";
        let _ = writeln!(out, "windlass_store_revision {}", server.storage.applied());
        render_damaged(&mut out, server);
        render_allocations(&mut out, server);
        render_sizes(&mut out, server.storage.store().usage());
        out
    }
}

/// Writes the numbers of damaged objects; a resource without any has no series.
fn render_damaged(out: &mut String, server: &Inner) {
    *out += "# HELP windlass_damaged_objects Number of stored values that are not objects and are not served.\n";
    *out += "# TYPE windlass_damaged_objects gauge\n";
    for cache in server.storage.caches() {
        let count = cache.damaged_count();
        // A prefix is `/group/resource/`; a key that has another form is a prefix of its own.
        let mut parts = cache.prefix().split('/').skip(1);
        if let (1.., Some(group), Some(resource)) = (count, parts.next(), parts.next()) {
            let group = if group == "core" { "" } else { group };
            let labels = format!("group=\"{}\",resource=\"{}\"", escape(group), escape(resource));
            let _ = writeln!(out, "windlass_damaged_objects{{{labels}}} {count}");
        }
    }
}

/// Escapes the value of a label.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes the numbers of cluster IPs and node ports.
fn render_allocations(out: &mut String, server: &Inner) {
    let services = server.services.lock();
    let numbers = services.allocated();
    let networks = |count: fn(&NetworkUsage) -> usize| {
        numbers.networks.iter().map(|usage| (format!("{{cidr=\"{}\"}}", usage.cidr), count(usage))).collect()
    };
    for (name, help, series) in [
        ("clusterip_allocator_allocated_ips", "allocated cluster IPs", networks(|usage| usage.allocated)),
        ("clusterip_allocator_available_ips", "free cluster IPs", networks(|usage| usage.free)),
        ("nodeport_allocator_allocated_ports", "allocated node ports", vec![(String::new(), numbers.ports)]),
        ("nodeport_allocator_available_ports", "free node ports", vec![(String::new(), numbers.free_ports)]),
    ] {
        let _ = writeln!(out, "# HELP kube_apiserver_{name} Number of {help}.");
        let _ = writeln!(out, "# TYPE kube_apiserver_{name} gauge");
        for (labels, number) in series {
            let _ = writeln!(out, "kube_apiserver_{name}{labels} {number}");
        }
    }
}

/// Appends the sizes of the store, under the names of kube-apiserver and etcd.
fn render_sizes(out: &mut String, usage: Usage) {
    let sizes = [
        (
            "apiserver_storage_size_bytes",
            "{storage_cluster_id=\"etcd-0\"}",
            "Size of the store's file in bytes.",
            Some(usage.file),
        ),
        (
            "etcd_mvcc_db_total_size_in_use_in_bytes",
            "",
            "Size of all keys and values with their history.",
            Some(usage.in_use),
        ),
        ("etcd_server_quota_backend_bytes", "", "Quota of the store; 0 if there is none.", usage.quota.or(Some(0))),
        (
            "windlass_store_available_bytes",
            "",
            "Number of bytes by which the store's file can still grow.",
            usage.available,
        ),
    ];
    for (name, labels, help, size) in sizes {
        let Some(size) = size else { continue };
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{labels} {size}");
    }
}

impl Labels {
    fn text(&self) -> String {
        format!(
            "verb=\"{}\",group=\"{}\",version=\"{}\",resource=\"{}\",subresource=\"{}\",code=\"{}\"",
            verb_label(self.verb),
            self.group,
            self.version,
            self.resource,
            self.subresource,
            self.code
        )
    }
}

/// Returns the name of a verb in metrics.
fn verb_label(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Watch => "WATCH",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch => "PATCH",
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
        Verb::Unknown => "OTHER",
    }
}

impl Served<'_> {
    /// Sets the target of the request.
    pub(crate) fn describe(&mut self, verb: Verb, endpoint: &Arc<Endpoint>, subresource: Option<&Subresource>) {
        self.target = Some((verb, endpoint.clone(), subresource.map(|sub| sub.name.clone())));
    }

    /// Records the request when its response is ready.
    pub(crate) fn end(mut self, code: StatusCode) {
        let Some((verb, endpoint, subresource)) = self.target.take() else { return };
        let took = nanoseconds(self.start.elapsed());
        let usual_code = if verb == Verb::Create { StatusCode::CREATED } else { StatusCode::OK };
        let usual = endpoint.usual.0.get(verb as usize).filter(|_| subresource.is_none() && code == usual_code);
        let series = || {
            let Resource { group, version, plural, .. } = &*endpoint.resource;
            self.metrics.series(Labels {
                group: group.clone(),
                version: version.clone(),
                resource: plural.clone(),
                subresource: subresource.clone().unwrap_or_default(),
                verb,
                code: code.as_u16(),
            })
        };
        match usual {
            Some(usual) => usual.get_or_init(series).observe(took),
            None => series().observe(took),
        }
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.metrics.inflight.fetch_sub(1, Ordering::Relaxed);
    }
}
