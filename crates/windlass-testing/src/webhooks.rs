//! Webhooks of an operator that runs in the test: the API server is told of them, and how to reach them.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::sync::watch;
use windlass_runtime::{
    manifests::{OperatorManifests, Part},
    operator::State,
};

use crate::eventually;

/// Makes the configurations of the webhooks. The operator says in them whom to trust, so they come first.
pub(crate) async fn configure(client: &Client, manifests: &OperatorManifests) {
    let all = manifests.build().expect("the manifests of an operator must be right");
    for manifest in all.iter().filter(|manifest| manifest.part == Part::Webhooks) {
        let api = manifest.api(client.clone());
        let params = PatchParams::apply(&manifests.name).force();
        let applied = api.patch(manifest.name(), &params, &Patch::Apply(&manifest.object)).await;
        applied.unwrap_or_else(|error| panic!("cannot configure the webhooks {}: {error}", manifest.name()));
    }
}

/// Leads the Service of the webhooks to where they are served, once they are.
pub(crate) async fn connect(
    client: &Client,
    manifests: &OperatorManifests,
    state: &State,
    served: watch::Sender<bool>,
) {
    let port = eventually("webhooks are served", async || {
        let address: SocketAddr = state.show()["webhooks"]["address"].as_str()?.parse().ok()?;
        Some(address.port())
    });
    let port = port.await;
    let name = manifests.service.clone().unwrap_or_else(|| format!("{}-webhook", manifests.name));
    // An external name, as endpoints may not have loopback addresses.
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {
            "type": "ExternalName", "externalName": "localhost",
            "ports": [{"name": "webhook", "port": 443, "targetPort": port}],
        },
    });
    let params = PatchParams::apply("windlass-testing").force();
    let services: Api<Service> = Api::namespaced(client.clone(), &manifests.namespace);
    services.patch(&name, &params, &Patch::Apply(&service)).await.expect("a Service must be made");
    served.send_replace(true);
}
