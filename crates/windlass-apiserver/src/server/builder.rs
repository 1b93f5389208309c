//! The builder of a server.

mod shared_options;

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use arc_swap::ArcSwap;
use futures_util::{FutureExt as _, future::BoxFuture};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::watch};
use tracing::warn;
use windlass_builtins::kinds::service::allocator::{NodePortRange, ServiceNetwork};
use windlass_store::Store;

use super::{BuildError, Inner, Server, tasks};
use crate::{
    admission::{Admission, AdmissionConfiguration, builtin},
    aggregation::Aggregation,
    audit::{Audit, AuditOptions},
    authentication::{
        AnonymousOptions, Authentication, AuthenticationOptions, Publication, TokenAuthenticator, TokenAuthenticators,
        jwt::{JwtOptions, JwtTokenAuthenticator},
        webhook_token::{WebhookTokenAuthenticator, WebhookTokenOptions},
    },
    authorization::{AuthorizationOptions, Authorizer, Chain, chain, rbac::Rbac},
    bootstrap::{self, endpoint_lease::EndpointLease},
    compaction,
    computed::ComputedKind,
    connections::Connections,
    debug_pages::Process,
    definitions::{self, Definitions},
    flow_control::FlowControl,
    limits::Limits,
    metrics::Metrics,
    node_connections::NodeConnections,
    openapi::OpenApi,
    pod_connections::PodConnections,
    policies::{self, Policies},
    registry::Registry,
    repair,
    runtime_config::RuntimeConfig,
    storage::Storage,
    tokens::{Issuers, TokenKey},
    upload::UploadBudget,
    webhooks::{ConversionFunction, EndpointSlices, Identity, Loopback, ServiceResolver, Webhooks},
    write::{QuotaLocks, Units, allocate},
};

/// The configuration of a [`Server`].
pub struct ServerBuilder {
    store: Arc<dyn Store>,
    authentication: AuthenticationOptions,
    authorizer: Option<Box<dyn Authorizer>>,
    jwt: Option<JwtOptions>,
    token_webhook: Option<WebhookTokenOptions>,
    authorization: AuthorizationOptions,
    admission: Vec<Box<dyn Admission>>,
    old_definitions: bool,
    runtime_config: RuntimeConfig,
    pod_connections: Option<Arc<dyn PodConnections>>,
    node_connections: Option<Arc<dyn NodeConnections>>,
    computed: Vec<ComputedKind>,
    conversions: HashMap<String, ConversionFunction>,
    service_accounts: bool,
    policy_type_checking: bool,
    enabled_admission_plugins: Vec<String>,
    disabled_admission_plugins: Vec<String>,
    admission_configuration: AdmissionConfiguration,
    external_address: String,
    listening: Option<SocketAddr>,
    advertised: Option<IpAddr>,
    service_network: ServiceNetwork,
    node_ports: NodePortRange,
    token_key: Option<TokenKey>,
    service_resolver: Option<Arc<dyn ServiceResolver>>,
    front_proxy: Option<Identity>,
    only_groups: Option<Vec<String>>,
    token_authenticators: Vec<Arc<dyn TokenAuthenticator>>,
    limits: Limits,
    flags: BTreeMap<String, String>,
    audit: Option<AuditOptions>,
}

