//! Signs the ConfigMap `kube-public/cluster-info` with every bootstrap token that may sign it, so that new nodes can
//! verify the cluster that they join.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use ring::hmac;
use windlass::{
    Result,
    context::Context,
    controller::{Action, Controller, Watch},
    key::ObjectKey,
    operator::Operator,
    scope::Scope,
};

use super::{ClusterCertificates, FIELD_MANAGER};
use crate::bootstrap_tokens::{self, Expiration, expiration, text};

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";
/// The prefix of the keys of signatures.
const SIGNATURE: &str = "jws-kubeconfig-";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let info = Watch::<ConfigMap>::new().scope(Scope::namespace(NAMESPACE).fields(format!("metadata.name={NAME}")));
    let tokens = Watch::<Secret>::new().scope(bootstrap_tokens::scope());
    let signed = |_: &Secret, _: &Context| vec![ObjectKey::namespaced(NAMESPACE, NAME)];
    operator.controller(
        Controller::of("bootstrap-signer-controller", info, reconcile)
            .field_manager(FIELD_MANAGER)
            .source(tokens.map(signed)),
    )
}

async fn reconcile(info: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
    let tokens = ctx.list::<Secret>()?;
    let Some(data) = signed(&info, tokens.iter().map(Arc::as_ref), windlass_clock::now()) else {
        return Ok(Action::done());
    };
    match ctx.update(ConfigMap { data: Some(data), ..ConfigMap::clone(&info) }).await {
        Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

/// Returns the data with the signatures of all tokens; `None` if it has exactly these.
fn signed<'a>(
    info: &ConfigMap,
    tokens: impl Iterator<Item = &'a Secret>,
    now: Timestamp,
) -> Option<BTreeMap<String, String>> {
    let present = info.data.as_ref()?;
    let content = present.get("kubeconfig")?;
    let mut data = present.clone();
    data.retain(|key, _| !key.starts_with(SIGNATURE));
    for (id, secret) in tokens.filter_map(|token| signing_key(token, now)) {
        data.insert(format!("{SIGNATURE}{id}"), signature(content, &id, &secret));
    }
    (data != *present).then_some(data)
}

/// Returns the ID and the secret of a token, if it may sign.
fn signing_key(token: &Secret, now: Timestamp) -> Option<(String, String)> {
    let name = token.metadata.name.as_deref()?.strip_prefix("bootstrap-token-")?;
    let (id, secret) = (text(token, "token-id"), text(token, "token-secret"));
    let valid_id = id.len() == 6 && id.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    let valid = valid_id
        && name == id
        && !secret.is_empty()
        && expiration(token, now) != Expiration::Expired
        && text(token, "usage-bootstrap-signing") == "true";
    valid.then_some((id, secret))
}

/// Returns a JSON web signature without its payload.
fn signature(content: &str, id: &str, secret: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(format!("{{\"alg\":\"HS256\",\"kid\":\"{id}\"}}"));
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(data: &[(&str, &str)]) -> Secret {
        let mut all = BTreeMap::from([
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-signing", "true"),
        ]);
        all.extend(data.iter().copied());
        let data: serde_json::Map<_, _> = all
            .into_iter()
            .map(|(key, value)| (key.to_owned(), json!(base64::engine::general_purpose::STANDARD.encode(value))))
            .collect();
        serde_json::from_value(json!({"metadata": {"name": "bootstrap-token-abcdef"}, "data": data})).unwrap()
    }

    #[test]
    fn valid_tokens_sign_and_other_signatures_are_removed() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let info: ConfigMap =
            serde_json::from_value(json!({"data": {"kubeconfig": "text", "jws-kubeconfig-zzzzzz": "old"}})).unwrap();
        let data = signed(&info, [&token(&[])].into_iter(), now).unwrap();
        let keys: Vec<&str> = data.keys().map(String::as_str).collect();
        assert_eq!(keys, ["jws-kubeconfig-abcdef", "kubeconfig"]);
        let signature = &data["jws-kubeconfig-abcdef"];
        // {"alg":"HS256","kid":"abcdef"}, nothing, and the HMAC of both.
        assert!(signature.starts_with("eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9.."), "{signature}");
        let again = ConfigMap { data: Some(data), ..ConfigMap::default() };
        assert_eq!(signed(&again, [&token(&[])].into_iter(), now), None);
        for (key, value) in [
            ("usage-bootstrap-signing", "false"),
            ("expiration", "2020-01-01T00:00:00Z"),
            ("token-id", "other1"),
            ("token-secret", ""),
        ] {
            let data = signed(&again, [&token(&[(key, value)])].into_iter(), now).unwrap();
            assert_eq!(data.len(), 1, "{key}");
        }
    }
}
