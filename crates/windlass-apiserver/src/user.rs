//! The user behind a request.

use std::collections::BTreeMap;

/// The user behind a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The name.
    pub name: String,
    /// The unique ID, if the authenticator knows one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
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

    /// The server itself, for writes on its own behalf.
    pub fn apiserver() -> Self {
        Self { name: "system:apiserver".to_owned(), groups: vec!["system:masters".to_owned()], ..Self::default() }
    }

    /// The server itself, when it reads documents of other API servers for its clients.
    pub(crate) fn aggregator() -> Self {
        Self { name: "system:aggregator".to_owned(), ..Self::default() }
    }

    /// A node.
    pub fn node(name: &str) -> Self {
        Self {
            name: format!("system:node:{name}"),
            groups: vec!["system:nodes".to_owned(), "system:authenticated".to_owned()],
            ..Self::default()
        }
    }

    /// A service account.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            ..Self::default()
        }
    }

    /// A component of the control plane, such as `system:kube-scheduler`.
    pub fn component(name: &str) -> Self {
        Self { name: name.to_owned(), groups: vec!["system:authenticated".to_owned()], ..Self::default() }
    }

    /// A user without credentials.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// Returns the user as a member of the group of all authenticated users. Anonymous users are returned
    /// unchanged.
    pub(crate) fn authenticated(mut self) -> Self {
        let stated = |group: &String| group == "system:authenticated" || group == "system:unauthenticated";
        if !self.is_anonymous() && !self.groups.iter().any(stated) {
            self.groups.push("system:authenticated".to_owned());
        }
        self
    }

    /// Returns the name of the node that the user is; `None` if it is not a node.
    pub(crate) fn node_name(&self) -> Option<&str> {
        let name = self.name.strip_prefix("system:node:")?;
        self.groups.iter().any(|group| group == "system:nodes").then_some(name)
    }

    /// Returns whether the user is a member of `system:masters`, whose requests are never limited.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }

    /// Returns whether the user is anonymous, or in the group of unauthenticated users.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        self.is_anonymous() || self.groups.iter().any(|group| group == "system:unauthenticated")
    }

    /// Returns whether this is [`User::anonymous`].
    pub fn is_anonymous(&self) -> bool {
        self.name == "system:anonymous"
    }
}
