//! AuthorizationConfiguration files.

use std::time::Duration;

use serde_json::Value;
use windlass_schema::{time::parse_duration, yaml};

use super::{AuthorizerOptions, WebhookOptions, validation::validate};

const GROUP: &str = "apiserver.config.k8s.io";
const KIND: &str = "AuthorizationConfiguration";
/// The known fields, by place.
const ROOT: &[&str] = &["apiVersion", "kind", "authorizers"];
const AUTHORIZER: &[&str] = &["type", "name", "webhook"];
const WEBHOOK: &[&str] = &[
    "authorizedTTL",
    "cacheAuthorizedRequests",
    "unauthorizedTTL",
    "cacheUnauthorizedRequests",
    "timeout",
    "subjectAccessReviewVersion",
    "matchConditionSubjectAccessReviewVersion",
    "failurePolicy",
    "connectionInfo",
    "matchConditions",
];

/// An authorizer of a configuration file, with defaults.
pub(super) struct Authorizer {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) webhook: Option<Webhook>,
}

/// A webhook as it is written in a file, with defaults. Durations are in nanoseconds.
#[derive(Default)]
pub(super) struct Webhook {
    pub(super) authorized_ttl: i64,
    pub(super) caches_authorized: bool,
    pub(super) unauthorized_ttl: i64,
    pub(super) caches_unauthorized: bool,
    pub(super) timeout: i64,
    pub(super) version: String,
    pub(super) condition_version: String,
    pub(super) failure_policy: String,
    pub(super) connection: String,
    pub(super) kubeconfig: Option<String>,
    pub(super) conditions: Vec<String>,
}

/// Parses a file.
pub(super) fn parse(text: &[u8]) -> Result<Vec<AuthorizerOptions>, String> {
    let authorizers = decode(text).map_err(|why| format!("failed to load {KIND} from file: {why}"))?;
    let errors = validate(&authorizers);
    if !errors.is_empty() {
        return Err(aggregate(errors.iter().map(ToString::to_string).collect()));
    }
    let misnamed: Vec<String> = authorizers
        .iter()
        .filter(|it| it.kind != "Webhook" && it.name != it.kind.to_lowercase())
        .map(|it| format!("expected name {} for authorizer {} instead of {}", it.kind.to_lowercase(), it.kind, it.name))
        .collect();
    if !misnamed.is_empty() {
        return Err(aggregate(misnamed));
    }
    authorizers.into_iter().map(options).collect()
}

/// Joins errors like Go's aggregates, without duplicates.
fn aggregate(mut errors: Vec<String>) -> String {
    let mut seen = std::collections::HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    if errors.len() == 1 { errors.remove(0) } else { format!("[{}]", errors.join(", ")) }
}

fn options(authorizer: Authorizer) -> Result<AuthorizerOptions, String> {
    let duration = |nanoseconds: i64, used: bool| match used {
        true => Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default()),
        false => Duration::ZERO,
    };
    Ok(match (authorizer.kind.as_str(), authorizer.webhook) {
        ("Node", _) => AuthorizerOptions::Node,
        ("RBAC", _) => AuthorizerOptions::Rbac,
        ("AlwaysAllow", _) => AuthorizerOptions::AlwaysAllow,
        ("AlwaysDeny", _) => AuthorizerOptions::AlwaysDeny,
        ("Webhook", Some(webhook)) => AuthorizerOptions::Webhook(WebhookOptions {
            name: authorizer.name,
            kubeconfig: match webhook.kubeconfig {
                Some(path) => path.into(),
                None => return Err("connectionInfo of type InClusterConfig is not supported".to_owned()),
            },
            version: webhook.version,
            timeout: duration(webhook.timeout, true),
            authorized_ttl: duration(webhook.authorized_ttl, webhook.caches_authorized),
            unauthorized_ttl: duration(webhook.unauthorized_ttl, webhook.caches_unauthorized),
            denies_on_failure: webhook.failure_policy == "Deny",
            conditions: webhook.conditions,
        }),
        (other, _) => return Err(format!("authorizer type {other} is not supported")),
    })
}

