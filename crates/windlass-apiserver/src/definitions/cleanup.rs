//! The deletion of a CustomResourceDefinition: its objects are deleted first, then the CRD itself.

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
};

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tracing::warn;
use windlass_builtins::kinds::custom_resource_definition::conditions::{self, Condition, TERMINATING};

use super::{PREFIX, RETRY, update_definition};
use crate::{
    call::Call,
    meta,
    options::DeleteOptions,
    registry::Endpoint,
    request_info::ResourceRequest,
    server::Inner,
    status::{ApiError, Result},
    storage::Snapshot,
    user::User,
    verbs::delete::{delete_named, purge_all},
};

/// The finalizer that keeps a CRD until its objects are deleted.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Returns whether the objects of a CRD have to be deleted.
pub(super) fn is_due(object: &Value) -> bool {
    meta::is_terminating(object) && meta::finalizers(object).iter().any(|name| name == FINALIZER)
}

/// Deletes the objects of a CRD, waits for objects with finalizers, then removes the CRD's finalizer.
pub(super) async fn run(server: Weak<Inner>, name: String, uid: Box<str>, endpoint: Option<Arc<Endpoint>>) {
    if let Some(endpoint) = &endpoint {
        let Some(strong) = server.upgrade() else { return };
        let message = "CustomResource deletion is in progress";
        let progress = Condition::new(TERMINATING, "True", "InstanceDeletionInProgress", message);
        set_condition(&strong, &name, &uid, &progress).await;
        drop(strong);
        let mut marked = HashSet::new();
        loop {
            let mut changed = std::pin::pin!(endpoint.cache.changed());
            changed.as_mut().enable();
            let Some(server) = server.upgrade() else { return };
            // A client may have removed the finalizer, and a CRD of the same name may exist by now: its objects must
            // stay.
            let definition = server.storage.cache(PREFIX).get(&name).filter(|object| object.header.uid == uid);
            if !definition.is_some_and(|object| is_due(&object.to_value())) {
                return;
            }
            if let Err(error) = server.storage.fresh().await {
                warn!(definition = name, %error, "failed to list the objects of a CustomResourceDefinition");
            }
            let snapshot = endpoint.cache.snapshot();
            if endpoint.cache.is_empty() {
                break;
            }
            let deleted = delete_all(&server, endpoint, &snapshot, &mut marked).await;
            drop(server);
            match deleted {
                Ok(()) => changed.await,
                Err(error) => {
                    warn!(definition = name, %error, "failed to delete the objects of a CustomResourceDefinition");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
    let Some(server) = server.upgrade() else { return };
    let completed = Condition::new(TERMINATING, "False", "InstanceDeletionCompleted", "removed all instances");
    loop {
        let now = server.now();
        // One write, as in kube-apiserver: it removes a definition without other finalizers.
        let released = update_definition(&server, &name, |object| {
            let mut object = same(object, &uid)?.clone();
            conditions::set(&mut object["status"], &completed, now);
            let left = meta::finalizers(&object).into_iter().filter(|have| have != FINALIZER).collect();
            meta::set_finalizers(&mut object, left);
            Ok(object)
        });
        match released.await {
            Ok(_) => return,
            Err(error) if error.code == StatusCode::NOT_FOUND => return,
            Err(error) => {
                warn!(definition = name, %error, "failed to remove the finalizer of a CustomResourceDefinition")
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Deletes the objects that are not being deleted yet.
async fn delete_all(
    server: &Arc<Inner>,
    endpoint: &Arc<Endpoint>,
    snapshot: &Snapshot,
    marked: &mut HashSet<Box<str>>,
) -> Result<()> {
    let resource = &endpoint.resource;
    let user = User::admin();
    let headers = HeaderMap::new();
    let all = Call::internal(server, endpoint, ResourceRequest::default(), &user, &headers);
    purge_all(&all, "", &DeleteOptions::default()).await?;
    for object in snapshot.objects() {
        if marked.contains(&object.header.uid) {
            continue;
        }
        let (namespace, name) = (&*object.header.namespace, &*object.header.name);
        let target = ResourceRequest {
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
            namespace,
            name,
            ..ResourceRequest::default()
        };
        let call = Call::internal(server, endpoint, target, &user, &headers);
        match delete_named(&call, namespace, name, &DeleteOptions::default()).await {
            Ok(_) => {
                marked.insert(object.header.uid.clone());
            }
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn set_condition(server: &Arc<Inner>, name: &str, uid: &str, condition: &Condition) {
    let now = server.now();
    let written = update_definition(server, name, |object| {
        let mut object = same(object, uid)?.clone();
        conditions::set(&mut object["status"], condition, now);
        Ok(object)
    });
    if let Err(error) = written.await {
        warn!(definition = name, %error, "failed to update the status of a CustomResourceDefinition");
    }
}

/// Returns the CRD if it is still the one that was deleted.
fn same<'a>(object: &'a Value, uid: &str) -> Result<&'a Value> {
    if meta::text(object, "uid") == uid {
        Ok(object)
    } else {
        Err(ApiError::not_found(super::PLURAL, super::GROUP, meta::text(object, "name")))
    }
}
