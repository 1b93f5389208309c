//! Conversion webhooks, and functions in their place: objects of a custom resource in another version than the stored one.
//!
//! Converted objects are cached with the endpoint until the object changes, so that a read, a list and all watchers
//! call the webhook once.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use windlass_builtins::table::object_meta;
use windlass_schema::{
    field::Path,
    object_meta::{validate_annotations, validate_labels},
    structural::NormalizeOptions,
};
use windlass_store::Revision;

use super::client::{Client, Limits, Target};
use crate::{
    custom::Custom,
    meta,
    server::Inner,
    status::{ApiError, Result, aggregate},
    storage::StoredObject,
};

/// The time limit of a conversion.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The number of objects per call.
const BATCH: usize = 500;

/// Converts objects of a kind to another version, in place of a webhook.
///
/// The function gets an object and the apiVersion to convert it to. Labels and annotations of the result replace those of the
/// object; the rest of its metadata cannot change. The error is the reason why an object cannot be converted.
#[derive(Clone)]
pub struct ConversionFunction(Arc<Convert>);

type Convert = dyn Fn(&Value, &str) -> Result<Value, String> + Send + Sync;

impl ConversionFunction {
    /// Wraps a function.
    pub fn new(convert: impl Fn(&Value, &str) -> Result<Value, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(convert))
    }

    /// Converts an object, and checks the result.
    ///
    /// # Errors
    /// Returns an error if the object cannot be converted, or the function has changed what it must not change.
    pub fn convert(&self, object: &Value, to: &str) -> Result<Value, String> {
        accept(object, (self.0)(object, to)?, to)
    }
}

impl fmt::Debug for ConversionFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversionFunction").finish_non_exhaustive()
    }
}

/// Converts the objects of a CustomResourceDefinition between its versions.
#[async_trait]
pub(crate) trait Converter: Send + Sync {
    /// Converts objects of one kind; none may be in the desired version already.
    async fn convert(&self, client: &Client, objects: &[Value], to: &str) -> Result<Vec<Value>>;
}

#[async_trait]
impl Converter for ConversionFunction {
    async fn convert(&self, _client: &Client, objects: &[Value], to: &str) -> Result<Vec<Value>> {
        let convert = |object: &Value| {
            Self::convert(self, object, to).map_err(|why| {
                let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
                ApiError::unexpected(format!("conversion of {version}, Kind={kind} to {to} failed: {why}"))
            })
        };
        objects.iter().map(convert).collect()
    }
}

/// The webhook of a CustomResourceDefinition.
pub(crate) struct ConversionWebhook {
    config: Value,
    review_versions: Vec<String>,
    target: OnceLock<Result<Target, String>>,
}

/// Objects that were converted for an endpoint, by uid.
#[derive(Default)]
pub(crate) struct ConversionCache(Mutex<HashMap<Box<str>, Known>>);

/// A converted object, with the revision at which its content was written.
type Known = (Revision, Arc<StoredObject>);

impl ConversionWebhook {
    /// Parses the `spec.conversion.webhook` of a CustomResourceDefinition.
    pub(crate) fn new(webhook: &Value) -> Self {
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        Self {
            config: webhook["clientConfig"].clone(),
            review_versions: versions.filter_map(|version| version.as_str().map(str::to_owned)).collect(),
            target: OnceLock::new(),
        }
    }
}

#[async_trait]
impl Converter for ConversionWebhook {
    async fn convert(&self, client: &Client, objects: &[Value], to: &str) -> Result<Vec<Value>> {
        let Some(first) = objects.first() else { return Ok(Vec::new()) };
        let about = about(first);
        let failed = |why: String| ApiError::unexpected(format!("{about} failed: {why}"));
        let mut known = self.review_versions.iter().filter(|version| matches!(version.as_str(), "v1" | "v1beta1"));
        let version = known.next().ok_or_else(|| ApiError::unexpected("no supported conversion review versions"))?;
        let target = self.target.get_or_init(|| client.target(&self.config));
        let target = target.as_ref().map_err(|error| failed(error.clone()))?;
        let uid = meta::new_uid();
        let api_version = format!("apiextensions.k8s.io/{version}");
        let review = json!({
            "kind": "ConversionReview", "apiVersion": api_version,
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": objects},
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        });
        let answer = target.post(&review, Limits { timeout: TIMEOUT, announced: false }).await.map_err(failed)?;
        let sent = Sent { version, uid: &uid, objects, to };
        sent.decode(&answer)
    }
}

/// A review that was sent.
pub(crate) struct Sent<'a> {
    /// The version of the review.
    pub(crate) version: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) objects: &'a [Value],
    /// The desired version of the objects.
    pub(crate) to: &'a str,
}

