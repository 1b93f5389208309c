//! Options of an operator's webhook server.

use std::{
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;

use crate::webhook::{CaBundleTarget, Certificates, SelfSigned, WebhookOptions, Webhooks};

/// Options of an operator's webhook server.
#[derive(Clone, Debug)]
pub struct WebhookServing {
    /// Address; all interfaces by default.
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
    /// Directory with `tls.crt` and `tls.key`. Without it, the operator issues its own certificates, stores them in a
    /// Secret, and writes the CA bundle into the webhook configurations.
    pub cert_dir: Option<PathBuf>,
    /// Namespace of the Service that the API server calls, and of the Secret.
    pub namespace: String,
    /// Name of the Service; `<operator>-webhook` by default.
    pub service: Option<String>,
}

/// Returns the options of the webhook server.
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
                .targets(CaBundleTarget::all(operator, &webhooks.describe(), definitions))
                .into()
        }
    };
    let mut serving = WebhookOptions::new(certificates);
    serving.address = (options.address.unwrap_or(Ipv6Addr::UNSPECIFIED.into()), options.port).into();
    serving
}
