//! The program of an extension: flags, connection, registration, serving.

use std::{
    error::Error,
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::Parser;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tracing::info;
use windlass::client::{ClientOptions, Target, configuration, connect};
use windlass_store::EmbeddedStore;

use crate::{Extension, ExtensionError, certificates::ServingCertificate, manifests::Registration};

/// The options of the program.
#[derive(Debug, Parser)]
struct Options {
    /// Print the manifests that register the server, and exit
    #[arg(long)]
    manifests: bool,
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Port to listen on; 0 for any free port
    #[arg(long, default_value_t = 8443)]
    port: u16,
    /// Container image with the program of the server, for a Deployment in the manifests
    #[arg(long, requires = "manifests")]
    image: Option<String>,
    /// Namespace of the Service
    #[arg(long)]
    namespace: Option<String>,
    /// Register the server at this host, outside of the cluster, when it starts
    #[arg(long, value_name = "HOST")]
    register: Option<String>,
    /// File to store objects in; in memory by default
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Directory with tls.crt, tls.key and ca.crt; a certificate is issued by default
    #[arg(long, value_name = "DIRECTORY")]
    certificates: Option<PathBuf>,
    /// Write the certificate authority into the APIServices when the server starts
    #[arg(long)]
    publish_authority: bool,
    /// Kubeconfig of the main API server
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

impl Extension {
    /// Runs the program with the options of its command line, until it is interrupted. Failures are printed.
    pub async fn main(self) -> ExitCode {
        tracing_subscriber::fmt().with_writer(io::stderr).init();
        match self.run(Options::parse()).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let mut causes = String::new();
                let mut source = error.source();
                while let Some(cause) = source {
                    causes.push_str(&format!(": {cause}"));
                    source = cause.source();
                }
                tracing::error!("{error}{causes}");
                ExitCode::FAILURE
            }
        }
    }

    async fn run(mut self, options: Options) -> Result<(), ExtensionError> {
        let service = self.name.clone();
        let namespace = options.namespace.unwrap_or_else(|| self.namespace.clone());
        let names = [
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
            "localhost".to_owned(),
            options.address.to_string(),
        ];
        let certificate = match &options.certificates {
            Some(directory) => ServingCertificate::read(directory)?,
            None => ServingCertificate::issue(&names)?,
        };
        let mut registration = Registration {
            namespace,
            service,
            target_port: options.port,
            host: options.register,
            ca_bundle: certificate.ca_bundle(),
        };
        if options.manifests {
            let mut objects = self.permissions(&registration);
            if let Some(image) = &options.image {
                // The certificate is issued when the server starts.
                registration.ca_bundle.clear();
                objects.push(self.deployment(&registration, image));
            }
            objects.extend(self.registration(&registration));
            print(objects.iter());
            return Ok(());
        }
        if let Some(path) = &options.store {
            let store = EmbeddedStore::open(path)
                .map_err(|source| ExtensionError::Store { path: path.display().to_string(), source })?;
            self = self.store(Arc::new(store));
        }
        let target = Target { kubeconfig: options.kubeconfig, context: None };
        let unconnected = |error| ExtensionError::Client(Box::new(error));
        let configuration = configuration(&target).await.map_err(unconnected)?;
        let client = connect(&configuration, ClientOptions::new(self.name.clone())).map_err(unconnected)?;
        let address = SocketAddr::new(options.address, options.port);
        let listening = |source| ExtensionError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        registration.target_port = address.port();
        let objects = self.registration(&registration);
        let published = if options.publish_authority { self.api_services() } else { Vec::new() };
        let running = self.start(client.clone(), &certificate).await?;
        info!(%address, "serving");
        let registering = async {
            publish(&client, &published, &registration.ca_bundle).await?;
            match &registration.host {
                Some(_) => register(&client, &objects).await,
                None => Ok(()),
            }
        };
        // The main API server checks the server as soon as it is registered.
        let serving = running.serve(listener, interrupted());
        tokio::try_join!(registering, serving)?;
        Ok(())
    }
}

/// Writes the authority into APIServices.
///
/// # Errors
/// Returns an error if the main API server rejects one.
async fn publish(client: &Client, names: &[String], ca_bundle: &str) -> Result<(), ExtensionError> {
    let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    let services: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let patch = Patch::Merge(serde_json::json!({"spec": {"caBundle": ca_bundle}}));
    for name in names {
        let patched = services.patch(name, &PatchParams::default(), &patch).await;
        patched.map_err(|source| ExtensionError::Register {
            what: format!("APIService {name}"),
            source: Box::new(source),
        })?;
    }
    Ok(())
}

/// Applies the objects that register the server.
///
/// # Errors
/// Returns an error if the main API server rejects one.
async fn register(client: &Client, objects: &[Value]) -> Result<(), ExtensionError> {
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = match text("/metadata/namespace") {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        let apply = PatchParams::apply("windlass-extension").force();
        let applied = api.patch(name, &apply, &Patch::Apply(object)).await;
        applied
            .map_err(|source| ExtensionError::Register { what: format!("{kind} {name}"), source: Box::new(source) })?;
    }
    Ok(())
}

/// Prints objects as YAML documents.
fn print<'a>(objects: impl Iterator<Item = &'a Value>) {
    let mut out = io::stdout().lock();
    for object in objects {
        let yaml = serde_saphyr::to_string(object).unwrap_or_default();
        // A closed pipe is not a failure.
        if writeln!(out, "---\n{}", yaml.trim_end()).is_err() {
            return;
        }
    }
}

/// Resolves when the program is asked to stop.
async fn interrupted() {
    let mut terminated = signal(SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminated {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
