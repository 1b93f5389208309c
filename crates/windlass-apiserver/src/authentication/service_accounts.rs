//! Tokens of service accounts, as TokenRequests return them.
//!
//! Verified signatures are cached; the existence of the account and of bound objects is checked each time, so that a
//! token is invalid as soon as one of them is deleted.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use windlass_schema::go_format::quote;

use super::{
    legacy_tokens,
    notices::Notices,
    remembered::{Key, Remembered},
    token_counters::{TokenCounters, Use},
};
use crate::{
    meta,
    server::Inner,
    storage::{ResourceCache, Storage, StoredObject},
    tokens::{Claims, Issuers, LEGACY_ISSUER, LegacyClaims, Reference},
    user::User,
};

/// The accepted difference between clocks, in seconds.
const LEEWAY: i64 = 60;
/// The error for a bound object that does not exist.
const INVALIDATED: &str = "service account token has been invalidated";

/// The objects that tokens are checked against, and the tokens whose signatures were verified.
pub(super) struct ServiceAccountTokens {
    pub(super) accounts: Arc<ResourceCache>,
    pub(super) secrets: Arc<ResourceCache>,
    pods: Arc<ResourceCache>,
    nodes: Arc<ResourceCache>,
    verified: Remembered<Arc<Verified>>,
    pub(super) counters: TokenCounters,
}

/// A token whose signature is that of this server.
pub(super) enum Verified {
    Bound(Box<Claims>, Arc<User>),
    Legacy(LegacyClaims),
}

/// The user of a token, and the requested audiences that it is valid for.
pub(super) type Accepted = (Arc<User>, Vec<String>);

impl ServiceAccountTokens {
    pub(super) fn new(storage: &Storage) -> Self {
        let cache = |plural: &str| storage.cache(&format!("/core/{plural}/"));
        Self {
            accounts: cache("serviceaccounts"),
            secrets: cache("secrets"),
            pods: cache("pods"),
            nodes: cache("nodes"),
            verified: Remembered::default(),
            counters: TokenCounters::default(),
        }
    }
}

impl Inner {
    /// Returns the user of a service account's token; `None` if it is a token of another kind.
    pub(super) async fn service_account(
        self: &Arc<Self>,
        token: &str,
        audiences: &[&str],
        notices: &mut Notices<'_>,
    ) -> Result<Option<Accepted>, String> {
        let Some((verified, first)) = self.verified(token)? else { return Ok(None) };
        // As in kube-apiserver, a use is counted only if no earlier use is cached.
        let count = |used: Use| {
            if first {
                self.authentication.service_accounts.counters.count(used);
            }
        };
        let (of_token, subject): (&[String], &str) = match &*verified {
            Verified::Bound(claims, _) => (&claims.aud, &claims.sub),
            Verified::Legacy(claims) => (&[], &claims.sub),
        };
        if of_token.is_empty() {
            notices.annotate("authentication.k8s.io/legacy-token", || subject.to_owned());
            count(Use::Legacy);
        }
        let audiences = intended(of_token, audiences, &self.authentication.issuers)?;
        let user = match &*verified {
            Verified::Bound(claims, user) => {
                self.check_bound(claims).await?;
                if let Some(used) = self.timeliness(claims, notices) {
                    count(used);
                }
                user.clone()
            }
            Verified::Legacy(claims) => Arc::new(legacy_tokens::user(self, token, claims, notices, &count).await?),
        };
        Ok(Some((user, audiences)))
    }

    /// Returns the claims of a token that this server has signed, and whether they are not cached yet; `None`
    /// if it is a token of another kind.
    fn verified(&self, token: &str) -> Result<Option<(Arc<Verified>, bool)>, String> {
        let Some(issued) = Issued::parse(token, &self.authentication.issuers) else { return Ok(None) };
        let key = Key::of(token, &[]);
        let remembered = &self.authentication.service_accounts.verified;
        if let Some(verified) = remembered.get(&key) {
            return Ok(Some((verified, false)));
        }
        if !self.token_key.knows(&issued.key) {
            return Err("invalid signature, no keys found".to_owned());
        }
        let broken = || "go-jose/go-jose: error in cryptographic primitive".to_owned();
        let verified = Arc::new(if issued.legacy {
            Verified::Legacy(self.token_key.verify(token).ok_or_else(broken)?)
        } else {
            let claims: Claims = self.token_key.verify(token).ok_or_else(broken)?;
            let user = Arc::new(user(&claims));
            Verified::Bound(Box::new(claims), user)
        });
        remembered.insert(key, verified.clone());
        Ok(Some((verified, true)))
    }

    /// Annotates the use of a token that should have been replaced; `None` if it never needs to be replaced.
    fn timeliness(&self, claims: &Claims, notices: &Notices<'_>) -> Option<Use> {
        let due = claims.bound.warnafter.filter(|due| *due != 0)?;
        let now = self.now();
        if now <= jiff::Timestamp::from_second(due).ok()? {
            return Some(Use::Valid);
        }
        notices.annotate("authentication.k8s.io/stale-token", || {
            let late = now.as_second().saturating_sub(due);
            format!("subject: {}, seconds after warning threshold: {late}", claims.sub)
        });
        Some(Use::Stale)
    }

