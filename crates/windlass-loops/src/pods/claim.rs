//! Adoption and release of a parent's children.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{api::Patch, core::Selector};
use serde_json::{Value, json};
use windlass::{
    Error, Result,
    context::Context,
    key::ObjectKey,
    object::Object,
    objects::owner::{self, controller_of},
};

use super::selecting::{Selecting, compiled, orphans, selects};

/// Selection of the objects that should be children of a parent.
pub(crate) struct Children<'a, K> {
    /// The labels they must have.
    selector: Selector,
    /// An additional condition.
    belongs: Option<&'a (dyn Fn(&K) -> bool + Send + Sync)>,
    /// A finalizer that is added on adoption and removed on release.
    finalizer: Option<&'a str>,
}

/// Decision about an object.
#[derive(Debug, PartialEq, Eq)]
enum Claim {
    Keep,
    Leave,
    Adopt,
    Release,
}

/// Returns all objects that a parent has to consider, from indexes: those it controls, selected or not, and those
/// without a controller that it may select.
pub(crate) fn candidates<P, K>(ctx: &Context, parent: &P) -> Result<Vec<Arc<K>>>
where
    P: Selecting,
    K: Object<DynamicType: Default>,
{
    let mut found: Vec<Arc<K>> = ctx.owned::<K, P>(parent)?;
    if let Some(selector) = parent.selector() {
        found.extend(orphans(ctx, parent.meta().namespace.as_deref().unwrap_or_default(), &selector)?);
    }
    Ok(found)
}

impl<'a, K: Object<DynamicType: Default>> Children<'a, K> {
    /// Children that the selector selects. An invalid selector selects nothing.
    pub(crate) fn selected(selector: &LabelSelector) -> Result<Self> {
        let selector = compiled(selector).ok_or_else(|| Error::terminal("the selector is not valid"))?;
        Ok(Self { selector, belongs: None, finalizer: None })
    }

    /// Restricts the children, for example to those with a valid ordinal of a StatefulSet.
    #[must_use]
    #[allow(dead_code, reason = "not used by every kind of parent")]
    pub(crate) fn that(mut self, belongs: &'a (dyn Fn(&K) -> bool + Send + Sync)) -> Self {
        self.belongs = Some(belongs);
        self
    }

    /// Sets the finalizer of children, for example for Jobs.
    #[must_use]
    #[allow(dead_code, reason = "not used by every kind of parent")]
    pub(crate) fn with_finalizer(mut self, name: &'a str) -> Self {
        self.finalizer = Some(name);
        self
    }

    /// Returns whether an object should be a child, regardless of its current controller.
    pub(crate) fn matches(&self, object: &K) -> bool {
        selects(&self.selector, object) && self.belongs.is_none_or(|belongs| belongs(object))
    }

    /// Adopts candidates without a controller that should be children of this parent, releases children that should no
    /// longer be, and returns the parent's children. A parent that is being deleted adopts and releases nothing.
    ///
    /// All candidates are tried even if some fail.
    pub(crate) async fn claim<P>(&self, ctx: &Context, parent: &P, candidates: Vec<Arc<K>>) -> Result<Vec<Arc<K>>>
    where
        P: Object<DynamicType = ()>,
    {
        let mut claimed = Vec::with_capacity(candidates.len());
        let (mut may_adopt, mut failed) = (None, None);
        for object in candidates {
            match self.decide(parent, &object) {
                Claim::Keep => claimed.push(object),
                Claim::Leave => {}
                Claim::Release => {
                    if let Err(error) = ctx.patch(&object, &Patch::Strategic(self.releasing(parent, &*object))).await
                        // Deleted, replaced, or released by another client.
                        && !error.status().is_some_and(|status| matches!(status.code, 404 | 422))
                    {
                        failed = Some(error.into());
                    }
                }
                Claim::Adopt => {
                    if may_adopt.is_none() {
                        may_adopt = Some(still_there(ctx, parent).await?);
                    }
                    if may_adopt == Some(false) {
                        continue;
                    }
                    match ctx.patch(&object, &Patch::Strategic(self.adopting(parent, &*object)?)).await {
                        Ok(object) => claimed.push(object),
                        Err(error) if error.is_not_found() => {}
                        Err(error) => failed = Some(error.into()),
                    }
                }
            }
        }
        failed.map_or(Ok(claimed), Err)
    }

