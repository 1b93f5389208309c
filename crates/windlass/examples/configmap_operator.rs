//! A whole operator: copies each ConfigMap labelled `copy-to: NAME` to a Secret of that name, and keeps the two in sync.
//!
//! ```text
//! cargo run -p windlass --example configmap_operator
//! kubectl create configmap settings --from-literal=color=blue
//! kubectl label configmap settings copy-to=settings-copy
//! kubectl get secret settings-copy -o yaml
//! ```

use std::process::ExitCode;

use windlass::{
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
    prelude::*,
};

const COPY_TO: &str = "copy-to";

/// Called for every labelled ConfigMap: at the start, when it changes, and when its Secret changes.
async fn reconcile(config: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
    let target = config.metadata.labels.as_ref().and_then(|labels| labels.get(COPY_TO));
    let mut secret = Secret::default();
    secret.metadata.name = target.cloned();
    secret.string_data = config.data.clone();

    // Server-side apply, with the ConfigMap as the controlling owner: when it is deleted, so is the Secret.
    // Nothing is sent if the Secret is already as desired.
    ctx.apply_owned(&config, secret).await?;
    ctx.event(&config).normal("Copied", "The Secret is up to date");
    Ok(Action::done())
}

#[tokio::main]
async fn main() -> ExitCode {
    let controller = Controller::<ConfigMap>::new("copy", reconcile)
        .scope(Scope::all().labels(COPY_TO)) // the selector is evaluated by the API server
        .owns::<Secret>();

    // Parses flags, connects, elects a leader, serves probes and metrics, and drains on SIGTERM.
    // `configmap_operator manifests` prints its RBAC rules and Deployment.
    Operator::new("configmap-operator").controller(controller).main().await
}
