//! Controllers and webhooks in one process.
//!
//! An [`Operator`] starts in this order: probes and metrics are served, definitions are installed (if asked for),
//! webhooks are served, informers start so that caches are warm, controllers and tasks that need no leader run, a
//! leader is elected, and the rest runs. It stops in reverse: work in flight is finished, then webhooks end, then
//! probes and metrics, events are written, and the lease is given up last of all. Whatever fails, panics or ends
//! unasked stops the whole process with an error: a process that does half of its work is worse than one that is
//! started again.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use windlass_runtime::operator::Operator;
//!
//! #[tokio::main]
//! async fn main() -> ExitCode {
//!     Operator::new("clock-operator")
//!         .task("tick", async |_parts, shutdown| {
//!             shutdown.draining().await;
//!             Ok(())
//!         })
//!         .main()
//!         .await
//! }
//! ```

use std::process::ExitCode;

use futures_util::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, CustomResourceExt};

use crate::{
    cache::Caches,
    context::Context,
    controller::{AnyController, Controller},
    manifests::Permission,
    metrics::Metrics,
    object::Object,
    shutdown::Shutdown,
    webhook::{Conversion, Webhook, Webhooks},
};

mod bind_address;
mod command;
mod debug_state;
mod definitions;
mod error;
mod flags;
mod health;
mod http;
mod logs;
mod manifests;
mod options;
mod run;
mod stage;
#[cfg(feature = "otel")]
mod telemetry;
mod webhooks;

pub use self::{
    bind_address::{BindAddress, InvalidBindAddress},
    debug_state::DebugState,
    error::OperatorError,
    flags::Flags,
    health::{Checks, Unhealthy},
    logs::{LogError, LogFormat, start as start_logs},
    options::{LeaseOptions, Listener, Options, Replicas},
    webhooks::WebhookServing,
};

/// Everything that runs in a process. See [the module](self).
pub struct Operator {
    name: String,
    version: Option<&'static str>,
    about: Option<&'static str>,
    definitions: Vec<CustomResourceDefinition>,
    controllers: Vec<AnyController>,
    tasks: Vec<Task>,
    webhooks: Webhooks,
    configure: Vec<Configure>,
    permissions: Vec<Permission>,
    live: Checks,
    ready: Checks,
    metrics: Metrics,
    state: DebugState,
}

type Configure = Box<dyn FnOnce(&Caches) + Send>;

/// A task of a program's own.
struct Task {
    name: String,
    needs_leader: bool,
    run: Box<dyn FnOnce(Context, Shutdown) -> BoxFuture<'static, crate::Result<()>> + Send>,
}

