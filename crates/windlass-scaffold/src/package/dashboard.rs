//! A Grafana dashboard of the metrics that every operator of this SDK exports. The metrics have the names of
//! controller-runtime, so the dashboard also works for operators written in Go.

use serde_json::{Value, json};

use super::{Package, PackageFile};

/// A row of panels: its title, and for each panel the title, the unit and the queries with their legends.
type Row = (&'static str, &'static [(&'static str, &'static str, &'static [(&'static str, &'static str)])]);

/// `$s` is the selector of the operator's time series.
const ROWS: &[Row] = &[
    (
        "Reconciles",
        &[
            (
                "Reconciles by result",
                "ops",
                &[(
                    "sum by (controller, result) (rate(controller_runtime_reconcile_total{$s}[$__rate_interval]))",
                    "{{controller}} {{result}}",
                )],
            ),
            (
                "Errors",
                "ops",
                &[(
                    "sum by (controller) (rate(controller_runtime_reconcile_errors_total{$s}[$__rate_interval]))",
                    "{{controller}}",
                )],
            ),
            (
                "Reconcile duration",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (controller, le) \
                         (rate(controller_runtime_reconcile_time_seconds_bucket{$s}[$__rate_interval])))",
                        "{{controller}} half",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (controller, le) \
                         (rate(controller_runtime_reconcile_time_seconds_bucket{$s}[$__rate_interval])))",
                        "{{controller}} 99 %",
                    ),
                ],
            ),
            (
                "Workers",
                "short",
                &[
                    ("sum by (controller) (controller_runtime_active_workers{$s})", "{{controller}} busy"),
                    (
                        "sum by (controller) (controller_runtime_max_concurrent_reconciles{$s})",
                        "{{controller}} at most",
                    ),
                ],
            ),
        ],
    ),
    (
        "Queues",
        &[
            ("Depth", "short", &[("sum by (name) (workqueue_depth{$s})", "{{name}}")]),
            (
                "Adds and retries",
                "ops",
                &[
                    ("sum by (name) (rate(workqueue_adds_total{$s}[$__rate_interval]))", "{{name}} added"),
                    ("sum by (name) (rate(workqueue_retries_total{$s}[$__rate_interval]))", "{{name}} again"),
                ],
            ),
            (
                "Queue wait time, p99",
                "s",
                &[(
                    "histogram_quantile(0.99, sum by (name, le) \
                     (rate(workqueue_queue_duration_seconds_bucket{$s}[$__rate_interval])))",
                    "{{name}}",
                )],
            ),
            (
                "Longest-running reconcile",
                "s",
                &[("max by (name) (workqueue_longest_running_processor_seconds{$s})", "{{name}}")],
            ),
        ],
    ),
    (
        "API server",
        &[
            (
                "API requests by status code",
                "reqps",
                &[(
                    "sum by (method, code) (rate(rest_client_requests_total{$s}[$__rate_interval]))",
                    "{{method}} {{code}}",
                )],
            ),
            ("Cached objects", "short", &[("sum by (name) (informer_objects{$s})", "{{name}}")]),
            (
                "Watch failures",
                "ops",
                &[("sum by (name) (rate(reflector_failures_total{$s}[$__rate_interval]))", "{{name}}")],
            ),
            ("Leader", "short", &[("max by (pod) (leader_election_master_status{$s})", "{{pod}}")]),
        ],
    ),
    (
        "Process",
        &[
            ("CPU", "short", &[("sum by (pod) (rate(process_cpu_seconds_total{$s}[$__rate_interval]))", "{{pod}}")]),
            ("Memory", "bytes", &[("sum by (pod) (process_resident_memory_bytes{$s})", "{{pod}}")]),
        ],
    ),
];

const WEBHOOKS: Row = (
    "Webhooks",
    &[
        (
            "Requests",
            "reqps",
            &[(
                "sum by (webhook, code) (rate(controller_runtime_webhook_requests_total{$s}[$__rate_interval]))",
                "{{webhook}} {{code}}",
            )],
        ),
        (
            "Latency, p99",
            "s",
            &[(
                "histogram_quantile(0.99, sum by (webhook, le) \
                 (rate(controller_runtime_webhook_latency_seconds_bucket{$s}[$__rate_interval])))",
                "{{webhook}}",
            )],
        ),
    ],
);

/// Number of columns of Grafana's grid.
const COLUMNS: usize = 24;
const HEIGHT: usize = 8;

pub(super) fn file(package: &Package<'_>) -> PackageFile {
    let name = package.name();
    let mut text = format!("{:#}", dashboard(package));
    text.push('\n');
    PackageFile::generated(format!("dist/grafana/{name}.json"), text)
}

fn dashboard(package: &Package<'_>) -> Value {
    let name = package.name();
    let rows = ROWS.iter().chain(package.has_webhooks().then_some(&WEBHOOKS));
    let mut panels = Vec::new();
    let mut y = 0;
    for (title, row) in rows {
        panels.push(json!({
            "id": panels.len() + 1, "type": "row", "title": title, "collapsed": false, "panels": [],
            "gridPos": { "h": 1, "w": COLUMNS, "x": 0, "y": y },
        }));
        let width = COLUMNS / row.len();
        for (index, (title, unit, queries)) in row.iter().enumerate() {
            let place = json!({ "h": HEIGHT, "w": width, "x": index * width, "y": y + 1 });
            panels.push(panel(panels.len() + 1, title, unit, queries, place));
        }
        y += HEIGHT + 1;
    }
    let variable = |label: &str, query: &str, value: &str| {
        json!({
            "name": label, "label": label, "type": "query", "datasource": datasource(), "refresh": 2, "sort": 1,
            "includeAll": true, "multi": true, "allValue": ".*",
            "query": { "query": query, "refId": label }, "definition": query,
            "current": { "text": value, "value": if value == "All" { "$__all" } else { value } },
        })
    };
    json!({
        "title": name,
        "uid": format!("windlass-{}", name.chars().take(31).collect::<String>()),
        "description": "Generated by `windlass generate`. DO NOT EDIT.",
        "tags": ["kubernetes", "operator"],
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": 39,
        "time": { "from": "now-1h", "to": "now" },
        "timezone": "browser",
        "templating": { "list": [
            { "name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus" },
            variable("namespace", "label_values(controller_runtime_active_workers, namespace)", "All"),
            variable("job", "label_values(controller_runtime_active_workers{namespace=~\"$namespace\"}, job)",
                &format!("{name}-metrics")),
        ] },
        "panels": panels,
    })
}

fn panel(id: usize, title: &str, unit: &str, queries: &[(&str, &str)], place: Value) -> Value {
    let names = ["A", "B", "C"];
    let targets: Vec<Value> = queries
        .iter()
        .zip(names)
        .map(|((query, legend), name)| {
            let query = query.replace("$s", "namespace=~\"$namespace\", job=~\"$job\"");
            json!({ "refId": name, "expr": query, "legendFormat": legend, "datasource": datasource() })
        })
        .collect();
    json!({
        "id": id, "type": "timeseries", "title": title, "datasource": datasource(), "gridPos": place,
        "fieldConfig": { "defaults": { "unit": unit, "min": 0 }, "overrides": [] },
        "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
        "targets": targets,
    })
}

fn datasource() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}
