//! The rules of roles, and those of a user.

use serde::{Deserialize, Deserializer};

/// A rule of a role: verbs on resources or on paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// The verbs; `*` is any.
    #[serde(deserialize_with = "list")]
    pub verbs: Vec<Box<str>>,
    /// The API groups; `*` is any.
    #[serde(deserialize_with = "list")]
    pub api_groups: Vec<Box<str>>,
    /// The resources, as `resource`, `resource/subresource`, `*/subresource` or `*`.
    #[serde(deserialize_with = "list")]
    pub resources: Vec<Box<str>>,
    /// The names of the objects; empty for all of them.
    #[serde(deserialize_with = "list")]
    pub resource_names: Vec<Box<str>>,
    /// The paths that are not a resource's; `*` at the end is anything.
    #[serde(rename = "nonResourceURLs", deserialize_with = "list")]
    pub non_resource_urls: Vec<Box<str>>,
}

impl PolicyRule {
    /// Returns the lists with their names in objects.
    pub(crate) fn fields(&self) -> [(&'static str, &[Box<str>]); 5] {
        [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ]
    }
}

/// Reads a list that may be null.
fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Box<str>>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Permissions of a user in a namespace, as far as an authorizer can determine them without a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserRules {
    /// The rules. A request is allowed if any of them matches.
    pub rules: Vec<PolicyRule>,
    /// Whether there may be more that the user is allowed to do.
    pub is_incomplete: bool,
    /// Reason why the rules may not be complete.
    pub error: Option<String>,
}

impl UserRules {
    /// Returns the rules of an authorizer that decides about requests only. The name is the kind of authorizer:
    /// `webhook`.
    pub fn unsupported(authorizer: &str) -> Self {
        let error = format!("{authorizer} authorizer does not support user rule resolution");
        Self { rules: Vec::new(), is_incomplete: true, error: Some(error) }
    }
}
