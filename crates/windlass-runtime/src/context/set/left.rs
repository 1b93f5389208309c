//! Leftovers of a set: its objects that exist and are no longer desired, as far as this is known.

use std::{sync::Arc, time::Duration};

use hashbrown::HashSet;
use kube::core::ObjectMeta;
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    SET_LABEL, SET_ORDER,
    write::{Identity, Pruning},
};
use crate::{
    context::{
        any_kind::{AnyKind, KindInfo},
        watched_kinds::Entry,
    },
    key::ObjectKey,
    objects::owner::controller_of,
};

/// Number of unreadable objects of a kind whose metadata is fetched.
const LOOKED_UP: usize = 100;
/// Time for which it is remembered whether a kind is served in another version.
const REMEMBERED: Duration = Duration::from_secs(30);

/// Leftovers of a set.
#[derive(Default)]
pub(super) struct Left {
    pub(super) objects: Vec<Leftover>,
    /// Objects with a lower level may be needed by one that waits and is left as it is.
    pub(super) needed_below: usize,
    /// Kinds and objects of which it is unknown whether they belong to it, with the reason.
    pub(super) unknown: Vec<String>,
}

/// An object that is no longer desired.
pub(super) struct Leftover {
    pub(super) identity: Identity,
    pub(super) kind_info: Arc<dyn KindInfo>,
    pub(super) meta: ObjectMeta,
    pub(super) level: usize,
}

impl Pruning<'_> {
    /// Returns the objects of the set that exist and are not desired, without duplicates.
    pub(super) async fn left(&self) -> Left {
        let mut seen = HashSet::new();
        let mut left = Left::default();
        let mut unknown = self.waiting.clone();
        for entry in self.context.watched_kinds.all() {
            let resource = &entry.resource;
            let problems = left.unknown.len();
            for meta in self.candidates(&entry, &mut left.unknown).await {
                let identity = (resource.group.clone(), resource.kind.clone(), ObjectKey::of_meta(&meta));
                if !is_of(self.set, &meta) || !seen.insert(identity.clone()) {
                    continue;
                }
                let order = meta.annotations.as_ref().and_then(|annotations| annotations.get(SET_ORDER)?.parse().ok());
                let level = order.unwrap_or(0);
                if self.waiting.contains(&identity) {
                    left.needed_below = left.needed_below.max(level);
                } else if !self.wanted.contains(&identity) {
                    let kind_info = entry.kind_info.clone();
                    left.objects.push(Leftover { identity, kind_info, meta, level });
                }
            }
            if left.unknown.len() == problems {
                unknown.retain(|(group, kind, _)| (group, kind) != (&resource.group, &resource.kind));
            }
        }
        if !unknown.is_empty() {
            // Objects of kinds that are not watched, or not known, may exist, with any order.
            left.needed_below = usize::MAX;
        }
        left
    }

    /// Returns the objects of a kind that the owner controls.
    async fn candidates(&self, entry: &Entry, unknown: &mut Vec<String>) -> Vec<ObjectMeta> {
        let (uid, kind) = (self.owner.uid(), &entry.resource.kind);
        let informer = &entry.informer;
        if informer.is_absent() {
            match self.is_served_otherwise(entry).await {
                Ok(false) => {}
                Ok(true) => unknown.push(format!("{kind}: its version {} is not served", entry.resource.version)),
                Err(error) => unknown.push(format!("{kind}: it is unknown whether another version is served: {error}")),
            }
            return Vec::new();
        }
        if !informer.is_synced() {
            unknown.push(format!("{kind}: the initial list is not complete"));
        }
        let mut unreadable = informer.all_unreadable();
        // An owner controls only objects of its own namespace.
        unreadable.retain(|object| self.owner.namespace().is_none_or(|own| object.key.namespace() == Some(own)));
        let is_readable = |meta: &ObjectMeta| !unreadable.iter().any(|other| other.key == ObjectKey::of_meta(meta));
        let controlled = entry.controlled_by(uid);
        let mut candidates: Vec<_> = controlled.iter().map(|object| object.metadata().clone()).collect();
        // These are former states.
        candidates.retain(is_readable);
        if unreadable.len() > LOOKED_UP {
            unknown.push(format!("{kind}: {} objects are unreadable", unreadable.len()));
            unreadable.clear();
        }
        for object in unreadable {
            match AnyKind::new(self.context, entry.kind_info.clone()).live_metadata(&object.key).await {
                Ok(Some(meta)) if controller_of(&meta).is_some_and(|owner| owner.uid == uid) => candidates.push(meta),
                Ok(_) => {}
                Err(error) => unknown.push(format!("{kind} {}: {error}", object.key)),
            }
        }
        candidates
    }

    /// Returns whether objects of a kind may exist although the version that is watched is not served. Without its CRD, no
    /// objects are left.
    async fn is_served_otherwise(&self, entry: &Entry) -> Result<bool, kube::Error> {
        if let Some((at, known)) = *entry.served_otherwise.lock()
            && at.elapsed() < REMEMBERED
        {
            return Ok(known);
        }
        let served = self.serves(&entry.resource.group, &entry.resource.kind).await?;
        *entry.served_otherwise.lock() = Some((Instant::now(), served));
        Ok(served)
    }

    /// Returns whether the API server serves any version of a kind.
    async fn serves(&self, group: &str, kind: &str) -> Result<bool, kube::Error> {
        #[derive(Deserialize)]
        struct Versions {
            versions: Vec<Version>,
        }
        #[derive(Deserialize)]
        struct Version {
            version: String,
        }
        #[derive(Deserialize)]
        struct Resources {
            resources: Vec<Resource>,
        }
        #[derive(Deserialize)]
        struct Resource {
            kind: String,
        }
        let root = match group {
            "" => "/api".to_owned(),
            group => format!("/apis/{group}"),
        };
        let versions = match group {
            "" => vec!["v1".to_owned()],
            _ => match self.discover::<Versions>(&root).await? {
                Some(group) => group.versions.into_iter().map(|version| version.version).collect(),
                None => return Ok(false),
            },
        };
        for version in versions {
            let resources: Option<Resources> = self.discover(&format!("{root}/{version}")).await?;
            if resources.is_some_and(|list| list.resources.iter().any(|resource| resource.kind == kind)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a discovery document; `None` if there is none.
    async fn discover<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<Option<T>, kube::Error> {
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        match self.context.handles.client.request_text(request).await {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(kube::Error::SerdeError),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether an object belongs to a set; `set` is the value of its label.
fn is_of(set: &str, meta: &ObjectMeta) -> bool {
    meta.labels.as_ref().and_then(|labels| labels.get(SET_LABEL)).is_some_and(|label| label == set)
}
