//! Validation with kube-apiserver's field errors, which also compiles the expressions.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_cel::authentication::{Expression, Returns, Variable};
use windlass_schema::{
    field::{ErrorList, FieldError, Path},
    go_url, names,
};

use super::{
    AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, Issuer, JwtAuthenticator,
    PrefixedClaimOrExpression, UserValidationRule,
};
use crate::webhooks::authorities;

/// Maximum number of issuers.
const MAX_ISSUERS: usize = 64;
/// The characters of a path in keys of `extra`.
const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";

/// An issuer with its compiled expressions.
#[derive(Debug, Default)]
pub(in super::super) struct Compiled {
    pub(in super::super) configuration: JwtAuthenticator,
    pub(in super::super) username: Option<Expression>,
    pub(in super::super) groups: Option<Expression>,
    pub(in super::super) uid: Option<Expression>,
    /// Keys with their expressions.
    pub(in super::super) extra: Vec<(String, Expression)>,
    /// Rules with the messages for their failures.
    pub(in super::super) claim_rules: Vec<(Expression, String)>,
    pub(in super::super) user_rules: Vec<(Expression, String)>,
}

/// Validates a configuration, and compiles its issuers; the result is of use only if there are no errors.
pub(super) fn validate(
    configuration: &AuthenticationConfiguration,
    reserved: &[&str],
    errors: &mut ErrorList,
) -> Vec<Compiled> {
    let root = Path::new("jwt");
    let issuers = &configuration.jwt;
    if issuers.len() > MAX_ISSUERS {
        errors.push(FieldError::too_many(&root, issuers.len(), MAX_ISSUERS));
        return Vec::new();
    }
    let (mut urls, mut discovery_urls) = (BTreeSet::new(), BTreeSet::new());
    let mut compiled = Vec::with_capacity(issuers.len());
    for (index, authenticator) in issuers.iter().enumerate() {
        let path = root.index(index);
        compiled.push(validate_authenticator(authenticator, reserved, &path, errors));
        let Issuer { url, discovery_url, .. } = &authenticator.issuer;
        if !urls.insert(url) {
            errors.push(FieldError::duplicate(&path.child("issuer").child("url"), &url.as_str().into()));
        }
        if !discovery_url.is_empty() && !discovery_urls.insert(discovery_url) {
            let at = path.child("issuer").child("discoveryURL");
            errors.push(FieldError::duplicate(&at, &discovery_url.as_str().into()));
        }
    }
    if let Some(anonymous) = &configuration.anonymous
        && !anonymous.enabled
        && !anonymous.conditions.is_empty()
    {
        let shown: Vec<Value> = anonymous.conditions.iter().map(|condition| json!({"Path": condition.path})).collect();
        let at = Path::new("anonymous").child("conditions");
        let why = "enabled should be set to true when conditions are defined";
        errors.push(FieldError::invalid(&at, &shown.into(), why));
    }
    compiled
}

fn validate_authenticator(
    authenticator: &JwtAuthenticator,
    reserved: &[&str],
    path: &Path,
    errors: &mut ErrorList,
) -> Compiled {
    let JwtAuthenticator { issuer, claim_validation_rules, claim_mappings, user_validation_rules } = authenticator;
    let mut compiled = Compiled { configuration: authenticator.clone(), ..Compiled::default() };
    validate_issuer(issuer, reserved, &path.child("issuer"), errors);
    compiled.claim_rules = validate_claim_rules(claim_validation_rules, &path.child("claimValidationRules"), errors);
    validate_mappings(claim_mappings, &mut compiled, &path.child("claimMappings"), errors);
    compiled.user_rules = validate_user_rules(user_validation_rules, &path.child("userValidationRules"), errors);
    compiled
}

fn invalid(errors: &mut ErrorList, path: &Path, value: &str, detail: impl Into<String>) {
    errors.push(FieldError::invalid(path, &value.into(), detail));
}

