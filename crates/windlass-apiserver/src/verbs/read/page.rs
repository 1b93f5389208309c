//! Pages of lists. A page costs what its own objects cost: the rest is neither read nor counted.
//!
//! The first page is cut from a snapshot of the cache, which knows the number of its objects. The following pages are of
//! the same revision. As long as no object of the resource has changed since, they come from the cache as well, otherwise
//! from the store's history.

use std::sync::Arc;

use futures_util::FutureExt as _;
use windlass_store::{Error as StoreError, Revision};

use super::too_large;
use crate::{
    call::{Call, ListAnswer},
    continue_token::ContinueToken,
    selection::Selection,
    status::{ApiError, Result},
    storage::{Snapshot, StoredObject},
    write::convert,
};

/// The minimum number of objects that are read from the store's history at a time to find selected ones.
const CHUNK: usize = 500;

/// A page, or a whole list.
pub(in crate::verbs) struct Page {
    /// The revision of the list.
    pub(super) revision: Revision,
    /// The key after which the page begins, relative to the prefix of the selection.
    pub(super) after: Option<String>,
    /// The number of objects from here to the end, if it is known and everything is selected.
    pub(super) left: Option<usize>,
    /// The maximum number of objects.
    pub(super) limit: Option<usize>,
}

impl Page {
    /// Returns the page that a token continues with; `None` if it continues in the newest state.
    pub(super) fn next(token: &ContinueToken, limit: Option<usize>) -> Option<Self> {
        let revision = Revision(u64::try_from(token.revision).ok()?);
        Some(Self { revision, after: Some(token.after.clone()), left: token.remaining, limit })
    }

    /// Returns the page: from the cache if that still has the state of its revision.
    pub(super) async fn continued(self, call: &Call<'_>, selection: &Selection) -> Result<ListAnswer> {
        let applied = call.server.storage.applied();
        let snapshot = call.endpoint.cache.snapshot();
        if snapshot.revision <= self.revision && self.revision <= applied {
            return self.cut_snapshot(call, selection, &snapshot).await;
        }
        self.read_history(call, selection).await
    }

    /// Returns the page from a snapshot, which must have the state of its revision.
    pub(super) async fn cut_snapshot(
        self,
        call: &Call<'_>,
        selection: &Selection,
        snapshot: &Snapshot,
    ) -> Result<ListAnswer> {
        let after = self.after.as_ref().map(|key| format!("{}{key}", selection.prefix));
        let everything = selection.is_everything();
        // Objects that a webhook converts are selected after the conversion.
        let (mut converted, mut stored) = (Vec::new(), None);
        if call.endpoint.has_converter() {
            let enough = self.limit.filter(|_| everything);
            converted = selection.select_served(call, snapshot, after.as_deref(), enough).await?;
        } else {
            stored = Some(selection.select(call.endpoint, snapshot, after.as_deref()));
        }
        let converted = converted.iter().map(|(key, object)| (key.as_str(), object));
        let mut selected = Vec::new();
        let mut last = "";
        for (key, object) in stored.into_iter().flatten().chain(converted) {
            last = key;
            selected.push(object.clone());
            if self.limit == Some(selected.len()) {
                break;
            }
        }
        // As in kube-apiserver, a full page is the last one only if no objects follow, selected or not.
        let is_full = self.limit == Some(selected.len()) && !self.is_single(call, selection);
        let more = is_full && snapshot.range(&selection.prefix, Some(last)).next().is_some();
        let remaining = (more && everything).then(|| match self.left {
            Some(left) => left.saturating_sub(selected.len()).max(1),
            None => snapshot.range(&selection.prefix, Some(last)).count(),
        });
        let last = more.then(|| last.strip_prefix(&selection.prefix).unwrap_or(last));
        Ok(self.answer(selected, last, remaining))
    }