    fn decide<P: Object>(&self, parent: &P, object: &K) -> Claim {
        let going = parent.meta().deletion_timestamp.is_some();
        match controller_of(object.meta()) {
            Some(owner) if Some(&owner.uid) != parent.meta().uid.as_ref() => Claim::Leave,
            Some(_) if self.matches(object) => Claim::Keep,
            Some(_) if going => Claim::Leave,
            Some(_) => Claim::Release,
            None if going || object.meta().deletion_timestamp.is_some() || !self.matches(object) => Claim::Leave,
            None if parent.meta().namespace != object.meta().namespace => Claim::Leave,
            None => Claim::Adopt,
        }
    }

    fn adopting<P: Object<DynamicType = ()>>(&self, parent: &P, object: &K) -> Result<Value> {
        let mut metadata = json!({"ownerReferences": [owner::controller_reference(parent)?], "uid": object.meta().uid});
        if let Some(finalizer) = self.finalizer {
            metadata["finalizers"] = json!([finalizer]);
        }
        Ok(json!({"metadata": metadata}))
    }

    fn releasing<P: Object>(&self, parent: &P, object: &K) -> Value {
        let gone = json!({"$patch": "delete", "uid": parent.meta().uid});
        let mut metadata = json!({"ownerReferences": [gone], "uid": object.meta().uid});
        if let Some(finalizer) = self.finalizer {
            metadata["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
        }
        json!({"metadata": metadata})
    }
}

/// Returns whether the server still has the parent and it is not being deleted. The cache may lag behind, and objects
/// adopted by a parent that is being deleted would be deleted with it.
async fn still_there<P: Object<DynamicType = ()>>(ctx: &Context, parent: &P) -> Result<bool> {
    let live: Option<P> = ctx.live().get(&ObjectKey::of(parent)).await?;
    let same = |live: &P| live.meta().uid == parent.meta().uid && live.meta().deletion_timestamp.is_none();
    Ok(live.as_ref().is_some_and(same))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};

    use super::*;

    fn pod(labels: Value, owner: Option<&str>) -> Pod {
        let owners = owner.map(
            |uid| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": uid, "controller": true}),
        );
        let metadata = json!({"name": "p", "namespace": "n", "uid": "p", "labels": labels,
            "ownerReferences": owners.into_iter().collect::<Vec<_>>()});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn set(deleted: bool) -> ReplicaSet {
        let mut set: ReplicaSet =
            serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "n", "uid": "1"}})).unwrap();
        set.metadata.deletion_timestamp =
            deleted.then(|| serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        set
    }

    #[test]
    fn children_are_kept_ignored_adopted_or_released_by_labels_and_owners() {
        let (ours, theirs) = (json!({"app": "web"}), json!({"app": "db"}));
        let children = Children::<Pod>::selected(&LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            match_expressions: None,
        })
        .unwrap();
        for (labels, owner, deleted, expected) in [
            (&ours, Some("1"), false, Claim::Keep),
            (&ours, Some("1"), true, Claim::Keep),
            (&ours, Some("2"), false, Claim::Leave),
            (&ours, None, false, Claim::Adopt),
            (&ours, None, true, Claim::Leave),
            (&theirs, Some("1"), false, Claim::Release),
            (&theirs, Some("1"), true, Claim::Leave),
            (&theirs, None, false, Claim::Leave),
        ] {
            let decided = children.decide(&set(deleted), &pod(labels.clone(), owner));
            assert_eq!(decided, expected, "{labels} of {owner:?}, deleted: {deleted}");
        }
        let named = |pod: &Pod| pod.metadata.name.as_deref() == Some("other");
        let children = children.that(&named);
        assert_eq!(children.decide(&set(false), &pod(ours.clone(), Some("1"))), Claim::Release);
        assert_eq!(children.decide(&set(false), &pod(ours, None)), Claim::Leave);
    }

    #[test]
    fn a_finalizer_is_added_and_removed_with_the_owner() {
        let children = Children::<Pod>::selected(&LabelSelector::default()).unwrap().with_finalizer("f");
        let pod = pod(json!({}), None);
        let adopting = children.adopting(&set(false), &pod).unwrap();
        assert_eq!(adopting["metadata"]["finalizers"], json!(["f"]));
        assert_eq!(adopting["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], json!(true));
        let releasing = children.releasing(&set(false), &pod);
        assert_eq!(releasing["metadata"]["$deleteFromPrimitiveList/finalizers"], json!(["f"]));
        assert_eq!(releasing["metadata"]["ownerReferences"], json!([{"$patch": "delete", "uid": "1"}]));
    }
}
