//! Tokens of a pod's service account: bound to the pod, and renewed while it runs.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;

/// A token is renewed at this age, however long it is valid, as the kubelet does.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);

/// Audience and lifetime in seconds of a requested token. An empty audience is that of the API server.
pub(super) type TokenSpec = (String, i64);

/// The current tokens of a pod.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<BTreeMap<TokenSpec, Token>>);

#[derive(Clone, PartialEq, Eq)]
struct Token {
    text: String,
    issued: Timestamp,
    expires: Timestamp,
}

impl Tokens {
    /// Returns a valid token: the one from before, or a new one when 80 % of its lifetime or 24 hours have passed. Returns
    /// `None` if there is no valid one and the server issues none: most programs need none.
    pub(super) async fn get(&self, client: &Client, pod: &Pod, spec: &TokenSpec) -> Option<String> {
        let now = windlass_clock::now();
        let before = self.0.lock().get(spec).cloned();
        if let Some(token) = before.as_ref().filter(|token| !token.is_due(now)) {
            return Some(token.text.clone());
        }
        match request(client, pod, spec).await {
            Some(token) => {
                let text = token.text.clone();
                self.0.lock().insert(spec.clone(), token);
                Some(text)
            }
            None => before.filter(|token| now < token.expires).map(|token| token.text),
        }
    }
}

impl Token {
    fn is_due(&self, now: Timestamp) -> bool {
        let lifetime = self.expires.duration_since(self.issued);
        let age = now.duration_since(self.issued);
        age > lifetime * 4 / 5 || age > OLDEST
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// Requests a token that is valid only as long as the pod exists.
async fn request(client: &Client, pod: &Pod, (audience, seconds): &TokenSpec) -> Option<Token> {
    let namespace = pod.metadata.namespace.as_deref()?;
    let account = pod.spec.as_ref()?.service_account_name.as_deref().filter(|name| !name.is_empty())?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
    };
    let spec = TokenRequestSpec {
        audiences: Some((!audience.is_empty()).then(|| audience.clone()).into_iter().collect()),
        expiration_seconds: Some(*seconds),
        bound_object_ref: Some(bound),
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    match accounts.create_token_request(account, &PostParams::default(), &request).await {
        Ok(answer) => {
            let given = answer.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(*seconds);
            let status = answer.status?;
            let expires = status.expiration_timestamp?.0;
            let issued = expires.checked_sub(SignedDuration::from_secs(given)).unwrap_or(Timestamp::MIN);
            Some(Token { text: status.token?, issued, expires })
        }
        Err(error) => {
            tracing::debug!(%error, account, "failed to request a token for a pod");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicI64, Ordering},
        },
    };

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_token_is_due_after_80_percent_of_its_lifetime_or_a_day() {
        let issued = Timestamp::UNIX_EPOCH;
        let at = |seconds| issued + SignedDuration::from_secs(seconds);
        for (lifetime, last) in [(600, 480), (3600, 2880), (3607, 2885), (200_000, 86_400), (1 << 32, 86_400)] {
            let token = Token { text: String::new(), issued, expires: at(lifetime) };
            assert!(!token.is_due(at(last)), "{lifetime}");
            assert!(token.is_due(at(last + 1)), "{lifetime}");
        }
    }

    /// A server that issues tokens 1, 2, 3... until it has issued `most`, with the requests that it got.
    fn server(most: i64) -> (Client, Arc<Mutex<Vec<Value>>>) {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let count = Arc::new(AtomicI64::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (seen, count) = (seen.clone(), count.clone());
            async move {
                let path = request.uri().path().to_owned();
                assert_eq!(path, "/api/v1/namespaces/ns/serviceaccounts/bot/token");
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut answer: Value = serde_json::from_slice(&body).unwrap();
                let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                seen.lock().push(answer["spec"].clone());
                let lifetime = SignedDuration::from_secs(answer["spec"]["expirationSeconds"].as_i64().unwrap());
                let expires = windlass_clock::now_in_seconds() + lifetime;
                answer["status"] = json!({"token": number.to_string(), "expirationTimestamp": expires});
                let failed =
                    json!({"kind": "Status", "status": "Failure", "code": 500, "message": "no", "reason": "x"});
                let (code, answer) = if number > most { (500, failed) } else { (201, answer) };
                let response = http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        (Client::new(service, "ns"), requests)
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_bound_to_its_pod_and_renewed_before_it_expires() {
        let _time = windlass_clock::virtual_time();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"containers": [], "serviceAccountName": "bot"},
        }))
        .unwrap();
        let (client, requests) = server(2);
        let (tokens, spec) = (Tokens::default(), ("vault".to_owned(), 1000));
        let mut seen = Vec::new();
        for _ in 0..22 {
            seen.push(tokens.get(&client, &pod, &spec).await);
            tokio::time::sleep(std::time::Duration::from_secs(99)).await;
        }
        let texts: Vec<&str> = seen.iter().map(|token| token.as_deref().unwrap_or("none")).collect();
        // After the second no more are issued: it is used until it expires.
        let expected = [&["1"; 9][..], &["2"; 11], &["none"; 2]].concat();
        assert_eq!(texts, expected);
        let requests = requests.lock();
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
        for request in requests.iter() {
            let expected = json!({"audiences": ["vault"], "expirationSeconds": 1000, "boundObjectRef": bound});
            assert_eq!(*request, expected);
        }
    }
}
