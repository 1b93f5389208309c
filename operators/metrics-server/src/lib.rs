//! A metrics server: what nodes and pods use, for `kubectl top` and horizontal pod autoscalers.
//!
//! Kubelets report the CPU time and the memory of nodes and containers. The server reads that every 15 seconds, and
//! computes usage from the last two reports.

mod kubelets;

use std::sync::Arc;

use windlass_extension::Extension;
use windlass_resource_metrics::{RESOLUTION, ResourceMetrics, manifests};

pub use self::kubelets::Kubelets;

/// Returns the server.
pub fn extension() -> Extension {
    let kubelets = Arc::new(Kubelets::default());
    let metrics = ResourceMetrics::new(kubelets.clone());
    let mut extension = Extension::new(manifests::NAME).namespace(manifests::NAMESPACE);
    for kind in metrics.kinds() {
        extension = extension.computed(kind);
    }
    for object in manifests::permissions() {
        extension = extension.manifest(object);
    }
    extension.background(move |client| {
        kubelets.connect(client);
        keep_measuring(metrics)
    })
}

/// Measures all nodes and pods periodically.
async fn keep_measuring(metrics: Arc<ResourceMetrics>) {
    loop {
        if let Err(error) = metrics.measure().await {
            tracing::warn!(error, "failed to measure the nodes");
        }
        tokio::time::sleep(RESOLUTION).await;
    }
}
