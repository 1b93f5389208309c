//! Bootstrap tokens: Secrets in `kube-system` with which new nodes join a cluster.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::Value;

use super::same_secret;
use crate::{meta, storage::ResourceCache, user::User};

const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";

/// Returns the user of a bootstrap token; `None` if there is no valid token like it.
pub(super) fn user(secrets: &ResourceCache, token: &str, now: Timestamp) -> Option<User> {
    let (id, secret) = parse(token)?;
    let object = secrets.get(&format!("kube-system/bootstrap-token-{id}"))?.to_value();
    if meta::is_terminating(&object) || object["type"] != TYPE {
        return None;
    }
    let data = |key: &str| text(&object, key);
    let valid = same_secret(data("token-secret").as_bytes(), secret.as_bytes())
        && data("token-id") == id
        && !has_expired(&data("expiration"), now)
        && data("usage-bootstrap-authentication") == "true";
    let groups = groups(&data("auth-extra-groups"))?;
    valid.then(|| User { name: format!("system:bootstrap:{id}"), groups, ..User::default() }.authenticated())
}

/// Splits a token into its ID and its secret.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let valid =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    (valid(id, 6) && valid(secret, 16)).then_some((id, secret))
}

fn text(secret: &Value, key: &str) -> String {
    let bytes = secret["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok());
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn has_expired(expiration: &str, now: Timestamp) -> bool {
    !expiration.is_empty() && !expiration.parse::<Timestamp>().is_ok_and(|expiration| expiration > now)
}

/// Returns the groups of a token, sorted; `None` if one is invalid.
fn groups(extra: &str) -> Option<Vec<String>> {
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    if !extra.is_empty() {
        for group in extra.split(',') {
            groups.insert(is_group(group).then(|| group.to_owned())?);
        }
    }
    Some(groups.into_iter().collect())
}

/// Returns whether a group matches `\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`.
fn is_group(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("system:bootstrappers:") else { return false };
    let letter = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    let (last, first) = match rest.as_bytes().split_last() {
        Some(parts) => parts,
        None => return false,
    };
    letter(last) && first.len() <= 255 && first.iter().all(|byte| letter(byte) || matches!(byte, b':' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_an_id_and_a_secret() {
        assert_eq!(parse("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for token in ["abcdef", "abcdeF.0123456789abcdef", "abcdef.0123456789abcde", "abcdef.0123456789abcdef.x", "."] {
            assert_eq!(parse(token), None, "{token}");
        }
    }

    #[test]
    fn extra_groups_are_bootstrap_groups() {
        assert_eq!(groups("").unwrap(), [GROUP]);
        let extra = groups("system:bootstrappers:kubeadm:a-b,system:bootstrappers:a").unwrap();
        assert_eq!(extra, [GROUP, "system:bootstrappers:a", "system:bootstrappers:kubeadm:a-b"]);
        for invalid in ["system:masters", "system:bootstrappers:", "system:bootstrappers:a-", "system:bootstrappers:A"]
        {
            assert_eq!(groups(invalid), None, "{invalid}");
        }
        assert!(groups(&format!("system:bootstrappers:{}", "a".repeat(256))).is_some());
        assert!(groups(&format!("system:bootstrappers:{}", "a".repeat(257))).is_none());
    }

    #[test]
    fn a_token_expires_at_its_time_and_at_once_if_the_time_is_malformed() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert!(!has_expired("", now));
        assert!(!has_expired("2026-01-01T01:00:01+01:00", now));
        assert!(has_expired("2026-01-01T00:00:00Z", now));
        assert!(has_expired("tomorrow", now));
    }
}
