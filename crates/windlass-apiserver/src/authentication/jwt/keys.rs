//! The keys of an issuer: found by its discovery document, fetched again when a token has an unknown one.
//!
//! One task per issuer does all requests, so that requests of users never start one each, and a client that disconnects
//! does not interrupt what others wait for.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use http::header;
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::Instant,
};

use crate::{
    public_key::{Jwk, PublicKey, jws::Jws},
    webhooks::{Fetch, Remote, Tls},
};

use super::{configuration::Issuer, token::Claims};

/// Timeout of a request to the issuer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a document, in bytes.
const MAX_SIZE: usize = 1 << 20;
/// Maximum number of keys per issuer.
const MAX_KEYS: usize = 256;
/// Initial and maximum delay before a failed request is retried.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Minimum time between two fetches of the keys.
const FRESH: Duration = Duration::from_secs(1);
/// Time before the announced expiry at which the keys are fetched again.
const EARLIER: Duration = Duration::from_secs(30);
/// Maximum time for which keys are used without fetching them again, regardless of what the issuer announces.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// The keys of an issuer, kept up to date by a task that ends when this is dropped.
pub(super) struct IssuerKeys {
    state: watch::Receiver<State>,
    wanted: mpsc::Sender<()>,
    task: AbortHandle,
}

impl Drop for IssuerKeys {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Current state of an issuer.
#[derive(Clone, Default)]
struct State {
    /// `None` until the discovery document has been read.
    keys: Option<Arc<Vec<(String, PublicKey)>>>,
    /// The number of attempts to fetch keys.
    fetches: u64,
    /// The time before which keys are not fetched again.
    fresh_until: Option<Instant>,
    /// Error of the last attempt.
    error: Option<Arc<str>>,
}

/// Location of an issuer's documents.
struct Source {
    issuer: String,
    discovery_url: String,
    remote: Remote,
}

impl IssuerKeys {
    /// Starts the task that loads the keys.
    ///
    /// # Errors
    /// Returns an error if a certificate cannot be used.
    pub(super) fn start(issuer: &Issuer) -> Result<Self, String> {
        let tls = Tls { authorities: issuer.certificate_authority.as_bytes().to_vec(), ..Tls::default() };
        let discovery_url = match issuer.discovery_url.as_str() {
            "" => {
                let base = issuer.url.strip_suffix('/').unwrap_or(&issuer.url);
                format!("{base}/.well-known/openid-configuration")
            }
            url => url.to_owned(),
        };
        let remote = crate::blocking::run(|| Remote::new(&tls))?;
        let source = Source { issuer: issuer.url.clone(), discovery_url, remote };
        let (sender, state) = watch::channel(State::default());
        // One request is enough for all that wait.
        let (wanted, wishes) = mpsc::channel(1);
        let task = tokio::spawn(source.keep(sender, wishes).boxed()).abort_handle();
        Ok(Self { state, wanted, task })
    }

    /// Waits until the discovery document has been read, and keys have been requested once.
    pub(super) async fn ready(&self) {
        // The sender is dropped only with self.
        let _ = self.state.clone().wait_for(|state| state.keys.is_some()).await;
    }

    /// Returns why the issuer is not ready; `None` if it is.
    pub(super) fn problem(&self) -> Option<String> {
        let state = self.state.borrow();
        let unknown = || "not initialized".to_owned();
        state.keys.is_none().then(|| state.error.as_deref().map_or_else(unknown, str::to_owned))
    }