    /// Returns the page from the store's history.
    pub(super) async fn read_history(self, call: &Call<'_>, selection: &Selection) -> Result<ListAnswer> {
        let cache = &call.endpoint.cache;
        let prefix = call.endpoint.store_key(&selection.prefix);
        let everything = selection.is_everything();
        let mut options = windlass_store::ListOptions {
            after: self.after.as_ref().map(|key| format!("{prefix}{key}")),
            limit: self.limit.map(|limit| if everything { limit } else { limit.max(CHUNK) }),
            at: Some(self.revision),
            count: everything && self.left.is_none(),
            prefix,
        };
        let mut objects = Vec::new();
        let (remaining, last) = 'pages: loop {
            let read = match call.server.storage.store().list(options.clone()).await {
                Ok(page) => page,
                Err(StoreError::Compacted { .. }) => return Err(expired(self.after.as_deref())),
                Err(StoreError::Future { current, .. }) => return Err(too_large(self.revision.0, current, Some(1))),
                Err(error) => return Err(error.into()),
            };
            let (mut keys, mut found) = (Vec::new(), Vec::new());
            let end = read.entries.last().map(|entry| entry.key.clone());
            for entry in read.entries {
                let key = &entry.key[cache.prefix().len()..];
                let cached = cache.get(key).filter(|object| object.revision == entry.revision);
                let object = cached.or_else(|| StoredObject::parse(&entry.value, entry.revision).ok().map(Arc::new));
                if let Some(object) = object {
                    keys.push(entry.key);
                    found.push(object);
                }
            }
            let found = convert::to_served_objects(call.server, call.endpoint, found).boxed().await?;
            let mut left = keys.len() + read.remaining;
            for (key, object) in keys.into_iter().zip(found) {
                left -= 1;
                if !everything && !selection.matches(call.endpoint, &object) {
                    continue;
                }
                objects.push(object);
                if !everything && self.limit == Some(objects.len()) {
                    break 'pages (left, Some(key));
                }
            }
            if everything || read.remaining == 0 {
                // Damaged objects at the end are not read again.
                break (read.remaining, end);
            }
            options.after = end.map(|key| key.to_string());
        };
        let more = remaining > 0 && !self.is_single(call, selection);
        let remaining = (more && everything).then(|| match self.left {
            Some(left) => left.saturating_sub(objects.len()).max(1),
            None => remaining,
        });
        let last = last.filter(|_| more);
        let last = last.as_ref().map(|key| key.strip_prefix(&options.prefix).unwrap_or(key));
        Ok(self.answer(objects, last, remaining))
    }

    /// Returns whether the selection names an object, which a first page reads alone.
    fn is_single(&self, call: &Call<'_>, selection: &Selection) -> bool {
        self.after.is_none() && selection.names_one(call.endpoint)
    }

    /// Returns the response, with a token to continue after a key (relative to the prefix of the selection).
    fn answer(&self, objects: Vec<Arc<StoredObject>>, last: Option<&str>, remaining: Option<usize>) -> ListAnswer {
        let revision = self.revision.0;
        let continue_token = last.map(|after| {
            let revision = i64::try_from(revision).unwrap_or(i64::MAX);
            ContinueToken { revision, after: after.to_owned(), remaining }.encode()
        });
        ListAnswer { objects, revision, continue_token, remaining }
    }
}

/// 410 for a list whose revision is no longer kept; a paged list gets a token to continue inconsistently.
fn expired(after: Option<&str>) -> ApiError {
    let Some(after) = after else {
        return ApiError::expired("The resourceVersion for the provided list is too old.");
    };
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                   list without the continue parameter, or use the continue token in this response to retrieve the \
                   remainder of the results. Continuing with the provided token results in an inconsistent list - \
                   objects that were created, modified, or deleted between the time the first chunk was returned and \
                   now may show up in the list.";
    let token = ContinueToken { revision: -1, after: after.to_owned(), remaining: None }.encode();
    ApiError { continue_token: Some(token.into()), ..ApiError::expired(message) }
}
