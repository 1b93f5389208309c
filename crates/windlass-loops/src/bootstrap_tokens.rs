//! Bootstrap tokens: Secrets in `kube-system` with which new nodes join a cluster.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use windlass::scope::Scope;

/// Scope of the Secrets with bootstrap tokens.
pub(crate) fn scope() -> Scope {
    Scope::namespace("kube-system").fields("type=bootstrap.kubernetes.io/token")
}

/// Expiry of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiration {
    Never,
    In(Duration),
    Expired,
}

/// Returns a value of a token as text; empty if there is none.
pub(crate) fn text(secret: &Secret, key: &str) -> String {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    value.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
}

/// Returns when a token expires. A time that is malformed counts as past.
pub(crate) fn expiration(secret: &Secret, now: Timestamp) -> Expiration {
    let text = text(secret, "expiration");
    if text.is_empty() {
        return Expiration::Never;
    }
    let remaining = text.parse::<Timestamp>().ok().and_then(|time| Duration::try_from(time.duration_since(now)).ok());
    match remaining {
        Some(remaining) if !remaining.is_zero() => Expiration::In(remaining),
        _ => Expiration::Expired,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn a_token_expires_at_its_time_and_at_once_if_the_time_is_malformed() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("", Expiration::Never),
            ("2026-01-01T00:00:05Z", Expiration::In(Duration::from_secs(5))),
            ("2026-01-01T01:00:05+01:00", Expiration::In(Duration::from_secs(5))),
            ("2026-01-01T00:00:00Z", Expiration::Expired),
            ("2020-01-01T00:00:00Z", Expiration::Expired),
            ("tomorrow", Expiration::Expired),
        ] {
            let data = [("expiration".to_owned(), ByteString(text.as_bytes().to_vec()))];
            let secret = Secret { data: Some(data.into()), ..Secret::default() };
            assert_eq!(expiration(&secret, now), expected, "{text}");
        }
    }
}
