//! Requests without credentials.

use std::sync::Arc;

use crate::user::User;

/// Whether requests without credentials are allowed to be anonymous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnonymousOptions {
    /// Whether requests without credentials are handled as `system:anonymous`; otherwise they are rejected with 401.
    pub enabled: bool,
    /// Paths to which this applies; all if empty.
    pub paths: Vec<String>,
}

impl Default for AnonymousOptions {
    fn default() -> Self {
        Self { enabled: true, paths: Vec::new() }
    }
}

/// Authenticates requests without credentials.
pub(super) struct Anonymous {
    options: AnonymousOptions,
    user: Arc<User>,
}

impl Anonymous {
    pub(super) fn new(options: AnonymousOptions) -> Self {
        Self { options, user: Arc::new(User::anonymous()) }
    }

    /// Returns the anonymous user, if requests for this path may be anonymous.
    pub(super) fn authenticate(&self, path: &str) -> Option<Arc<User>> {
        let AnonymousOptions { enabled, paths } = &self.options;
        let allowed = *enabled && (paths.is_empty() || paths.iter().any(|allowed| allowed == path));
        allowed.then(|| self.user.clone())
    }
}