    /// Checks that a token is valid now, and that its account and the objects that it is bound to exist.
    async fn check_bound(&self, claims: &Claims) -> Result<(), String> {
        let now = self.now().as_second();
        if now > claims.exp.saturating_add(LEEWAY) {
            return Err("service account token has expired".to_owned());
        }
        if now < claims.nbf.saturating_sub(LEEWAY) {
            return Err("service account token is not valid yet".to_owned());
        }
        if now < claims.iat.saturating_sub(LEEWAY) {
            return Err("service account token is issued in the future".to_owned());
        }
        self.storage.fresh().await.map_err(|error| error.to_string())?;
        let objects = &self.authentication.service_accounts;
        let bound = &claims.bound;
        let (namespace, account) = (bound.namespace.as_str(), &bound.serviceaccount);
        let found = objects.accounts.get(&format!("{namespace}/{}", account.name));
        let found = found.ok_or_else(|| format!("serviceaccounts {} not found", quote(&account.name)))?;
        if *found.header.uid != *account.uid {
            return Err(format!("service account UID ({}) does not match claim ({})", found.header.uid, account.uid));
        }
        if was_deleted(&found, now) {
            return Err(format!("service account {namespace}/{} has been deleted", account.name));
        }
        // A pod's token names its node, but the node may be deleted before the pod.
        let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
        for (kind, cache, wanted) in [
            ("secret", &objects.secrets, bound.secret.as_ref()),
            ("pod", &objects.pods, bound.pod.as_ref()),
            ("node", &objects.nodes, node),
        ] {
            if let Some(wanted) = wanted {
                let key = if kind == "node" { wanted.name.clone() } else { format!("{namespace}/{}", wanted.name) };
                check_object(kind, cache, &key, wanted, now)?;
            }
        }
        Ok(())
    }
}

fn check_object(kind: &str, cache: &ResourceCache, key: &str, wanted: &Reference, now: i64) -> Result<(), String> {
    let object = cache.get(key).ok_or(INVALIDATED)?;
    if *object.header.uid != *wanted.uid {
        return Err(format!(
            "{kind} UID ({}) does not match service account {kind} ref claim ({})",
            object.header.uid, wanted.uid
        ));
    }
    if was_deleted(&object, now) { Err(INVALIDATED.to_owned()) } else { Ok(()) }
}

fn was_deleted(object: &StoredObject, now: i64) -> bool {
    // It is rarely present, so that the object need not be parsed.
    let field = b"\"deletionTimestamp\"";
    if !object.metadata().windows(field.len()).any(|window| window == field) {
        return false;
    }
    let deleted = meta::text(&object.to_value(), "deletionTimestamp").parse::<jiff::Timestamp>();
    deleted.is_ok_and(|deleted| deleted.as_second() < now - LEEWAY)
}

/// Returns the audiences that a token is valid for. A token without audiences is for this server.
fn intended(of_token: &[String], audiences: &[&str], issuers: &Issuers) -> Result<Vec<String>, String> {
    let of_token: Vec<&str> = match of_token {
        [] => issuers.audiences(),
        of_token => of_token.iter().map(String::as_str).collect(),
    };
    let intended: Vec<String> =
        of_token.iter().filter(|one| audiences.contains(one)).map(|one| (*one).to_owned()).collect();
    if intended.is_empty() {
        let (of_token, wanted) = (list(&of_token), list(audiences));
        return Err(format!("token audiences {of_token} is invalid for the target audiences {wanted}"));
    }
    Ok(intended)
}

/// Formats a list like Go's `%q`.
fn list(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Unverified claims of a token.
struct Issued {
    /// Whether it is the token of a Secret.
    legacy: bool,
    /// The ID of its key.
    key: String,
}

impl Issued {
    /// Returns `None` if the token is not one of a service account of this server.
    fn parse(token: &str, issuers: &Issuers) -> Option<Self> {
        #[derive(Deserialize)]
        struct Header {
            #[serde(default)]
            kid: String,
        }
        #[derive(Deserialize)]
        struct Payload {
            iss: String,
        }
        let mut parts = token.split('.');
        let (header, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let payload: Payload = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        let legacy = match payload.iss.as_str() {
            LEGACY_ISSUER => true,
            issuer if issuers.knows(issuer) => false,
            _ => return None,
        };
        let header: Header = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        Some(Self { legacy, key: header.kid })
    }
}

/// Returns a service account as a user.
pub(super) fn account_user(namespace: &str, name: &str, uid: &str) -> User {
    User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        extra: BTreeMap::new(),
    }
}

fn user(claims: &Claims) -> User {
    let Claims { bound, jti, .. } = claims;
    let mut user = account_user(&bound.namespace, &bound.serviceaccount.name, &bound.serviceaccount.uid);
    let mut say = |name: &str, value: &str| {
        if !value.is_empty() {
            user.extra.insert(format!("authentication.kubernetes.io/{name}"), vec![value.to_owned()]);
        }
    };
    if !jti.is_empty() {
        say("credential-id", &format!("JTI={jti}"));
    }
    if let Some(pod) = &bound.pod {
        say("pod-name", &pod.name);
        say("pod-uid", &pod.uid);
    }
    if let Some(node) = &bound.node {
        say("node-name", &node.name);
        say("node-uid", &node.uid);
    }
    user
}
