//! A plane whose certificates and keys are given, as kube-apiserver's are.

use std::{net::SocketAddr, sync::Arc};

use tokio::net::TcpListener;
use windlass::webhook::CertResolver;
use windlass_apiserver::{Server, tokens::TokenKey};

use super::{
    Additions, PlaneError, PlaneOptions, Running, lock_directory, open_store, processes, provides_accounts, url,
};
use crate::{CertificateAndKey, LoopOptions, Loops, NodeUsage, Pki, PkiError, pki};

/// Certificates and keys that were issued elsewhere.
#[derive(Debug)]
pub struct GivenCredentials {
    /// The serving certificate with its chain, in PEM.
    pub serving: CertificateAndKey,
    /// The keys of service account tokens.
    pub token_key: TokenKey,
    /// The client certificate, in PEM, that this server presents to other API servers. Without it, they do not trust the users
    /// that this server names.
    pub front_proxy: Option<CertificateAndKey>,
}

/// A plane like kube-apiserver: it has only the certificates and keys that it is given, and writes no kubeconfig. Its data
/// directory contains only the store.
pub struct Standalone {
    url: String,
    running: Running,
}

impl Standalone {
    /// Locks the data directory, opens the store, and listens. When this returns, clients can connect: their requests
    /// wait for [`run`](Standalone::run).
    ///
    /// The option `extra_names` is ignored, and `authentication` is used as it is: clients need certificates of the
    /// authorities that it names.
    pub async fn start(options: PlaneOptions, given: GivenCredentials) -> Result<Self, PlaneError> {
        let directory = &options.data_dir;
        let lock = lock_directory(directory)?;
        let address = SocketAddr::new(options.address, options.port);
        let listening = |source| PlaneError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listening)?;
        let url = url(listener.local_addr().map_err(listening)?);

        let store = open_store(options.store, directory, options.quota_bytes);
        let mut authentication = options.authentication;
        // Loops that sign certificates need an authority, and the server accepts what they sign.
        let signs = options.controllers.contains("certificatesigningrequest-signing-controller");
        let authority = signs.then(Pki::new_authority).transpose()?;
        if let Some(authority) = &authority {
            authentication.client_ca.get_or_insert_default().push_str(&authority.certificate);
        }
        let verifier = authentication.certificate_verifier()?;
        let resolver = resolver(&given.serving)?;
        if let Some(proxy) = &given.front_proxy {
            // An unusable certificate would only be noticed when a request is forwarded.
            self::resolver(proxy)?;
        }
        let tls = Arc::new(pki::tls_config(&resolver, verifier)?);
        let store = store.await?;

        let processes = processes(&options.nodes, &listener).map_err(listening)?;
        let mut builder = Server::builder(store.clone())
            .old_definitions(options.old_definitions)
            .authentication(authentication)
            .service_accounts(provides_accounts(&options.controllers))
            .policy_type_checking(options.controllers.contains("validatingadmissionpolicy-status-controller"))
            .enable_admission_plugins(options.enabled_admission_plugins)
            .disable_admission_plugins(options.disabled_admission_plugins)
            .flags(options.flags)
            .runtime_config(options.runtime_config)
            .service_network(options.service_network)
            .admission_configuration(options.admission_configuration)
            .external_address(url.trim_start_matches("https://"))
            .listening_on(listener.local_addr().map_err(listening)?)
            .token_key(given.token_key)
            .authorization(options.authorization)
            .limits(options.limits);
        if let Some(proxy) = given.front_proxy {
            builder = builder.front_proxy(proxy.certificate, proxy.key);
        }
        let usage = NodeUsage::default();
        let added = Additions {
            jwt: options.jwt,
            token_webhook: options.token_webhook,
            audit: options.audit,
            processes: processes.clone(),
            usage: (options.nodes.count > 0).then(|| usage.clone()),
            resource_metrics: options.resource_metrics,
            advertise_address: options.advertise_address,
        };
        let server = added.build(builder).await?;
        let loops = LoopOptions {
            controllers: options.controllers,
            nodes: options.nodes,
            root_ca: Some(given.serving.certificate.into()),
            authority,
            usage,
            elected: store.is_shared(),
        };
        let loops = Loops::start(&server, &loops);
        let data_dir = directory.clone();
        let drain = options.drain;
        let running = Running { server, store, data_dir, listener, tls, loops, processes, drain, lock };
        Ok(Self { url, running })
    }

    /// The URL of the server: `https://ADDRESS:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until `shutdown` resolves, then waits for requests in flight until the deadline. Watches are closed.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), PlaneError> {
        self.running.run(std::future::pending(), shutdown).await
    }
}

/// Returns a resolver of a certificate, which must fit its key.
fn resolver(pair: &CertificateAndKey) -> Result<CertResolver, PkiError> {
    let resolver = CertResolver::new();
    let resolved = resolver.set_pem(pair.certificate.as_bytes(), pair.key.as_bytes());
    resolved.map_err(|error| PkiError::Tls(rustls::Error::General(error.to_string())))?;
    Ok(resolver)
}