fn validate_issuer(issuer: &Issuer, reserved: &[&str], path: &Path, errors: &mut ErrorList) {
    let at = path.child("url");
    match issuer.url.as_str() {
        "" => errors.push(FieldError::required(&at, "")),
        url => validate_url(url, reserved, &at, errors),
    }
    let discovery_url = issuer.discovery_url.as_str();
    if !discovery_url.is_empty() {
        let at = path.child("discoveryURL");
        if !issuer.url.is_empty() && issuer.url.trim_end_matches('/') == discovery_url.trim_end_matches('/') {
            invalid(errors, &at, discovery_url, "discoveryURL must be different from URL");
        }
        validate_url(discovery_url, &[], &at, errors);
    }
    validate_audiences(issuer, path, errors);
    if let Err(error) = authorities(issuer.certificate_authority.as_bytes()) {
        invalid(errors, &path.child("certificateAuthority"), "<omitted>", error);
    }
    if !matches!(issuer.egress_selector_type.as_str(), "" | "controlplane" | "cluster") {
        let why = "egress selector must be either controlplane or cluster";
        invalid(errors, &path.child("egressSelectorType"), &issuer.egress_selector_type, why);
    }
}

fn validate_url(text: &str, reserved: &[&str], path: &Path, errors: &mut ErrorList) {
    if reserved.contains(&text) {
        let mut sorted = reserved.to_vec();
        sorted.sort_unstable();
        let why = format!("URL must not overlap with disallowed issuers: [{}]", sorted.join(" "));
        invalid(errors, path, text, why);
    }
    let url = match go_url::parse(text) {
        Ok(url) => url,
        Err(error) => return invalid(errors, path, text, error),
    };
    for (failed, why) in [
        (url.scheme != "https", "URL scheme must be https"),
        (url.user.is_some(), "URL must not contain a username or password"),
        (!url.query.is_empty(), "URL must not contain a query"),
        (!url.fragment.is_empty(), "URL must not contain a fragment"),
    ] {
        if failed {
            invalid(errors, path, text, why);
        }
    }
}

fn validate_audiences(issuer: &Issuer, path: &Path, errors: &mut ErrorList) {
    let Issuer { audiences, audience_match_policy: policy, .. } = issuer;
    let at = path.child("audiences");
    if audiences.is_empty() {
        return errors.push(FieldError::required(&at, format!("at least one {at} is required")));
    }
    let mut seen = BTreeSet::new();
    for (index, audience) in audiences.iter().enumerate() {
        if audience.is_empty() {
            errors.push(FieldError::required(&at.index(index), ""));
        }
        if !seen.insert(audience) {
            errors.push(FieldError::duplicate(&at.index(index), &audience.as_str().into()));
        }
    }
    let at = path.child("audienceMatchPolicy");
    match (audiences.len(), policy.as_str()) {
        (_, "MatchAny") | (1, "") => {}
        (1, other) => invalid(errors, &at, other, "audienceMatchPolicy must be empty or MatchAny for single audience"),
        (_, other) => invalid(errors, &at, other, "audienceMatchPolicy must be MatchAny for multiple audiences"),
    }
}

/// Compiles an expression; its error is a field error.
fn compile(
    text: &str,
    variable: Variable,
    returns: Returns,
    path: &Path,
    errors: &mut ErrorList,
) -> Option<Expression> {
    Expression::compile(text, variable, returns).map_err(|error| invalid(errors, path, text, error)).ok()
}

fn validate_claim_rules(
    rules: &[ClaimValidationRule],
    path: &Path,
    errors: &mut ErrorList,
) -> Vec<(Expression, String)> {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    let mut compiled = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let at = path.index(index);
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.push(FieldError::required(&at, "claim or expression is required")),
            (claim, "") => {
                if !rule.message.is_empty() {
                    invalid(errors, &at.child("message"), &rule.message, "may not be specified when claim is set");
                }
                if !claims.insert(claim) {
                    errors.push(FieldError::duplicate(&at.child("claim"), &claim.into()));
                }
            }
            ("", expression) => {
                if !rule.required_value.is_empty() {
                    let why = "may not be specified when expression is set";
                    invalid(errors, &at.child("requiredValue"), &rule.required_value, why);
                }
                let at = at.child("expression");
                if !expressions.insert(expression) {
                    errors.push(FieldError::duplicate(&at, &expression.into()));
                    continue;
                }
                let rule = compile(expression, Variable::Claims, Returns::Bool, &at, errors)
                    .map(|expression| (expression, rule.message.clone()));
                compiled.extend(rule);
            }
            (claim, _) => invalid(errors, &at, claim, "claim and expression can't both be set"),
        }
    }
    compiled
}

