//! Wire format of reviews: `AdmissionReview` of `admission.k8s.io`, `ConversionReview` of `apiextensions.k8s.io`.
//!
//! v1 and v1beta1 have the same fields; a response has the version of its request. Parsing never panics: anything but a
//! review is an error.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{api::authentication::v1::UserInfo, apimachinery::pkg::apis::meta::v1::Status};
use kube::core::{GroupVersionKind, GroupVersionResource};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Operation, patch::Patch};

/// Error of a review.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("failed to parse the review: {0}")]
    Json(#[from] serde_json::Error),
    #[error("expected {kind} of {group}/v1 or v1beta1, got {got:?}")]
    Kind { group: &'static str, kind: &'static str, got: String },
    #[error("the review has no request")]
    NoRequest,
    #[error("the server is stopping")]
    Stopping,
}

/// A request, and the version of its response.
#[derive(Debug)]
pub(super) struct ReviewRequest<R> {
    api_version: &'static str,
    kind: &'static str,
    pub(super) request: R,
}

/// The kinds of review.
pub(super) trait ReviewKind: DeserializeOwned {
    const GROUP: &'static str;
    const VERSIONS: [&'static str; 2];
    const KIND: &'static str;
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest {
    pub(super) uid: String,
    pub(super) kind: GroupVersionKind,
    pub(super) resource: GroupVersionResource,
    pub(super) sub_resource: Option<String>,
    pub(super) request_kind: Option<GroupVersionKind>,
    #[serde(default)]
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) operation: Operation,
    #[serde(default)]
    pub(super) user_info: UserInfo,
    #[serde(default)]
    pub(super) object: Value,
    #[serde(default)]
    pub(super) old_object: Value,
    pub(super) dry_run: Option<bool>,
    #[serde(default)]
    pub(super) options: Value,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionResponse {
    pub(super) uid: String,
    pub(super) allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Status>,
    /// JSON patch, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConversionRequest {
    pub(super) uid: String,
    #[serde(rename = "desiredAPIVersion")]
    pub(super) desired_api_version: String,
    pub(super) objects: Vec<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConversionResponse {
    pub(super) uid: String,
    pub(super) converted_objects: Vec<Value>,
    pub(super) result: Status,
}

impl ReviewKind for AdmissionRequest {
    const GROUP: &'static str = "admission.k8s.io";
    const VERSIONS: [&'static str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
    const KIND: &'static str = "AdmissionReview";
}

impl ReviewKind for ConversionRequest {
    const GROUP: &'static str = "apiextensions.k8s.io";
    const VERSIONS: [&'static str; 2] = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];
    const KIND: &'static str = "ConversionReview";
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRequest {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireResponse<'a, A> {
    api_version: &'a str,
    kind: &'a str,
    response: A,
}

impl<R: ReviewKind> ReviewRequest<R> {
    /// Parses a review.
    pub(super) fn decode(body: &[u8]) -> Result<Self, ReviewError> {
        let review: WireRequest = serde_json::from_slice(body)?;
        let version = R::VERSIONS.into_iter().find(|version| *version == review.api_version);
        let Some(api_version) = version.filter(|_| review.kind == R::KIND) else {
            let got = format!("{} {}", review.api_version, review.kind);
            return Err(ReviewError::Kind { group: R::GROUP, kind: R::KIND, got });
        };
        let request = review.request.filter(|request| !request.is_null()).ok_or(ReviewError::NoRequest)?;
        Ok(Self { api_version, kind: R::KIND, request: serde_json::from_value(request)? })
    }

    /// Serializes the response to this request.
    pub(super) fn encode(&self, response: &impl Serialize) -> Vec<u8> {
        let answer = WireResponse { api_version: self.api_version, kind: self.kind, response };
        serde_json::to_vec(&answer).expect("a review can be serialized as JSON")
    }
}

impl AdmissionResponse {
    pub(super) fn allowed(uid: &str, warnings: Vec<String>) -> Self {
        Self { uid: uid.to_owned(), allowed: true, status: None, patch: None, patch_type: None, warnings }
    }

    pub(super) fn denied(uid: &str, status: Status, warnings: Vec<String>) -> Self {
        Self { allowed: false, status: Some(status), ..Self::allowed(uid, warnings) }
    }

    /// Adds a patch, unless it is empty, as Kubernetes requires.
    pub(super) fn patched(mut self, patch: &Patch) -> Self {
        if !patch.is_empty() {
            let json = serde_json::to_vec(patch).expect("a patch can be serialized as JSON");
            self.patch = Some(STANDARD.encode(json));
            self.patch_type = Some("JSONPatch");
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn review() -> Value {
        json!({
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "1",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "operation": "DELETE",
                "userInfo": {},
                "object": null,
                "oldObject": {"a": 1},
                "dryRun": false,
                "options": null
            }
        })
    }

    #[test]
    fn an_answer_has_the_version_of_its_question() {
        let mut old = review();
        old["apiVersion"] = json!("admission.k8s.io/v1beta1");
        let question = ReviewRequest::<AdmissionRequest>::decode(old.to_string().as_bytes()).unwrap();
        let answer: Value =
            serde_json::from_slice(&question.encode(&AdmissionResponse::allowed("1", Vec::new()))).unwrap();
        let expected = json!({
            "apiVersion": "admission.k8s.io/v1beta1",
            "kind": "AdmissionReview",
            "response": {"uid": "1", "allowed": true}
        });
        assert_eq!(answer, expected);
    }

    #[test]
    fn other_kinds_and_reviews_without_request_are_errors() {
        for (path, value) in [
            ("/apiVersion", json!("admission.k8s.io/v2")),
            ("/kind", json!("ConversionReview")),
            ("/request", Value::Null),
            ("/request/operation", json!("LOOK")),
            ("/request/uid", Value::Null),
        ] {
            let mut wrong = review();
            *wrong.pointer_mut(path).unwrap() = value;
            assert!(ReviewRequest::<AdmissionRequest>::decode(wrong.to_string().as_bytes()).is_err(), "{path}");
        }
        assert!(ReviewRequest::<ConversionRequest>::decode(review().to_string().as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(ReviewRequest::<AdmissionRequest>::decode(&bytes).is_err());
            prop_assert!(ReviewRequest::<ConversionRequest>::decode(&bytes).is_err());
        }

        #[test]
        fn a_damaged_review_is_read_without_panic(at in 0usize..400, byte in any::<u8>(), cut in 0usize..400) {
            let mut bytes = review().to_string().into_bytes();
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(length - cut % length);
            let _ = ReviewRequest::<AdmissionRequest>::decode(&bytes);
        }
    }
}
