//! Registers the webhooks of an operator that runs in the test with the API server.

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::sync::watch;
use windlass_runtime::{
    manifests::{OperatorManifests, Part},
    operator::DebugState,
    webhook::Endpoint,
};

use crate::account::apply;

/// Interval at which the operator's state is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Creates the operator's namespace, its webhook configurations, and its CRDs if it has a conversion webhook. They must
/// exist before the operator starts, because it writes its CA bundle into them. The test creates them, like an
/// administrator who deploys an operator: the operator itself has no permission to.
pub(crate) async fn configure(client: Client, manifests: OperatorManifests) {
    let mut all = manifests.build().expect("building the manifests must succeed");
    let converts = manifests.webhooks.iter().any(|webhook| webhook.endpoint == Endpoint::Conversion);
    all.retain(|manifest| match manifest.part {
        Part::Namespace | Part::Webhooks => true,
        Part::Crds => converts,
        _ => false,
    });
    for manifest in all {
        apply(&client, &manifests.name, &manifest).await;
    }
}

/// Points the webhook Service to the operator's port, once the webhooks are served.
pub(crate) async fn connect(
    client: Client,
    manifests: OperatorManifests,
    state: DebugState,
    served: watch::Sender<bool>,
) {
    let port = loop {
        match port(&state) {
            Some(port) => break port,
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    };
    let name = format!("{}-webhook", manifests.name);
    // An external name, because endpoints must not have loopback addresses.
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {
            "type": "ExternalName", "externalName": "localhost",
            "ports": [{"name": "webhook", "port": 443, "targetPort": port}],
        },
    });
    let params = PatchParams::apply("windlass-testing").force();
    let services: Api<Service> = Api::namespaced(client, &manifests.namespace);
    services.patch(&name, &params, &Patch::Apply(&service)).await.expect("applying the Service must succeed");
    served.send_replace(true);
}

/// Returns the port on which an operator serves its webhooks, or `None` if it does not serve them yet.
fn port(state: &DebugState) -> Option<u16> {
    let address: SocketAddr = state.show()["webhooks"]["address"].as_str()?.parse().ok()?;
    Some(address.port())
}
