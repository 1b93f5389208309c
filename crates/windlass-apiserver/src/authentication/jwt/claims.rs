//! Maps the claims of a verified token to a user. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_cel::authentication::{Expression, Output, as_doubles};

use super::{
    configuration::Compiled,
    token::{Claims, text, texts},
};
use crate::user::User;

const NOT_TEXTS: &str = "expression must return a string or a list of strings";

/// Maps claims to a user, if all rules are met.
///
/// # Errors
/// Returns kube-apiserver's reason for a rejection.
pub(super) fn user(issuer: &Compiled, claims: &Claims) -> Result<User, String> {
    let mappings = &issuer.configuration.claim_mappings;
    distributed(&mappings.groups.claim, claims)?;
    // Useful only to expressions.
    let value = match issuer.uses_expressions() {
        true => as_doubles(Value::Object(claims.clone())),
        false => Value::Null,
    };
    let user = User {
        name: username(issuer, claims, &value)?,
        groups: groups(issuer, claims, &value)?,
        uid: uid(issuer, claims, &value)?,
        extra: extra(issuer, claims, &value)?,
    };
    for rule in issuer.configuration.claim_validation_rules.iter().filter(|rule| !rule.claim.is_empty()) {
        let (claim, wanted) = (&rule.claim, &rule.required_value);
        let Some(value) = claims.get(claim) else {
            return Err(format!("oidc: required claim {claim} not present in ID token"));
        };
        let given = text(value).map_err(|error| format!("oidc: parse claim {claim}: {error}"))?;
        if given != *wanted {
            return Err(format!("oidc: required claim {claim} value does not match. Got = {given}, want = {wanted}"));
        }
    }
    check_rules(&issuer.claim_rules, &value)
        .map_err(|error| format!("oidc: error evaluating claim validation expression: {error}"))?;
    if !issuer.user_rules.is_empty() {
        let value = json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra});
        check_rules(&issuer.user_rules, &value)
            .map_err(|error| format!("oidc: error evaluating user info validation rule: {error}"))?;
    }
    Ok(user)
}

impl Compiled {
    fn uses_expressions(&self) -> bool {
        self.username.is_some()
            || self.groups.is_some()
            || self.uid.is_some()
            || !self.extra.is_empty()
            || !self.claim_rules.is_empty()
    }
}

/// Rejects tokens whose groups are at another server (OpenID Connect Core, section 5.6.2).
fn distributed(groups: &str, claims: &Claims) -> Result<(), String> {
    let named = claims.get("_claim_names").and_then(|names| names.get(groups)).is_some();
    match !groups.is_empty() && named && !claims.contains_key(groups) {
        true => Err("oidc: could not expand distributed claims: distributed claims are not supported".to_owned()),
        false => Ok(()),
    }
}

/// Returns a claim, which must be a string.
fn claim(claims: &Claims, name: &str) -> Result<String, String> {
    claims.get(name).ok_or_else(|| "claim not present".to_owned()).and_then(text)
}

fn username(issuer: &Compiled, claims: &Claims, value: &Value) -> Result<String, String> {
    if let Some(expression) = &issuer.username {
        let failed = |error: String| format!("oidc: error evaluating username claim expression: {error}");
        return match expression.eval(value).map_err(failed)? {
            Output::Text(name) if name.is_empty() => {
                Err("oidc: empty username via CEL expression is not allowed".to_owned())
            }
            Output::Text(name) => Ok(name),
            _ => Err(failed("username claim expression must return a string".to_owned())),
        };
    }
    let mapping = &issuer.configuration.claim_mappings.username;
    let name = claim(claims, &mapping.claim)
        .map_err(|error| format!("oidc: parse username claims {:?}: {error}", mapping.claim))?;
    if mapping.claim == "email" {
        match claims.get("email_verified") {
            None | Some(Value::Bool(true)) => {}
            Some(Value::Bool(false) | Value::Null) => return Err("oidc: email not verified".to_owned()),
            Some(other) => {
                let kind = windlass_schema::go_format::json_type(other);
                let error = format!("json: cannot unmarshal {kind} into Go value of type bool");
                return Err(format!("oidc: parse 'email_verified' claim: {error}"));
            }
        }
    }
    Ok(mapping.prefix.clone().unwrap_or_default() + &name)
}

fn groups(issuer: &Compiled, claims: &Claims, value: &Value) -> Result<Vec<String>, String> {
    let mapping = &issuer.configuration.claim_mappings.groups;
    if let Some(given) = claims.get(&mapping.claim).filter(|_| !mapping.claim.is_empty()) {
        let groups = texts(Some(given), false)
            .map_err(|error| format!("oidc: parse groups claim {:?}: {error}", mapping.claim))?;
        let prefix = mapping.prefix.as_deref().unwrap_or_default();
        return Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect());
    }
    match &issuer.groups {
        Some(expression) => {
            list(expression, value).map_err(|error| format!("oidc: error evaluating group claim expression: {error}"))
        }
        None => Ok(Vec::new()),
    }
}

fn uid(issuer: &Compiled, claims: &Claims, value: &Value) -> Result<String, String> {
    let name = &issuer.configuration.claim_mappings.uid.claim;
    if !name.is_empty() {
        return claim(claims, name).map_err(|error| format!("oidc: parse uid claim {name:?}: {error}"));
    }
    let failed = |error: String| format!("oidc: error evaluating uid claim expression: {error}");
    match issuer.uid.as_ref().map(|expression| expression.eval(value)).transpose().map_err(failed)? {
        None => Ok(String::new()),
        Some(Output::Text(uid)) => Ok(uid),
        Some(_) => Err(failed("uid claim expression must return a string".to_owned())),
    }
}

fn extra(issuer: &Compiled, claims: &Claims, value: &Value) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut extra = BTreeMap::new();
    if let Some(id) = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("JTI={id}")]);
    }
    for (key, expression) in &issuer.extra {
        let values = match expression.eval(value)? {
            Output::Other | Output::Bool(_) => {
                let text = expression.text();
                return Err(format!("oidc: error evaluating extra claim expression: {text}: {NOT_TEXTS}"));
            }
            output => present(output),
        };
        if !values.is_empty() {
            extra.insert(key.clone(), values);
        }
    }
    Ok(extra)
}

/// Evaluates an expression whose value is a string, a list of strings, or null.
fn list(expression: &Expression, value: &Value) -> Result<Vec<String>, String> {
    match expression.eval(value)? {
        Output::Other | Output::Bool(_) => Err(NOT_TEXTS.to_owned()),
        output => Ok(present(output)),
    }
}

/// Returns the strings of a value that are not empty.
fn present(output: Output) -> Vec<String> {
    let mut texts = match output {
        Output::Text(text) => vec![text],
        Output::Texts(texts) => texts,
        Output::Null | Output::Bool(_) | Output::Other => Vec::new(),
    };
    texts.retain(|text| !text.is_empty());
    texts
}

fn check_rules(rules: &[(Expression, String)], value: &Value) -> Result<(), String> {
    for (rule, message) in rules {
        match rule.eval(value)? {
            Output::Bool(true) => {}
            Output::Bool(false) => {
                return Err(format!("validation expression '{}' failed: {message}", rule.text()));
            }
            _ => return Err("validation expression must return a boolean".to_owned()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
