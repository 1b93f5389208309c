//! Integration tests: each runs the API server behind its own main API server.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;

use wardle_apiserver::extension::extension;
use windlass_apiserver::{
    Server,
    authentication::{AuthenticationOptions, RequestHeaderOptions},
};
use windlass_extension::{RunningExtension, certificates::ServingCertificate};
use windlass_store::MemoryStore;

mod fischer;
mod flunder;

/// Starts a main API server and the API server behind it.
async fn start() -> RunningExtension {
    let certificate = ServingCertificate::issue(&["wardle.default.svc".to_owned()]).unwrap();
    let authentication = AuthenticationOptions {
        request_header: Some(RequestHeaderOptions::new(certificate.authority.clone())),
        ..AuthenticationOptions::default()
    };
    let main = Server::builder(Arc::new(MemoryStore::new())).authentication(authentication).build().await.unwrap();
    extension().start(main.client(), &certificate).await.unwrap()
}