impl Sent<'_> {
    /// Returns the converted objects of the response, with the metadata that no conversion may change.
    pub(crate) fn decode(&self, answer: &Value) -> Result<Vec<Value>> {
        let Self { version, uid, objects, to } = *self;
        let Some(first) = objects.first() else { return Ok(Vec::new()) };
        let about = about(first);
        let failed = |why: String| ApiError::unexpected(format!("{about} failed: {why}"));
        let api_version = format!("apiextensions.k8s.io/{version}");
        if version == "v1" {
            let wanted = format!("{api_version}, Kind=ConversionReview");
            let given = format!("{}, Kind={}", text(&answer["apiVersion"]), text(&answer["kind"]));
            if given != wanted {
                return Err(failed(format!("expected webhook response of {wanted}, got {given}")));
            }
        }
        let response = &answer["response"];
        if !response.is_object() {
            return Err(failed("no response provided".to_owned()));
        }
        let given = text(&response["uid"]);
        if version == "v1" && given != uid {
            return Err(failed(format!("expected response.uid={uid:?}, got {given:?}")));
        }
        let status = text(&response["result"]["status"]);
        if status != "Success" {
            return Err(failed(match text(&response["result"]["message"]) {
                none if none.is_empty() => format!("response.result.status was '{status}', not 'Success'"),
                message => message,
            }));
        }
        let converted = response["convertedObjects"].as_array().cloned().unwrap_or_default();
        if converted.len() != objects.len() {
            let (returned, expected) = (converted.len(), objects.len());
            return Err(ApiError::unexpected(format!("{about} returned {returned} objects, expected {expected}")));
        }
        let pairs = objects.iter().zip(converted);
        pairs
            .map(|(from, into)| accept(from, into, to).map_err(|why| ApiError::unexpected(format!("{about} {why}"))))
            .collect()
    }
}

