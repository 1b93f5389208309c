//! Starting, serving and stopping a plane.

mod error;
mod running;
mod standalone;
mod store;

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::net::TcpListener;
use windlass_apiserver::{
    BuildError, Limits, NodePortRange, RuntimeConfig, Server, ServerBuilder, ServiceNetwork,
    admission::AdmissionConfiguration,
    audit::AuditOptions,
    authentication::{
        AuthenticationOptions, RequestHeaderOptions, jwt::JwtOptions, webhook_token::WebhookTokenOptions,
    },
    authorization::AuthorizationOptions,
};
use windlass_etcd::EtcdOptions;

pub(crate) use self::store::open_when_free;
pub use self::{
    error::PlaneError,
    standalone::{GivenCredentials, Standalone},
};
use self::{running::Running, store::open_store};
use crate::{
    DataDirLock, FRONT_PROXY_CLIENT, LockError, LoopOptions, Loops, NodeOptions, NodeUsage, Pki, Processes, Runtime,
    Selection, files, join, metrics_server, renewal::Renewal, token_key,
};

/// Name of the store's file.
pub(crate) const STORE: &str = "store.redb";

/// Number of attempts to create the data directory if it is being deleted at the same time.
const CREATE_AT_MOST: usize = 10;

/// The warning of planes that run pods as processes.
const PROCESSES_ARE_NOT_ISOLATED: &str = "pods run as processes of this user and are not isolated: they can read and change \
     all of its files, including the keys of this control plane. Run only pods that you trust";

/// Maximum time for the tasks of a stopped plane to end.
pub(crate) const CLOSING: Duration = Duration::from_secs(1);

/// Store of a plane's objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StoreKind {
    /// In memory: lost when the plane stops.
    Memory,
    /// In a single file in the data directory; a write is acknowledged once it is on disk.
    #[default]
    Embedded,
    /// In a single file in the data directory that survives a crash of the process, but not of the machine: a
    /// write is acknowledged before it is on disk.
    EmbeddedWithoutFsync,
    /// In etcd. Certificates and keys are in the data directory anyway.
    Etcd(EtcdOptions),
}

/// Options for starting a plane.
#[derive(Debug, Clone)]
pub struct PlaneOptions {
    /// The directory for certificates, kubeconfig and objects. Created if it does not exist.
    pub data_dir: PathBuf,
    /// The address to listen on.
    pub address: IpAddr,
    /// The port to listen on; 0 for any free port.
    pub port: u16,
    /// The store of objects.
    pub store: StoreKind,
    /// A file that [`join_file`](crate::join_file) has filled, with the keys of an API server that uses the same store.
    pub join: Option<PathBuf>,
    /// Maximum size of all objects and their history in the embedded store, in bytes; none by default.
    pub quota_bytes: Option<u64>,
    /// DNS names and IP addresses that the serving certificate covers in addition to the default ones.
    pub extra_names: Vec<String>,
    /// Whether CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1` are accepted.
    pub old_definitions: bool,
    /// The control loops to run.
    pub controllers: Selection,
    /// The nodes to run.
    pub nodes: NodeOptions,
    /// Whether the API server serves resource metrics of the nodes (`metrics.k8s.io`), if there are any.
    pub resource_metrics: bool,
    /// How clients are authenticated. The plane's own authority issues client certificates in addition to those given
    /// here, and its authority of front proxies is used if no other is given.
    pub authentication: AuthenticationOptions,
    /// Issuers of JSON web tokens that are accepted.
    pub jwt: Option<JwtOptions>,
    /// A webhook that authenticates tokens.
    pub token_webhook: Option<WebhookTokenOptions>,
    /// The authorizers of the API server.
    pub authorization: AuthorizationOptions,
    /// Optional admission plugins that run, by their names in kube-apiserver.
    pub enabled_admission_plugins: Vec<String>,
    /// Admission plugins that do not run, by their names in kube-apiserver.
    pub disabled_admission_plugins: Vec<String>,
    /// The flags of the program, which `/flagz` shows.
    pub flags: BTreeMap<String, String>,
    /// The configuration of admission plugins.
    pub admission_configuration: AdmissionConfiguration,
    /// Served versions of the built-in API groups.
    pub runtime_config: RuntimeConfig,
    /// The network of the cluster IPs of services.
    pub service_network: ServiceNetwork,
    /// The range of the node ports of services.
    pub node_ports: NodePortRange,
    /// The address in the Endpoints of the service `default/kubernetes`; by default the one that the plane listens on,
    /// or that of the machine if this is a loopback address.
    pub advertise_address: Option<IpAddr>,
    /// The limits of the API server.
    pub limits: Limits,
    /// Audit policy and backends; no auditing by default.
    pub audit: Option<AuditOptions>,
    /// Maximum time for requests in flight to finish when the plane stops.
    pub drain: Duration,
}

