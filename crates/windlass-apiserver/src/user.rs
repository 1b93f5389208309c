//! Who asks.

use std::collections::BTreeMap;

/// The identity behind a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The name.
    pub name: String,
    /// The unique id, where the authenticator knows one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The administrator that in-process clients act as.
    pub fn admin() -> Self {
        Self {
            name: "admin".to_owned(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            ..Self::default()
        }
    }

    /// The server itself, when it writes what its answers depend on.
    pub(crate) fn apiserver() -> Self {
        Self { name: "system:apiserver".to_owned(), groups: vec!["system:masters".to_owned()], ..Self::default() }
    }

    /// Somebody who showed no credentials.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// Whether this is [`User::anonymous`].
    pub fn is_anonymous(&self) -> bool {
        self.name == "system:anonymous"
    }
}
