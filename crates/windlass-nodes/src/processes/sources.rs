//! Objects that containers and volumes refer to, fetched from the server.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccountTokenProjection},
};
use kube::{
    Client, Resource,
    api::{GetParams, ListParams, ObjectList, Request},
};
use serde::de::DeserializeOwned;

use super::{
    downward::{Amounts, PodAddresses},
    tokens::{TokenSpec, Tokens},
};

/// Default lifetime of a token.
const TOKEN_SECONDS: i64 = 3600;

/// The existing objects that a pod refers to.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) config_maps: BTreeMap<String, ConfigMap>,
    pub(super) secrets: BTreeMap<String, Secret>,
    pub(super) claims: BTreeMap<String, PersistentVolumeClaim>,
    pub(super) services: Vec<Service>,
    pub(super) tokens: BTreeMap<TokenSpec, String>,
    pub(super) addresses: PodAddresses,
    /// Allocatable resources of the node.
    pub(super) allocatable: Amounts,
}

/// Names of the objects that a pod refers to.
#[derive(Debug, Default, PartialEq, Eq)]
struct References {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
    claims: BTreeSet<String>,
    tokens: BTreeSet<TokenSpec>,
}

impl Sources {
    /// Returns a config map, or `None` if it is optional and missing.
    pub(super) fn config_map(&self, name: &str, optional: Option<bool>) -> Result<Option<&ConfigMap>, String> {
        match self.config_maps.get(name) {
            None if optional != Some(true) => Err(format!("configmap {name:?} not found")),
            found => Ok(found),
        }
    }

    /// Returns a secret, or `None` if it is optional and missing.
    pub(super) fn secret(&self, name: &str, optional: Option<bool>) -> Result<Option<&Secret>, String> {
        match self.secrets.get(name) {
            None if optional != Some(true) => Err(format!("secret {name:?} not found")),
            found => Ok(found),
        }
    }

    /// Fetches the objects that a pod refers to. Missing objects are left out.
    pub(super) async fn fetch(
        client: &Client,
        pod: &Pod,
        addresses: PodAddresses,
        allocatable: &Amounts,
        current: &Tokens,
    ) -> Result<Self, kube::Error> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let names = references(pod);
        let mut tokens = BTreeMap::new();
        for spec in names.tokens {
            if let Some(token) = current.get(client, pod, &spec).await {
                tokens.insert(spec, token);
            }
        }
        Ok(Self {
            config_maps: get_all(client, namespace, names.config_maps).await?,
            secrets: get_all(client, namespace, names.secrets).await?,
            claims: get_all(client, namespace, names.claims).await?,
            services: list(client, namespace).await?,
            tokens,
            addresses,
            allocatable: allocatable.clone(),
        })
    }
}

async fn get_all<K>(
    client: &Client,
    namespace: &str,
    names: BTreeSet<String>,
) -> Result<BTreeMap<String, K>, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType: Default> + DeserializeOwned,
{
    let mut found = BTreeMap::new();
    for name in names {
        let request = requests::<K>(namespace).get(&name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        match client.request_text(request).await {
            Ok(text) => drop(found.insert(name, parse(&text)?)),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

async fn list<K>(client: &Client, namespace: &str) -> Result<Vec<K>, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType: Default> + Clone + DeserializeOwned,
{
    let request = requests::<K>(namespace).list(&ListParams::default()).map_err(kube::Error::BuildRequest)?;
    let text = client.request_text(request).await?;
    Ok(parse::<ObjectList<K>>(&text)?.items)
}

fn requests<K: Resource<DynamicType: Default>>(namespace: &str) -> Request {
    Request::new(K::url_path(&K::DynamicType::default(), Some(namespace)))
}

/// Parses a response with the deserializer that caches use, so that the code of a kind is compiled only once.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, kube::Error> {
    serde_json::from_slice(text.as_bytes()).map_err(kube::Error::SerdeError)
}

/// The token that a volume requests.
pub(super) fn token_spec(token: &ServiceAccountTokenProjection) -> TokenSpec {
    (token.audience.clone().unwrap_or_default(), token.expiration_seconds.unwrap_or(TOKEN_SECONDS))
}

fn references(pod: &Pod) -> References {
    let mut names = References::default();
    let Some(spec) = &pod.spec else { return names };
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        for source in container.env_from.iter().flatten() {
            names.config_maps.extend(source.config_map_ref.as_ref().map(|reference| reference.name.clone()));
            names.secrets.extend(source.secret_ref.as_ref().map(|reference| reference.name.clone()));
        }
        for from in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            names.config_maps.extend(from.config_map_key_ref.as_ref().map(|reference| reference.name.clone()));
            names.secrets.extend(from.secret_key_ref.as_ref().map(|reference| reference.name.clone()));
        }
    }
    for volume in spec.volumes.iter().flatten() {
        names.config_maps.extend(volume.config_map.as_ref().map(|source| source.name.clone()));
        names.secrets.extend(volume.secret.as_ref().and_then(|source| source.secret_name.clone()));
        names.claims.extend(volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone()));
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            names.config_maps.extend(source.config_map.as_ref().map(|source| source.name.clone()));
            names.secrets.extend(source.secret.as_ref().map(|source| source.name.clone()));
            names.tokens.extend(source.service_account_token.as_ref().map(token_spec));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_references_of_a_pod_are_fetched() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "a"}}]}],
            "containers": [{"name": "c", "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "b", "key": "k"}}}]}],
            "volumes": [
                {"name": "v", "configMap": {"name": "c"}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "d"}},
                {"name": "x", "projected": {"sources": [{"secret": {"name": "e"}}, {"serviceAccountToken": {"path": "token"}}]}},
            ],
        }}))
        .unwrap();
        let names = references(&pod);
        assert_eq!(names.config_maps, BTreeSet::from(["b".to_owned(), "c".to_owned()]));
        assert_eq!(names.secrets, BTreeSet::from(["a".to_owned(), "e".to_owned()]));
        assert_eq!(names.claims, BTreeSet::from(["d".to_owned()]));
        assert_eq!(names.tokens, BTreeSet::from([(String::new(), 3600)]));
    }
}
