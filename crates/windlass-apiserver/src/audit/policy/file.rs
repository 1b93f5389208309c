//! Decodes policy files: strictly for complaints, leniently for the policy, as kube-apiserver does.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use windlass_schema::{
    decode,
    json::{self, Document},
    yaml,
};

use super::PolicyFile;

const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "Policy";

/// Reasons why a policy cannot be used, worded as in kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(String);

impl PolicyError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Returns advice on how to repair the policy.
    pub fn hint(&self) -> &'static str {
        match &*self.0 {
            text if text.starts_with("failed decoding") || text.starts_with("unknown group version") => {
                "a policy begins with \"apiVersion: audit.k8s.io/v1\" and \"kind: Policy\", and has a list of rules"
            }
            text if text.contains("0 rules") => "add a rule, such as \"rules: [{level: Metadata}]\" for all requests",
            _ => "a rule has a level (None, Metadata, Request or RequestResponse) and the requests it matches",
        }
    }
}

/// Decodes null as the default, as Go does.
pub(super) fn nullable<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Returns the fields of a policy, and the complaints of a strict decoder.
pub(super) fn decode(text: &[u8]) -> Result<(PolicyFile, Vec<String>), PolicyError> {
    let failed = |why: String| PolicyError::new(format!("failed decoding: {why}"));
    let document: Document<'_> = match json::parse(text) {
        Ok(document) => document,
        Err(_) => yaml::parse(text).map_err(|error| failed(error.to_string()))?,
    };
    let given = decode::type_meta(&document.value)
        .map_err(|error| failed(format!("couldn't get version/kind; json parse error: {error}")))?;
    let kind = if given.kind.is_empty() { KIND } else { &given.kind };
    if given.api_version.is_empty() {
        // Such a file is decoded as the internal version.
        return Err(PolicyError::new(format!(
            "unknown group version field audit.k8s.io/__internal, Kind={kind} in policy"
        )));
    }
    if given.api_version != API_VERSION || kind != KIND {
        return Err(failed(format!(
            "no kind \"{kind}\" is registered for version \"{}\" in scheme \"pkg/runtime/scheme.go:111\"",
            given.api_version
        )));
    }
    let mut complaints = document.duplicates();
    unknown_fields(&document.value, &mut complaints);
    let file = PolicyFile::deserialize(&document.value).map_err(|error| failed(error.to_string()))?;
    Ok((file, complaints))
}

fn unknown_fields(policy: &Value, complaints: &mut Vec<String>) {
    let mut check = |at: &str, object: &Value, known: &[&str]| {
        let fields = object.as_object().into_iter().flatten().map(|(name, _)| name);
        let prefix = if at.is_empty() { String::new() } else { format!("{at}.") };
        let unknown = fields.filter(|name| !known.contains(&name.as_str()));
        complaints.extend(unknown.map(|name| format!("unknown field \"{prefix}{name}\"")));
    };
    check("", policy, &["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"]);
    for (index, rule) in policy["rules"].as_array().into_iter().flatten().enumerate() {
        let known = [
            "level",
            "users",
            "userGroups",
            "verbs",
            "resources",
            "namespaces",
            "nonResourceURLs",
            "omitStages",
            "omitManagedFields",
        ];
        check(&format!("rules[{index}]"), rule, &known);
        for (of, resources) in rule["resources"].as_array().into_iter().flatten().enumerate() {
            let at = format!("rules[{index}].resources[{of}]");
            check(&at, resources, &["group", "resources", "resourceNames"]);
        }
    }
}