impl ServerBuilder {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            authentication: AuthenticationOptions::default(),
            authorizer: None,
            jwt: None,
            token_webhook: None,
            authorization: AuthorizationOptions::default(),
            admission: Vec::new(),
            old_definitions: true,
            runtime_config: RuntimeConfig::default(),
            pod_connections: None,
            node_connections: None,
            computed: Vec::new(),
            conversions: HashMap::new(),
            service_accounts: false,
            policy_type_checking: false,
            enabled_admission_plugins: Vec::new(),
            disabled_admission_plugins: Vec::new(),
            admission_configuration: AdmissionConfiguration::default(),
            external_address: "localhost".to_owned(),
            listening: None,
            advertised: None,
            service_network: ServiceNetwork::default(),
            node_ports: NodePortRange::default(),
            token_key: None,
            service_resolver: None,
            front_proxy: None,
            only_groups: None,
            token_authenticators: Vec::new(),
            limits: Limits::default(),
            flags: BTreeMap::new(),
            audit: None,
        }
    }

    /// Sets how clients are authenticated. By default, requests are anonymous unless they have the token of a service
    /// account.
    #[must_use]
    pub fn authentication(mut self, options: AuthenticationOptions) -> Self {
        self.authentication = options;
        self
    }

    /// Sets the issuers of JSON web tokens, and replaces the options of anonymous requests if the configuration has
    /// any. The server does not wait for issuers: their tokens are valid once their keys are loaded.
    #[must_use]
    pub fn jwt(mut self, options: JwtOptions) -> Self {
        if let Some(anonymous) = &options.configuration.anonymous {
            let paths = anonymous.conditions.iter().map(|condition| condition.path.clone()).collect();
            self.authentication.anonymous = AnonymousOptions { enabled: anonymous.enabled, paths };
        }
        self.jwt = Some(options);
        self
    }

    /// Sets the webhook that authenticates tokens which no other authenticator knows.
    #[must_use]
    pub fn token_webhook(mut self, options: WebhookTokenOptions) -> Self {
        self.token_webhook = Some(options);
        self
    }

    /// Replaces all authorizers by one. Even members of `system:masters` may do only what it allows.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.authorizer = Some(Box::new(authorizer));
        self
    }

    /// Sets the authorizers; the default is `Node` and `RBAC`.
    #[must_use]
    pub fn authorization(mut self, options: AuthorizationOptions) -> Self {
        self.authorization = options;
        self
    }

    /// Adds an admission plugin, which runs after the plugins that were added before.
    #[must_use]
    pub fn admission(mut self, plugin: impl Admission + 'static) -> Self {
        self.admission.push(Box::new(plugin));
        self
    }

    /// Sets whether CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1` are accepted and stored as `v1`. They
    /// are by default; without them the group is that of Kubernetes 1.36.
    #[must_use]
    pub fn old_definitions(mut self, accepted: bool) -> Self {
        self.old_definitions = accepted;
        self
    }

    /// Sets which versions of the built-in API groups are served; the stable ones by default.
    #[must_use]
    pub fn runtime_config(mut self, config: RuntimeConfig) -> Self {
        self.runtime_config = config;
        self
    }

    /// Sets the connections to running pods: their logs, commands and ports. Without them, requests for these say that
    /// pods are simulated.
    #[must_use]
    pub fn pod_connections(mut self, connections: Arc<dyn PodConnections>) -> Self {
        self.pod_connections = Some(connections);
        self
    }

    /// Sets the connections to nodes, which handle requests for `nodes/NAME/proxy`.
    #[must_use]
    pub fn node_connections(mut self, connections: Arc<dyn NodeConnections>) -> Self {
        self.node_connections = Some(connections);
        self
    }

    /// Adds a kind whose objects are computed when they are read. Its group version has an APIService of this server,
    /// unless a user registers another server for it.
    #[must_use]
    pub fn computed(mut self, kind: ComputedKind) -> Self {
        self.computed.push(kind);
        self
    }

    /// Converts the objects of a CustomResourceDefinition between its versions by a function, regardless of its
    /// conversion webhook. The function must not block.
    #[must_use]
    pub fn conversion(mut self, definition: impl Into<String>, function: ConversionFunction) -> Self {
        self.conversions.insert(definition.into(), function);
        self
    }

    /// Sets whether pods run as service accounts: a pod without one runs as `default`, a pod whose account is missing
    /// is rejected, and containers get the account's token. Off by default, because a control loop creates the
    /// accounts, and without that loop no pod could be created.
    #[must_use]
    pub fn service_accounts(mut self, used: bool) -> Self {
        self.service_accounts = used;
        self
    }

    /// Sets whether the types of validating admission policies are checked, with the result in their status. Off by
    /// default, as in kube-apiserver: this is work of kube-controller-manager.
    #[must_use]
    pub fn policy_type_checking(mut self, checked: bool) -> Self {
        self.policy_type_checking = checked;
        self
    }

    /// Enables optional admission plugins, by their names in kube-apiserver: those of
    /// [`OPTIONAL_PLUGINS`](crate::admission::OPTIONAL_PLUGINS). Other names are ignored.
    #[must_use]
    pub fn enable_admission_plugins(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.enabled_admission_plugins.extend(names);
        self
    }

    /// Disables admission plugins, by their names in kube-apiserver: those of
    /// [`DISABLEABLE_PLUGINS`](crate::admission::DISABLEABLE_PLUGINS). Other names are ignored.
    #[must_use]
    pub fn disable_admission_plugins(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.disabled_admission_plugins.extend(names);
        self
    }

    /// Sets the flags of the program, which `/flagz` shows.
    #[must_use]
    pub fn flags(mut self, flags: BTreeMap<String, String>) -> Self {
        self.flags = flags;
        self
    }

    /// Configures admission plugins.
    #[must_use]
    pub fn admission_configuration(mut self, configuration: AdmissionConfiguration) -> Self {
        self.admission_configuration = configuration;
        self
    }

    /// Sets the host and port at which clients reach the server, which are part of the discovery document of its
    /// issuer of tokens. The default is `localhost`.
    #[must_use]
    pub fn external_address(mut self, address: impl Into<String>) -> Self {
        self.external_address = address.into();
        self
    }

    /// Sets the address that the server listens on. The Endpoints of the service `default/kubernetes` then refer to it,
    /// and the server renews a lease in `kube-system`, which shows other components that it runs.
    #[must_use]
    pub fn listening_on(mut self, address: SocketAddr) -> Self {
        self.listening = Some(address);
        self
    }

    /// Sets the address in the Endpoints of the service `default/kubernetes`, if the server
    /// [listens](Self::listening_on). By default it is the one that the server listens on, or that of the machine if
    /// the server listens on all addresses or on the loopback address. Endpoints cannot have a loopback address: the
    /// service has none with such an address.
    #[must_use]
    pub fn advertise_address(mut self, address: IpAddr) -> Self {
        self.advertised = Some(address);
        self
    }

    /// Sets the network of the cluster IPs of services. The ServiceCIDR `kubernetes` takes precedence over it if it
    /// exists already.
    #[must_use]
    pub fn service_network(mut self, network: ServiceNetwork) -> Self {
        self.service_network = network;
        self
    }

    /// Sets the range of the node ports of services.
    #[must_use]
    pub fn node_ports(mut self, range: NodePortRange) -> Self {
        self.node_ports = range;
        self
    }

    /// Sets the key that signs tokens of service accounts. By default a key is generated, and tokens are valid until
    /// the server stops.
    #[must_use]
    pub fn token_key(mut self, key: TokenKey) -> Self {
        self.token_key = Some(key);
        self
    }

    /// Sets the client certificate, with its key, that this server presents to other API servers when it forwards
    /// requests to them. Both are in PEM. Without it, other API servers reject the users that this server forwards.
    #[must_use]
    pub fn front_proxy(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.front_proxy = Some(Identity { certificate: certificate.into(), key: key.into() });
        self
    }

    /// Sets how services of webhooks and of other API servers are resolved. By default they are resolved by their
    /// EndpointSlices.
    #[must_use]
    pub fn service_resolver(mut self, resolver: Arc<dyn ServiceResolver>) -> Self {
        self.service_resolver = Some(resolver);
        self
    }

    /// Serves only these API groups to clients outside of this process, for servers that others forward requests to.
    /// Built-in kinds, such as CustomResourceDefinitions, can still be used by [`Server::client`].
    #[must_use]
    pub fn only_groups(mut self, groups: impl IntoIterator<Item = String>) -> Self {
        self.only_groups = Some(groups.into_iter().collect());
        self
    }

    /// Adds an authenticator of tokens that no other authenticator knows. Its successes are cached for ten seconds.
    #[must_use]
    pub fn token_authenticator(mut self, authenticator: impl TokenAuthenticator + 'static) -> Self {
        self.token_authenticators.push(Arc::new(authenticator));
        self
    }

    /// Sets the limits on connections and requests.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets which requests are audited, and where their events go. By default none are.
    #[must_use]
    pub fn audit(mut self, options: AuditOptions) -> Self {
        self.audit = Some(options);
        self
    }

    /// Loads the store and starts the server. Must be called within a tokio runtime.
    pub async fn build(self) -> Result<Server, BuildError> {
        self.start().await
    }

    /// Starts the server. Not async, so that its tasks are compiled with this crate's level of optimization.
    #[inline(never)]
    fn start(self) -> BoxFuture<'static, Result<Server, BuildError>> {
        Box::pin(self.load_and_start())
    }

    async fn load_and_start(mut self) -> Result<Server, BuildError> {
        if self.authorizer.is_none() && self.authorization.always_allows() && self.authentication.anonymous.enabled {
            warn!("requests without credentials are rejected, because the authorizer AlwaysAllow allows everything");
            self.authentication.anonymous.enabled = false;
        }
        let agreement = self.agreement();
        let (audit, audit_task) = Audit::start(self.audit.as_ref())?;
        let storage = Storage::open(self.store).await.map_err(BuildError::Load)?;
        let mut registry = Registry::builtin(self.runtime_config.table(), &storage);
        if self.old_definitions {
            registry = registry.with_old_definitions();
        }
        for kind in &self.computed {
            let (group, plural, endpoints) = kind.endpoints(registry.table, &storage)?;
            registry.replace_custom(&group, &plural, &endpoints);
        }
        let definitions = definitions::Controller::load(&storage, &mut registry, self.conversions);
        let services = allocate::follow(&storage, self.service_network, self.node_ports);
        if !self.service_accounts {
            self.disabled_admission_plugins.push("ServiceAccount".to_owned());
        }
        let is_enabled = |plugin: &str| !self.disabled_admission_plugins.iter().any(|name| name == plugin);
        let (restricts_nodes, charges_quotas) = (is_enabled("NodeRestriction"), is_enabled("ResourceQuota"));
        let mut admission = builtin(
            &storage,
            &self.enabled_admission_plugins,
            &self.disabled_admission_plugins,
            self.admission_configuration,
        );
        admission.extend(self.admission);
        let mut resolver = self.service_resolver.unwrap_or_else(|| Arc::new(EndpointSlices::new(&storage)));
        if let Some(listening) = self.listening {
            resolver = Arc::new(Loopback { listening, others: resolver });
        }
        let aggregation = Aggregation::new(&storage, resolver.clone(), self.front_proxy);
        let webhooks = Webhooks::new(&storage, resolver, &self.disabled_admission_plugins);
        let policies = Policies::new(&storage, &self.disabled_admission_plugins);
        let flow_control = Arc::new(FlowControl::new(&storage, &self.limits));
        let publication = Publication::of(&self.authentication, &storage)?;
        let rbac = Rbac::new(&storage);
        let issuers = Issuers::new(&self.authentication);
        let jwt = self.jwt.map(|options| JwtTokenAuthenticator::start(options, &issuers.names()));
        let jwt = jwt.transpose()?.map(Arc::new);
        let token_webhook =
            self.token_webhook.map(|options| WebhookTokenAuthenticator::new(&options, &issuers.audiences()));
        let token_webhook = token_webhook.transpose()?;
        let mut token_authenticators: Vec<Arc<dyn TokenAuthenticator>> = Vec::new();
        token_authenticators.extend(jwt.clone().map(|jwt| jwt as Arc<dyn TokenAuthenticator>));
        token_authenticators.extend(token_webhook.map(|webhook| Arc::new(webhook) as Arc<dyn TokenAuthenticator>));
        token_authenticators.extend(self.token_authenticators);
        let tokens = TokenAuthenticators::new(token_authenticators);
        let authentication = Authentication::new(&self.authentication, tokens, &storage)?;
        let chain = Chain::new(&self.authorization, &storage, Arc::new(rbac.clone()));
        let chain = Arc::new(chain.map_err(BuildError::Authorization)?);
        let authorizer = self.authorizer.unwrap_or_else(|| Box::new(chain.clone()));
        let is_shared = storage.store().is_shared();
        let own = self.listening.and_then(|listening| bootstrap::own_address(listening, self.advertised));
        let inner = Inner {
            endpoint_lease: own.filter(|_| is_shared).map(|own| EndpointLease::new(own, agreement)),
            jwt,
            storage,
            registry: ArcSwap::from_pointee(registry),
            definitions: Definitions::default(),
            authentication,
            authorizer,
            rbac,
            chain: chain.clone(),
            admission,
            restricts_nodes,
            audit,
            services,
            quota_locks: charges_quotas.then(QuotaLocks::default),
            token_key: self.token_key.unwrap_or_else(TokenKey::generate),
            external_address: self.external_address,
            metrics: Metrics::default(),
            connections: Connections::new(&self.limits),
            uploads: UploadBudget::new(self.limits.max_body_memory),
            flow_control,
            limits: self.limits,
            process: Process { started: windlass_clock::now(), flags: self.flags },
            only_groups: self.only_groups,
            openapi: OpenApi::default(),
            pod_connections: self.pod_connections,
            node_connections: self.node_connections,
            webhooks,
            aggregation,
            policies,
            units: Units::new(Handle::current()),
            stop: watch::Sender::new(false),
            tasks: Mutex::default(),
        };
        let server = Server { inner: Arc::new(inner) };
        let weak = Arc::downgrade(&server.inner);
        // Before the first event, so that the observers miss none.
        server.inner.webhooks.follow(&weak);
        server.inner.policies.follow(&weak);
        server.inner.flow_control.follow();
        server.inner.aggregation.follow(&weak);
        server.inner.rbac.follow();
        let storage = &server.inner.storage;
        *server.inner.tasks.lock() = vec![
            tokio::spawn(storage.clone().follow().boxed()).abort_handle(),
            tokio::spawn(compaction::run(storage.clone()).boxed()).abort_handle(),
            tokio::spawn(definitions.run(weak.clone()).boxed()).abort_handle(),
            tokio::spawn(repair::run(weak).boxed()).abort_handle(),
            tokio::spawn(chain::follow(Arc::downgrade(&chain), self.authorization).boxed()).abort_handle(),
        ];
        server.inner.tasks.lock().extend(audit_task);
        bootstrap::run(&server, publication.as_ref(), self.listening, self.advertised).await?;
        if let Some(publication) = publication {
            let publishing = tokio::spawn(publication.run(Arc::downgrade(&server.inner)).boxed());
            server.inner.tasks.lock().push(publishing.abort_handle());
        }
        tasks::start(&server, self.listening, self.advertised);
        if self.policy_type_checking {
            let checking = tokio::spawn(policies::type_checking::run(Arc::downgrade(&server.inner)).boxed());
            server.inner.tasks.lock().push(checking.abort_handle());
        }
        Ok(server)
    }
}
