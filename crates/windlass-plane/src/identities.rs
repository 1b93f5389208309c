//! Clients of control loops, scheduler and nodes: each acts with its own identity, and has only the permissions of
//! that.

mod account;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt as _;
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use tower::{BoxError, Service as _};
use windlass_apiserver::{Server, body::Body, user::User};
use windlass_loops::LoopIdentity;
use windlass_nodes::NodeClients;

use self::account::LoopAccount;

/// Number of times that a request is repeated if the server is too busy, as in client-go.
const RETRIES: usize = 10;

/// Maximum number of different denials that are recorded and logged.
const MAX_DENIALS: usize = 1000;

/// Creates clients of components of the control plane, in this process.
#[derive(Clone)]
pub(crate) struct Identities {
    server: Server,
    denials: Denials,
}

impl Identities {
    pub(crate) fn new(server: &Server) -> Self {
        Self { server: server.clone(), denials: Denials::default() }
    }

    /// Requests of these clients that the server denied.
    pub(crate) fn denials(&self) -> &Denials {
        &self.denials
    }

    /// Returns the client of a control loop.
    pub(crate) fn of_loop(&self, identity: LoopIdentity) -> Client {
        match identity {
            LoopIdentity::Account(name) => self.account_client(name),
            LoopIdentity::ControllerManager => self.client(User::component("system:kube-controller-manager")),
            LoopIdentity::ApiServer => self.client(User::apiserver()),
        }
    }

    /// Returns the client of the scheduler.
    pub(crate) fn scheduler(&self) -> Client {
        self.client(User::component("system:kube-scheduler"))
    }

    /// Returns the clients of nodes.
    pub(crate) fn nodes(&self) -> NodeClients {
        let identities = self.clone();
        NodeClients::new(
            move |name| identities.client(User::node(name)),
            self.of_loop(LoopIdentity::Account("node-controller")),
            self.of_loop(LoopIdentity::Account("persistent-volume-binder")),
        )
    }

    fn account_client(&self, name: &'static str) -> Client {
        let (identities, account) = (self.clone(), Arc::new(LoopAccount::new(name)));
        let service = tower::service_fn(move |request| {
            let (identities, account) = (identities.clone(), account.clone());
            async move {
                let user = account.user(&identities).await;
                identities.send(user, request).await
            }
        });
        Client::new(service, "default")
    }

    fn client(&self, user: User) -> Client {
        let (identities, user) = (self.clone(), Arc::new(user));
        let service = tower::service_fn(move |request| identities.clone().send(user.clone(), request));
        Client::new(service, "default")
    }

    /// Sends a request, and repeats it as client-go does if the server is too busy.
    async fn send(self, user: Arc<User>, request: Request<kube::client::Body>) -> Result<Response<Body>, BoxError> {
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(user.clone());
        for _ in 0..RETRIES {
            let Some(copy) = body.try_clone() else { break };
            let response = self.server.clone().call(Request::from_parts(parts.clone(), copy)).await?;
            match retry_after(&response) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return self.denials.watch(&user, response).await,
            }
        }
        let response = self.server.clone().call(Request::from_parts(parts, body)).await?;
        self.denials.watch(&user, response).await
    }
}

/// Returns when to repeat a request if the server was too busy.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let busy = response.status() == StatusCode::TOO_MANY_REQUESTS;
    let seconds = response.headers().get(RETRY_AFTER).filter(|_| busy)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Requests of the control plane's own components that the server denied. There are none in a cluster whose default
/// roles and authorizers are in effect; each is logged once.
#[derive(Clone, Default)]
pub(crate) struct Denials(Arc<Mutex<KnownDenials>>);

/// The denials so far, up to a limit.
#[derive(Default)]
struct KnownDenials {
    messages: BTreeSet<String>,
    /// Whether there were more.
    overflowed: bool,
}

/// The effect of another denial.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    /// It is recorded.
    New,
    /// It is the first that is not recorded, because the limit is reached.
    Overflow,
    /// It needs no report.
    Nothing,
}

impl KnownDenials {
    fn note(&mut self, message: &str) -> Noted {
        if self.messages.contains(message) {
            Noted::Nothing
        } else if self.messages.len() < MAX_DENIALS {
            self.messages.insert(message.to_owned());
            Noted::New
        } else if std::mem::replace(&mut self.overflowed, true) {
            Noted::Nothing
        } else {
            Noted::Overflow
        }
    }
}

