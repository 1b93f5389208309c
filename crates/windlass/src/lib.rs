//! Write Kubernetes operators in Rust: one import, one prelude.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use windlass::{
//!     k8s_openapi::api::core::v1::ConfigMap,
//!     kube::CustomResource,
//!     prelude::*,
//!     schemars::JsonSchema,
//!     serde::{Deserialize, Serialize},
//! };
//!
//! /// Desired state of a Greeting.
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
//! #[kube(crates(
//!     kube_core = "windlass::kube::core",
//!     k8s_openapi = "windlass::k8s_openapi",
//!     schemars = "windlass::schemars",
//!     serde = "windlass::serde",
//!     serde_json = "windlass::serde_json"
//! ))]
//! #[serde(crate = "windlass::serde")]
//! #[schemars(crate = "windlass::schemars")]
//! struct GreetingSpec {
//!     /// Name of the person to greet.
//!     name: String,
//! }
//!
//! /// Keeps a ConfigMap with the text of each Greeting.
//! async fn reconcile(greeting: Arc<Greeting>, ctx: Context) -> Result<Action> {
//!     let mut map = ConfigMap::default();
//!     map.metadata.name = greeting.metadata.name.clone();
//!     map.data = Some([("text".to_owned(), format!("Hello, {}!", greeting.spec.name))].into());
//!     ctx.apply_owned(&greeting, map).await?;
//!     ctx.event(&greeting).normal("Greeted", "The greeting is in place");
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
//! The program connects to the cluster that it runs in, or else to the one that `$KUBECONFIG` selects.
//! `greeter manifests` prints the manifests that install it, and `greeter --help` lists its options.
//!
//! # Dependencies
//!
//! A program needs this crate and `tokio`. It finds [`kube`], [`k8s_openapi`], [`schemars`], [`serde`] and
//! [`serde_json`] here, in the versions that Windlass uses, so that types never come from two versions of a crate.
//! Derive macros must be told where to find these crates: that is what `crates(…)` and `crate = …` are for in the
//! example above.
//!
//! A program may also name these crates in its own `Cargo.toml`, as projects from `windlass init` do; the derives then
//! need no paths. It must name the same major versions, or else its types differ from those of Windlass. The
//! features `http-proxy`, `oidc`, `socks5` and `ws` of `kube` are features of this crate, too; for others, such as
//! `gzip`, name `kube`.
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`operator`] | the program: controllers, webhooks, leader election, probes and metrics in one process |
//! | [`controller`] | reconcilers, and the watches that trigger them |
//! | [`context`] | cached reads, server-side apply, status, finalizers and events for reconcilers |
//! | [`cache`], [`watch`] | shared informers with indices; the list/watch below them |
//! | [`queue`] | the rate-limited work queue |
//! | [`objects`], [`schema`] | owner references, finalizers, conditions; schemas for CRDs |
//! | [`events`] | event recorder |
//! | [`lease`] | leader election and sharding |
//! | [`webhook`] | defaulting, validation and conversion webhooks |
//! | [`manifests`] | CRDs, RBAC, Deployment and webhook configurations of an operator |
//! | [`access`] | requests that no role allows, and the permissions that would allow them |
//! | [`migration`] | storage version migration of custom resources |
//! | [`metrics`] | Prometheus metrics under controller-runtime's names |
//! | [`client`] | connection to the API server |
//! | [`clusters`] | operators of several clusters in one process |
//! | [`key`], [`object`], [`scope`] | object names, the bound for watchable types, and what to watch of a kind |
//! | [`shutdown`], [`error`] | graceful shutdown; errors of reconcilers |

#[doc(hidden)]
pub mod serde_instances;

pub use k8s_openapi;
pub use kube;
pub use schemars;
pub use serde;
pub use serde_json;
pub use windlass_clock as clock;
pub use windlass_macros::Conditions;
pub use windlass_runtime::{
    Error, Result, access, cache, client, clusters, context, controller, error, events, key, lease, manifests, metrics,
    migration, object, objects,
    objects::{conditions::Conditions, schema},
    operator, queue, scope, shutdown, watch, webhook,
};

/// The items that most operators use.
pub mod prelude {
    pub use std::{sync::Arc, time::Duration};

    pub use windlass_runtime::{
        Error, Result,
        context::{Context, Desired},
        controller::{Action, Controller, Reconciler, Trigger, Watch, filter},
        key::ObjectKey,
        manifests::Permission,
        objects::conditions::{Conditions, ready},
        operator::Operator,
        scope::Scope,
    };
}