impl PlaneOptions {
    /// A plane in this directory, on a free port of the loopback address, with the embedded store.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            store: StoreKind::default(),
            join: None,
            quota_bytes: None,
            extra_names: Vec::new(),
            old_definitions: true,
            controllers: Selection::all(),
            nodes: NodeOptions::default(),
            resource_metrics: true,
            // As with kubeadm: Secrets of this type are accepted as long as they exist in kube-system.
            authentication: AuthenticationOptions { bootstrap_tokens: true, ..AuthenticationOptions::default() },
            jwt: None,
            token_webhook: None,
            authorization: AuthorizationOptions::default(),
            enabled_admission_plugins: Vec::new(),
            disabled_admission_plugins: Vec::new(),
            flags: BTreeMap::new(),
            admission_configuration: AdmissionConfiguration::default(),
            runtime_config: RuntimeConfig::default(),
            service_network: ServiceNetwork::default(),
            node_ports: NodePortRange::default(),
            advertise_address: None,
            limits: Limits::default(),
            audit: None,
            drain: Duration::from_millis(500),
        }
    }
}

/// A control plane that is fully set up and listening; [`run`](Plane::run) serves requests.
pub struct Plane {
    renewal: Renewal,
    url: String,
    kubeconfig_path: PathBuf,
    running: Running,
}

impl Plane {
    /// Locks the data directory, loads or issues the certificates, opens the store, listens, and writes `kubeconfig` to
    /// the directory. When this returns, clients can connect: their requests wait for [`run`](Plane::run).
    pub async fn start(options: PlaneOptions) -> Result<Self, PlaneError> {
        let directory = &options.data_dir;
        let lock = lock_directory(directory)?;

        // First, because it is the step most likely to fail and the cheapest to check.
        let address = SocketAddr::new(options.address, options.port);
        let listening = |source| PlaneError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listening)?;
        let url = url(listener.local_addr().map_err(listening)?);

