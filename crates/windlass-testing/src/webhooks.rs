//! Webhooks of an operator that runs in the test: the API server is told of them, and how to reach them.

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::sync::watch;
use windlass_runtime::{
    manifests::{Manifest, OperatorManifests, Part},
    operator::DebugState,
    webhook::Endpoint,
};

/// How often it is looked at whether they are served.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Makes the namespace of the operator, the configurations of the webhooks, and the definitions if something is
/// converted. The operator says in them whom to trust, so they come first. The test does so, as whoever deploys an
/// operator would: the operator itself may not.
pub(crate) async fn configure(client: Client, manifests: OperatorManifests) {
    let mut all = manifests.build().expect("the manifests of an operator must be right");
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

async fn apply(client: &Client, manager: &str, manifest: &Manifest) {
    let params = PatchParams::apply(manager).force();
    let applied = manifest.api(client.clone()).patch(manifest.name(), &params, &Patch::Apply(&manifest.object)).await;
    applied.unwrap_or_else(|error| panic!("cannot configure the webhooks {}: {error}", manifest.name()));
}

/// Leads the Service of the webhooks to where they are served, once they are.
pub(crate) async fn connect(
    client: Client,
    manifests: OperatorManifests,
    state: DebugState,
    served: watch::Sender<bool>,
) {
    let port = loop {
        match port(&state) {
            Some(port) => break port,
            None => tokio::time::sleep(LOOK_AGAIN).await,
        }
    };
    let name = format!("{}-webhook", manifests.name);
    // An external name, as endpoints may not have loopback addresses.
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {
            "type": "ExternalName", "externalName": "localhost",
            "ports": [{"name": "webhook", "port": 443, "targetPort": port}],
        },
    });
    let params = PatchParams::apply("windlass-testing").force();
    let services: Api<Service> = Api::namespaced(client, &manifests.namespace);
    services.patch(&name, &params, &Patch::Apply(&service)).await.expect("a Service must be made");
    served.send_replace(true);
}

/// The port on which an operator serves its webhooks, if it does.
fn port(state: &DebugState) -> Option<u16> {
    let address: SocketAddr = state.show()["webhooks"]["address"].as_str()?.parse().ok()?;
    Some(address.port())
}
