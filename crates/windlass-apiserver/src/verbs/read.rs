//! GET of an object and of a collection.

mod page;

use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, json};
use windlass_store::Revision;

use self::page::Page;
use crate::{
    call::{Answer, Call},
    continue_token::ContinueToken,
    options::{ListOptions, VersionMatch, parse_resource_version},
    represent,
    selection::Selection,
    status::{ApiError, Result},
    write::convert,
};

/// Time for which a read waits for a revision that the server does not have yet.
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
                let page = Page { revision: Revision(revision), after: None, left: None, limit: options.limit };
                return page.read_history(call, &selection).await;
            }
            wait_for(call, revision).await?;
            options.limit
        }
    };
    list_newest(call, &selection, limit).await
}

/// Warns about damaged objects, which the list omits.
fn warn_about_damaged(call: &Call<'_>, selection: &Selection) {
    for key in call.endpoint.cache.damaged_keys(&selection.prefix) {
        if let Some(damaged) = call.endpoint.cache.damaged(&key) {
            call.warnings.add(format!("omitted from the list: {}", call.endpoint.describe_damaged(&key, &damaged)));
        }
    }
}

/// Lists the newest state.
async fn list_newest(call: &Call<'_>, selection: &Selection, limit: Option<usize>) -> Result<Answer> {
    let applied = call.server.storage.applied();
    let (snapshot, count) = call.endpoint.cache.counted_snapshot(&selection.prefix);
    let revision = applied.max(snapshot.revision);
    let is_whole = selection.is_everything() && limit.is_none();
    if is_whole && represent::sends_stored_bytes(call) && !call.endpoint.has_converter() {
        let (typed, held) = (call.endpoint.custom().is_some(), call.server.metrics.lists.clone());
        let items = call.endpoint.cache.whole_list(snapshot, &selection.prefix, typed, held);
        return Ok(Answer::WholeList { items, revision: revision.0 });
    }
    let page = Page { revision, after: None, left: Some(count), limit };
    page.cut_snapshot(call, selection, &snapshot).await
}

/// Returns the next page of a list.
async fn next_page(call: &Call<'_>, options: &ListOptions, selection: &Selection) -> Result<Answer> {
    let token = ContinueToken::decode(&options.continue_token)?;
    if !matches!(options.resource_version.as_str(), "" | "0") {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    if let Some(page) = Page::next(&token, options.limit) {
        return page.continued(call, selection).await;
    }
    call.server.storage.fresh().await?;
    let applied = call.server.storage.applied();
    let snapshot = call.endpoint.cache.snapshot();
    let revision = applied.max(snapshot.revision);
    let page = Page { revision, after: Some(token.after), left: None, limit: options.limit };
    page.cut_snapshot(call, selection, &snapshot).await
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
