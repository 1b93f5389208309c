//! The parts of a token that all issuers have in common. Pure.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Map, Value};
use windlass_schema::go_format::json_type;

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// Maximum number of seconds by which `nbf` may be in the future.
const LEEWAY: i64 = 60;

/// Google's issuer, which its tokens may name without the scheme.
const GOOGLE: &str = "https://accounts.google.com";

/// Returns the issuer that a token names, which is not verified; `None` if the string is not a token.
pub(super) fn untrusted_issuer(token: &str) -> Option<String> {
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    match claims.get("iss") {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(issuer)) if issuer == "accounts.google.com" => Some(GOOGLE.to_owned()),
        Some(Value::String(issuer)) => Some(issuer.clone()),
        Some(_) => None,
    }
}

/// Checks the audience and the times of verified claims.
///
/// # Errors
/// Returns kube-apiserver's reason for a rejection.
pub(super) fn check(claims: &Claims, audiences: &[String], now: Timestamp) -> Result<(), String> {
    let unreadable = |error: String| format!("oidc: failed to unmarshal claims: {error}");
    let given = texts(claims.get("aud"), true).map_err(unreadable)?;
    let expires = time(claims.get("exp")).map_err(unreadable)?;
    let not_before = time(claims.get("nbf")).map_err(unreadable)?;
    if !given.iter().any(|audience| audiences.contains(audience)) {
        return Err(match audiences {
            [only] => format!("oidc: expected audience {only:?} got {}", quoted(&given)),
            several => {
                let mut sorted = several.to_vec();
                sorted.sort_unstable();
                format!("oidc: expected audience in {} got {}", quoted(&sorted), quoted(&given))
            }
        });
    }
    let expires = expires.unwrap_or(GO_ZERO_TIME);
    if Timestamp::from_second(expires).map_or(expires < 0, |expires| expires < now) {
        return Err(format!("oidc: token is expired (Token Expiry: {})", shown(expires)));
    }
    match not_before {
        Some(not_before) if now.as_second().saturating_add(LEEWAY) < not_before => Err(format!(
            "oidc: current time {} before the nbf (not before) time: {}",
            shown(now.as_second()),
            shown(not_before)
        )),
        _ => Ok(()),
    }
}

/// The seconds of Go's zero time, year 1.
const GO_ZERO_TIME: i64 = -62_135_596_800;

/// Formats a time as Go does.
fn shown(seconds: i64) -> String {
    let time = Timestamp::from_second(seconds).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX });
    time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
}

/// Formats strings as Go's `%q` does.
fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| windlass_schema::go_format::quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

/// Returns a time in seconds: a number, or a number in a string.
fn time(value: Option<&Value>) -> Result<Option<i64>, String> {
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => return Err(mismatch(other, "json.Number")),
    };
    if let Ok(whole) = text.parse() {
        return Ok(Some(whole));
    }
    match text.parse::<f64>() {
        // Out of range, the nearest time.
        Ok(number) => Ok(Some(number as i64)),
        Err(_) => Err(format!("json: invalid number literal, trying to unmarshal {text:?} into Number")),
    }
}

fn mismatch(value: &Value, go_type: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {go_type}", json_type(value))
}

/// Returns a claim that must be a string. Null is an empty one, as in Go.
pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok(String::new()),
        other => Err(mismatch(other, "string")),
    }
}

/// Returns a claim that is a string or a list of strings. In errors, Go names the form that it tries last.
pub(super) fn texts(value: Option<&Value>, list_is_last: bool) -> Result<Vec<String>, String> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Null) if list_is_last => Ok(vec![String::new()]),
        Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(items)) if list_is_last => items.iter().map(text).collect(),
        Some(list @ Value::Array(items)) => {
            items.iter().map(text).collect::<Result<_, _>>().map_err(|_| mismatch(list, "string"))
        }
        Some(other) if list_is_last => Err(mismatch(other, "[]string")),
        Some(other) => Err(mismatch(other, "string")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(claims: Value) -> Result<(), String> {
        let now = Timestamp::from_second(1_000).unwrap();
        check(claims.as_object().unwrap(), &["a".to_owned()], now)
    }

    #[test]
    fn a_token_is_valid_for_its_audiences_and_times() {
        assert_eq!(checked(json!({"aud": "a", "exp": 1000})), Ok(()));
        assert_eq!(checked(json!({"aud": ["b", "a"], "exp": "1000", "nbf": 1060})), Ok(()));
        assert_eq!(checked(json!({"aud": "a", "exp": 1e300})), Ok(()));
        for (claims, why) in [
            (json!({"exp": 1001}), "oidc: expected audience \"a\" got []"),
            (json!({"aud": ["b", "c"], "exp": 1001}), "oidc: expected audience \"a\" got [\"b\" \"c\"]"),
            (json!({"aud": "a", "exp": 999}), "oidc: token is expired (Token Expiry: 1970-01-01 00:16:39 +0000 UTC)"),
            (json!({"aud": "a"}), "oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)"),
            (
                json!({"aud": "a", "exp": 1001, "nbf": 1061}),
                "oidc: current time 1970-01-01 00:16:40 +0000 UTC before the nbf (not before) time: \
                 1970-01-01 00:17:41 +0000 UTC",
            ),
            (
                json!({"aud": 1, "exp": 1001}),
                "oidc: failed to unmarshal claims: json: cannot unmarshal number into Go value of type []string",
            ),
            (
                json!({"aud": "a", "exp": {}}),
                "oidc: failed to unmarshal claims: json: cannot unmarshal object into Go value of type json.Number",
            ),
        ] {
            assert_eq!(checked(claims), Err(why.to_owned()));
        }
    }

    #[test]
    fn the_issuer_is_read_without_verification() {
        let token = |payload: &str| format!("e30.{}.AA", URL_SAFE_NO_PAD.encode(payload));
        assert_eq!(untrusted_issuer(&token(r#"{"iss":"https://i"}"#)).as_deref(), Some("https://i"));
        assert_eq!(untrusted_issuer(&token(r#"{"iss":"accounts.google.com"}"#)).as_deref(), Some(GOOGLE));
        assert_eq!(untrusted_issuer(&token("{}")).as_deref(), Some(""));
        for other in [token(r#"{"iss":1}"#), token("[]"), "a.b".to_owned(), "a.b.c.d".to_owned(), String::new()] {
            assert_eq!(untrusted_issuer(&other), None, "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_claims_panic(text in ".{0,80}", exp in proptest::num::f64::ANY) {
            let _ = untrusted_issuer(&text);
            let _ = untrusted_issuer(&format!("{text}.{}.{text}", URL_SAFE_NO_PAD.encode(&text)));
            for exp in [json!(exp), json!(text), json!(i64::MIN), json!(i64::MAX), json!(u64::MAX)] {
                let _ = checked(json!({"aud": "a", "exp": exp, "nbf": exp}));
            }
        }
    }
}
