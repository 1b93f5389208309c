//! The server.

use std::sync::Arc;

use windlass_extension::Extension;
use windlass_resource_metrics::{RESOLUTION, ResourceMetrics, manifests};

use crate::Kubelets;

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

/// Measures all nodes and pods, periodically.
async fn keep_measuring(metrics: Arc<ResourceMetrics>) {
    loop {
        if let Err(error) = metrics.measure().await {
            tracing::warn!(error, "failed to measure the nodes");
        }
        tokio::time::sleep(RESOLUTION).await;
    }
}
