//! GET of an object and of a collection.

mod page;

use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, json};
use windlass_store::Revision;

use self::page::Page;
use crate::{
    call::{Answer, Call, ListAnswer},
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
    let start = Start::of(call, &options).await?;
    let shares = represent::sends_stored_bytes(call) && !call.endpoint.has_converter();
    if selection.is_everything() && start.is_whole() && shares {
        let applied = call.server.storage.applied();
        let snapshot = call.endpoint.cache.snapshot();
        let revision = applied.max(snapshot.revision).0;
        let (typed, held) = (call.endpoint.custom().is_some(), call.server.metrics.lists.clone());
        let items = call.endpoint.cache.whole_list(snapshot, &selection.prefix, typed, held);
        return Ok(Answer::WholeList { items, revision });
    }
    Ok(Answer::List(start.list(call, &selection).await?))
}

/// Start of a list.
pub(super) enum Start {
    /// In the newest state, at its first object or after a key.
    Newest { after: Option<String>, limit: Option<usize> },
    /// At the first object of an older state.
    Exact(Page),
    /// At the end of another page of the same state.
    Continued(Page),
}

impl Start {
    /// Returns where the list that a client asks for starts. Waits until the server has its state.
    pub(super) async fn of(call: &Call<'_>, options: &ListOptions) -> Result<Self> {
        let storage = &call.server.storage;
        if !options.continue_token.is_empty() {
            let token = ContinueToken::decode(&options.continue_token)?;
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
            }
            // A client that accepts any state gets the rest from memory, without pages.
            let limit = options.limit.filter(|_| options.resource_version.is_empty());
            if let Some(page) = Page::next(&token, limit) {
                return Ok(Self::Continued(page));
            }
            storage.fresh().await?;
            return Ok(Self::Newest { after: Some(token.after), limit });
        }
        let limit = match options.resource_version.as_str() {
            "" => {
                storage.fresh().await?;
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
                    let revision = Revision(revision);
                    return Ok(Self::Exact(Page { revision, after: None, left: None, limit: options.limit }));
                }
                wait_for(call, revision).await?;
                options.limit
            }
        };
        Ok(Self::Newest { after: None, limit })
    }

    /// Returns whether the list has all objects of the newest state that are selected.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Newest { after: None, limit: None })
    }

    /// Returns the list.
    pub(super) async fn list(self, call: &Call<'_>, selection: &Selection) -> Result<ListAnswer> {
        let (after, limit) = match self {
            Self::Exact(page) => return page.read_history(call, selection).await,
            Self::Continued(page) => return page.continued(call, selection).await,
            Self::Newest { after, limit } => (after, limit),
        };
        let applied = call.server.storage.applied();
        let (snapshot, left) = match after {
            Some(_) => (call.endpoint.cache.snapshot(), None),
            None => {
                let (snapshot, count) = call.endpoint.cache.counted_snapshot(&selection.prefix);
                (snapshot, Some(count))
            }
        };
        let page = Page { revision: applied.max(snapshot.revision), after, left, limit };
        page.cut_snapshot(call, selection, &snapshot).await
    }
}

/// Warns about damaged objects, which the list omits.
fn warn_about_damaged(call: &Call<'_>, selection: &Selection) {
    for key in call.endpoint.cache.damaged_keys(&selection.prefix) {
        if let Some(damaged) = call.endpoint.cache.damaged(&key) {
            call.warnings.add(format!("omitted from the list: {}", call.endpoint.describe_damaged(&key, &damaged)));
        }
    }
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
