//! AdmissionReviews: requests to webhooks, and their responses.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::StatusCode;
use serde_json::{Map, Value, json};
use windlass_schema::{
    decode::{Storage, decode},
    go_format::json_type,
};

use crate::{status::ApiError, user::User};

const GROUP: &str = "admission.k8s.io";

/// A version of AdmissionReview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the first supported version of a webhook.
    pub(crate) fn of(versions: &[String]) -> Result<Self, String> {
        let known = versions.iter().find_map(|version| match version.as_str() {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        });
        known.ok_or_else(|| {
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                .to_owned()
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// Returns the review of a request, with its uid and objects.
pub(crate) fn review(version: ReviewVersion, uid: &str, request: &Value, object: &Value, old: &Value) -> Value {
    let mut request = request.clone();
    request["uid"] = uid.into();
    request["object"] = object.clone();
    request["oldObject"] = old.clone();
    json!({"kind": "AdmissionReview", "apiVersion": format!("{GROUP}/{}", version.name()), "request": request})
}

/// Returns the user of the request.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    if !user.name.is_empty() {
        info.insert("username".to_owned(), user.name.as_str().into());
    }
    if !user.uid.is_empty() {
        info.insert("uid".to_owned(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    info.into()
}

/// The decision of a webhook.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) allowed: bool,
    /// The patch and its type.
    pub(crate) patch: Option<(Vec<u8>, String)>,
    pub(crate) status: Value,
    pub(crate) warnings: Vec<String>,
}

impl Verdict {
    /// Decodes a response, which must be the one to this review.
    pub(crate) fn decode(version: ReviewVersion, uid: &str, mutating: bool, answer: &Value) -> Result<Self, String> {
        let invalid = |why: String| Err(format!("received invalid webhook response: {why}"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let response = &answer["response"];
        if !response.is_object() {
            return invalid("webhook response was absent".to_owned());
        }
        check_types(response).map_err(|why| format!("failed to call webhook: {why}"))?;
        let status = decode_status(&response["status"]).map_err(|why| format!("failed to call webhook: {why}"))?;
        if version == ReviewVersion::V1 {
            let given = text(&response["uid"]);
            if given != uid {
                return invalid(format!("expected response.uid={uid:?}, got {given:?}"));
            }
            let wanted = format!("{GROUP}/v1, Kind=AdmissionReview");
            let given = format!("{}, Kind={}", text(&answer["apiVersion"]), text(&answer["kind"]));
            if given != wanted {
                return invalid(format!("expected webhook response of {wanted}, got {given}"));
            }
        }
        let patch = match response["patch"].as_str() {
            Some(patch) => match STANDARD.decode(patch) {
                Ok(patch) => patch,
                Err(error) => return Err(format!("failed to call webhook: illegal base64 data: {error}")),
            },
            None => Vec::new(),
        };
        let patch_type = response["patchType"].as_str().map(str::to_owned);
        let patch = match (version, mutating) {
            (ReviewVersion::V1, true) => match (patch.is_empty(), patch_type) {
                (false, None) => {
                    return invalid("webhook returned response.patch but not response.patchType".to_owned());
                }
                (true, Some(_)) => {
                    return invalid("webhook returned response.patchType but not response.patch".to_owned());
                }
                (false, Some(none)) if none.is_empty() => {
                    return invalid("webhook returned invalid response.patchType of \"\"".to_owned());
                }
                (true, None) => None,
                (false, Some(patch_type)) => Some((patch, patch_type)),
            },
            (ReviewVersion::V1, false) if !patch.is_empty() => {
                return invalid("validating webhook may not return response.patch".to_owned());
            }
            (ReviewVersion::V1, false) if patch_type.is_some() => {
                return invalid("validating webhook may not return response.patchType".to_owned());
            }
            // This version does not check the type of a patch.
            (ReviewVersion::V1Beta1, true) if !patch.is_empty() => Some((patch, "JSONPatch".to_owned())),
            _ => None,
        };
        let warnings = response["warnings"].as_array().into_iter().flatten();
        Ok(Self {
            allowed: response["allowed"] == true,
            patch,
            status,
            warnings: warnings.filter_map(|warning| warning.as_str().map(str::to_owned)).collect(),
        })
    }

    /// Returns the error for a denied request.
    pub(crate) fn denial(&self, webhook: &str) -> ApiError {
        let given = |field: &str| self.status[field].as_str().unwrap_or_default();
        let denied = format!("admission webhook {webhook:?} denied the request");
        let message = match (given("message"), given("reason")) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let code = self.status["code"].as_u64().filter(|code| *code >= 400).unwrap_or(400);
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"});
        for field in ["metadata", "reason", "details"] {
            if !self.status[field].is_null() && self.status[field] != "" {
                status[field] = self.status[field].clone();
            }
        }
        if !matches!(given("status"), "" | "Success") {
            status["status"] = given("status").into();
        }
        status["message"] = message.as_str().into();
        status["code"] = code.into();
        let http_code = u16::try_from(code).ok().and_then(|code| StatusCode::from_u16(code).ok());
        let error = ApiError::new(http_code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), "", message);
        let details = Some(&status["details"]).filter(|details| details.is_object()).cloned().map(Box::new);
        ApiError { details, foreign: Some(Box::new(status)), ..error }
    }
}

/// Checks the types of a response as Go's decoder does.
fn check_types(response: &Value) -> Result<(), String> {
    let is_text: fn(&Value) -> bool = Value::is_string;
    let fields = [
        ("uid", is_text, "types.UID"),
        ("allowed", Value::is_boolean, "bool"),
        ("patch", is_text, "[]uint8"),
        ("patchType", is_text, "v1.PatchType"),
        ("warnings", Value::is_array, "[]string"),
    ];
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let given = fields.iter().map(|(name, fits, expected)| (*name, &response[*name], *fits, *expected));
    let mut given = given.chain(warnings.map(|warning| ("warnings", warning, is_text, "string")));
    match given.find(|(_, value, fits, _)| !value.is_null() && !fits(value)) {
        None => Ok(()),
        Some((name, value, _, expected)) => {
            let kind = json_type(value);
            Err(format!(
                "json: cannot unmarshal {kind} into Go struct field AdmissionResponse.response.{name} of type {expected}"
            ))
        }
    }
}

/// Decodes the status of a response, which the client gets if the request is denied.
fn decode_status(status: &Value) -> Result<Value, String> {
    let table = windlass_builtins::table();
    let Some(ty) = table.kind("v1", "Status").filter(|_| !status.is_null()) else { return Ok(Value::Null) };
    let decoded = decode(status.clone(), ty, &table.types, Storage::Json);
    match decoded.error {
        // The decoder does not know that the Status is a part of the review.
        Some(error) => Err(match error.split_once("Go struct field ").and_then(|(_, at)| at.split_once('.')) {
            Some((name, _)) => error.replacen(&format!("{name}."), &format!("{name}.response.status."), 1),
            None => error.replacen("Go value", "Go struct field AdmissionResponse.response.status", 1),
        }),
        None => Ok(decoded.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mutating: bool, response: Value) -> Result<Verdict, String> {
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        Verdict::decode(ReviewVersion::V1, "u", mutating, &answer)
    }

    fn denied(status: Value) -> Value {
        let verdict = read(false, json!({"uid": "u", "allowed": false, "status": status})).unwrap();
        verdict.denial("a.example.com").to_status()
    }

    #[test]
    fn a_response_must_match_the_review() {
        let wrong = |mutating: bool, response: Value| read(mutating, response).unwrap_err();
        let prefix = "received invalid webhook response: ";
        assert_eq!(wrong(true, json!(null)), format!("{prefix}webhook response was absent"));
        assert_eq!(wrong(true, json!({"uid": "x"})), format!("{prefix}expected response.uid=\"u\", got \"x\""));
        let patched = json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"});
        assert_eq!(wrong(false, patched.clone()), format!("{prefix}validating webhook may not return response.patch"));
        assert_eq!(read(true, patched).unwrap().patch, Some((b"[]".to_vec(), "JSONPatch".to_owned())));
        assert_eq!(
            wrong(true, json!({"uid": "u", "patch": "W10="})),
            format!("{prefix}webhook returned response.patch but not response.patchType")
        );
    }

    #[test]
    fn a_response_with_fields_of_the_wrong_type_is_rejected() {
        let status = "json: cannot unmarshal";
        for (response, expected) in [
            (
                json!({"status": {"metadata": "x"}}),
                "string into Go struct field Status.response.status.metadata of type v1.ListMeta",
            ),
            (
                json!({"status": {"reason": {}}}),
                "object into Go struct field Status.response.status.reason of type v1.StatusReason",
            ),
            (
                json!({"status": {"details": {"causes": [{"field": 1}]}}}),
                "number into Go struct field StatusCause.response.status.details.causes.field of type string",
            ),
            (
                json!({"status": {"code": 5_000_000_000_i64}}),
                "number 5000000000 into Go struct field Status.response.status.code of type int32",
            ),
            (json!({"status": []}), "array into Go struct field AdmissionResponse.response.status of type v1.Status"),
            (json!({"allowed": "true"}), "string into Go struct field AdmissionResponse.response.allowed of type bool"),
            (
                json!({"warnings": [1]}),
                "number into Go struct field AdmissionResponse.response.warnings of type string",
            ),
        ] {
            let mut response = response;
            response["uid"] = "u".into();
            let error = read(true, response.clone()).unwrap_err();
            assert_eq!(error, format!("failed to call webhook: {status} {expected}"), "{response}");
        }
    }

    #[test]
    fn a_denial_is_at_least_a_bad_request() {
        let status = denied(json!({"message": "no", "code": 200, "status": "Success"}));
        assert_eq!((&status["code"], &status["status"]), (&json!(400), &json!("Failure")));
        assert_eq!(status["message"], "admission webhook \"a.example.com\" denied the request: no");
        let status = denied(json!({"reason": "Teapot", "code": 418}));
        assert_eq!((&status["code"], &status["reason"]), (&json!(418), &json!("Teapot")));
        assert_eq!(status["message"], "admission webhook \"a.example.com\" denied the request: Teapot");
        let status = denied(json!(null));
        assert_eq!(status["message"], "admission webhook \"a.example.com\" denied the request without explanation");
    }
}
