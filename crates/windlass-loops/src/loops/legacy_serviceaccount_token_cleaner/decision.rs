//! Decides whether a token is kept, marked as invalid or deleted.

use jiff::{SignedDuration, Timestamp, ToSpan as _, civil::Date, tz::TimeZone};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};

/// The day since which a token is rejected.
pub(super) const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// The day on which a token was last used.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Time for which a token is kept after its last use, and after it was marked as invalid.
const KEPT: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The time during which a token must be unused.
pub(super) struct Period {
    start: Timestamp,
}

impl Period {
    /// Returns the period that ends now; `None` if uses have not been recorded for all of it.
    pub(super) fn of(tracked_since: Date, now: Timestamp) -> Option<Self> {
        // Uses on the first day may be missing.
        let complete = tracked_since.checked_add(1.day()).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
        let start = now.checked_sub(KEPT).ok()?;
        (start >= complete).then_some(Self { start })
    }

    /// The first day of the period.
    fn day(&self) -> Date {
        self.start.to_zoned(TimeZone::UTC).date()
    }
}

/// Action for an unused token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Keep,
    Invalidate,
    Delete,
}

/// Parses a day in the format of the labels.
pub(super) fn date(text: &str) -> Option<Date> {
    let has_form = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    text.parse().ok().filter(|_| has_form)
}

/// Returns whether a token existed for the whole period and was not used. If the day of its last use cannot be read, it
/// may have been.
pub(super) fn is_unused(secret: &Secret, period: &Period) -> bool {
    let metadata = &secret.metadata;
    let is_old = metadata.creation_timestamp.as_ref().is_none_or(|created| created.0 < period.start);
    let last_used = label(secret, LAST_USED);
    let is_used = last_used.is_some_and(|day| date(day).is_none_or(|day| day >= period.day()));
    secret.type_.as_deref() == Some("kubernetes.io/service-account-token")
        && metadata.deletion_timestamp.is_none()
        && is_old
        && !is_used
}

/// Returns whether the Secret was generated for an account: the account lists it.
pub(super) fn generated_for(secret: &Secret, account: &ServiceAccount) -> bool {
    let annotation = |key: &str| {
        let found = secret.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
        found.filter(|value| !value.is_empty())
    };
    let lists = |name: &Option<String>| account.secrets.iter().flatten().any(|listed| listed.name == *name);
    annotation(ACCOUNT_NAME).is_some_and(|name| Some(name) == account.metadata.name.as_ref())
        && annotation(ACCOUNT_UID).is_none_or(|uid| Some(uid) == account.metadata.uid.as_ref())
        && secret.metadata.name.is_some()
        && lists(&secret.metadata.name)
}

/// Decides about a token that is unused.
pub(super) fn decide(secret: &Secret, period: &Period) -> Decision {
    match label(secret, INVALID_SINCE).and_then(date) {
        None => Decision::Invalidate,
        Some(day) if day >= period.day() => Decision::Keep,
        Some(_) => Decision::Delete,
    }
}

fn label<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    secret.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn period() -> Period {
        let now = "2026-01-02T12:00:00Z".parse().unwrap();
        Period::of(date("2020-01-01").unwrap(), now).unwrap()
    }

    fn secret(created: &str, labels: Value) -> Secret {
        serde_json::from_value(json!({
            "metadata": {
                "name": "t", "namespace": "n", "creationTimestamp": created, "labels": labels,
                "annotations": {"kubernetes.io/service-account.name": "a", "kubernetes.io/service-account.uid": "1"},
            },
            "type": "kubernetes.io/service-account-token",
        }))
        .unwrap()
    }

    #[test]
    fn uses_must_have_been_recorded_for_a_year_and_the_rest_of_the_first_day() {
        let begins = |now: &str| Period::of(date("2025-01-01").unwrap(), now.parse().unwrap()).is_some();
        assert!(!begins("2026-01-01T23:59:59Z"));
        assert!(begins("2026-01-02T00:00:00Z"));
    }

    #[test]
    fn a_token_is_unused_if_it_is_old_and_was_not_used_for_a_year() {
        for (created, labels, expected) in [
            ("2025-01-02T11:59:59Z", json!({}), true),
            ("2025-01-02T12:00:00Z", json!({}), false),
            ("2020-01-01T00:00:00Z", json!({LAST_USED: "2025-01-01"}), true),
            ("2020-01-01T00:00:00Z", json!({LAST_USED: "2025-01-02"}), false),
            ("2020-01-01T00:00:00Z", json!({LAST_USED: "yesterday"}), false),
        ] {
            assert_eq!(is_unused(&secret(created, labels.clone()), &period()), expected, "{created} {labels}");
        }
        let mut other = secret("2020-01-01T00:00:00Z", json!({}));
        other.type_ = Some("Opaque".to_owned());
        assert!(!is_unused(&other, &period()));
    }

    #[test]
    fn an_unused_token_is_invalid_for_a_year_before_it_is_deleted() {
        for (labels, expected) in [
            (json!({}), Decision::Invalidate),
            (json!({INVALID_SINCE: "2025"}), Decision::Invalidate),
            (json!({INVALID_SINCE: "2025-01-02"}), Decision::Keep),
            (json!({INVALID_SINCE: "2025-01-01"}), Decision::Delete),
        ] {
            assert_eq!(decide(&secret("2020-01-01T00:00:00Z", labels.clone()), &period()), expected, "{labels}");
        }
    }

    #[test]
    fn only_secrets_that_their_account_lists_were_generated() {
        let account = |name: &str, uid: &str, listed: &str| -> ServiceAccount {
            let object = json!({"metadata": {"name": name, "uid": uid}, "secrets": [{"name": listed}]});
            serde_json::from_value(object).unwrap()
        };
        let secret = secret("2020-01-01T00:00:00Z", json!({}));
        assert!(generated_for(&secret, &account("a", "1", "t")));
        for other in [account("b", "1", "t"), account("a", "2", "t"), account("a", "1", "u")] {
            assert!(!generated_for(&secret, &other), "{other:?}");
        }
    }
}
