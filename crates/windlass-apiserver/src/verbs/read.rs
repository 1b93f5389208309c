//! GET of an object and of a collection.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use serde_json::{Map, json};
use windlass_store::{Error as StoreError, Revision};

use crate::{
    call::{Answer, Call, ListAnswer},
    continue_token::ContinueToken,
    options::{ListOptions, VersionMatch, parse_resource_version},
    represent,
    selection::Selection,
    status::{ApiError, Result},
    storage::StoredObject,
    write::convert,
};

/// How long a read waits for a revision that the server does not have yet.
const WAIT: Duration = Duration::from_secs(3);

/// Returns an object.
pub(crate) async fn get(call: &Call<'_>) -> Result<Answer> {
    match call.query.text("resourceVersion") {
        "" => {
            call.server.storage.fresh().await?;
        }
        "0" => {}
        text => {
            let revision = parse_resource_version(text).map_err(|error| ApiError::unexpected(error.to_string()))?;
            wait_for(call, revision).await?;
        }
    }
    let object = call.endpoint.cache.get(&call.key()).ok_or_else(|| call.not_found())?;
    let object = convert::to_served_object(call.server, call.endpoint, object).await?;
    Ok(Answer::Stored { code: StatusCode::OK, object })
}

/// Returns a list.
pub(crate) async fn list(call: &Call<'_>) -> Result<Answer> {
    let options = ListOptions::parse(&call.query, false)?;
    let selection = Selection::of(call)?;
    warn_about_damaged(call, &selection);
    if !options.continue_token.is_empty() {
        return next_page(call, &options, &selection).await;
    }
    let limit = match options.resource_version.as_str() {
        "" => {
            call.server.storage.fresh().await?;
            options.limit
        }
        // Any state suffices, so the list comes from memory, without pages.
        "0" => None,
        text => {
            let revision = parse_resource_version(text)
                .map_err(|error| ApiError::bad_request(format!("invalid resource version: {error}")))?;
            let exact = match options.version_match {
                VersionMatch::Exact => true,
                VersionMatch::NotOlderThan => false,
                VersionMatch::Unset => options.limit.is_some(),
            };
            if exact {
                return list_at(call, &selection, revision, None, options.limit).await;
            }
            wait_for(call, revision).await?;
            options.limit
        }
    };
    list_newest(call, &selection, None, limit).await
}

/// Warns about damaged objects, which the list omits.
fn warn_about_damaged(call: &Call<'_>, selection: &Selection) {
    for key in call.endpoint.cache.damaged_keys(&selection.prefix) {
        if let Some(damaged) = call.endpoint.cache.damaged(&key) {
            call.warnings.add(format!("omitted from the list: {}", call.endpoint.describe_damaged(&key, &damaged)));
        }
    }
}

/// Lists the newest state, after a key (relative to the selection's prefix).
async fn list_newest(
    call: &Call<'_>,
    selection: &Selection,
    after: Option<&str>,
    limit: Option<usize>,
) -> Result<Answer> {
    let applied = call.server.storage.applied();
    let snapshot = call.endpoint.cache.snapshot();
    let revision = applied.max(snapshot.revision);
    let after = after.map(|key| format!("{}{key}", selection.prefix));
    let everything = selection.is_everything();
    let whole = everything && after.is_none() && limit.is_none();
    if whole && represent::sends_stored_bytes(call) && !call.endpoint.has_converter() {
        let (typed, held) = (call.endpoint.custom().is_some(), call.server.metrics.lists.clone());
        let items = call.endpoint.cache.whole_list(snapshot, &selection.prefix, typed, held);
        return Ok(Answer::WholeList { items, revision: revision.0 });
    }
    // Objects that a webhook converts are selected after the conversion.
    let converted = match call.endpoint.has_converter() {
        true => selection.select_served(call, &snapshot, after.as_deref()).await?,
        false => Vec::new(),
    };
    let stored = (!call.endpoint.has_converter()).then(|| selection.select(call.endpoint, &snapshot, after.as_deref()));
    let converted = converted.iter().map(|(key, object)| (key.as_str(), object));
    let mut range = stored.into_iter().flatten().chain(converted);
    let mut selected = Vec::new();
    let mut last = "";
    let mut more = false;
    for (key, object) in range.by_ref() {
        if limit == Some(selected.len()) {
            more = true;
            break;
        }
        last = key;
        selected.push(object.clone());
    }
    let remaining = (more && everything).then(|| 1 + range.count());
    Ok(Answer::List(page(selection, selected, revision, more.then_some(last), remaining)))
}

