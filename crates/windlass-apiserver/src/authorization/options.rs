//! Authorizers and their order.

mod file;
mod validation;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The authorizers of a server, in the order in which they are consulted. Members of `system:masters` are always
/// allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct AuthorizationOptions {
    /// The authorizers.
    pub authorizers: Vec<AuthorizerOptions>,
    /// The AuthorizationConfiguration file that they come from, which is read again when it changes.
    pub file: Option<PathBuf>,
}

/// An authorizer.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthorizerOptions {
    /// Nodes may use their own objects, and objects that their pods need.
    Node,
    /// Roles and their bindings decide.
    Rbac,
    /// Everything is allowed.
    AlwaysAllow,
    /// Nothing is allowed.
    AlwaysDeny,
    /// A webhook decides.
    Webhook(WebhookOptions),
}

/// A webhook that decides.
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookOptions {
    /// The name, in logs.
    pub name: String,
    /// The kubeconfig file with its address and credentials.
    pub kubeconfig: PathBuf,
    /// The version of the SubjectAccessReviews that it gets: `v1` or `v1beta1`.
    pub version: String,
    /// The time limit of a call.
    pub timeout: Duration,
    /// Time for which a permission is cached; zero to disable caching.
    pub authorized_ttl: Duration,
    /// Time for which a denial is cached; zero to disable caching.
    pub unauthorized_ttl: Duration,
    /// Whether a failed call is a denial, instead of no opinion.
    pub denies_on_failure: bool,
    /// CEL expressions over the review; it is consulted only if all hold.
    pub conditions: Vec<String>,
}

impl Default for AuthorizationOptions {
    fn default() -> Self {
        Self { authorizers: vec![AuthorizerOptions::Node, AuthorizerOptions::Rbac], file: None }
    }
}

impl AuthorizationOptions {
    /// Reads an AuthorizationConfiguration file.
    ///
    /// # Errors
    /// Returns kube-apiserver's error if the file is invalid.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
        Ok(Self { authorizers: file::parse(&text)?, file: Some(path.to_owned()) })
    }

    /// Parses the text of an AuthorizationConfiguration file.
    ///
    /// # Errors
    /// Returns kube-apiserver's error if it is invalid.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        Ok(Self { authorizers: file::parse(text)?, file: None })
    }

    /// Returns whether everything is allowed, so that requests without credentials must be rejected.
    pub fn always_allows(&self) -> bool {
        self.authorizers.contains(&AuthorizerOptions::AlwaysAllow)
    }
}

impl AuthorizerOptions {
    /// Returns the type, as in AuthorizationConfigurations.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Rbac => "RBAC",
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Webhook(_) => "Webhook",
        }
    }
}
