//! The kubelets of a cluster, reached through its API server.

use std::{collections::BTreeMap, sync::OnceLock, time::Duration};

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, Resource as _, api::ListParams, core::ObjectMeta};
use windlass_resource_metrics::{MeasuredObject, MetricsSource, NodeSample, exposition};

/// Maximum time for a kubelet to respond.
const LIMIT: Duration = Duration::from_secs(10);
/// The number of kubelets that are queried at the same time.
const CONCURRENCY: usize = 32;

/// Measures nodes and pods with the kubelets' `/metrics/resource`.
#[derive(Default)]
pub struct Kubelets {
    client: OnceLock<Client>,
}

impl Kubelets {
    /// Sets the client of the API server. Nothing is measured before.
    pub fn connect(&self, client: Client) {
        // Only the first one is used.
        let _ = self.client.set(client);
    }

    fn client(&self) -> Result<Client, String> {
        self.client.get().cloned().ok_or_else(|| "the server is starting".to_owned())
    }
}

/// Gets the metrics of a kubelet.
async fn ask(client: &Client, node: &str) -> Result<NodeSample, String> {
    let path = format!("/api/v1/nodes/{node}/proxy/metrics/resource");
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    let asked = tokio::time::timeout(LIMIT, client.request_text(request)).await;
    let text = asked.map_err(|_| "it took too long".to_owned())?.map_err(|error| error.to_string())?;
    Ok(exposition::parse(node, &text, windlass_clock::now()))
}

#[async_trait]
impl MetricsSource for Kubelets {
    async fn measure(&self) -> Result<Vec<NodeSample>, String> {
        let client = &self.client()?;
        let nodes = self.nodes().await?;
        let asking = stream::iter(nodes).map(async |node| match ask(client, &node.name).await {
            Ok(sample) => Some(sample),
            Err(error) => {
                tracing::warn!(node = node.name, error, "failed to read the metrics of a node");
                None
            }
        });
        Ok(asking.buffer_unordered(CONCURRENCY).filter_map(async |sample| sample).collect().await)
    }

    async fn nodes(&self) -> Result<Vec<MeasuredObject>, String> {
        let nodes: Api<Node> = Api::all(self.client()?);
        let listed = nodes.list_metadata(&ListParams::default().match_any()).await;
        let listed = listed.map_err(|error| format!("failed listing nodes: {error}"))?;
        Ok(listed.items.into_iter().map(|node| measured(node.metadata)).collect())
    }

    async fn pods(&self, namespace: &str) -> Result<Vec<MeasuredObject>, String> {
        let client = self.client()?;
        let pods: Api<Pod> = match namespace {
            "" => Api::all(client),
            namespace => Api::namespaced(client, namespace),
        };
        let listed = pods.list_metadata(&ListParams::default().match_any()).await;
        let listed = listed.map_err(|error| format!("failed listing pods: {error}"))?;
        Ok(listed.items.iter().map(|pod| measured(pod.meta().clone())).collect())
    }
}

fn measured(metadata: ObjectMeta) -> MeasuredObject {
    let labels: BTreeMap<String, String> = metadata.labels.unwrap_or_default();
    MeasuredObject {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        labels,
    }
}