fn decode(text: &[u8]) -> Result<Vec<Authorizer>, String> {
    if text.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let document = yaml::parse(text).map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    let config = document.value;
    let text = |field: &str| config[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let version = api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/'));
    if !matches!(version, Some("v1" | "v1beta1" | "v1alpha1")) || kind != KIND {
        return Err(format!("no kind {kind:?} is registered for version {api_version:?}"));
    }
    let mut unknown = Vec::new();
    check_fields(&config, ROOT, "", &mut unknown);
    let mut authorizers = Vec::new();
    for (index, authorizer) in list(&config, "authorizers")?.iter().enumerate() {
        let place = format!("authorizers[{index}]");
        check_fields(authorizer, AUTHORIZER, &place, &mut unknown);
        let webhook = match &authorizer["webhook"] {
            Value::Null => None,
            webhook => Some(decode_webhook(webhook, &format!("{place}.webhook"), &mut unknown)?),
        };
        authorizers.push(Authorizer { kind: string(authorizer, "type")?, name: string(authorizer, "name")?, webhook });
    }
    if !unknown.is_empty() {
        let unknown: Vec<String> = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
        return Err(format!("strict decoding error: {}", unknown.join(", ")));
    }
    Ok(authorizers)
}

fn decode_webhook(webhook: &Value, place: &str, unknown: &mut Vec<String>) -> Result<Webhook, String> {
    check_fields(webhook, WEBHOOK, place, unknown);
    let connection = &webhook["connectionInfo"];
    check_fields(connection, &["type", "kubeConfigFile"], &format!("{place}.connectionInfo"), unknown);
    let mut conditions = Vec::new();
    for (index, condition) in list(webhook, "matchConditions")?.iter().enumerate() {
        check_fields(condition, &["expression"], &format!("{place}.matchConditions[{index}]"), unknown);
        conditions.push(string(condition, "expression")?);
    }
    let defaulted =
        |nanoseconds: i64, seconds: i64| if nanoseconds == 0 { seconds * 1_000_000_000 } else { nanoseconds };
    Ok(Webhook {
        authorized_ttl: defaulted(nanoseconds(webhook, "authorizedTTL")?, 300),
        caches_authorized: webhook["cacheAuthorizedRequests"].as_bool().unwrap_or(true),
        unauthorized_ttl: defaulted(nanoseconds(webhook, "unauthorizedTTL")?, 30),
        caches_unauthorized: webhook["cacheUnauthorizedRequests"].as_bool().unwrap_or(true),
        timeout: nanoseconds(webhook, "timeout")?,
        version: string(webhook, "subjectAccessReviewVersion")?,
        condition_version: string(webhook, "matchConditionSubjectAccessReviewVersion")?,
        failure_policy: string(webhook, "failurePolicy")?,
        connection: string(connection, "type")?,
        kubeconfig: connection["kubeConfigFile"].as_str().map(str::to_owned),
        conditions,
    })
}

/// Records the fields of an object that are not known.
fn check_fields(object: &Value, known: &[&str], place: &str, unknown: &mut Vec<String>) {
    let fields = object.as_object().into_iter().flatten().map(|(field, _)| field);
    unknown.extend(fields.filter(|field| !known.contains(&field.as_str())).map(|field| match place {
        "" => field.clone(),
        place => format!("{place}.{field}"),
    }));
}

fn list<'v>(object: &'v Value, field: &str) -> Result<&'v [Value], String> {
    match &object[field] {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        _ => Err(format!("{field} must be a list")),
    }
}

fn string(object: &Value, field: &str) -> Result<String, String> {
    match &object[field] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        _ => Err(format!("{field} must be a string")),
    }
}

fn nanoseconds(object: &Value, field: &str) -> Result<i64, String> {
    match string(object, field)?.as_str() {
        "" => Ok(0),
        text => parse_duration(text),
    }
}

#[cfg(test)]
mod tests;
