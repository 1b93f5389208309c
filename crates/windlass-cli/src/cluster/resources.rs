//! Discovery of API resources.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use kube::{
    Api, Client,
    core::{DynamicObject, GroupVersionKind},
    discovery::{self, ApiResource, Scope},
    error::DiscoveryError,
};

use super::Reference;
use crate::failure::ErrorWithHint;

/// Maximum time that discovery may lag behind a newly established CRD.
const DISCOVERED_WITHIN: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(100);

/// Discovery results so far.
pub(super) struct Resources {
    client: Client,
    namespace: String,
    known: HashMap<(String, String), Option<(ApiResource, Scope)>>,
    /// Groups of CRDs that have just been applied.
    pub(super) expected: Vec<String>,
}

impl Resources {
    /// Starts without results. Namespaced objects without a namespace belong to this one.
    pub(super) fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace, known: HashMap::new(), expected: Vec::new() }
    }

    /// Returns the API of an object, with its namespace filled in; `None` if the server does not know the kind.
    pub(super) async fn find(
        &mut self,
        reference: &Reference,
    ) -> Result<Option<(Api<DynamicObject>, Reference)>, kube::Error> {
        Ok(self.resource(reference).await?.map(|(resource, scope)| {
            let mut reference = reference.clone();
            let api = match scope {
                Scope::Cluster => {
                    reference.namespace = None;
                    Api::all_with(self.client.clone(), &resource)
                }
                Scope::Namespaced => {
                    let namespace = reference.namespace.get_or_insert_with(|| self.namespace.clone());
                    Api::namespaced_with(self.client.clone(), namespace, &resource)
                }
            };
            (api, reference)
        }))
    }

    /// Returns the API of all objects of the kind.
    pub(super) async fn everywhere(
        &mut self,
        reference: &Reference,
    ) -> Result<Option<Api<DynamicObject>>, kube::Error> {
        let found = self.resource(reference).await?;
        Ok(found.map(|(resource, _)| Api::all_with(self.client.clone(), &resource)))
    }

    async fn resource(&mut self, reference: &Reference) -> Result<Option<(ApiResource, Scope)>, kube::Error> {
        let key = (reference.api_version.clone(), reference.kind.clone());
        if let Some(found) = self.known.get(&key) {
            return Ok(found.clone());
        }
        let found = self.ask(reference).await?;
        self.known.insert(key, found.clone());
        Ok(found)
    }

    async fn ask(&self, reference: &Reference) -> Result<Option<(ApiResource, Scope)>, kube::Error> {
        let (group, version) = reference.api_version.rsplit_once('/').unwrap_or(("", &reference.api_version));
        let kind = GroupVersionKind::gvk(group, version, &reference.kind);
        let start = Instant::now();
        loop {
            match discovery::pinned_kind(&self.client, &kind).await {
                Ok((resource, capabilities)) => return Ok(Some((resource, capabilities.scope))),
                Err(error) if !is_unknown(&error) => return Err(error),
                Err(_) => {
                    let is_expected = self.expected.iter().any(|expected| expected == group);
                    if !is_expected || start.elapsed() > DISCOVERED_WITHIN {
                        return Ok(None);
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The error for a kind that the server does not know.
pub(super) fn unknown_kind(reference: &Reference) -> anyhow::Error {
    let Reference { api_version, kind, .. } = reference;
    let message = format!("cannot apply {reference}: the cluster does not serve kind {kind} in {api_version}");
    let hint = match reference.group() {
        "monitoring.coreos.com" => "install the Prometheus Operator, or remove the monitoring part",
        "cert-manager.io" => "install cert-manager, or let the operator issue its own certificates",
        _ => "apply its CustomResourceDefinition first",
    };
    ErrorWithHint { message, hint: hint.into() }.into()
}

fn is_unknown(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 404,
        kube::Error::Discovery(
            DiscoveryError::MissingKind(_) | DiscoveryError::MissingApiGroup(_) | DiscoveryError::MissingResource(_),
        ) => true,
        _ => false,
    }
}
