//! The server: kinds, storage and rules, on the engine of the API server.

use std::{cmp::Reverse, collections::HashMap, future::Future, io, net::SocketAddr, sync::Arc};

use futures_util::future::{BoxFuture, join_all};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, CustomResourceExt, Resource,
    api::{Patch, PatchParams},
    core::Version,
};
use rustls::ServerConfig;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpListener;
use windlass::{object::Object, webhook::Conversion};
use windlass_apiserver::{
    BuildError, Server, ServerBuilder,
    authentication::{AuthenticationError, AuthenticationOptions},
    computed::{ComputedKind, ComputedObjects},
    webhooks::ConversionFunction,
};
use windlass_store::{MemoryStore, Store};

use crate::{
    Admission, ErrorList, Kind, authorities,
    certificates::{CertificateError, ServingCertificate},
    delegated::{self, AccessReviews, TokenReviews},
    rule::Rule,
};

/// The field manager of the definitions.
const MANAGER: &str = "windlass-extension";

type Configure = Box<dyn FnOnce(ServerBuilder, &Conversions) -> ServerBuilder + Send>;
type Background = Box<dyn FnOnce(Client) -> BoxFuture<'static, ()> + Send>;

/// The conversions by kind.
type Conversions = HashMap<String, ConversionFunction>;

/// An API server for kinds of your own.
pub struct Extension {
    pub(crate) name: String,
    pub(crate) definitions: Vec<CustomResourceDefinition>,
    computed: Vec<ComputedKind>,
    conversions: Conversions,
    added: Vec<Value>,
    pub(crate) store: Option<Arc<dyn Store>>,
    configure: Vec<Configure>,
    background: Vec<Background>,
    pub(crate) namespace: String,
}

