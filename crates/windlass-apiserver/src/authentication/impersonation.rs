//! Impersonation: a user who may do so acts as another user.
//!
//! The wanted user is named in headers. The modes are tried in the order of kube-apiserver, beginning with the one with
//! which the requester last succeeded: the constrained ones, which also authorize the request itself under a verb of
//! its own, and the legacy one. If all fail, the error is that of the first mode that applies. Unlike in
//! kube-apiserver, successes are not cached: revoking a permission takes effect at once.

mod mode;
mod wanted;

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use parking_lot::Mutex;

use self::mode::{MODES, Mode};
pub(crate) use self::wanted::wanted;
use crate::{
    authorization::{Action, Authorizer},
    status::{ApiError, Result},
    user::User,
};

/// The number of requesters whose last mode is kept.
const CAPACITY: usize = 10_000;

/// The modes with which requesters last succeeded.
#[derive(Default)]
pub(crate) struct Modes {
    hasher: RandomState,
    last: Mutex<HashMap<u64, usize>>,
}

/// An impersonated user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Impersonated {
    pub(crate) user: Arc<User>,
    /// The verb that allowed it, such as `impersonate:user-info`; empty in the legacy mode.
    pub(crate) constraint: &'static str,
}

impl Modes {
    /// Returns the wanted user, if the requester may act as that user in this request.
    ///
    /// # Errors
    /// The 403 of the first mode that applies.
    pub(crate) async fn impersonate(
        &self,
        authorizer: &dyn Authorizer,
        requester: &User,
        wanted: &User,
        action: &Action<'_>,
    ) -> Result<Impersonated> {
        // A collision only changes the order of the modes.
        let key = self.hasher.hash_one(&requester.name);
        let last = self.last.lock().get(&key).copied();
        let order = last.into_iter().chain((0..MODES.len()).filter(|index| Some(*index) != last));
        let mut first_error: Option<ApiError> = None;
        for index in order {
            let mode: &Mode = &MODES[index];
            if !mode.applies(requester, wanted) {
                continue;
            }
            match mode.check(authorizer, requester, wanted, action).await {
                Ok(user) => {
                    if last != Some(index) {
                        self.remember(key, index);
                    }
                    return Ok(Impersonated { user: Arc::new(user), constraint: mode.constraint });
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.unwrap_or_else(|| ApiError::unexpected("all impersonation modes failed")))
    }

    fn remember(&self, key: u64, index: usize) {
        let mut last = self.last.lock();
        if last.len() >= CAPACITY {
            last.clear();
        }
        last.insert(key, index);
    }
}

#[cfg(test)]
mod tests;
