//! ServiceMonitor for the Prometheus Operator.

use serde_json::json;

use super::{Manifest, OperatorManifests, Part};

pub(super) fn manifests(operator: &OperatorManifests) -> Option<Manifest> {
    if !operator.service_monitor || operator.metrics_port.is_none() {
        return None;
    }
    let mut labels = operator.selector();
    labels["app.kubernetes.io/component"] = json!("metrics");
    let spec = json!({
        "endpoints": [{ "path": "/metrics", "port": "metrics", "scheme": "http" }],
        "selector": { "matchLabels": labels },
    });
    let resource = ("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors");
    let namespace = Some(operator.namespace.as_str());
    Some(operator.manifest(Part::Monitoring, resource, namespace, &operator.name, json!({ "spec": spec })))
}