/// The part of a `metav1.Status` that explains a denial.
#[derive(Deserialize)]
struct Denial {
    #[serde(default)]
    message: String,
}

impl Denials {
    /// Returns the messages of the server.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.0.lock().messages.iter().cloned().collect()
    }

    /// Records a response if it denies access.
    async fn watch(&self, user: &User, response: Response<Body>) -> Result<Response<Body>, BoxError> {
        if response.status() != StatusCode::FORBIDDEN {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        if let Ok(Denial { message }) = serde_json::from_slice(&body)
            && denies_access(user, &message)
        {
            self.record(user, &message);
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }

    fn record(&self, user: &User, message: &str) {
        let noted = self.0.lock().note(message);
        if noted != Noted::Nothing {
            tracing::warn!(user = user.name, "a request of the control plane was denied: {message}");
        }
        if noted == Noted::Overflow {
            tracing::warn!("more than {MAX_DENIALS} different requests were denied; further ones are not logged");
        }
    }
}

/// Returns whether a 403 concerns the permissions of the user. Others concern the object: its namespace is being
/// deleted, a quota is exceeded, a webhook or policy rejects it, or its pod is no longer on the node.
fn denies_access(user: &User, message: &str) -> bool {
    let object = [
        "because it is being terminated",
        "admission webhook ",
        "exceeded quota",
        "ValidatingAdmissionPolicy ",
        "no relationship found between node",
    ];
    if object.iter().any(|part| message.contains(part)) {
        return false;
    }
    let cannot = format!("User {:?} cannot ", user.name);
    let is_node = user.name.starts_with("system:node:");
    let rights = [&*cannot, "user not permitted to ", "is attempting to grant RBAC permissions"];
    is_node || rights.iter().any(|part| message.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_403_about_the_permissions_of_the_user_is_a_denial() {
        let terminating =
            "events \"e\" is forbidden: unable to create new content in namespace x because it is being terminated";
        for (user, message, expected) in [
            (
                User::service_account("kube-system", "job-controller"),
                "pods is forbidden: User \"system:serviceaccount:kube-system:job-controller\" cannot create resource",
                true,
            ),
            (
                User::service_account("kube-system", "job-controller"),
                "pods \"p\" is forbidden: exceeded quota: q",
                false,
            ),
            (User::service_account("kube-system", "job-controller"), terminating, false),
            (User::node("a"), terminating, false),
            (User::node("a"), "nodes \"b\" is forbidden: node \"a\" is not allowed to modify node \"b\"", true),
            (User::node("a"), "admission webhook \"w\" denied the request: no", false),
            (User::node("a"), "events \"e\" is forbidden: exceeded quota: q", false),
            (
                User::node("a"),
                "secrets \"s\" is forbidden: User \"system:node:a\" cannot get resource \"secrets\" in API group \"\" in the \
                 namespace \"x\": no relationship found between node 'a' and this object",
                false,
            ),
        ] {
            assert_eq!(denies_access(&user, message), expected, "{message}");
        }
    }

    #[test]
    fn the_first_denial_beyond_the_limit_says_that_there_are_more() {
        let mut known = KnownDenials::default();
        for number in 0..MAX_DENIALS {
            assert_eq!(known.note(&number.to_string()), Noted::New, "{number}");
            assert_eq!(known.note(&number.to_string()), Noted::Nothing, "{number}");
        }
        let beyond = ["a", "a", "b", "0"].map(|message| known.note(message));
        assert_eq!(beyond, [Noted::Overflow, Noted::Nothing, Noted::Nothing, Noted::Nothing]);
        assert_eq!(known.messages.len(), MAX_DENIALS);
    }

    #[test]
    fn retry_after_is_read_from_429_responses() {
        let response = |code: u16, seconds: &str| {
            Response::builder().status(code).header(RETRY_AFTER, seconds).body(()).expect("the response is valid")
        };
        assert_eq!(retry_after(&response(429, "3")), Some(Duration::from_secs(3)));
        assert_eq!(retry_after(&response(429, "soon")), None);
        assert_eq!(retry_after(&response(503, "3")), None);
    }
}
