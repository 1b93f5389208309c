//! Continue tokens: the position at which a paged list continues, and its revision.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;

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
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) => at,
                _ => text.len(),
            };
            invalid(format!(": illegal base64 data at input byte {at}"))
        })?;
        let token = windlass_schema::json::parse(&bytes).map_err(|error| invalid(format!(": {error}")))?.value;
        if token["v"] != "meta.k8s.io/v1" {
            let version = token["v"].as_str().unwrap_or_default();
            return Err(invalid(format!(": server does not recognize this encoded version {version}")));
        }
        let revision = token["rv"].as_i64().unwrap_or(0);
        if revision == 0 {
            let why = ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)";
            return Err(invalid(why.to_owned()));
        }
        let start = token["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(invalid(": encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        // A key that leaves its prefix could list objects that the user may not see.
        if start.starts_with('/') || start.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid(format!(": {start}")));
        }
        let after = start.strip_suffix('\0').unwrap_or(start).to_owned();
        let remaining = token["remaining"].as_u64().and_then(|remaining| usize::try_from(remaining).ok());
        Ok(Self { revision, after, remaining })
    }
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
        for start in ["../secrets/x", "/x", "a//b", "./x"] {
            assert!(
                ContinueToken::decode(&raw(&json!({"v": "meta.k8s.io/v1", "rv": 5, "start": start}))).is_err(),
                "{start}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_token_panics(text in ".{0,60}") {
            let _ = ContinueToken::decode(&text);
            let _ = ContinueToken::decode(&URL_SAFE_NO_PAD.encode(&text));
        }
    }
}
