//! Flunders and Fischers, as the sample-apiserver of Kubernetes treats them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;

use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;
use wardle_server::{Flunder, FlunderSpec, GROUP, ReferenceType, extension};
use windlass_apiserver::{
    Server,
    authentication::{AuthenticationOptions, RequestHeaderOptions},
};
use windlass_extension::{RunningExtension, certificates::ServingCertificate};
use windlass_store::MemoryStore;

async fn start() -> RunningExtension {
    let certificate = ServingCertificate::issue(&["wardle.default.svc".to_owned()]).unwrap();
    let authentication = AuthenticationOptions {
        request_header: Some(RequestHeaderOptions::new(certificate.authority.clone())),
        ..AuthenticationOptions::default()
    };
    let main = Server::builder(Arc::new(MemoryStore::new())).authentication(authentication).build().await.unwrap();
    extension().start(main.client(), &certificate).await.unwrap()
}

#[tokio::test]
async fn a_fischer_bans_names_of_flunders() {
    let wardle = start().await;
    let fischers = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", "Fischer"));
    let fischers: Api<DynamicObject> = Api::all_with(wardle.client(), &fischers);
    let fischer = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Fischer", "metadata": {"name": "f"},
        "disallowedFlunders": ["bad"]});
    fischers.create(&PostParams::default(), &serde_json::from_value(fischer).unwrap()).await.unwrap();
    let flunders: Api<Flunder> = Api::namespaced(wardle.client(), "any");
    flunders.create(&PostParams::default(), &Flunder::new("good", FlunderSpec::default())).await.unwrap();
    let banned = flunders.create(&PostParams::default(), &Flunder::new("bad", FlunderSpec::default())).await;
    let expected = "flunders.wardle.example.com \"bad\" is forbidden: this name may not be used, please change the \
                    resource name";
    assert!(banned.as_ref().is_err_and(|error| error.to_string().contains(expected)), "{banned:?}");
}

#[tokio::test]
async fn a_reference_type_needs_a_reference() {
    let flunders: Api<Flunder> = Api::namespaced(start().await.client(), "any");
    let spec = FlunderSpec { reference: None, reference_type: Some(ReferenceType::Fischer) };
    let rejected = flunders.create(&PostParams::default(), &Flunder::new("a", spec)).await;
    let expected = "spec.reference must name a Fischer";
    assert!(rejected.as_ref().is_err_and(|error| error.to_string().contains(expected)), "{rejected:?}");
}
