//! Results that are used again for ten seconds, as in kube-apiserver.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which a result is used again.
pub(super) const REMEMBERED: Duration = Duration::from_secs(10);
/// The number of results that are kept.
const CAPACITY: usize = 4096;

/// Results by the tokens and audiences that they are for.
pub(super) struct Remembered<T>(Mutex<HashMap<Key, (Instant, T)>>);

/// A digest of a token and its audiences: tokens themselves are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn of(token: &str, audiences: &[&str]) -> Self {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        for part in std::iter::once(&token).chain(audiences) {
            context.update(&part.len().to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.finish().as_ref());
        Self(key)
    }
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Remembered<T> {
    pub(super) fn get(&self, key: &Key) -> Option<T> {
        let remembered = self.0.lock();
        let (since, result) = remembered.get(key)?;
        (since.elapsed() < REMEMBERED).then(|| result.clone())
    }

    pub(super) fn insert(&self, key: Key, result: T) {
        let mut remembered = self.0.lock();
        if remembered.len() >= CAPACITY {
            remembered.retain(|_, (since, _)| since.elapsed() < REMEMBERED);
        }
        if remembered.len() < CAPACITY {
            remembered.insert(key, (Instant::now(), result));
        }
    }
}