impl Operator {
    /// An operator with nothing in it. The name begins the field managers of its controllers (`foo-operator/foo`), is
    /// the name of its lease, and what events are reported by: `foo-operator`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: None,
            about: None,
            definitions: Vec::new(),
            controllers: Vec::new(),
            tasks: Vec::new(),
            webhooks: Webhooks::new(),
            configure: Vec::new(),
            permissions: Vec::new(),
            live: Checks::new(),
            ready: Checks::new(),
            metrics: Metrics::new(),
            state: DebugState::new(),
        }
    }

    /// The version, for `--version` and manifests: `env!("CARGO_PKG_VERSION")`.
    #[must_use]
    pub fn version(mut self, version: &'static str) -> Self {
        self.version = Some(version);
        self
    }

    /// A sentence for `--help`.
    #[must_use]
    pub fn about(mut self, about: &'static str) -> Self {
        self.about = Some(about);
        self
    }

    /// A custom resource, whose definition becomes part of the manifests and is installed if asked for. Versions of one
    /// resource are merged into one definition, which stores the hub of their [conversion](Self::conversion) if there
    /// is one, and else the newest.
    #[must_use]
    pub fn define<K: CustomResourceExt>(self) -> Self {
        self.definition(K::crd())
    }

    /// A definition that is made elsewhere, as of several versions with kube's `merge_crds`. It is merged with others
    /// of the same name.
    #[must_use]
    pub fn definition(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(definition);
        self
    }

    /// A controller.
    #[must_use]
    pub fn controller<K: Object>(mut self, controller: Controller<K>) -> Self {
        self.controllers.push(controller.into_any());
        self
    }

    /// A task that runs in every replica. It must end when it is asked to drain. It may end earlier: a process that has
    /// only tasks goes on until a signal all the same. An error or a panic stops the process.
    #[must_use]
    pub fn task<F, R>(self, name: impl Into<String>, task: F) -> Self
    where
        F: FnOnce(Context, Shutdown) -> R + Send + 'static,
        R: Future<Output = crate::Result<()>> + Send + 'static,
    {
        self.add_task(name.into(), false, task)
    }

    /// A task that runs only in the replica that leads, once it does; with shards, in all.
    #[must_use]
    pub fn leader_task<F, R>(self, name: impl Into<String>, task: F) -> Self
    where
        F: FnOnce(Context, Shutdown) -> R + Send + 'static,
        R: Future<Output = crate::Result<()>> + Send + 'static,
    {
        self.add_task(name.into(), true, task)
    }

    fn add_task<F, R>(mut self, name: String, needs_leader: bool, task: F) -> Self
    where
        F: FnOnce(Context, Shutdown) -> R + Send + 'static,
        R: Future<Output = crate::Result<()>> + Send + 'static,
    {
        let run = Box::new(move |context, shutdown| -> BoxFuture<'static, _> { Box::pin(task(context, shutdown)) });
        self.tasks.push(Task { name, needs_leader, run });
        self
    }

    /// Defaulting and validation of a kind, served over HTTPS.
    #[must_use]
    pub fn webhook<K: Object>(mut self, webhook: Webhook<K>) -> Self {
        self.webhooks = self.webhooks.add(webhook);
        self
    }

    /// Conversion between the versions of a kind, served over HTTPS.
    #[must_use]
    pub fn conversion<H: Object<DynamicType: Default>>(mut self, conversion: Conversion<H>) -> Self {
        self.webhooks = self.webhooks.conversion(conversion);
        self
    }

    /// Settings of caches, as transforms and resync periods ([`Caches::configure`]), made before the first informer.
    #[must_use]
    pub fn configure_caches(mut self, configure: impl FnOnce(&Caches) + Send + 'static) -> Self {
        self.configure.push(Box::new(configure));
        self
    }

    /// Narrows all controllers to these namespaces, as the flag `--namespace` does; nothing if there is none. Scopes
    /// that name a namespace stay as they are.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        self.controllers.iter_mut().for_each(|controller| controller.restrict_to(&namespaces));
        self
    }

    /// A right that cannot be seen from the wiring, for the manifests.
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.permissions.push(permission);
        self
    }

    /// A check of `/healthz` and `/livez`. A process that fails it is killed and started again.
    #[must_use]
    pub fn live_check(
        self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static,
    ) -> Self {
        self.live.add(name, check);
        self
    }

    /// A check of `/readyz`, beside those that caches are synced, which they cannot be before webhooks are served, and
    /// that the process does not stop.
    #[must_use]
    pub fn ready_check(
        self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static,
    ) -> Self {
        self.ready.add(name, check);
        self
    }

    /// The metrics of the process, to add a program's own.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Views of `/debug/state`, to add a program's own.
    pub fn state(&self) -> &DebugState {
        &self.state
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs with a client of the caller's until `shutdown` drains or something fails. Requests of the client are
    /// counted if it was made with [this operator's metrics](Self::metrics).
    ///
    /// `Ok` means that everything ended because it was asked to, and finished its work.
    pub async fn run_with(self, client: Client, options: Options, shutdown: Shutdown) -> Result<(), OperatorError> {
        run::run(self, client, options, shutdown).await
    }

    /// What `fn main` does: reads the [flags](Flags), listens to signals, and runs until one comes; or prints manifests
    /// if told so. Errors go to the error output with a hint; the code says of what sort they are
    /// ([`OperatorError::exit_code`]).
    ///
    /// With the feature `otel`, spans are sent to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` (or
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) names, by OTLP over HTTP, as the service of the operator's name. A program
    /// with a subscriber of its own sends its spans itself.
    pub async fn main(self) -> ExitCode {
        command::main(self, std::env::args_os()).await
    }
}
