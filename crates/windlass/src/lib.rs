//! Write Kubernetes operators in Rust: one import, one prelude.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::CustomResource;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use windlass::prelude::*;
//!
//! /// What a greeting is to be.
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
//! struct GreetingSpec {
//!     name: String,
//! }
//!
//! /// Makes the cluster as a greeting says.
//! async fn reconcile(greeting: Arc<Greeting>, ctx: Context) -> Result<Action> {
//!     let mut map = ConfigMap::default();
//!     map.metadata.name = greeting.metadata.name.clone();
//!     map.data = Some([("text".to_owned(), format!("Hello, {}!", greeting.spec.name))].into());
//!     ctx.apply_owned(&greeting, map).await?;
//!     ctx.event(&greeting).normal("Greeted", "the greeting is in place");
//!     Ok(Action::done())
//! }
//!
//! #[tokio::main]
//! async fn main() -> ExitCode {
//!     Operator::new("greeter")
//!         .define::<Greeting>()
//!         .controller(Controller::<Greeting>::new("greeting", reconcile).owns::<ConfigMap>())
//!         .main()
//!         .await
//! }
//! ```
//!
//! The program runs against the cluster it is in, or the one of `$KUBECONFIG`; `greeter manifests` prints what a
//! cluster needs to run it, `greeter --help` its options.
//!
//! What is behind each name: [`controller`] (from events to reconciles), [`context`] (what a reconcile reads and writes
//! with), [`operator`] (everything in one process), [`cache`] and [`watch`] (informers), [`queue`], [`objects`]
//! (owners, finalizers, conditions), [`schema`] (of times and conditions), [`events`], [`lease`] (leader election,
//! sharding), [`webhook`], [`manifests`], [`metrics`].

pub use windlass_clock as clock;
pub use windlass_macros::Conditions;
pub use windlass_runtime::{
    Error, Result, cache, client, context, controller, error, events, key, lease, manifests, metrics, object, objects,
    objects::{conditions::Conditions, schema},
    operator, queue, scope, shutdown, watch, webhook,
};

/// What most operators use.
pub mod prelude {
    pub use std::{sync::Arc, time::Duration};

    pub use windlass_runtime::{
        Error, Result,
        context::{Context, Desired},
        controller::{Action, Controller, Reconciler, Trigger, Watch, filter},
        key::ObjectKey,
        objects::conditions::{Conditions, ready},
        operator::Operator,
        scope::Scope,
    };
}