/// Returns the subject of errors about the conversion of an object.
fn about(object: &Value) -> String {
    format!("conversion webhook for {}, Kind={}", text(&object["apiVersion"]), text(&object["kind"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Checks a converted object, and restores the metadata that no conversion may change.
fn accept(from: &Value, mut into: Value, to: &str) -> Result<Value, String> {
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let differs = |field: &str, expected: String, received: String| {
        format!("returned invalid object at index 0: invalid {field} (expected {expected}, received {received})")
    };
    if text(&into, "apiVersion") != to {
        return Err(differs("groupVersion", to.to_owned(), text(&into, "apiVersion")));
    }
    if into["kind"] != from["kind"] {
        return Err(differs("kind", text(from, "kind"), text(&into, "kind")));
    }
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, received) = (meta::text(from, field), meta::text(&into, field));
        if expected != received {
            return Err(format!("returned invalid object: must have the same {name}: {expected} != {received}"));
        }
    }
    let converted = match into.get_mut("metadata") {
        Some(Value::Object(metadata)) => std::mem::take(metadata),
        Some(other) => {
            let given = go_type(other);
            return Err(format!("returned invalid metadata: invalid metadata of type {given} in converted object"));
        }
        None => return Err("returned invalid metadata: missing metadata in converted object".to_owned()),
    };
    let mut metadata: Map<String, Value> = from["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        match converted.get(field) {
            None | Some(Value::Null) => metadata.remove(field),
            Some(value) => {
                check_texts(field, value, metadata.get(field))
                    .map_err(|why| format!("returned invalid metadata: {why}"))?;
                metadata.insert(field.to_owned(), value.clone())
            }
        };
    }
    into["metadata"] = metadata.into();
    Ok(into)
}

/// Checks labels or annotations of a converted object; unchanged ones were checked before.
fn check_texts(field: &str, texts: &Value, before: Option<&Value>) -> Result<(), String> {
    let Value::Object(map) = texts else {
        return Err(format!("invalid metadata.{field} of type {} in converted object", go_type(texts)));
    };
    if let Some((key, value)) = map.iter().find(|(_, value)| !value.is_string()) {
        let given = go_type(value);
        return Err(format!("metadata.{field}[{key}] must be a string, but is {given} in converted object"));
    }
    if before == Some(texts) {
        return Ok(());
    }
    let path = Path::new("metadata");
    let errors = match field {
        "labels" => validate_labels(Some(map), &path.child("labels")),
        _ => validate_annotations(Some(map), &path.child("annotation")),
    };
    if errors.is_empty() { Ok(()) } else { Err(aggregate(&errors)) }
}

/// Returns the Go type of a value that was decoded without a schema.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

impl Custom {
    /// Converts objects to another version, and prunes them by its schema. Objects that are in that version are not
    /// converted.
    pub(crate) async fn convert_objects(
        &self,
        server: &Inner,
        mut objects: Vec<Value>,
        to: &str,
    ) -> Result<Vec<Value>> {
        let Some(converter) = &self.converter else {
            objects.iter_mut().for_each(|object| object["apiVersion"] = to.into());
            return Ok(self.prune_converted(objects, to));
        };
        let others: Vec<usize> = (0..objects.len()).filter(|at| objects[*at]["apiVersion"] != to).collect();
        for batch in others.chunks(BATCH) {
            // An object without any field set needs no webhook.
            let (empty, full): (Vec<usize>, Vec<usize>) = batch.iter().partition(|at| is_empty(&objects[**at]));
            empty.into_iter().for_each(|at| objects[at]["apiVersion"] = to.into());
            let mut versions = Vec::new();
            let sent: Vec<Value> = full
                .iter()
                .map(|at| {
                    let mut object = objects[*at].clone();
                    versions.push(meta::metadata_mut(&mut object).remove("resourceVersion"));
                    object
                })
                .collect();
            let converted = converter.convert(&server.webhooks.client, &sent, to).await?;
            for ((at, mut object), version) in full.into_iter().zip(converted).zip(versions) {
                if let Some(version) = version {
                    meta::set(&mut object, "resourceVersion", version);
                }
                objects[at] = object;
            }
        }
        Ok(self.prune_converted(objects, to))
    }

    fn prune_converted(&self, mut objects: Vec<Value>, to: &str) -> Vec<Value> {
        let version = to.rsplit('/').next().unwrap_or_default();
        if let Some(schema) = self.schema_of(version) {
            let options = NormalizeOptions { drop_invalid_metadata: true, unknown_fields: false, default: false };
            for object in &mut objects {
                let _ = schema.normalize(object, object_meta(), options);
            }
        }
        objects
    }
}

fn is_empty(object: &Value) -> bool {
    object.as_object().is_some_and(|map| map.keys().all(|field| matches!(field.as_str(), "apiVersion" | "kind")))
}

impl ConversionCache {
    /// Returns the converted form of an object, if it was converted since it last changed.
    pub(crate) fn find(&self, object: &StoredObject) -> Option<Arc<StoredObject>> {
        let known = self.0.lock();
        let (written, converted) = known.get(&object.header.uid)?;
        if *written != object.written {
            return None;
        }
        Some(match converted.revision == object.revision {
            true => converted.clone(),
            // A deletion carries the last state at the revision of the deletion.
            false => Arc::new(converted.deleted_at(object.revision)),
        })
    }

    /// Caches a converted object. Once there are many more entries than objects `alive`, the cache is emptied first.
    pub(crate) fn insert(&self, object: &Arc<StoredObject>, alive: usize) {
        let mut known = self.0.lock();
        if known.len() > 2 * alive + BATCH {
            known.clear();
        }
        known.insert(object.header.uid.clone(), (object.written, object.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_annotations_of_a_converted_object_are_checked() {
        let object = |metadata: Value| {
            let mut object = json!({"apiVersion": "e.io/v2", "kind": "W", "metadata": {"name": "a"}});
            if let (Some(all), Some(more)) = (object["metadata"].as_object_mut(), metadata.as_object()) {
                all.extend(more.clone());
            }
            object
        };
        let from = json!({"apiVersion": "e.io/v1", "kind": "W", "metadata": {"name": "a", "labels": {"a b": "c"}}});
        let read = |into: Value| accept(&from, into, "e.io/v2");
        for (metadata, expected) in [
            (json!({"labels": 1}), "invalid metadata.labels of type int64 in converted object"),
            (json!({"annotations": [1]}), "invalid metadata.annotations of type []interface {} in converted object"),
            (json!({"labels": {"a": 1.5}}), "metadata.labels[a] must be a string, but is float64 in converted object"),
        ] {
            let error = read(object(metadata)).unwrap_err();
            assert_eq!(error, format!("returned invalid metadata: {expected}"));
        }
        let error = read(object(json!({"labels": {"c d": "e"}}))).unwrap_err();
        assert!(error.starts_with("returned invalid metadata: metadata.labels: Invalid value: \"c d\": "), "{error}");
        let converted = read(object(json!({"labels": {"x": "y"}, "annotations": null}))).unwrap();
        assert_eq!(converted["metadata"], json!({"name": "a", "labels": {"x": "y"}}));
        // Labels that were stored before they had to be valid do not have to change.
        read(object(json!({"labels": {"a b": "c"}}))).unwrap();
    }
}