        // No token can have been issued for a service account of a new store.
        let is_new = match options.store {
            StoreKind::Memory => true,
            StoreKind::Embedded | StoreKind::EmbeddedWithoutFsync => !directory.join(STORE).exists(),
            StoreKind::Etcd(_) => false,
        };
        // The disk is busy opening the store while this thread issues certificates.
        let store = open_store(options.store, directory, options.quota_bytes);
        let mut names = options.extra_names.clone();
        if !options.address.is_unspecified() {
            names.push(options.address.to_string());
        }
        let pki_directory = directory.join("pki");
        if let Some(join) = &options.join {
            join::import(&pki_directory, join)?;
        }
        let pki = Pki::load_or_create(&pki_directory, &names)?;
        let authentication = authentication(options.authentication, &pki);
        let front_proxy = pki.front_proxy().client.clone();
        let mut renewal = Renewal::new(pki, &pki_directory, names)?;
        let tls = renewal.server_config(authentication.certificate_verifier()?)?;
        let store = store.await?;
        let key = token_key::load_or_create(&pki_directory.join("sa.key"), is_new)?;
        let processes = processes(&options.nodes, &listener).map_err(listening)?;
        let builder = Server::builder(store.clone())
            .old_definitions(options.old_definitions)
            .authentication(authentication)
            .service_accounts(provides_accounts(&options.controllers))
            .policy_type_checking(options.controllers.contains("validatingadmissionpolicy-status-controller"))
            .enable_admission_plugins(options.enabled_admission_plugins)
            .disable_admission_plugins(options.disabled_admission_plugins)
            .flags(options.flags)
            .admission_configuration(options.admission_configuration)
            .runtime_config(options.runtime_config)
            .service_network(options.service_network)
            .node_ports(options.node_ports)
            .external_address(url.trim_start_matches("https://"))
            .listening_on(listener.local_addr().map_err(listening)?)
            .token_key(key)
            .front_proxy(front_proxy.certificate, front_proxy.key)
            .authorization(options.authorization)
            .limits(options.limits);
        let usage = NodeUsage::default();
        let has_nodes = options.nodes.count > 0;
        let added = Additions {
            jwt: options.jwt,
            token_webhook: options.token_webhook,
            audit: options.audit,
            processes: processes.clone(),
            usage: has_nodes.then(|| usage.clone()),
            resource_metrics: options.resource_metrics,
            advertise_address: options.advertise_address,
        };
        let server = added.build(builder).await?;
        let forwarding = server.clone();
        renewal.on_front_proxy(move |pair| forwarding.set_front_proxy(pair.certificate.as_str(), pair.key.as_str()));

        let loops = LoopOptions {
            controllers: options.controllers,
            nodes: options.nodes,
            root_ca: Some(renewal.pki().ca().certificate.as_str().into()),
            authority: Some(renewal.pki().ca().clone()),
            usage,
            elected: store.is_shared(),
        };
        let loops = Loops::start(&server, &loops);
        let kubeconfig_path = directory.join("kubeconfig");
        renewal
            .write_kubeconfig(&kubeconfig_path, &url)
            .map_err(|source| PlaneError::Kubeconfig { path: kubeconfig_path.clone(), source })?;
        let running = Running {
            server,
            store,
            data_dir: directory.clone(),
            listener,
            tls,
            loops,
            processes,
            drain: options.drain,
            lock,
        };
        Ok(Self { renewal, url, kubeconfig_path, running })
    }

    /// The URL of the server: `https://ADDRESS:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The path of the administrator's kubeconfig.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig_path
    }

    /// The certificates. They are renewed while the plane runs.
    pub fn pki(&self) -> &Pki {
        self.renewal.pki()
    }

    /// The API server, for in-process requests.
    pub fn server(&self) -> &Server {
        &self.running.server
    }

    /// Serves until `shutdown` resolves, then waits for requests in flight until the deadline. Watches are closed.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), PlaneError> {
        self.running.run(self.renewal.run(), shutdown).await
    }
}

/// Optional parts of a server.
struct Additions {
    jwt: Option<JwtOptions>,
    token_webhook: Option<WebhookTokenOptions>,
    audit: Option<AuditOptions>,
    processes: Option<Processes>,
    /// Resource usage of the nodes, if there are any.
    usage: Option<NodeUsage>,
    /// Whether resource metrics are served, if there are nodes.
    resource_metrics: bool,
    advertise_address: Option<IpAddr>,
}

impl Additions {
    async fn build(self, mut builder: ServerBuilder) -> Result<Server, PlaneError> {
        if let Some(jwt) = self.jwt {
            builder = builder.jwt(jwt);
        }
        if let Some(webhook) = self.token_webhook {
            builder = builder.token_webhook(webhook);
        }
        if let Some(processes) = self.processes {
            builder = builder.pod_connections(processes.connections());
        }
        if let Some(audit) = self.audit {
            builder = builder.audit(audit);
        }
        if let Some(address) = self.advertise_address {
            builder = builder.advertise_address(address);
        }
        let serves_metrics = self.resource_metrics && self.usage.is_some();
        if let Some(usage) = self.usage {
            if serves_metrics {
                builder = metrics_server::add(builder, &usage);
            }
            builder = builder.node_connections(Arc::new(usage));
        }
        let server = builder.build().await.map_err(|error| match error {
            BuildError::Audit(error) => PlaneError::Audit(error.into()),
            error @ BuildError::Disagreement { .. } => PlaneError::Disagreement(error),
            error => PlaneError::Server(error.into()),
        })?;
        if serves_metrics {
            // The administrator needs no role, and the next start creates it.
            if let Err(error) = metrics_server::create_role(&server).await {
                tracing::warn!(%error, "failed to create the role of readers of resource metrics");
            }
        }
        Ok(server)
    }
}

