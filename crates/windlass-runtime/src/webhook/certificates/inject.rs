//! Writing the `caBundle` of webhook configurations and CRDs.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, header::CONTENT_TYPE};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde_json::Value;
use tracing::{info, warn};

use crate::webhook::{Description, Endpoint, patch::Patch};

/// Label of objects that `windlass run` has redirected to the developer's machine.
const RUN: &str = "windlass.dev/run";
/// Number of immediate attempts of a write that hits a conflict.
const TRIES: usize = 5;

/// Error from writing a CA bundle.
#[derive(Debug, thiserror::Error)]
enum InjectError {
    #[error("failed to read {kind} {name}")]
    Read { kind: &'static str, name: String, source: kube::Error },
    #[error("failed to write the CA bundle of {kind} {name}")]
    Write { kind: &'static str, name: String, source: kube::Error },
}

/// An object with a `caBundle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CaBundleTarget {
    pub(crate) kind: CaBundleTargetKind,
    pub(crate) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaBundleTargetKind {
    Mutating,
    Validating,
    Definition,
}

impl CaBundleTarget {
    /// Returns the objects of an operator whose `caBundle` its webhooks need: the webhook configurations, which have
    /// its name, and the CRDs with conversion.
    pub(crate) fn all(operator: &str, webhooks: &[Description], definitions: &[CustomResourceDefinition]) -> Vec<Self> {
        let mut targets = Vec::new();
        for (endpoint, kind) in
            [(Endpoint::Mutating, CaBundleTargetKind::Mutating), (Endpoint::Validating, CaBundleTargetKind::Validating)]
        {
            if webhooks.iter().any(|webhook| webhook.endpoint == endpoint) {
                targets.push(Self { kind, name: operator.to_owned() });
            }
        }
        for conversion in webhooks.iter().filter(|webhook| webhook.endpoint == Endpoint::Conversion) {
            // Versions of one kind share a CRD, so any of them will do.
            let defined = definitions.iter().find(|definition| {
                definition.spec.group == conversion.group && definition.spec.names.kind == conversion.kind
            });
            if let Some(name) = defined.and_then(|definition| definition.metadata.name.clone()) {
                targets.push(Self { kind: CaBundleTargetKind::Definition, name });
            }
        }
        targets
    }
}

/// Identifies client configurations that refer to this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnClientConfigs {
    pub(super) namespace: String,
    pub(super) service: String,
    /// Paths of this server; a client configuration with a URL is identified by its path.
    pub(super) paths: Vec<String>,
}

impl CaBundleTargetKind {
    fn name(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Definition => "CustomResourceDefinition",
        }
    }

    pub(super) fn group_and_plural(self) -> (&'static str, &'static str) {
        match self {
            Self::Mutating => ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
            Self::Validating => ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
            Self::Definition => ("apiextensions.k8s.io", "customresourcedefinitions"),
        }
    }
}

/// Result for one target.
enum Outcome {
    /// The bundle is up to date, or the target does not exist.
    Settled,
    Written,
    /// All attempts hit a conflict.
    Contended,
}

/// Returns the current bundles of all targets that can be read.
pub(super) async fn bundles(client: &Client, targets: &[CaBundleTarget], ours: &OwnClientConfigs) -> Vec<String> {
    let mut bundles = Vec::new();
    for target in targets {
        match read(client, target).await {
            Ok(object) => bundles.extend(object.iter().flat_map(|object| bundles_of(object, target.kind, ours))),
            Err(error) => {
                let error = crate::Error::from(error);
                warn!(kind = target.kind.name(), name = target.name, %error, "failed to read the CA bundle of webhooks");
            }
        }
    }
    bundles
}

