//! Authenticates tokens of service accounts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Claims, ISSUER, Reference};
use crate::{meta, server::Inner, user::User};

/// The accepted difference between clocks, in seconds.
const LEEWAY: i64 = 60;

/// The error for anything that is not a token of this server.
const NO_TOKEN: &str = "invalid bearer token";

impl Inner {
    /// Returns the user of a token and those of the given audiences that it is for. The error may be shown to users who
    /// may review tokens.
    pub(crate) async fn user_of_token(&self, token: &str, shown_to: &[&str]) -> Result<(User, Vec<String>), String> {
        let claims = self.token_key.verify(token).filter(|claims| claims.iss == ISSUER).ok_or(NO_TOKEN)?;
        let now = self.now().as_second();
        if now > claims.exp.saturating_add(LEEWAY) {
            return Err("service account token has expired".to_owned());
        }
        if now < claims.nbf.saturating_sub(LEEWAY) {
            return Err("service account token is not valid yet".to_owned());
        }
        let meant: Vec<String> = shown_to
            .iter()
            .filter(|one| claims.aud.iter().any(|audience| audience == *one))
            .map(|one| (*one).to_owned())
            .collect();
        if meant.is_empty() {
            let quoted = |list: &[&str]| list.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" ");
            let audiences: Vec<&str> = claims.aud.iter().map(String::as_str).collect();
            return Err(format!(
                "token audiences [{}] is invalid for the target audiences [{}]",
                quoted(&audiences),
                quoted(shown_to)
            ));
        }
        self.storage.fresh().await.map_err(|error| error.to_string())?;
        let bound = &claims.bound;
        let (namespace, account) = (bound.namespace.as_str(), &bound.serviceaccount);
        if !self.is_there("serviceaccounts", namespace, account) {
            return Err(format!("serviceaccounts {:?} not found", account.name));
        }
        // A pod's token names its node, but the node may be deleted before the pod.
        let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
        let stands = bound.secret.as_ref().is_none_or(|secret| self.is_there("secrets", namespace, secret))
            && bound.pod.as_ref().is_none_or(|pod| self.is_there("pods", namespace, pod))
            && node.is_none_or(|node| self.is_there("nodes", "", node));
        if stands { Ok((user(&claims), meant)) } else { Err("service account token has been invalidated".to_owned()) }
    }

    /// Returns whether an object is the bound one and is not about to be removed.
    fn is_there(&self, plural: &str, namespace: &str, wanted: &Reference) -> bool {
        let key = if namespace.is_empty() { wanted.name.clone() } else { format!("{namespace}/{}", wanted.name) };
        let object = self.storage.cache(&format!("/core/{plural}/")).get(&key);
        object.is_some_and(|object| {
            *object.header.uid == *wanted.uid && !was_deleted(&object.to_value(), self.now().as_second())
        })
    }
}

fn was_deleted(object: &Value, now: i64) -> bool {
    let deleted = meta::text(object, "deletionTimestamp").parse::<jiff::Timestamp>();
    deleted.is_ok_and(|deleted| deleted.as_second() < now - LEEWAY)
}

fn user(claims: &Claims) -> User {
    let Claims { bound, jti, .. } = claims;
    let namespace = &bound.namespace;
    let mut extra = BTreeMap::new();
    let mut say = |name: &str, value: &str| {
        if !value.is_empty() {
            extra.insert(format!("authentication.kubernetes.io/{name}"), vec![value.to_owned()]);
        }
    };
    say("credential-id", &format!("JTI={jti}"));
    if let Some(pod) = &bound.pod {
        say("pod-name", &pod.name);
        say("pod-uid", &pod.uid);
    }
    if let Some(node) = &bound.node {
        say("node-name", &node.name);
        say("node-uid", &node.uid);
    }
    User {
        name: format!("system:serviceaccount:{namespace}:{}", bound.serviceaccount.name),
        uid: bound.serviceaccount.uid.clone(),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        extra,
    }
}
