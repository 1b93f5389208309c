//! Deletion of many objects by one request.

use hashbrown::HashSet;
use kube::{
    api::{DeleteParams, ListParams, PropagationPolicy},
    core::{ObjectMeta, PartialObjectMeta, Request, Selector},
};
use serde_json::value::RawValue;

use super::{
    Context, ContextError, Kind,
    any_kind::{AnyKind, ResourceScope},
    error::Verb,
    look_up::{Items, Subject},
    write::built,
};
use crate::{key::ObjectKey, object::Object};

impl Context {
    /// Deletes all objects of a namespace whose labels match, and their dependents in the background, by one request.
    /// Returns their number. See [`Kind::delete_all`].
    pub async fn delete_all<K: Object<DynamicType: Default>>(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<usize, ContextError> {
        self.kind::<K>().delete_all(Some(namespace), selector, &DeleteParams::background()).await
    }
}

impl<K: Object> Kind<'_, K> {
    /// Deletes all objects whose labels match, within a namespace if the kind is namespaced, by one request. Returns
    /// their number. An empty selector matches everything. Objects with finalizers exist until these are removed.
    ///
    /// It needs the verb `deletecollection`: see
    /// [`Controller::deletes_all`](crate::controller::Controller::deletes_all).
    pub async fn delete_all(
        &self,
        namespace: Option<&str>,
        selector: &Selector,
        params: &DeleteParams,
    ) -> Result<usize, ContextError> {
        self.any().delete_all(namespace, selector, params).await
    }
}

impl AnyKind<'_> {
    /// See [`Kind::delete_all`].
    async fn delete_all(
        &self,
        namespace: Option<&str>,
        selector: &Selector,
        params: &DeleteParams,
    ) -> Result<usize, ContextError> {
        let target = self.target(Verb::DeleteAll, &ObjectKey::namespaced(namespace.unwrap_or_default(), ""));
        if namespace.is_none() && self.kind_info.resource_scope() == ResourceScope::Namespaced {
            return Err(target.lacks("namespace"));
        }
        let params = DeleteParams { dry_run: params.dry_run || self.context.is_dry_run(), ..params.clone() };
        let mut matching = ListParams::default();
        if !selector.to_string().is_empty() {
            matching = matching.labels_from(selector);
        }
        let request = Request::new(self.kind_info.url_path(namespace)).delete_collection(&params, &matching);
        let request = built(&target, request)?;
        let (context, kind_info, about) = (self.context.clone(), self.kind_info.clone(), target.clone());
        let namespace = namespace.map(str::to_owned);
        let deletion = async move {
            let answer = context.send(&target, request).await?;
            let deleted = deleted(&answer).map_err(|error| target.shape(error))?;
            if !params.dry_run {
                let kind = AnyKind::new(&context, kind_info);
                let in_background = params.propagation_policy == Some(PropagationPolicy::Background);
                // The deletion itself has succeeded: the watch reports what this response does not.
                let registered = kind.register_deletions(namespace.as_deref(), &matching, &deleted, in_background);
                if let Err(error) = registered.await {
                    tracing::debug!(%error, "the deleted objects are not looked up");
                }
            }
            Ok(deleted.len())
        };
        let look_up = self.looking_up(about.key.clone(), Subject::Selected(selector.clone()));
        self.context.see_through(about, deletion, look_up).await
    }

    /// Notifies the caches of deleted objects. The response has their states before the deletion, so that those that may
    /// still exist are listed: any of them, unless their dependents are deleted in the background. Other policies, among
    /// them the defaults of some kinds, add a finalizer.
    async fn register_deletions(
        &self,
        namespace: Option<&str>,
        matching: &ListParams,
        deleted: &[ObjectMeta],
        in_background: bool,
    ) -> Result<(), ContextError> {
        if self.cached_in().is_empty() {
            return Ok(());
        }
        let resource = self.kind_info.resource();
        let graceful = resource.group.is_empty() && resource.kind == "Pod";
        let may_stay = |meta: &ObjectMeta| {
            !in_background || graceful || meta.finalizers.as_ref().is_some_and(|all| !all.is_empty())
        };
        let mut staying = HashSet::new();
        if deleted.iter().any(may_stay) {
            staying = self.register_list(namespace, matching).await?;
        }
        for meta in deleted.iter().filter(|meta| !meta.uid.as_ref().is_some_and(|uid| staying.contains(uid))) {
            self.is_gone(&ObjectKey::of_meta(meta), meta.uid.as_deref().unwrap_or_default());
        }
        Ok(())
    }
}

/// Returns the objects of the response to a deletion of several objects.
fn deleted(answer: &str) -> serde_json::Result<Vec<ObjectMeta>> {
    let list: Items<'_> = serde_json::from_str(answer)?;
    let metadata =
        |item: &&RawValue| serde_json::from_str::<PartialObjectMeta>(item.get()).map(|object| object.metadata);
    list.items.iter().map(metadata).collect()
}
