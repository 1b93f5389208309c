//! The AuthenticationConfiguration file: issuers of JSON web tokens, and anonymous requests. Pure.

mod table;
mod validation;

use serde::Deserialize;
use windlass_schema::{
    decode::{self, Storage},
    field::ErrorList,
    json, yaml,
};

pub(super) use self::validation::Compiled;

/// The group of the file.
const GROUP: &str = "apiserver.config.k8s.io";
/// The versions of the kind, which are equal.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
/// Other kinds of configuration files of kube-apiserver.
const OTHER_KINDS: [&str; 5] = [
    "AdmissionConfiguration",
    "AuthorizationConfiguration",
    "EgressSelectorConfiguration",
    "EncryptionConfiguration",
    "TracingConfiguration",
];
/// The largest accepted file, in bytes.
pub(crate) const MAX_FILE: usize = 4 << 20;

/// Authenticators that a file or flags configure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuthenticationConfiguration {
    /// The issuers of tokens.
    pub jwt: Vec<JwtAuthenticator>,
    /// Anonymous requests; `None` leaves them as the flags say.
    pub anonymous: Option<AnonymousAuthentication>,
}

/// Requests without credentials that are accepted as `system:anonymous`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AnonymousAuthentication {
    /// Whether there are any.
    pub enabled: bool,
    /// If there are conditions, only requests that meet one of them.
    pub conditions: Vec<AnonymousCondition>,
}

/// A condition on anonymous requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AnonymousCondition {
    /// The path of the request.
    pub path: String,
}

/// An issuer of tokens, and the mapping of their claims to users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JwtAuthenticator {
    /// The issuer.
    pub issuer: Issuer,
    /// Rules that the claims must meet.
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// The mapping of claims to a user.
    pub claim_mappings: ClaimMappings,
    /// Rules that the user must meet.
    pub user_validation_rules: Vec<UserValidationRule>,
}

/// An OpenID Connect provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Issuer {
    /// The claim `iss`, and the base of the discovery document's URL.
    pub url: String,
    /// The URL of the discovery document, if it is not below `url`.
    #[serde(rename = "discoveryURL")]
    pub discovery_url: String,
    /// Certificate authorities in PEM for the provider's certificate; those of the system if empty.
    pub certificate_authority: String,
    /// Acceptable values of the claim `aud`.
    pub audiences: Vec<String>,
    /// `MatchAny`, or empty.
    pub audience_match_policy: String,
    /// The egress proxy; there is none, so this must be empty.
    pub egress_selector_type: String,
}

/// A rule that the claims of a token must meet: a claim with a value, or an expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimValidationRule {
    /// The name of a claim.
    pub claim: String,
    /// Its value.
    pub required_value: String,
    /// A CEL expression over `claims`.
    pub expression: String,
    /// The reason for a rejection by the expression.
    pub message: String,
}

/// The mapping of claims to a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimMappings {
    /// The name.
    pub username: PrefixedClaimOrExpression,
    /// The groups.
    pub groups: PrefixedClaimOrExpression,
    /// The unique ID.
    pub uid: ClaimOrExpression,
    /// Further attributes.
    pub extra: Vec<ExtraMapping>,
}

/// A claim with a prefix, or an expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PrefixedClaimOrExpression {
    /// The name of a claim.
    pub claim: String,
    /// The prefix of its value; required with a claim.
    pub prefix: Option<String>,
    /// A CEL expression over `claims`.
    pub expression: String,
}

/// A claim or an expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimOrExpression {
    /// The name of a claim.
    pub claim: String,
    /// A CEL expression over `claims`.
    pub expression: String,
}

/// An extra attribute of users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtraMapping {
    /// The key, which begins with a domain.
    pub key: String,
    /// A CEL expression over `claims`.
    pub value_expression: String,
}

/// A rule that the user of a token must meet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UserValidationRule {
    /// A CEL expression over `user`.
    pub expression: String,
    /// The reason for a rejection.
    pub message: String,
}

