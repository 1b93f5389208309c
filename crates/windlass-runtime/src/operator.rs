//! Controllers, webhooks and tasks in one process.
//!
//! An [`Operator`] starts in this order: it serves probes and metrics, installs CRDs (if asked to), serves webhooks,
//! starts informers so that caches are warm, runs the controllers and tasks that need no leader, takes part in leader
//! election, and finally runs the rest. It stops in reverse order: reconciles in flight finish, then webhooks end, then
//! probes and metrics, then pending events are written, and the lease is released last. Anything that fails, panics or
//! ends unexpectedly stops the whole process with an error: a process that does half of its work is worse than one that
//! is restarted.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use windlass_runtime::operator::Operator;
//!
//! #[tokio::main]
//! async fn main() -> ExitCode {
//!     Operator::new("clock-operator")
//!         .task("tick", async |_ctx, shutdown| {
//!             shutdown.draining().await;
//!             Ok(())
//!         })
//!         .main()
//!         .await
//! }
//! ```

use std::{process::ExitCode, time::Duration};

use futures_util::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, CustomResourceExt};

use crate::{
    cache::Caches,
    clusters::Clusters,
    context::{Context, REQUEST_TIMEOUT},
    controller::{AnyController, Controller},
    events::EventStyle,
    manifests::Permission,
    metrics::Metrics,
    object::Object,
    shutdown::Shutdown,
    webhook::{Conversion, RawWebhook, Webhook, Webhooks},
};

mod bind_address;
mod command;
mod debug_state;
mod definitions;
mod error;
mod flags;
mod guard;
mod health;
mod http;
mod https;
mod logs;
mod manifests;
mod options;
mod plan;
#[cfg(feature = "pprof")]
mod profile;
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
    https::HttpsError,
    logs::{LogError, LogFormat, start as start_logs},
    options::{LeaseOptions, Listener, Options, Replicas},
    plan::{FieldChange, Plan, PlanProblem, PlannedAction, PlannedChange},
    webhooks::WebhookServing,
};

/// All controllers, webhooks and tasks of a process. See [the module](self).
pub struct Operator {
    name: String,
    version: Option<&'static str>,
    about: Option<&'static str>,
    definitions: Vec<CustomResourceDefinition>,
    controllers: Vec<AnyController>,
    tasks: Vec<Task>,
    clusters: Vec<Clusters>,
    webhooks: Webhooks,
    /// The client of the controllers and tasks that are being added, if it is not the operator's.
    client: Option<Client>,
    configure: Vec<Configure>,
    permissions: Vec<Permission>,
    event_style: EventStyle,
    /// Namespaces that the controllers are restricted to; all if empty.
    restricted_to: Vec<String>,
    /// Whether the manifests serve metrics over plain HTTP to all clients.
    plain_metrics: bool,
    live: Checks,
    ready: Checks,
    metrics: Metrics,
    state: DebugState,
    request_timeout: Duration,
    /// Whether this is the operator of a cluster other than the home cluster.
    is_member: bool,
}

type Configure = Box<dyn FnOnce(&Caches) + Send>;

/// A task that the program added.
struct Task {
    name: String,
    needs_leader: bool,
    client: Option<Client>,
    run: Box<dyn FnOnce(Context, Shutdown) -> BoxFuture<'static, crate::Result<()>> + Send>,
}