/// Reasons why an extension could not run.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    /// The main API server does not say how it authenticates.
    #[error("failed to read ConfigMap kube-system/extension-apiserver-authentication")]
    Delegation(#[source] Box<kube::Error>),
    /// The server could not be built.
    #[error("failed to build the server")]
    Build(#[source] Box<BuildError>),
    /// The authorities of clients cannot be used.
    #[error("failed to configure authentication")]
    Authentication(#[from] AuthenticationError),
    /// A kind is not valid.
    #[error("failed to define {name}")]
    Define {
        /// The name of the kind's CustomResourceDefinition.
        name: String,
        /// The response of the server.
        source: Box<kube::Error>,
    },
    /// There is no serving certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The server could not listen.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The server could not serve.
    #[error("failed to serve")]
    Serve(#[source] io::Error),
    /// The store could not be opened.
    #[error("failed to open {path}")]
    Store {
        /// The file.
        path: String,
        /// The error of the store.
        source: windlass_store::Error,
    },
    /// There is no connection to the main API server.
    #[error("failed to connect to the main API server")]
    Client(#[source] Box<windlass::client::ClientError>),
    /// The server could not be registered.
    #[error("failed to apply {what}")]
    Register {
        /// The object.
        what: String,
        /// The response of the main API server.
        source: Box<kube::Error>,
    },
}

/// An extension that is set up; [`serve`](RunningExtension::serve) answers requests.
pub struct RunningExtension {
    server: Server,
    tls: Arc<ServerConfig>,
    background: Vec<BoxFuture<'static, ()>>,
}

impl Extension {
    /// An API server without kinds. The name is that of its Service.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            definitions: Vec::new(),
            computed: Vec::new(),
            conversions: Conversions::new(),
            added: Vec::new(),
            store: None,
            configure: Vec::new(),
            background: Vec::new(),
            namespace: "default".to_owned(),
        }
    }

    /// Adds a kind that is derived with `kube::CustomResource`, or another version of it. Objects are stored in the
    /// version that is added first; [`conversion`](Self::conversion) defines how they are converted to others.
    #[must_use]
    pub fn kind<K: CustomResourceExt>(self) -> Self {
        self.definition(K::crd())
    }

    /// Adds a kind that is described by a plain type, or another version of it.
    #[must_use]
    pub fn plain_kind(self, kind: &Kind) -> Self {
        self.definition(kind.definition())
    }

    /// Adds a kind in the form of a CustomResourceDefinition, or other versions of it.
    #[must_use]
    pub fn definition(mut self, definition: CustomResourceDefinition) -> Self {
        match self.definitions.iter_mut().find(|have| have.metadata.name == definition.metadata.name) {
            Some(have) => have.spec.versions.extend(definition.spec.versions.into_iter().map(|mut version| {
                version.storage = false;
                version
            })),
            None => self.definitions.push(definition),
        }
        self
    }

    /// Sets how objects of a kind are converted between its versions. Without a conversion only their apiVersion
    /// changes.
    ///
    /// ```
    /// # use kube::CustomResource;
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_extension::{Conversion, Extension};
    /// #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    /// #[kube(group = "clock.example.com", version = "v1", kind = "Alarm")]
    /// struct AlarmSpec {
    ///     at: String,
    /// }
    ///
    /// mod old {
    /// #   use kube::CustomResource;
    /// #   use schemars::JsonSchema;
    /// #   use serde::{Deserialize, Serialize};
    ///     #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    ///     #[kube(group = "clock.example.com", version = "v1beta1", kind = "Alarm")]
    ///     pub struct AlarmSpec {
    ///         pub time: String,
    ///     }
    /// }
    ///
    /// impl From<old::Alarm> for Alarm {
    ///     fn from(old: old::Alarm) -> Self {
    ///         Alarm { metadata: old.metadata, spec: AlarmSpec { at: old.spec.time } }
    ///     }
    /// }
    ///
    /// impl From<Alarm> for old::Alarm {
    ///     fn from(alarm: Alarm) -> Self {
    ///         old::Alarm { metadata: alarm.metadata, spec: old::AlarmSpec { time: alarm.spec.at } }
    ///     }
    /// }
    ///
    /// let extension = Extension::new("clock")
    ///     .kind::<Alarm>()
    ///     .kind::<old::Alarm>()
    ///     .conversion(Conversion::<Alarm>::new().spoke::<old::Alarm>());
    /// let versions: Vec<String> = extension.group_versions().into_iter().map(|(_, version)| version).collect();
    /// assert_eq!(versions, ["v1", "v1beta1"]);
    /// ```
    #[must_use]
    pub fn conversion<H: Object<DynamicType: Default>>(self, conversion: Conversion<H>) -> Self {
        self.convert(conversion.describe().name, move |object, to| conversion.convert(object, to))
    }

    /// Sets how objects of a kind are converted between its versions, by a function that gets an object and the
    /// apiVersion to convert it to. The kind is named like its CustomResourceDefinition: `flunders.wardle.example.com`.
    #[must_use]
    pub fn convert(
        mut self,
        kind: impl Into<String>,
        convert: impl Fn(&Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        self.conversions.insert(kind.into(), ConversionFunction::new(convert));
        self
    }

    /// Adds a kind whose objects are computed when they are read: from another database, from measurements, from
    /// anything. It has the verbs `get` and `list`.
    ///
    /// ```
    /// # use async_trait::async_trait;
    /// # use schemars::JsonSchema;
    /// # use serde_json::{Value, json};
    /// # use windlass_extension::{ComputedObjects, Extension, Kind, Result};
    /// #[derive(JsonSchema)]
    /// struct Uptime {
    ///     /// Seconds since the server started.
    ///     seconds: u64,
    /// }
    ///
    /// struct Clock(std::time::Instant);
    ///
    /// #[async_trait]
    /// impl ComputedObjects for Clock {
    ///     async fn list(&self, _namespace: &str) -> Result<Vec<Value>> {
    ///         Ok(vec![json!({
    ///             "apiVersion": "clock.example.com/v1", "kind": "Uptime", "metadata": {"name": "server"},
    ///             "seconds": self.0.elapsed().as_secs(),
    ///         })])
    ///     }
    /// }
    ///
    /// let uptime = Kind::of::<Uptime>("clock.example.com", "v1", "Uptime", "uptimes").cluster_scoped();
    /// let extension = Extension::new("clock").computed_kind(&uptime, Clock(std::time::Instant::now()));
    /// assert_eq!(extension.group_versions(), [("clock.example.com".to_owned(), "v1".to_owned())]);
    /// ```
    #[must_use]
    pub fn computed_kind(self, kind: &Kind, objects: impl ComputedObjects + 'static) -> Self {
        let definition = serde_json::to_value(kind.definition()).unwrap_or_default();
        self.computed(ComputedKind::new(definition, Arc::new(objects)))
    }

    /// Adds a kind whose objects are computed, with its own description.
    #[must_use]
    pub fn computed(mut self, kind: ComputedKind) -> Self {
        self.computed.push(kind);
        self
    }

    /// Adds an object to the manifests, such as a role that the server needs beyond those of every extension.
    #[must_use]
    pub fn manifest(mut self, object: Value) -> Self {
        self.added.push(object);
        self
    }

    /// Returns the additional objects of the manifests.
    pub(crate) fn added_manifests(&self) -> &[Value] {
        &self.added
    }

    /// Sets where objects are stored. By default they are in memory, and lost when the server stops.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Adds a rule for objects of a kind: a function of the new object and, for updates, the old one, which returns the
    /// fields that are not valid. Objects of other versions are converted to the version of the type.
    ///
    /// ```
    /// # use windlass_extension::prelude::*;
    /// #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    /// #[kube(group = "clock.example.com", version = "v1", kind = "Alarm")]
    /// struct AlarmSpec {
    ///     at: String,
    /// }
    ///
    /// let extension = Extension::new("clock").kind::<Alarm>().rule(|alarm: &Alarm, old| match old {
    ///     Some(old) if old.spec.at != alarm.spec.at => {
    ///         vec![FieldError::forbidden(&Path::new("spec").child("at"), "field is immutable")]
    ///     }
    ///     _ => vec![],
    /// });
    /// ```
    #[must_use]
    pub fn rule<K>(self, check: impl Fn(&K, Option<&K>) -> ErrorList + Send + Sync + 'static) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.configure_with(|builder, conversions| {
            let conversion = conversions.get(&format!("{}.{}", K::plural(&()), K::group(&()))).cloned();
            builder.admission(Rule::new(check, conversion))
        })
    }

    /// Adds an admission plugin, which may change objects, and read others.
    #[must_use]
    pub fn admission(self, plugin: impl Admission + 'static) -> Self {
        self.configure(|builder| builder.admission(plugin))
    }

    /// Adds a task that runs while the server handles requests, with the client of the main API server.
    #[must_use]
    pub fn background<F>(mut self, work: impl FnOnce(Client) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.background.push(Box::new(|client| Box::pin(work(client))));
        self
    }

    /// Sets the namespace that the server runs in, unless its command line sets another one; `default` by default.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Changes the options of the engine.
    #[must_use]
    pub fn configure(self, configure: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static) -> Self {
        self.configure_with(|builder, _| configure(builder))
    }

    fn configure_with(
        mut self,
        configure: impl FnOnce(ServerBuilder, &Conversions) -> ServerBuilder + Send + 'static,
    ) -> Self {
        self.configure.push(Box::new(configure));
        self
    }

    /// Returns the group versions that the server serves, the preferred version of each group first.
    pub fn group_versions(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for definition in &self.definitions {
            for version in definition.spec.versions.iter().filter(|version| version.served) {
                let group_version = (definition.spec.group.clone(), version.name.clone());
                if !all.contains(&group_version) {
                    all.push(group_version);
                }
            }
        }
        for group_version in self.computed.iter().flat_map(ComputedKind::group_versions) {
            if !all.contains(&group_version) {
                all.push(group_version);
            }
        }
        let groups: Vec<String> = all.iter().map(|(group, _)| group.clone()).collect();
        all.sort_by_cached_key(|(group, version)| {
            let position = groups.iter().position(|have| have == group);
            (position, Reverse(Version::parse(version).priority()))
        });
        all
    }

    /// Sets up the server: reads the authentication configuration from the main API server that `client` connects
    /// to, and defines the kinds. While the extension [serves](RunningExtension::serve), it follows changes of authorities.
    ///
    /// # Errors
    /// Returns an error if the main API server cannot be reached, or a kind is not valid.
    pub async fn start(
        self,
        client: Client,
        certificate: &ServingCertificate,
    ) -> Result<RunningExtension, ExtensionError> {
        let authentication = delegated::authentication(&client).await;
        let authentication = authentication.map_err(|error| ExtensionError::Delegation(Box::new(error)))?;
        let (chain, key) = certificate.parse()?;
        authentication.certificate_verifier()?;
        // Without the names of authorities, which may change.
        let verifier = AuthenticationOptions::default().certificate_verifier()?;
        let invalid = |error: rustls::Error| CertificateError::Invalid(error.to_string());
        let mut tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(invalid)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];

        let groups: Vec<String> = self.group_versions().into_iter().map(|(group, _)| group).collect();
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let mut builder = Server::builder(store)
            .old_definitions(false)
            .authentication(authentication.clone())
            .token_authenticator(TokenReviews::new(client.clone()))
            .authorizer(AccessReviews::new(client.clone()))
            // The namespaces are those of the main API server.
            .disable_admission_plugins(["NamespaceLifecycle".to_owned()])
            .only_groups(groups);
        builder = self.computed.into_iter().fold(builder, ServerBuilder::computed);
        for (kind, function) in &self.conversions {
            builder = builder.conversion(kind, function.clone());
        }
        for configure in self.configure {
            builder = configure(builder, &self.conversions);
        }
        let server = builder.build().await.map_err(|error| ExtensionError::Build(Box::new(error)))?;
        let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
        for definition in &self.definitions {
            let name = definition.metadata.name.clone().unwrap_or_default();
            let apply = PatchParams::apply(MANAGER).force();
            let applied = definitions.patch(&name, &apply, &Patch::Apply(definition)).await;
            applied.map_err(|source| ExtensionError::Define { name, source: Box::new(source) })?;
        }
        let mut background: Vec<_> = self.background.into_iter().map(|work| work(client.clone())).collect();
        background.push(Box::pin(authorities::follow(client, server.clone(), authentication)));
        Ok(RunningExtension { server, tls: Arc::new(tls), background })
    }
}

impl RunningExtension {
    /// Handles requests until `shutdown` resolves.
    ///
    /// # Errors
    /// Returns an error if the listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ExtensionError> {
        let background = async {
            join_all(self.background).await;
            // Completed work is not a reason to stop.
            std::future::pending().await
        };
        tokio::select! {
            served = self.server.serve(listener, self.tls, shutdown) => served.map_err(ExtensionError::Serve),
            never = background => never,
        }
    }

    /// A client of this server in the same process, which may do everything.
    pub fn client(&self) -> Client {
        self.server.client()
    }
}
