//! The resource metrics of the plane's own nodes, which its API server serves itself: `kubectl top`, and autoscaling.
//!
//! It measures when a client requests the metrics, and costs nothing otherwise. An APIService that names another server, such as a metrics
//! server in the cluster, takes its place.

use std::sync::Arc;

use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use windlass_apiserver::{Server, ServerBuilder};
use windlass_nodes::NodeUsage;
use windlass_resource_metrics::{ResourceMetrics, manifests};

/// Adds the kinds of the resource metrics API to a server.
#[must_use]
pub fn add(builder: ServerBuilder, usage: &NodeUsage) -> ServerBuilder {
    let metrics = ResourceMetrics::new(Arc::new(usage.clone()));
    metrics.kinds().into_iter().fold(builder, ServerBuilder::computed)
}

/// Creates the role that lets users with the roles `view`, `edit` and `admin` read metrics, unless it exists.
///
/// # Errors
/// Returns an error if the server does not accept it.
pub async fn create_role(server: &Server) -> Result<(), kube::Error> {
    let role = manifests::reader();
    let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "ClusterRole");
    let roles: Api<DynamicObject> = Api::all_with(server.client(), &ApiResource::from_gvk(&kind));
    let name = role["metadata"]["name"].as_str().unwrap_or_default();
    if roles.get_opt(name).await?.is_some() {
        return Ok(());
    }
    let role = serde_json::from_value(role).map_err(kube::Error::SerdeError)?;
    match roles.create(&PostParams::default(), &role).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(|_| ()),
    }
}