impl Operator {
    /// Creates an empty operator. The name (`foo-operator`) is the prefix of its controllers' field managers
    /// (`foo-operator/foo`), the name of its lease, and the reporting component of its events.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: None,
            about: None,
            definitions: Vec::new(),
            controllers: Vec::new(),
            tasks: Vec::new(),
            clusters: Vec::new(),
            webhooks: Webhooks::new(),
            client: None,
            configure: Vec::new(),
            permissions: Vec::new(),
            event_style: EventStyle::default(),
            restricted_to: Vec::new(),
            plain_metrics: false,
            live: Checks::new(),
            ready: Checks::new(),
            metrics: Metrics::new(),
            state: DebugState::new(),
            request_timeout: REQUEST_TIMEOUT,
            is_member: false,
        }
    }

    /// Sets the version for `--version` and manifests: `env!("CARGO_PKG_VERSION")`.
    #[must_use]
    pub fn version(mut self, version: &'static str) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the description that `--help` prints.
    #[must_use]
    pub fn about(mut self, about: &'static str) -> Self {
        self.about = Some(about);
        self
    }

    /// Adds a custom resource. Its CRD becomes part of the manifests, and is installed at the start if asked for.
    /// Versions of one resource are merged into one CRD. Its storage version is the hub of their
    /// [conversion](Self::conversion) if there is one, and otherwise the newest version.
    #[must_use]
    pub fn define<K: CustomResourceExt>(self) -> Self {
        self.definition(K::crd())
    }

    /// Adds a CRD that was built elsewhere, for example with kube's `merge_crds`. It is merged with other CRDs of the
    /// same name.
    #[must_use]
    pub fn definition(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Adds a controller that rewrites the stored objects of all custom resources that were
    /// [defined](Self::define) before, whenever their storage version has changed; see
    /// [`migration`](crate::migration). With several versions of an operator in a cluster, only the newest should do this.
    ///
    /// A migration begins when this process has seen the CRD unchanged for a [minute](crate::migration::SETTLE), so that
    /// every replica of the API server knows the new storage version.
    #[must_use]
    pub fn migrate_storage(self) -> Self {
        self.migrate_storage_after(crate::migration::SETTLE)
    }

    /// Like [`migrate_storage`](Self::migrate_storage), with another time for which a CRD must have been unchanged. Zero is
    /// safe only with a single API server.
    #[must_use]
    pub fn migrate_storage_after(self, settle: Duration) -> Self {
        let controller = crate::migration::controller(&self.definitions, settle);
        self.controller(controller)
    }

    /// Adds a controller.
    #[must_use]
    pub fn controller<K: Object>(mut self, controller: Controller<K>) -> Self {
        let mut controller = controller.into_any();
        if let Some(client) = &self.client {
            controller.default_client(client);
        }
        self.controllers.push(controller);
        self
    }

    /// Adds controllers and tasks that write with another client, for example with an identity of their own, and whose
    /// events are written with it. They share the informers, which use the operator's client.
    #[must_use]
    pub fn with_client(mut self, client: Client, add: impl FnOnce(Self) -> Self) -> Self {
        let outer = self.client.replace(client);
        let mut operator = add(self);
        operator.client = outer;
        operator
    }

    /// Adds a task that runs in every replica. It must end when draining begins, and may end earlier: a process that
    /// has only tasks keeps running until it gets a signal. An error or a panic stops the process.
    #[must_use]
    pub fn task<F, R>(self, name: impl Into<String>, task: F) -> Self
    where
        F: FnOnce(Context, Shutdown) -> R + Send + 'static,
        R: Future<Output = crate::Result<()>> + Send + 'static,
    {
        self.add_task(name.into(), false, task)
    }

    /// Adds a task that runs only in the leader, once it is elected. With shards, it runs in every replica.
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
        self.tasks.push(Task { name, needs_leader, client: self.client.clone(), run });
        self
    }

    /// Leaves out what belongs to the process: webhooks, which only the operator of the home cluster serves, and metrics.
    pub(crate) fn into_member(mut self) -> Self {
        self.is_member = true;
        if !std::mem::take(&mut self.webhooks).is_empty() {
            tracing::warn!("the operator of this cluster has webhooks; only those of the home cluster are served");
        }
        self
    }

    /// Adds other clusters, which may be added and removed at any time; see [`clusters`](crate::clusters). Each cluster has
    /// its own leader election; there is none in the home cluster if nothing there needs a leader.
    #[must_use]
    pub fn clusters(mut self, clusters: Clusters) -> Self {
        self.clusters.push(clusters);
        self
    }

    /// Adds a defaulting and validating webhook for a kind.
    #[must_use]
    pub fn webhook<K: Object>(mut self, webhook: Webhook<K>) -> Self {
        self.webhooks = self.webhooks.add(webhook);
        self
    }

    /// Adds a webhook for objects of any kind.
    #[must_use]
    pub fn raw_webhook(mut self, webhook: RawWebhook) -> Self {
        self.webhooks = self.webhooks.add_raw(webhook);
        self
    }

    /// Adds a conversion webhook between the versions of a kind.
    #[must_use]
    pub fn conversion<H: Object<DynamicType: Default>>(mut self, conversion: Conversion<H>) -> Self {
        self.webhooks = self.webhooks.conversion(conversion);
        self
    }

    /// Configures the caches, for example with transforms and resync periods ([`Caches::configure`]), before the first
    /// informer starts.
    #[must_use]
    pub fn configure_caches(mut self, configure: impl FnOnce(&Caches) + Send + 'static) -> Self {
        self.configure.push(Box::new(configure));
        self
    }

    /// Restricts all controllers to these namespaces, as the flag `--namespace` does. Has no effect if the list is
    /// empty. Scopes that name a namespace are unchanged.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        let namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        self.controllers.iter_mut().for_each(|controller| controller.restrict_to(&namespaces));
        self.webhooks.restrict_to(&namespaces);
        if !namespaces.is_empty() {
            self.restricted_to = namespaces;
        }
        self
    }

    /// Adds a permission to the manifests that follows from no controller, for example because a task needs it. What a
    /// controller needs is better declared there: [`Controller::creates`], [`Controller::permission`].
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.permissions.push(permission);
        self
    }

    /// Generates manifests that serve metrics over plain HTTP to all clients. By default they serve them over HTTPS
    /// (`--metrics-secure`), and only to users who are authorized by the API server.
    #[must_use]
    pub fn plain_metrics(mut self) -> Self {
        self.plain_metrics = true;
        self
    }

    /// Sets the time limit of requests through a [`Context`], with all retries; 65 seconds by default, which is longer than
    /// the limit of API servers. A write without response may have happened, so its outcome is looked up, for the same time
    /// at most, and its object is not reconciled before that has succeeded. With a limit below that of the API server, a
    /// write may still take effect after it was looked up. Watches and logs that are followed have no limit, the wait for the client's rate limit does not count, and commands in containers have limits of their own.
    #[must_use]
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.request_timeout = limit;
        self
    }

    /// Sets the style of the events of all controllers and tasks.
    #[must_use]
    pub fn event_style(mut self, style: EventStyle) -> Self {
        self.event_style = style;
        self
    }

    /// Adds a check to `/healthz` and `/livez`. The kubelet restarts a container whose liveness check fails.
    #[must_use]
    pub fn live_check(
        self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static,
    ) -> Self {
        self.live.add(name, check);
        self
    }

    /// Adds a check to `/readyz`. Built-in checks are that all informers have synced, which they cannot before webhooks
    /// are served, and that the process is not stopping.
    #[must_use]
    pub fn ready_check(
        self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), Unhealthy> + Send + Sync + 'static,
    ) -> Self {
        self.ready.add(name, check);
        self
    }

    /// Returns the metrics registry of the process, to which a program can add its own metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the views of `/debug/state`, to which a program can add its own.
    pub fn state(&self) -> &DebugState {
        &self.state
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs with the given client until `shutdown` drains or something fails. Requests are counted if the client was
    /// created with [this operator's metrics](Self::metrics).
    ///
    /// `Ok` means that everything stopped on request and finished its work.
    // Not async, like `main`: the code of an async function is compiled again in each crate that awaits it.
    pub fn run_with(
        self,
        client: Client,
        options: Options,
        shutdown: Shutdown,
    ) -> BoxFuture<'static, Result<(), OperatorError>> {
        Box::pin(run::run(self, client, options, shutdown))
    }

    /// Runs the operator as a program: parses the [flags](Flags), handles signals, and runs until one arrives; or
    /// prints manifests. Errors are printed to stderr with a hint. The exit code identifies the kind of error
    /// ([`OperatorError::exit_code`]).
    ///
    /// With the feature `otel`, spans are exported to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` (or
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) names, by OTLP over HTTP, with the operator's name as the service name. A
    /// program with its own tracing subscriber must export its spans itself.
    pub fn main(self) -> BoxFuture<'static, ExitCode> {
        let arguments: Vec<_> = std::env::args_os().collect();
        Box::pin(command::main(self, arguments))
    }
}