fn page(
    selection: &Selection,
    objects: Vec<Arc<StoredObject>>,
    revision: Revision,
    last: Option<&str>,
    remaining: Option<usize>,
) -> ListAnswer {
    let continue_token = last.map(|key| {
        let after = key.strip_prefix(&selection.prefix).unwrap_or(key).to_owned();
        ContinueToken { revision: i64::try_from(revision.0).unwrap_or(i64::MAX), after }.encode()
    });
    ListAnswer { objects, revision: revision.0, continue_token, remaining }
}

/// Returns the next page of a list.
async fn next_page(call: &Call<'_>, options: &ListOptions, selection: &Selection) -> Result<Answer> {
    let token = ContinueToken::decode(&options.continue_token)?;
    if !matches!(options.resource_version.as_str(), "" | "0") {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    match u64::try_from(token.revision) {
        Ok(revision) => list_at(call, selection, revision, Some(&token.after), options.limit).await,
        Err(_) => {
            call.server.storage.fresh().await?;
            list_newest(call, selection, Some(&token.after), options.limit).await
        }
    }
}

/// Lists the state at an old revision, from the store's history.
async fn list_at(
    call: &Call<'_>,
    selection: &Selection,
    revision: u64,
    after: Option<&str>,
    limit: Option<usize>,
) -> Result<Answer> {
    let prefix = call.endpoint.store_key(&selection.prefix);
    let everything = selection.is_everything();
    let options = windlass_store::ListOptions {
        after: after.map(|key| format!("{prefix}{key}")),
        limit: if everything { limit } else { None },
        at: Some(Revision(revision)),
        prefix,
    };
    let page_of_store = match call.server.storage.store().list(options).await {
        Ok(page) => page,
        Err(StoreError::Compacted { .. }) => return Err(expired(after)),
        Err(StoreError::Future { current, .. }) => return Err(too_large(revision, current, None)),
        Err(error) => return Err(error.into()),
    };
    let mut objects = Vec::new();
    let mut last = None;
    let mut more = page_of_store.remaining > 0;
    let found = page_of_store.entries.into_iter();
    let found =
        found.filter_map(|entry| Some((entry.key, Arc::new(StoredObject::parse(&entry.value, entry.revision).ok()?))));
    let (keys, found): (Vec<_>, Vec<_>) = found.unzip();
    let found = Box::pin(convert::to_served_objects(call.server, call.endpoint, found)).await?;
    for (key, object) in keys.into_iter().zip(found) {
        if !everything && !selection.matches(call.endpoint, &object) {
            continue;
        }
        if limit == Some(objects.len()) {
            more = true;
            break;
        }
        last = Some(key[call.endpoint.cache.prefix().len()..].to_owned());
        objects.push(object);
    }
    let last = last.filter(|_| more);
    let remaining = (more && everything).then_some(page_of_store.remaining);
    Ok(Answer::List(page(selection, objects, Revision(revision), last.as_deref(), remaining)))
}

/// Waits until the caches have reached a revision that a client knows of.
async fn wait_for(call: &Call<'_>, revision: u64) -> Result<()> {
    let storage = &call.server.storage;
    let reached = tokio::time::timeout(WAIT, storage.reached(Revision(revision))).await;
    reached.map_err(|_| too_large(revision, storage.applied(), Some(1)))
}

/// 504 for a future revision.
fn too_large(revision: u64, current: Revision, retry_after: Option<u32>) -> ApiError {
    let mut details = Map::new();
    let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
    details.insert("causes".to_owned(), cause);
    if let Some(seconds) = retry_after {
        details.insert("retryAfterSeconds".to_owned(), seconds.into());
    }
    let message = format!("Too large resource version: {revision}, current: {current}");
    ApiError::timeout(message).with_details(details)
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
    let token = ContinueToken { revision: -1, after: after.to_owned() }.encode();
    ApiError { continue_token: Some(token.into()), ..ApiError::expired(message) }
}
