//! Bearer tokens: the authenticators that are asked, and the users that they have found lately.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Authenticated, TokenAuthenticator};

/// How long the result of a token authenticator is used again.
const REMEMBERED: Duration = Duration::from_secs(10);
/// The number of results that are kept.
const CAPACITY: usize = 4096;

/// The token authenticators of a server whose work is expensive: remote ones, and those that verify signatures. Their
/// successes are remembered for ten seconds, as in kube-apiserver; failures are not.
#[derive(Default)]
pub(crate) struct TokenAuthenticators {
    authenticators: Vec<Arc<dyn TokenAuthenticator>>,
    remembered: Mutex<HashMap<Key, (Instant, Authenticated)>>,
}

/// A digest of a token and its audiences: tokens themselves are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key([u8; 32]);

impl Key {
    fn of(token: &str, audiences: &[&str]) -> Self {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        for part in [&[token][..], audiences].concat() {
            context.update(&part.len().to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.finish().as_ref());
        Self(key)
    }
}

impl TokenAuthenticators {
    pub(crate) fn new(authenticators: Vec<Arc<dyn TokenAuthenticator>>) -> Self {
        Self { authenticators, ..Self::default() }
    }

    /// Asks the authenticators in order. Returns the errors of all if none knows the token.
    pub(crate) async fn authenticate(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<Option<Authenticated>, Vec<String>> {
        if self.authenticators.is_empty() {
            return Ok(None);
        }
        let key = Key::of(token, audiences);
        if let Some(known) = self.recall(&key) {
            return Ok(Some(known));
        }
        let mut errors = Vec::new();
        for authenticator in &self.authenticators {
            match authenticator.authenticate(token, audiences).await {
                Ok(Some(authenticated)) => {
                    self.remember(key, &authenticated);
                    return Ok(Some(authenticated));
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(None) } else { Err(errors) }
    }

    fn recall(&self, key: &Key) -> Option<Authenticated> {
        let remembered = self.remembered.lock();
        let (since, authenticated) = remembered.get(key)?;
        (since.elapsed() < REMEMBERED).then(|| authenticated.clone())
    }

    fn remember(&self, key: Key, authenticated: &Authenticated) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= CAPACITY {
            remembered.retain(|_, (since, _)| since.elapsed() < REMEMBERED);
        }
        if remembered.len() < CAPACITY {
            remembered.insert(key, (Instant::now(), authenticated.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::user::User;

    /// Knows the token `good`, fails for `bad`, and counts how often it is asked.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl TokenAuthenticator for Counting {
        fn authenticate<'a>(
            &'a self,
            token: &'a str,
            _: &'a [&'a str],
        ) -> BoxFuture<'a, Result<Option<Authenticated>, String>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let user = User { name: "eve".to_owned(), ..User::default() };
            Box::pin(std::future::ready(match token {
                "good" => Ok(Some(Authenticated { user, audiences: None })),
                "bad" => Err("bad".to_owned()),
                _ => Ok(None),
            }))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn successes_are_remembered_for_ten_seconds_and_failures_are_not() {
        let counting = Arc::new(Counting::default());
        let tokens = TokenAuthenticators::new(vec![counting.clone()]);
        let count = || counting.0.load(Ordering::Relaxed);
        assert!(tokens.authenticate("good", &["a"]).await.unwrap().is_some());
        assert!(tokens.authenticate("good", &["a"]).await.unwrap().is_some());
        assert_eq!(count(), 1);
        assert!(tokens.authenticate("good", &["b"]).await.unwrap().is_some());
        assert_eq!(count(), 2, "other audiences are another question");
        tokio::time::advance(REMEMBERED).await;
        assert!(tokens.authenticate("good", &["a"]).await.unwrap().is_some());
        assert_eq!(count(), 3);
        for _ in 0..2 {
            assert_eq!(tokens.authenticate("bad", &["a"]).await, Err(vec!["bad".to_owned()]));
            assert_eq!(tokens.authenticate("other", &["a"]).await, Ok(None));
        }
        assert_eq!(count(), 7);
    }
}
