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

/// How long a permitted request is remembered: a scrape usually needs no review.
const PERMITTED: Duration = Duration::from_secs(60);
/// How long a rejected request is remembered.
const REJECTED: Duration = Duration::from_secs(10);
/// Maximum number of remembered requests.
const MAX_REMEMBERED: usize = 512;
/// Longer tokens and paths are not remembered.
const MAX_LENGTH: usize = 4096;
/// Time limit of all reviews of a request, including the wait for other reviews.
const LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of requests that are reviewed at a time.
const MAX_REVIEWS: usize = 8;

/// Asks the API server who sent a request (TokenReview) and whether this user may send it (SubjectAccessReview).
pub(super) struct Guard {
    client: Client,
    remembered: Mutex<HashMap<Asked, (Instant, Verdict)>>,
    reviews: Semaphore,
}

/// A request, as far as the verdict depends on it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Asked {
    token: String,
    verb: String,
    path: String,
}

/// What a request gets.
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
        Self { client: client::urgent(client), remembered: Mutex::default(), reviews: Semaphore::new(MAX_REVIEWS) }
    }

    /// Decides about a request. Takes no longer than [`LIMIT`].
    pub(super) async fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Verdict {
        let Some(token) = bearer_token(headers) else { return Verdict::Unauthorized };
        let verb = method.as_str().to_ascii_lowercase();
        let asked = Asked { token: token.to_owned(), verb, path: path.to_owned() };
        if let Some(verdict) = self.known(&asked) {
            return verdict;
        }
        let reviewed = tokio::time::timeout(LIMIT, self.review(&asked)).await;
        match reviewed.unwrap_or(Err(ReviewError::Late)) {
            Ok(verdict) => {
                self.remember(asked, &verdict);
                verdict
            }
            Err(error) => {
                tracing::warn!(%error, path, "rejecting a request");
                Verdict::Undecided
            }
        }
    }

    fn known(&self, asked: &Asked) -> Option<Verdict> {
        let remembered = self.remembered.lock();
        remembered.get(asked).filter(|(until, _)| *until > Instant::now()).map(|(_, verdict)| verdict.clone())
    }

    fn remember(&self, asked: Asked, verdict: &Verdict) {
        if asked.token.len() + asked.path.len() > MAX_LENGTH {
            return;
        }
        let now = Instant::now();
        let mut remembered = self.remembered.lock();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.retain(|_, (until, _)| *until > now);
        }
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        let lifetime = if *verdict == Verdict::Permitted { PERMITTED } else { REJECTED };
        remembered.insert(asked, (now + lifetime, verdict.clone()));
    }

    async fn review(&self, asked: &Asked) -> Result<Verdict, ReviewError> {
        // It is never closed.
        let _permit = self.reviews.acquire().await.map_err(|_| ReviewError::Late)?;
        let tokens: Api<TokenReview> = Api::all(self.client.clone());
        let spec = TokenReviewSpec { token: asked.token.clone(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = tokens.create(&PostParams::default(), &review).await.map_err(ReviewError::Token)?;
        let status = reviewed.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return Ok(Verdict::Unauthorized);
        }
        let UserInfo { username, uid, groups, extra } = status.user.unwrap_or_default();
        let name = username.clone().unwrap_or_default();
        let attributes = NonResourceAttributes { path: Some(asked.path.clone()), verb: Some(asked.verb.clone()) };
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

/// Returns the bearer token of a request.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// Does not show tokens.
impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("remembered", &self.remembered.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