/// Writes the bundle into every target that exists and has another one. A failure does not affect the other targets.
///
/// Returns whether all targets were already up to date, so that clients have had the time since the last check to learn
/// of it.
pub(super) async fn inject(client: &Client, targets: &[CaBundleTarget], ours: &OwnClientConfigs, bundle: &str) -> bool {
    let mut settled = true;
    for target in targets {
        let outcome = inject_one(client, target, ours, bundle).await;
        settled &= matches!(outcome, Ok(Outcome::Settled));
        match outcome {
            Ok(Outcome::Written) => {
                info!(kind = target.kind.name(), name = target.name, "wrote the CA bundle of webhooks");
            }
            // Conflicts are retried with the next check.
            Ok(Outcome::Settled | Outcome::Contended) => {}
            Err(error) => {
                let error = crate::Error::from(error);
                warn!(kind = target.kind.name(), name = target.name, %error, "failed to write the CA bundle of webhooks");
            }
        }
    }
    settled
}

/// Returns the object, or `None` if it does not exist yet.
async fn read(client: &Client, target: &CaBundleTarget) -> Result<Option<Value>, InjectError> {
    match client.request(request(Request::get(path(target)), Vec::new())).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(source) => Err(InjectError::Read { kind: target.kind.name(), name: target.name.clone(), source }),
    }
}

async fn inject_one(
    client: &Client,
    target: &CaBundleTarget,
    ours: &OwnClientConfigs,
    bundle: &str,
) -> Result<Outcome, InjectError> {
    let (kind, name) = (target.kind.name(), &target.name);
    for _ in 0..TRIES {
        let Some(object) = read(client, target).await? else { return Ok(Outcome::Settled) };
        let Some(patch) = bundle_patch(&object, target.kind, ours, bundle) else { return Ok(Outcome::Settled) };
        let patching = Request::patch(path(target)).header(CONTENT_TYPE, "application/json-patch+json");
        let body = serde_json::to_vec(&patch).expect("a patch can be serialized as JSON");
        match client.request::<Value>(request(patching, body)).await {
            Ok(_) => return Ok(Outcome::Written),
            // The object has changed in between.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(source) => return Err(InjectError::Write { kind, name: name.clone(), source }),
        }
    }
    Ok(Outcome::Contended)
}

fn path(target: &CaBundleTarget) -> String {
    let (group, plural) = target.kind.group_and_plural();
    format!("/apis/{group}/v1/{plural}/{}", target.name)
}

fn request(builder: http::request::Builder, body: Vec<u8>) -> Request<Vec<u8>> {
    builder.body(body).expect("a path of names is a valid URL")
}

/// Returns the patch that writes missing bundles; `None` if there are none.
///
/// It applies only to this revision of the object.
fn bundle_patch(object: &Value, kind: CaBundleTargetKind, ours: &OwnClientConfigs, bundle: &str) -> Option<Patch> {
    let encoded = Value::from(STANDARD.encode(bundle));
    let mut patch = Patch::default();
    patch.add("/metadata/resourceVersion", object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default());
    let mut missing = false;
    for pointer in client_configs(object, kind) {
        let Some(config) = object.pointer(&pointer) else { continue };
        if is_ours(config, ours) && config.get("caBundle") != Some(&encoded) {
            missing = true;
            patch.add(format!("{pointer}/caBundle"), encoded.clone());
        }
    }
    missing.then_some(patch)
}

/// Returns the bundles in the client configurations of an object that refer to this server.
fn bundles_of(object: &Value, kind: CaBundleTargetKind, ours: &OwnClientConfigs) -> Vec<String> {
    let configs = client_configs(object, kind).into_iter().filter_map(|pointer| object.pointer(&pointer));
    let encoded = configs.filter(|config| is_ours(config, ours)).filter_map(|config| config.get("caBundle")?.as_str());
    encoded.filter_map(|encoded| String::from_utf8(STANDARD.decode(encoded).ok()?).ok()).collect()
}

