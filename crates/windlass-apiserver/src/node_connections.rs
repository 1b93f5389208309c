//! Connections to nodes: the documents that kubelets serve.
//!
//! On a cluster, the API server forwards requests for `nodes/NAME/proxy` to the kubelet of the node. Here a
//! [`NodeConnections`], passed to the [`ServerBuilder`](crate::ServerBuilder), takes its place.

use async_trait::async_trait;

use crate::status::Result;

/// A document of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDocument {
    /// The media type.
    pub content_type: &'static str,
    /// The text.
    pub text: String,
}

/// Handles requests to nodes.
///
/// The server calls it only for nodes that exist. Errors are returned to the client unchanged.
#[async_trait]
pub trait NodeConnections: Send + Sync {
    /// Returns the document at a path of a node, such as `metrics/resource`; `None` if the node has none there.
    async fn get(&self, node: &str, path: &str) -> Result<Option<NodeDocument>>;
}