/// Returns the runtime of pods as processes, which reach the server over this listener.
fn processes(nodes: &NodeOptions, listener: &TcpListener) -> io::Result<Option<Processes>> {
    let Runtime::Processes(processes) = &nodes.runtime else { return Ok(None) };
    tracing::warn!("{PROCESSES_ARE_NOT_ISOLATED}");
    processes.set_api_server(reached_at(listener.local_addr()?));
    Ok(Some(processes.clone()))
}

/// Returns whether the loops run that provide the accounts and certificates of pods. Without them, pods have neither:
/// no pod could be created in a namespace without the account `default`.
fn provides_accounts(controllers: &Selection) -> bool {
    let given = ["serviceaccount-controller", "root-ca-certificate-publisher-controller"];
    given.iter().all(|name| controllers.contains(name))
}

/// Returns the options of authentication with the plane's own authorities.
fn authentication(options: AuthenticationOptions, pki: &Pki) -> AuthenticationOptions {
    let own = &pki.ca().certificate;
    let proxies = || RequestHeaderOptions {
        allowed_names: vec![FRONT_PROXY_CLIENT.to_owned()],
        ..RequestHeaderOptions::new(pki.front_proxy().ca.certificate.clone())
    };
    AuthenticationOptions {
        client_ca: Some(options.client_ca.map_or_else(|| own.clone(), |others| format!("{own}{others}"))),
        request_header: Some(options.request_header.unwrap_or_else(proxies)),
        ..options
    }
}

/// Creates and locks the data directory, and closes it to other users.
pub(crate) fn lock_directory(directory: &Path) -> Result<DataDirLock, PlaneError> {
    let had_data = ["pki", STORE].iter().any(|name| directory.join(name).exists());
    let lock = create_and_lock(directory)?;
    match files::close_directory(directory) {
        Ok(None) => {}
        // Nothing in it was accessible.
        Ok(Some(_)) if !had_data => {
            tracing::info!(directory = %directory.display(), "closed the data directory to other users")
        }
        Ok(Some(mode)) => {
            let mode = format!("{mode:04o}");
            tracing::warn!(directory = %directory.display(), mode, "the data directory was accessible to other users; removed their permissions");
        }
        Err(error) => {
            tracing::warn!(directory = %directory.display(), %error, "the data directory is accessible to other users, and its mode cannot be changed");
        }
    }
    Ok(lock)
}

fn create_and_lock(directory: &Path) -> Result<DataDirLock, PlaneError> {
    let mut attempts = 0;
    loop {
        files::create_directory(directory)
            .map_err(|source| PlaneError::DataDir { path: directory.to_owned(), source })?;
        attempts += 1;
        match DataDirLock::acquire(directory) {
            // It was deleted in the meantime.
            Err(LockError::File { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempts < CREATE_AT_MOST => {}
            result => return Ok(result?),
        }
    }
}

/// The URL at which clients reach a server that listens on this address.
fn url(address: SocketAddr) -> String {
    format!("https://{}", reached_at(address))
}

/// A server that listens on all addresses is reached over the loopback address.
fn reached_at(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_one_that_clients_can_connect_to() {
        for (address, expected) in [
            ("127.0.0.1:6443", "https://127.0.0.1:6443"),
            ("0.0.0.0:1", "https://127.0.0.1:1"),
            ("[::]:1", "https://[::1]:1"),
            ("[2001:db8::1]:443", "https://[2001:db8::1]:443"),
        ] {
            assert_eq!(url(address.parse().unwrap()), expected);
        }
    }
}
