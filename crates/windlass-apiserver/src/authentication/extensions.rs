//! Token authenticators that are added to the server's own: JWT issuers and webhooks.

use std::sync::Arc;

use super::{
    Authenticated, TokenAuthenticator,
    remembered::{Key, Remembered},
};

/// Token authenticators whose work is expensive. Their successes are cached for ten seconds, as in kube-apiserver;
/// failures are not.
#[derive(Default)]
pub(crate) struct TokenAuthenticators {
    authenticators: Vec<Arc<dyn TokenAuthenticator>>,
    remembered: Remembered<Authenticated>,
}

impl TokenAuthenticators {
    pub(crate) fn new(authenticators: Vec<Arc<dyn TokenAuthenticator>>) -> Self {
        Self { authenticators, ..Self::default() }
    }

    /// Tries the authenticators in order. Returns all of their errors if none accepts the token.
    pub(crate) async fn authenticate(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<Option<Authenticated>, Vec<String>> {
        if self.authenticators.is_empty() {
            return Ok(None);
        }
        let key = Key::of(token, audiences);
        if let Some(known) = self.remembered.get(&key) {
            return Ok(Some(known));
        }
        let mut errors = Vec::new();
        for authenticator in &self.authenticators {
            match authenticator.authenticate(token, audiences).await {
                Ok(Some(authenticated)) => {
                    self.remembered.insert(key, authenticated.clone());
                    return Ok(Some(authenticated));
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(None) } else { Err(errors) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::{authentication::remembered::REMEMBERED, user::User};

    /// Knows the token `good`, fails for `bad`, and counts how often it is called.
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
