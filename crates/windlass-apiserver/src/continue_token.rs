//! Continue tokens: the position at which a paged list continues, and its revision.

use base64::{
    Engine, alphabet,
    engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};
use windlass_schema::go_format::json_type;

use crate::status::{ApiError, Result};

/// A decoded token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision of the list; -1 to continue in the newest state.
    pub(crate) revision: i64,
    /// The last key of the previous page, relative to the list's prefix.
    pub(crate) after: String,
    /// The number of objects after this position, if it is known.
    pub(crate) remaining: Option<usize>,
}

impl ContinueToken {
    pub(crate) fn encode(&self) -> String {
        let mut token = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": format!("{}\0", self.after)});
        if let Some(remaining) = self.remaining {
            token["remaining"] = remaining.into();
        }
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    pub(crate) fn decode(text: &str) -> Result<Self> {
        let invalid =
            |why: String| ApiError::bad_request(format!("invalid continue token: continue key is not valid{why}"));
        let bytes = decode_base64(text).map_err(|at| invalid(format!(": illegal base64 data at input byte {at}")))?;
        let token = windlass_schema::json::parse(&bytes).map_err(|error| invalid(format!(": {error}")))?.value;
        let Fields { version, revision, start } = Fields::of(&token).map_err(|error| invalid(format!(": {error}")))?;
        if version != "meta.k8s.io/v1" {
            return Err(invalid(format!(": server does not recognize this encoded version {version}")));
        }
        if revision == 0 {
            let why = ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)";
            return Err(invalid(why.to_owned()));
        }
        if start.is_empty() {
            return Err(invalid(": encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        // A key that leaves its prefix could list objects that the user may not see.
        let key = start.strip_prefix('/').unwrap_or(start);
        if !key.is_empty() && key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid(format!(": {start}")));
        }
        let after = key.strip_suffix('\0').unwrap_or(key).to_owned();
        let remaining = token["remaining"].as_u64().and_then(|remaining| usize::try_from(remaining).ok());
        Ok(Self { revision, after, remaining })
    }
}

/// The fields that tokens of kube-apiserver have.
struct Fields<'t> {
    version: &'t str,
    revision: i64,
    start: &'t str,
}

impl<'t> Fields<'t> {
    /// Reads the fields as Go does: their names may be in any case.
    fn of(token: &'t Value) -> std::result::Result<Self, String> {
        let map = match token {
            Value::Object(map) => Some(map),
            Value::Null => None,
            other => {
                let found = json_type(other);
                return Err(format!("json: cannot unmarshal {found} into Go value of type storage.continueToken"));
            }
        };
        let field = |name: &str| {
            let mut entries = map.into_iter().flatten();
            let found = map.and_then(|map| map.get(name));
            found.or_else(|| entries.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
        };
        let mismatch = |name: &str, found: &str, wanted: &str| {
            format!("json: cannot unmarshal {found} into Go struct field continueToken.{name} of type {wanted}")
        };
        let text = |name: &str| match field(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(other) => Err(mismatch(name, json_type(other), "string")),
        };
        let revision = match field("rv") {
            None | Some(Value::Null) => Ok(0),
            Some(Value::Number(number)) => {
                number.as_i64().ok_or_else(|| mismatch("rv", &format!("number {number}"), "int64"))
            }
            Some(other) => Err(mismatch("rv", json_type(other), "int64")),
        };
        Ok(Self { version: text("v")?, revision: revision?, start: text("start")? })
    }
}

/// Decodes base64 as Go does, which skips line breaks and ignores trailing bits. An error is the position at which Go
/// fails.
fn decode_base64(text: &str) -> std::result::Result<Vec<u8>, usize> {
    const ENGINE: GeneralPurpose =
        GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let bytes: Vec<u8> = text.bytes().filter(|byte| !is_break(byte)).collect();
    ENGINE.decode(&bytes).map_err(|_| {
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let wrong = text.bytes().position(|byte| !is_letter(&byte) && !is_break(&byte));
        // Otherwise, the last group has only one letter.
        wrong.unwrap_or(text.len().saturating_sub(1))
    })
}

/// Encodes a token from JSON, for tests of malicious tokens.
#[cfg(test)]
fn raw(value: &serde_json::Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_survives_the_round_trip() {
        for remaining in [None, Some(3)] {
            let token = ContinueToken { revision: 12, after: "ns/name".to_owned(), remaining };
            assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        }
    }

    #[test]
    fn a_continue_token_cannot_leave_its_prefix() {
        for start in ["../secrets/x", "//x", "/../x", "a//b", "./x", "x/"] {
            assert!(
                ContinueToken::decode(&raw(&json!({"v": "meta.k8s.io/v1", "rv": 5, "start": start}))).is_err(),
                "{start}"
            );
        }
    }

    #[test]
    fn tokens_are_read_as_go_reads_them() {
        let decode = |token: serde_json::Value| ContinueToken::decode(&raw(&token)).map_err(|error| error.message);
        let reason = |token: serde_json::Value| decode(token).unwrap_err();
        let prefix = "invalid continue token: continue key is not valid: json: cannot unmarshal";
        assert_eq!(reason(json!([1])), format!("{prefix} array into Go value of type storage.continueToken"));
        assert_eq!(
            reason(json!({"v": "meta.k8s.io/v1", "rv": "1"})),
            format!("{prefix} string into Go struct field continueToken.rv of type int64")
        );
        assert_eq!(
            reason(json!({"v": "meta.k8s.io/v1", "rv": 1, "start": 5})),
            format!("{prefix} number into Go struct field continueToken.start of type string")
        );
        let any_case = decode(json!({"V": "meta.k8s.io/v1", "RV": 3, "Start": "/a\0"})).unwrap();
        assert_eq!(any_case, ContinueToken { revision: 3, after: "a".to_owned(), remaining: None });
    }

    #[test]
    fn base64_is_read_as_go_reads_it() {
        assert_eq!(decode_base64("YQ"), Ok(b"a".to_vec()));
        assert_eq!(decode_base64("Y\nR\r\n"), Ok(b"a".to_vec()));
        assert_eq!(decode_base64("Y\nQ=="), Err(3));
        assert_eq!(decode_base64("YWJjZ"), Err(4));
    }

    proptest! {
        #[test]
        fn no_token_panics(text in ".{0,60}") {
            let _ = ContinueToken::decode(&text);
            let _ = ContinueToken::decode(&URL_SAFE_NO_PAD.encode(&text));
        }
    }
}
