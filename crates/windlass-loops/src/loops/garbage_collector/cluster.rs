//! The requests of the collector to a server.

mod attempt;
mod monitors;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use parking_lot::RwLock;
use serde_json::{Value, json};

pub(super) use self::{
    attempt::{Outcome, attempt, orphan},
    monitors::Monitors,
};
use super::{
    decide::Policy,
    node::{Identity, Kind, Uid},
};
use crate::{discovery::Served, loops::FIELD_MANAGER};

/// Reasons why a request could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// The kind is currently not served.
    #[error("the kind is not served")]
    NotServed,
    /// A cluster-scoped object refers to an owner of a namespaced kind.
    #[error("cluster-scoped objects cannot have namespaced owners")]
    NoNamespace,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// The result of a deletion.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deleted {
    Done,
    /// The object did not exist.
    Missing,
    /// The object has changed.
    Changed,
}

/// A server. Objects are found by their identity; its namespace is ignored for cluster-scoped kinds.
pub(super) trait Cluster: Sync {
    /// Returns whether a kind is namespaced, or `None` if it is not served.
    fn is_namespaced(&self, kind: &Kind) -> Option<bool>;

    /// Returns the metadata of an object, regardless of its UID.
    fn get(&self, object: &Identity) -> impl Future<Output = Result<Option<ObjectMeta>, Failed>> + Send;

    /// Deletes an object with this UID if it has not changed since a resource version.
    fn delete(
        &self,
        object: &Identity,
        revision: Option<&str>,
        policy: Policy,
    ) -> impl Future<Output = Result<Deleted, Failed>> + Send;

    /// Removes owners from an object's references. Returns whether the object existed.
    fn unlink(&self, object: &Identity, owners: &[Uid]) -> impl Future<Output = Result<bool, Failed>> + Send;

    /// Clears `blockOwnerDeletion` in an object's references. Returns whether the object existed.
    fn unblock(
        &self,
        object: &Identity,
        owners: &[OwnerReference],
    ) -> impl Future<Output = Result<bool, Failed>> + Send;

    /// Removes a finalizer. Returns the resulting metadata if the object had it.
    fn remove_finalizer(
        &self,
        object: &Identity,
        finalizer: &str,
    ) -> impl Future<Output = Result<Option<ObjectMeta>, Failed>> + Send;
}

/// Maximum number of attempts if other clients write concurrently.
const ATTEMPTS: usize = 5;

/// A server, reached through its API.
pub(super) struct Remote {
    client: Client,
    served: RwLock<Arc<Served>>,
}

impl Remote {
    pub(super) fn new(client: Client) -> Self {
        Self { client, served: RwLock::default() }
    }

    pub(super) fn serves(&self, served: Arc<Served>) {
        *self.served.write() = served;
    }

    fn api(&self, object: &Identity) -> Result<Api<DynamicObject>, Failed> {
        let served = self.served.read().clone();
        let found = served.find(&object.kind.api_version, &object.kind.kind).ok_or(Failed::NotServed)?;
        if !found.namespaced {
            return Ok(Api::all_with(self.client.clone(), &found.resource));
        }
        if object.namespace.is_empty() {
            return Err(Failed::NoNamespace);
        }
        Ok(Api::namespaced_with(self.client.clone(), &object.namespace, &found.resource))
    }

    /// Sends a strategic merge patch or, where it is not supported, a merge patch of all owner references.
    async fn patch_owners(
        &self,
        object: &Identity,
        strategic: Vec<Value>,
        change: impl Fn(Vec<OwnerReference>) -> Vec<OwnerReference> + Send,
    ) -> Result<bool, Failed> {
        let api = self.api(object)?;
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = json!({"metadata": {"uid": object.uid.to_string(), "ownerReferences": strategic}});
        match api.patch_metadata(&object.name, &params, &Patch::Strategic(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 415 => {}
            result => return present(result).map(|done| done.is_some()),
        }
        let Some(meta) = self.get(object).await?.filter(|meta| is(meta, object)) else { return Ok(false) };
        let owners = change(meta.owner_references.unwrap_or_default());
        let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": owners}});
        let result = api.patch_metadata(&object.name, &params, &Patch::Merge(patch)).await;
        present(result).map(|done| done.is_some())
    }
}

impl Cluster for Remote {
    fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        self.served.read().find(&kind.api_version, &kind.kind).map(|found| found.namespaced)
    }

    async fn get(&self, object: &Identity) -> Result<Option<ObjectMeta>, Failed> {
        let found = self.api(object)?.get_metadata_opt(&object.name).await?;
        Ok(found.map(|found| found.metadata))
    }

    async fn delete(&self, object: &Identity, revision: Option<&str>, policy: Policy) -> Result<Deleted, Failed> {
        let propagation_policy = Some(match policy {
            Policy::Background => PropagationPolicy::Background,
            Policy::Foreground => PropagationPolicy::Foreground,
            Policy::Orphan => PropagationPolicy::Orphan,
        });
        let preconditions =
            Some(Preconditions { uid: Some(object.uid.to_string()), resource_version: revision.map(Into::into) });
        let params = DeleteParams { propagation_policy, preconditions, ..DeleteParams::default() };
        match self.api(object)?.delete(&object.name, &params).await {
            Ok(_) => Ok(Deleted::Done),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Deleted::Missing),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Deleted::Changed),
            Err(error) => Err(error.into()),
        }
    }

    async fn unlink(&self, object: &Identity, owners: &[Uid]) -> Result<bool, Failed> {
        let uids: Vec<String> = owners.iter().map(ToString::to_string).collect();
        let patch = uids.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect();
        let kept = |mut references: Vec<OwnerReference>| {
            references.retain(|reference| !uids.contains(&reference.uid));
            references
        };
        self.patch_owners(object, patch, kept).await
    }

    async fn unblock(&self, object: &Identity, owners: &[OwnerReference]) -> Result<bool, Failed> {
        let blocking = owners.iter().filter(|owner| owner.block_owner_deletion == Some(true));
        let patch = blocking.map(|owner| json!({"uid": owner.uid, "blockOwnerDeletion": false})).collect();
        let unblocked = |mut references: Vec<OwnerReference>| {
            for reference in &mut references {
                reference.block_owner_deletion = Some(false);
            }
            references
        };
        self.patch_owners(object, patch, unblocked).await
    }

    async fn remove_finalizer(&self, object: &Identity, finalizer: &str) -> Result<Option<ObjectMeta>, Failed> {
        let api = self.api(object)?;
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        for attempt in 1.. {
            let Some(meta) = self.get(object).await?.filter(|meta| is(meta, object)) else { return Ok(None) };
            let mut finalizers = meta.finalizers.unwrap_or_default();
            let had = finalizers.len();
            finalizers.retain(|name| name != finalizer);
            if finalizers.len() == had {
                return Ok(None);
            }
            let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}});
            match api.patch_metadata(&object.name, &params, &Patch::Merge(patch)).await {
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {}
                result => return Ok(present(result)?.map(|done| done.metadata)),
            }
        }
        Ok(None)
    }
}

/// Returns whether this is the same object, not another one with its name.
fn is(meta: &ObjectMeta, object: &Identity) -> bool {
    meta.uid.as_deref().is_some_and(|uid| Uid::new(uid) == object.uid)
}

/// Returns the result, or `None` if the object does not exist.
fn present<T>(result: Result<T, kube::Error>) -> Result<Option<T>, Failed> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}
