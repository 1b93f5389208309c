//! Authentication and authorization of requests for metrics and debug pages, by the API server.

use std::{collections::HashMap, fmt, time::Duration};

use http::{HeaderMap, Method, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

use crate::client;

/// Time for which a permitted request is cached: a scrape usually needs no review.
const PERMITTED: Duration = Duration::from_secs(60);
/// Time for which a rejected request is cached.
const REJECTED: Duration = Duration::from_secs(10);
/// Time for which it is known that a request was permitted, so that another review of it does not wait for those of
/// other clients.
const TRUSTED: Duration = Duration::from_secs(3600);
/// Maximum number of cached requests, permitted and rejected ones each.
const MAX_REMEMBERED: usize = 512;
/// Longer tokens and paths are not cached.
const MAX_LENGTH: usize = 4096;
/// Time limit of all reviews of a request, including the wait for other reviews.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of requests that are reviewed at a time: of those that were permitted before, and of others.
const MAX_REVIEWS: usize = 8;

/// Authenticates requests with TokenReviews and authorizes them with SubjectAccessReviews.
pub(super) struct Guard {
    client: Client,
    /// By time of the verdict. Separate, as anyone can send any number of requests that are rejected.
    permitted: Mutex<HashMap<ReviewKey, Instant>>,
    rejected: Mutex<HashMap<ReviewKey, (Instant, Verdict)>>,
    /// Reviews of requests that were permitted before.
    renewals: Semaphore,
    reviews: Semaphore,
}

/// The parts of a request that the verdict depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ReviewKey {
    token: String,
    verb: String,
    path: String,
}

/// Outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The user may send it.
    Permitted,
    /// There is no valid token.
    Unauthorized,
    /// This user may not send it.
    Forbidden(String),
    /// The API server did not decide.
    Undecided,
}

/// Error of a review.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("failed to review the token: {0}")]
    Token(kube::Error),
    #[error("failed to review the access: {0}")]
    Access(kube::Error),
    #[error("no answer within {LIMIT:?}")]
    Late,
}

impl Guard {
    /// Sends reviews with this client, regardless of its rate limit.
    pub(super) fn new(client: &Client) -> Self {
        Self {
            client: client::urgent(client),
            permitted: Mutex::default(),
            rejected: Mutex::default(),
            renewals: Semaphore::new(MAX_REVIEWS),
            reviews: Semaphore::new(MAX_REVIEWS),
        }
    }

    /// Decides about a request. Takes no longer than [`LIMIT`].
    pub(super) async fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Verdict {
        let Some(token) = bearer_token(headers) else { return Verdict::Unauthorized };
        let verb = method.as_str().to_ascii_lowercase();
        let key = ReviewKey { token: token.to_owned(), verb, path: path.to_owned() };
        if let Some(verdict) = self.known(&key) {
            return verdict;
        }
        let reviewed = tokio::time::timeout(LIMIT, self.review(&key)).await;
        match reviewed.unwrap_or(Err(ReviewError::Late)) {
            Ok(verdict) => {
                self.remember(key, &verdict);
                verdict
            }
            Err(error) => {
                tracing::warn!(%error, path, "rejecting a request");
                Verdict::Undecided
            }
        }
    }

    fn known(&self, key: &ReviewKey) -> Option<Verdict> {
        if self.permitted.lock().get(key).is_some_and(|since| since.elapsed() < PERMITTED) {
            return Some(Verdict::Permitted);
        }
        let rejected = self.rejected.lock();
        rejected.get(key).filter(|(since, _)| since.elapsed() < REJECTED).map(|(_, verdict)| verdict.clone())
    }

    fn remember(&self, key: ReviewKey, verdict: &Verdict) {
        if key.token.len() + key.path.len() > MAX_LENGTH {
            return;
        }
        let now = Instant::now();
        let mut permitted = self.permitted.lock();
        if *verdict == Verdict::Permitted {
            make_room(&mut permitted, |since| since.elapsed() < TRUSTED, |since| *since);
            permitted.insert(key, now);
        } else {
            permitted.remove(&key);
            let mut rejected = self.rejected.lock();
            make_room(&mut rejected, |(since, _)| since.elapsed() < REJECTED, |(since, _)| *since);
            rejected.insert(key, (now, verdict.clone()));
        }
    }

    async fn review(&self, key: &ReviewKey) -> Result<Verdict, ReviewError> {
        let is_trusted = self.permitted.lock().get(key).is_some_and(|since| since.elapsed() < TRUSTED);
        let slots = if is_trusted { &self.renewals } else { &self.reviews };
        // They are never closed.
        let _slot = slots.acquire().await.map_err(|_| ReviewError::Late)?;
        let tokens: Api<TokenReview> = Api::all(self.client.clone());
        let spec = TokenReviewSpec { token: key.token.clone(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = tokens.create(&PostParams::default(), &review).await.map_err(ReviewError::Token)?;
        let status = reviewed.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(Verdict::Unauthorized);
        }
        let UserInfo { username, uid, groups, extra } = status.user.unwrap_or_default();
        let name = username.clone().unwrap_or_default();
        let attributes = NonResourceAttributes { path: Some(key.path.clone()), verb: Some(key.verb.clone()) };
        let spec = SubjectAccessReviewSpec {
            user: username,
            uid,
            groups,
            extra,
            non_resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let accesses: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviewed = accesses.create(&PostParams::default(), &review).await.map_err(ReviewError::Access)?;
        let status = reviewed.status.unwrap_or_default();
        let permitted = status.allowed && status.denied != Some(true);
        Ok(if permitted { Verdict::Permitted } else { Verdict::Forbidden(name) })
    }
}

/// Removes old verdicts if there are too many, and the oldest if that is not enough.
fn make_room<V>(verdicts: &mut HashMap<ReviewKey, V>, is_valid: impl Fn(&V) -> bool, since: impl Fn(&V) -> Instant) {
    if verdicts.len() < MAX_REMEMBERED {
        return;
    }
    verdicts.retain(|_, verdict| is_valid(verdict));
    if verdicts.len() >= MAX_REMEMBERED {
        let oldest = verdicts.iter().min_by_key(|(_, verdict)| since(verdict)).map(|(key, _)| key.clone());
        oldest.map(|oldest| verdicts.remove(&oldest));
    }
}

/// Returns the bearer token of a request.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// Does not show tokens.
impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("permitted", &self.permitted.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