/// Returns the paths of an object's client configurations.
fn client_configs(object: &Value, kind: CaBundleTargetKind) -> Vec<String> {
    match kind {
        // The developer runs the operator elsewhere, and the configuration points there.
        _ if object.pointer("/metadata/labels").is_some_and(|labels| labels.get(RUN).is_some()) => Vec::new(),
        CaBundleTargetKind::Definition => vec!["/spec/conversion/webhook/clientConfig".to_owned()],
        CaBundleTargetKind::Mutating | CaBundleTargetKind::Validating => {
            let webhooks = object.get("webhooks").and_then(Value::as_array).map_or(0, Vec::len);
            (0..webhooks).map(|index| format!("/webhooks/{index}/clientConfig")).collect()
        }
    }
}

fn is_ours(config: &Value, ours: &OwnClientConfigs) -> bool {
    if let Some(service) = config.get("service").filter(|service| !service.is_null()) {
        return service["name"] == ours.service && service["namespace"] == ours.namespace;
    }
    let uri = config.get("url").and_then(Value::as_str).and_then(|url| url.parse::<http::Uri>().ok());
    uri.is_some_and(|uri| ours.paths.iter().any(|path| path == uri.path()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ours() -> OwnClientConfigs {
        OwnClientConfigs { namespace: "ops".to_owned(), service: "web".to_owned(), paths: vec!["/convert".to_owned()] }
    }

    fn service(name: &str, bundle: Option<&str>) -> Value {
        let mut config = json!({"service": {"name": name, "namespace": "ops", "path": "/x", "port": 443}});
        if let Some(bundle) = bundle {
            config["caBundle"] = STANDARD.encode(bundle).into();
        }
        json!({"name": "a.b.c", "clientConfig": config})
    }

    #[test]
    fn only_our_webhooks_with_another_bundle_are_written() {
        let webhooks =
            [service("web", None), service("other", None), service("web", Some("CA")), service("web", Some("old"))];
        let object = json!({"metadata": {"resourceVersion": "7"}, "webhooks": webhooks});
        let patch = bundle_patch(&object, CaBundleTargetKind::Validating, &ours(), "CA").unwrap();
        let expected = json!([
            {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Q0E="},
            {"op": "add", "path": "/webhooks/3/clientConfig/caBundle", "value": "Q0E="},
        ]);
        assert_eq!(json!(patch), expected);
    }

    #[test]
    fn the_bundles_of_our_webhooks_are_read() {
        let webhooks = [service("web", None), service("other", Some("theirs")), service("web", Some("CA"))];
        let object = json!({"webhooks": webhooks});
        assert_eq!(bundles_of(&object, CaBundleTargetKind::Validating, &ours()), ["CA"]);
    }

    #[test]
    fn configurations_redirected_by_windlass_run_are_left_alone() {
        let conversion = json!({"webhook": {"clientConfig": {"url": "https://10.0.0.1:4433/convert"}}});
        let mut object = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"conversion": conversion}});
        assert!(bundle_patch(&object, CaBundleTargetKind::Definition, &ours(), "CA").is_some());
        object["metadata"]["labels"][RUN] = "shop".into();
        assert_eq!(bundle_patch(&object, CaBundleTargetKind::Definition, &ours(), "CA"), None);
    }

    #[test]
    fn nothing_is_written_if_there_is_no_problem() {
        let object = json!({"webhooks": [service("web", Some("CA")), service("other", None)]});
        assert_eq!(bundle_patch(&object, CaBundleTargetKind::Mutating, &ours(), "CA"), None);
        assert_eq!(bundle_patch(&json!({"webhooks": null}), CaBundleTargetKind::Mutating, &ours(), "CA"), None);
        let none = json!({"spec": {"conversion": {"strategy": "None"}}});
        assert_eq!(bundle_patch(&none, CaBundleTargetKind::Definition, &ours(), "CA"), None);
    }

    #[test]
    fn a_conversion_by_url_is_identified_by_its_path() {
        let object = |url: &str| json!({"spec": {"conversion": {"webhook": {"clientConfig": {"url": url}}}}});
        let patch = |url| bundle_patch(&object(url), CaBundleTargetKind::Definition, &ours(), "CA");
        assert!(patch("https://127.0.0.1:9443/convert").is_some());
        assert!(patch("https://127.0.0.1:9443/other").is_none());
    }
}
