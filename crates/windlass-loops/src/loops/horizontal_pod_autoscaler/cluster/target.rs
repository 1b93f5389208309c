//! Scale targets: any resource with a `scale` subresource.

use kube::core::Status;
use serde_json::Value;
use windlass::context::Context;

use crate::loops::FIELD_MANAGER;

/// Number of attempts if another client writes at the same time.
const TRIES: usize = 5;

/// A resource as named by discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Resource {
    group: String,
    version: String,
    plural: String,
}

/// The scale of a target.
#[derive(Clone, Debug)]
pub(in super::super) struct Scale {
    path: String,
    object: Value,
}

/// A failed request: the client's message, and whether it was a conflict.
struct Failure {
    message: String,
    conflict: bool,
}

impl Resource {
    /// For example `deployments.apps`.
    pub(in super::super) fn name_and_group(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    fn path(&self, namespace: &str) -> String {
        let Self { group, version, plural } = self;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        format!("{root}/namespaces/{namespace}/{plural}")
    }
}

/// Finds the resource of a kind: in the given version or, if that is not served, in another of its group.
pub(in super::super) async fn resource(ctx: &Context, api_version: &str, kind: &str) -> Result<Resource, String> {
    let (group, named) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut versions = vec![named.to_owned()];
    if group.is_empty() {
        versions.push("v1".to_owned());
    } else if let Ok(served) = fetch(ctx, &format!("/apis/{group}"), group).await {
        let served = served["versions"].as_array().into_iter().flatten();
        versions.extend(served.filter_map(|version| version["version"].as_str()).map(str::to_owned));
    }
    for version in versions.into_iter().filter(|version| !version.is_empty()) {
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let Ok(list) = fetch(ctx, &root, group).await else { continue };
        let found = list["resources"].as_array().into_iter().flatten().find_map(|resource| {
            resource["name"].as_str().filter(|name| resource["kind"] == kind && !name.contains('/'))
        });
        if let Some(plural) = found {
            return Ok(Resource { group: group.to_owned(), version, plural: plural.to_owned() });
        }
    }
    Err(format!("no matches for kind {kind:?} in group {group:?}"))
}

impl Scale {
    /// Fetches the scale of an object.
    pub(in super::super) async fn of(
        ctx: &Context,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Self, String> {
        let path = format!("{}/{name}/scale", resource.path(namespace));
        let object = fetch(ctx, &path, &resource.name_and_group()).await?;
        Ok(Self { path, object })
    }

    /// The desired replicas.
    pub(in super::super) fn wanted(&self) -> i32 {
        number(&self.object["spec"]["replicas"])
    }

    /// The current replicas.
    pub(in super::super) fn present(&self) -> i32 {
        number(&self.object["status"]["replicas"])
    }

    /// The label selector of its pods.
    pub(in super::super) fn selector(&self) -> &str {
        self.object["status"]["selector"].as_str().unwrap_or_default()
    }

    /// Sets the replicas, overriding concurrent changes.
    pub(in super::super) async fn set(mut self, ctx: &Context, replicas: i32) -> Result<(), String> {
        for tries in 1.. {
            self.object["spec"]["replicas"] = replicas.into();
            let body = self.object.to_string().into_bytes();
            let path = format!("{}?fieldManager={FIELD_MANAGER}", self.path);
            match send(ctx, "PUT", &path, body, "").await {
                Ok(_) => return Ok(()),
                Err(failure) if failure.conflict && tries < TRIES => self.object = fetch(ctx, &self.path, "").await?,
                Err(failure) => return Err(failure.message),
            }
        }
        unreachable!("the last try returns")
    }
}

fn number(value: &Value) -> i32 {
    value.as_i64().and_then(|number| number.try_into().ok()).unwrap_or_default()
}

/// Fetches a path. `what` is the client's name for it in error messages.
pub(super) async fn fetch(ctx: &Context, path: &str, what: &str) -> Result<Value, String> {
    send(ctx, "GET", path, Vec::new(), what).await.map_err(|failure| failure.message)
}

async fn send(ctx: &Context, method: &str, path: &str, body: Vec<u8>, what: &str) -> Result<Value, Failure> {
    let broken = |message: String| Failure { message, conflict: false };
    let request = http::Request::builder().method(method).uri(path).header("Content-Type", "application/json");
    let request = request.body(body).map_err(|error| broken(error.to_string()))?;
    let text = ctx.client().request_text(request).await.map_err(|error| match error {
        kube::Error::Api(status) => failure(&status, what),
        error => broken(error.to_string()),
    })?;
    serde_json::from_str(&text).map_err(|error| broken(error.to_string()))
}

/// The error that client-go derives from a response.
fn failure(status: &Status, what: &str) -> Failure {
    let named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    let message = if status.code == 404 && !named {
        format!("the server could not find the requested resource (get {what})")
    } else {
        status.message.clone()
    };
    Failure { message, conflict: status.code == 409 && status.reason == "Conflict" }
}

/// Encodes a string as the value of a query parameter.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_are_encoded() {
        assert_eq!(encoded("app=web,tier in (a b)"), "app%3Dweb%2Ctier%20in%20%28a%20b%29");
    }
}