    /// Returns the claims of a token that a key of the issuer has signed. If none has, the keys are fetched again.
    ///
    /// # Errors
    /// Returns kube-apiserver's reason for a rejection.
    pub(super) async fn verify(&self, jws: &Jws<'_>) -> Result<Claims, String> {
        let mut state = self.state.clone();
        let known = state.borrow_and_update().clone();
        let Some(keys) = &known.keys else { return Err("oidc: authenticator not initialized".to_owned()) };
        if let Some(claims) = verified(jws, keys) {
            return Ok(claims);
        }
        let rejected = |error: Option<Arc<str>>| {
            let why =
                error.map_or_else(|| "failed to verify id token signature".into(), |e| format!("fetching keys {e}"));
            Err(format!("oidc: verify token: failed to verify signature: {why}"))
        };
        if known.fresh_until.is_some_and(|until| Instant::now() < until) {
            return rejected(known.error);
        }
        // If the channel is full, the keys are about to be fetched.
        let _ = self.wanted.try_send(());
        let fetched = tokio::time::timeout(TIMEOUT, state.wait_for(|state| state.fetches > known.fetches)).await;
        let Ok(Ok(state)) = fetched.map(|state| state.map(|state| state.clone())) else {
            return rejected(Some("context deadline exceeded".into()));
        };
        match state.keys.as_deref().and_then(|keys| verified(jws, keys)) {
            Some(claims) => Ok(claims),
            None => rejected(state.error),
        }
    }
}

/// Returns the claims of a token that one of the keys has signed; only those with its key ID, if it has one.
fn verified(jws: &Jws<'_>, keys: &[(String, PublicKey)]) -> Option<Claims> {
    let wanted = &jws.header.kid;
    jws.verify(keys.iter().filter(|(id, _)| wanted.is_empty() || id == wanted).map(|(_, key)| key))
}

impl Source {
    /// Loads the discovery document, then the keys, and the keys again on request.
    async fn keep(self, state: watch::Sender<State>, mut wanted: mpsc::Receiver<()>) {
        let mut delay = RETRY.0;
        let url = loop {
            match self.discover().await {
                Ok(url) => break url,
                Err(error) => {
                    tracing::warn!(issuer = self.issuer, error, "failed to load the discovery document of an issuer");
                    state.send_modify(|state| state.error = Some(error.into()));
                    tokio::time::sleep(delay).await;
                    delay = (delay * 2).min(RETRY.1);
                }
            }
        };
        let mut delay = RETRY.0;
        loop {
            let fetched = self.fetch_keys(&url).await;
            state.send_modify(|state| {
                state.fetches += 1;
                match fetched {
                    Ok((keys, fresh)) => {
                        *state = State {
                            keys: Some(Arc::new(keys)),
                            fetches: state.fetches,
                            fresh_until: Some(Instant::now() + fresh),
                            error: None,
                        };
                        delay = RETRY.0;
                    }
                    Err(error) => {
                        tracing::warn!(issuer = self.issuer, error, "failed to fetch the keys of an issuer");
                        state.keys.get_or_insert_default();
                        state.fresh_until = Some(Instant::now() + delay);
                        state.error = Some(error.into());
                        delay = (delay * 2).min(RETRY.1);
                    }
                }
            });
            if wanted.recv().await.is_none() {
                return;
            }
        }
    }

    async fn get(&self, url: &str) -> Result<(Fetch, Value), String> {
        let answer = self.remote.get(url, TIMEOUT, MAX_SIZE).await?;
        if answer.status != http::StatusCode::OK {
            let body = String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)]).into_owned();
            return Err(format!("{}: {body}", answer.status));
        }
        let document =
            serde_json::from_slice(&answer.body).map_err(|error| format!("expected JSON from {url}: {error}"))?;
        Ok((answer, document))
    }

    /// Returns the URL of the keys.
    async fn discover(&self) -> Result<String, String> {
        let (_, document) = self.get(&self.discovery_url).await?;
        let text = |field: &str| document[field].as_str().unwrap_or_default();
        if text("issuer") != self.issuer {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {:?} got {:?}",
                self.issuer,
                text("issuer")
            ));
        }
        match text("jwks_uri") {
            "" => Err("provider did not return JWKS URL".to_owned()),
            url => Ok(url.to_owned()),
        }
    }

    /// Returns the keys that can be used, and how long they are fresh.
    async fn fetch_keys(&self, url: &str) -> Result<(Vec<(String, PublicKey)>, Duration), String> {
        let (answer, document) = self.get(url).await.map_err(|error| format!("oidc: get keys failed {error}"))?;
        let keys = document["keys"].as_array().ok_or("oidc: failed to decode keys")?;
        let mut usable = Vec::new();
        for key in keys.iter().take(MAX_KEYS) {
            let id = key["kid"].as_str().unwrap_or_default().to_owned();
            let parsed = serde_json::from_value::<Jwk>(key.clone()).map_err(|error| error.to_string());
            match parsed.and_then(|jwk| PublicKey::from_jwk(&jwk).map_err(|error| error.to_string())) {
                Ok(key) => usable.push((id, key)),
                Err(error) => tracing::warn!(issuer = self.issuer, id, error, "skipping a key that cannot be used"),
            }
        }
        Ok((usable, freshness(&answer)))
    }
}

/// Returns how long keys are fresh, according to the header `Cache-Control`.
fn freshness(answer: &Fetch) -> Duration {
    let control = answer.headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let directives = control.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    let mut seconds = 0;
    for directive in directives {
        match directive.strip_prefix("max-age=") {
            Some(age) => seconds = age.parse().unwrap_or(0),
            None if matches!(directive.as_str(), "no-store" | "no-cache") => return FRESH,
            None => {}
        }
    }
    Duration::from_secs(seconds).saturating_sub(EARLIER).clamp(FRESH, MAX_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_fresh_as_long_as_the_issuer_says() {
        let fresh = |control: &'static str| {
            let mut headers = http::HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static(control));
            let answer = Fetch { status: http::StatusCode::OK, headers, body: bytes::Bytes::new() };
            freshness(&answer).as_secs()
        };
        assert_eq!(fresh(""), 1);
        assert_eq!(fresh("public, max-age=100"), 70);
        assert_eq!(fresh("Max-Age=31, must-revalidate"), 1);
        assert_eq!(fresh("max-age=100, no-store"), 1);
        assert_eq!(fresh("max-age=99999999999999"), 86_400);
        assert_eq!(fresh("max-age=-1"), 1);
    }
}