/// Reasons why a configuration cannot be used, worded as in kube-apiserver.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigurationError {
    /// The file is not an AuthenticationConfiguration.
    #[error("{0}")]
    Decode(String),
    /// Fields have invalid values.
    #[error("invalid authentication configuration: {}", list(.0))]
    Invalid(ErrorList),
    /// An issuer cannot be used.
    #[error("{0}")]
    Issuer(String),
}

/// Formats errors as a list without duplicates; a single one is not in brackets.
fn list(errors: &ErrorList) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if let [only] = &texts[..] { only.clone() } else { format!("[{}]", texts.join(", ")) }
}

impl AuthenticationConfiguration {
    /// Parses a file in YAML or JSON, without validating its values.
    ///
    /// # Errors
    /// Returns an error if it is not a configuration of a known version, or has unknown fields.
    pub fn parse(bytes: &[u8]) -> Result<Self, ConfigurationError> {
        Self::decode(bytes).map_err(ConfigurationError::Decode)
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.is_empty() {
            return Err("empty config data".to_owned());
        }
        if bytes.len() > MAX_FILE {
            return Err(format!("the file is larger than {MAX_FILE} bytes"));
        }
        let document = match json::parse(bytes) {
            Ok(document) => document,
            Err(_) => yaml::parse(bytes).map_err(|error| error.to_string())?,
        };
        let given = decode::type_meta(&document.value)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        let text = || String::from_utf8_lossy(bytes);
        if given.kind.is_empty() {
            return Err(format!("Object 'Kind' is missing in '{}'", text()));
        }
        if given.api_version.is_empty() {
            return Err(format!("Object 'apiVersion' is missing in '{}'", text()));
        }
        let (group, version) = given.api_version.split_once('/').unwrap_or(("", &given.api_version));
        let known = group == GROUP && VERSIONS.contains(&version);
        if known && OTHER_KINDS.contains(&given.kind.as_str()) {
            return Err(format!("expected AuthenticationConfiguration, got *apiserver.{}", given.kind));
        }
        if !known || given.kind != "AuthenticationConfiguration" {
            return Err(format!(
                "no kind \"{}\" is registered for version \"{}\" in scheme \"pkg/runtime/scheme.go:111\"",
                given.kind, given.api_version
            ));
        }
        let decoded = decode::decode(document, table::ROOT, &table::TABLE, Storage::Json);
        if let Some(error) = decoded.error {
            return Err(error);
        }
        if !decoded.strict.is_empty() {
            return Err(format!("strict decoding error: {}", decoded.strict.join(", ")));
        }
        serde_json::from_value(decoded.value).map_err(|error| error.to_string())
    }

    /// Validates the values and compiles the expressions.
    ///
    /// # Errors
    /// Returns an error if a value is invalid, or an issuer is one of `reserved`.
    pub(super) fn compile(&self, reserved: &[&str]) -> Result<Vec<Compiled>, ConfigurationError> {
        let mut errors = ErrorList::new();
        let compiled = validation::validate(self, reserved, &mut errors);
        if !errors.is_empty() {
            return Err(ConfigurationError::Invalid(errors));
        }
        for JwtAuthenticator { issuer, .. } in &self.jwt {
            if !issuer.egress_selector_type.is_empty() {
                let kind = &issuer.egress_selector_type;
                let why = format!("oidc: egress lookup required with egress selector type {kind:?}");
                return Err(ConfigurationError::Issuer(why));
            }
        }
        Ok(compiled)
    }

    /// Returns an error if the configuration cannot be used by a server whose own tokens have these issuers.
    ///
    /// # Errors
    /// Returns an error if a value is invalid, or an issuer is one of `reserved`.
    pub fn validate(&self, reserved: &[&str]) -> Result<(), ConfigurationError> {
        self.compile(reserved).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
