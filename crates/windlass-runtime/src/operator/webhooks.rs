//! How the webhooks of an operator are served.

use std::{net::Ipv6Addr, path::PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;

use crate::webhook::{Certificates, SelfSigned, Target, WebhookOptions, Webhooks};

/// How the webhooks of an operator are served.
#[derive(Clone, Debug)]
pub struct WebhookServing {
    /// The port, of all addresses.
    pub port: u16,
    /// A folder with `tls.crt` and `tls.key`. Without it, the operator makes its certificates, keeps them in a Secret,
    /// and tells the API server about them.
    pub cert_dir: Option<PathBuf>,
    /// Namespace of the Service through which the API server calls, and of the Secret.
    pub namespace: String,
    /// Name of the Service; `<operator>-webhook` if there is none.
    pub service: Option<String>,
}

/// The options of the server: what is served, and what the API server is told.
pub(super) fn serving(
    options: WebhookServing,
    operator: &str,
    client: &Client,
    definitions: &[CustomResourceDefinition],
    webhooks: &Webhooks,
) -> WebhookOptions {
    let certificates = match options.cert_dir {
        Some(folder) => Certificates::mounted(folder),
        None => {
            let service = options.service.unwrap_or_else(|| format!("{operator}-webhook"));
            SelfSigned::new(client.clone(), options.namespace, service)
                .targets(Target::all(operator, &webhooks.describe(), definitions))
                .into()
        }
    };
    let mut serving = WebhookOptions::new(certificates);
    serving.address = (Ipv6Addr::UNSPECIFIED, options.port).into();
    serving
}