fn validate_mappings(mappings: &ClaimMappings, compiled: &mut Compiled, path: &Path, errors: &mut ErrorList) {
    compiled.username = validate_prefixed(&mappings.username, true, &path.child("username"), errors);
    compiled.groups = validate_prefixed(&mappings.groups, false, &path.child("groups"), errors);
    let at = path.child("uid");
    match (mappings.uid.claim.as_str(), mappings.uid.expression.as_str()) {
        (_, "") => {}
        ("", text) => {
            compiled.uid = compile(text, Variable::Claims, Returns::Any, &at.child("expression"), errors);
        }
        _ => invalid(errors, &at, "", "claim and expression can't both be set"),
    }
    let mut keys = BTreeSet::new();
    for (index, mapping) in mappings.extra.iter().enumerate() {
        let at = path.child("extra").index(index);
        let (key, key_path) = (mapping.key.as_str(), at.child("key"));
        validate_key(key, &key_path, errors);
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(&key_path, &key.into()));
            continue;
        }
        let at = at.child("valueExpression");
        if mapping.value_expression.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let expression = compile(&mapping.value_expression, Variable::Claims, Returns::Any, &at, errors);
        compiled.extra.extend(expression.map(|expression| (key.to_owned(), expression)));
    }
    let username = compiled.username.as_ref();
    let uses_email = username.is_some_and(Expression::uses_email);
    let mut all = username.into_iter().chain(compiled.extra.iter().map(|(_, expression)| expression));
    let verified = all.any(Expression::uses_email_verified)
        || compiled.claim_rules.iter().any(|(expression, _)| expression.uses_email_verified());
    if uses_email && !verified {
        let why = "claims.email_verified must be used in claimMappings.username.expression or \
                   claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is \
                   used in claimMappings.username.expression";
        invalid(errors, &path.child("username").child("expression"), &mappings.username.expression, why);
    }
}

/// Validates a key of `extra`: a path below a domain, in lower case, not reserved for Kubernetes.
fn validate_key(key: &str, path: &Path, errors: &mut ErrorList) {
    let parts = key.split_once('/');
    match parts.filter(|(host, rest)| !host.is_empty() && !rest.is_empty()) {
        _ if key.is_empty() => errors.push(FieldError::required(path, "")),
        None => invalid(errors, path, key, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
        Some((host, rest)) => {
            for why in names::is_dns1123_subdomain(host) {
                invalid(errors, path, host, why);
            }
            if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
                invalid(errors, path, rest, names::regex_error("Invalid path", PATH, &[]));
            }
        }
    }
    if key != key.to_lowercase() {
        invalid(errors, path, key, "must be lowercase");
    }
    let host = parts.map_or("", |(host, _)| host);
    if ["kubernetes.io", "k8s.io"].iter().any(|domain| {
        host.strip_suffix(domain).is_some_and(|subdomain| subdomain.is_empty() || subdomain.ends_with('.'))
    }) {
        let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
        invalid(errors, path, key, why);
    }
}

fn validate_prefixed(
    mapping: &PrefixedClaimOrExpression,
    required: bool,
    path: &Path,
    errors: &mut ErrorList,
) -> Option<Expression> {
    match (mapping.claim.as_str(), mapping.expression.as_str(), &mapping.prefix) {
        ("", "", _) if required => errors.push(FieldError::required(path, "claim or expression is required")),
        ("", "", _) | (_, "", Some(_)) => {}
        (_, "", None) => {
            let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
            errors.push(FieldError::required(&path.child("prefix"), why));
        }
        ("", text, prefix) => {
            if let Some(prefix) = prefix {
                invalid(errors, &path.child("prefix"), prefix, "may not be specified when expression is set");
                // kube-apiserver reports nothing else about an expression with a prefix, but compiles it.
            }
            return compile(text, Variable::Claims, Returns::Any, &path.child("expression"), errors)
                .filter(|_| prefix.is_none());
        }
        _ => invalid(errors, path, "", "claim and expression can't both be set"),
    }
    None
}

fn validate_user_rules(rules: &[UserValidationRule], path: &Path, errors: &mut ErrorList) -> Vec<(Expression, String)> {
    let mut seen = BTreeSet::new();
    let mut compiled = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let (text, at) = (rule.expression.as_str(), path.index(index).child("expression"));
        if text.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !seen.insert(text) {
            errors.push(FieldError::duplicate(&at, &text.into()));
        } else {
            let expression = compile(text, Variable::User, Returns::Bool, &at, errors);
            compiled.extend(expression.map(|expression| (expression, rule.message.clone())));
        }
    }
    compiled
}
