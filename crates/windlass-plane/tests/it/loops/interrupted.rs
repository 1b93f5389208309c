//! The loops of tokens, killed or rejected at every one of their writes: another start finishes what they have begun,
//! and nothing is left behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method, Request, Response};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, PostParams},
    client::Body,
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};
use tower::BoxError;
use windlass::{
    operator::{OperatorError, Options},
    shutdown::Shutdown,
};
use windlass_apiserver::{Server, user::User};
use windlass_loops::{ClusterCertificates, LoopIdentity, SecretToken, TokenSigner};
use windlass_store::{Store as _, memory::MemoryStore};
use windlass_testing::eventually;

/// Fate of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The server responds with an error.
    Rejected,
    /// The loop is killed before the server gets the request.
    KilledBefore,
    /// The loop is killed before it gets the response.
    KilledAfter,
}

/// The fault of one write.
struct Interruption {
    /// The write, counted from one.
    nth: usize,
    fault: Fault,
    writes: AtomicUsize,
    reached: Semaphore,
}

impl Interruption {
    fn new(nth: usize, fault: Fault) -> Arc<Self> {
        Arc::new(Self { nth, fault, writes: AtomicUsize::new(0), reached: Semaphore::new(0) })
    }

    /// No fault.
    fn none() -> Arc<Self> {
        Self::new(usize::MAX, Fault::Rejected)
    }

    /// Waits until the write is interrupted.
    async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    async fn send(&self, client: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let is_write = *request.method() != Method::GET;
        if !is_write || self.writes.fetch_add(1, Ordering::Relaxed) + 1 != self.nth {
            return Ok(client.send(request).await?);
        }
        if self.fault == Fault::KilledAfter {
            client.send(request).await?;
        }
        self.reached.add_permits(1);
        if self.fault != Fault::Rejected {
            return std::future::pending().await;
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500,
            "reason": "InternalError", "message": "the disk is full"});
        Ok(Response::builder().status(500).body(Body::from(status.to_string().into_bytes()))?)
    }
}

/// A loop that runs until this is dropped, which kills it.
type Running = JoinSet<Result<(), OperatorError>>;

/// Starts a loop whose writes may be interrupted.
fn start(server: &Server, name: &str, interruption: &Arc<Interruption>) -> Running {
    let client = |identity: LoopIdentity| {
        let user = match identity {
            LoopIdentity::Account(name) => User::service_account("kube-system", name),
            LoopIdentity::ControllerManager => User::component("system:kube-controller-manager"),
            LoopIdentity::ApiServer => User::apiserver(),
        };
        let (client, interruption) = (server.client_as(user), interruption.clone());
        let send = move |request| {
            let (client, interruption) = (client.clone(), interruption.clone());
            async move { interruption.send(&client, request).await }
        };
        Client::new(tower::service_fn(send), "default")
    };
    let signing = server.clone();
    let certificates = ClusterCertificates {
        root_ca: Some("the certificate".into()),
        authority: None,
        token_signer: Some(TokenSigner::new(move |token: &SecretToken| {
            signing.sign_secret_token(&token.namespace, &token.secret, &token.account, &token.account_uid)
        })),
    };
    let operator = windlass_loops::operator(&name.parse().unwrap(), &certificates, client);
    let mut running = Running::new();
    running.spawn(operator.run_with(client(LoopIdentity::ControllerManager), Options::default(), Shutdown::new()));
    running
}

/// Work for a loop.
trait Case {
    const LOOP: &'static str;
    /// The number of its writes.
    const WRITES: usize;

    /// Creates objects, with other names in every round, while the loop does not run.
    async fn prepare(&self, client: &Client, round: usize);

    /// Returns whether the loop has done everything.
    async fn is_done(&self, client: &Client, round: usize) -> bool;
}

/// Interrupts every write of a loop in every way.
async fn interrupt_everywhere<C: Case>(case: C) {
    tokio::time::pause();
    let _time = windlass_clock::virtual_time();
    let store = Arc::new(MemoryStore::new());
    let server = Server::builder(store.clone()).build().await.unwrap();
    let client = server.client();
    let mut round = 0;
    for fault in [Fault::Rejected, Fault::KilledBefore, Fault::KilledAfter] {
        for nth in 1..=C::WRITES + 1 {
            round += 1;
            case.prepare(&client, round).await;
            let what = format!("{} with write {nth} {fault:?}", C::LOOP);
            let done = async || case.is_done(&client, round).await.then_some(());
            let interruption = Interruption::new(nth, fault);
            let mut running = start(&server, C::LOOP, &interruption);
            if nth <= C::WRITES {
                interruption.reached().await;
                if fault != Fault::Rejected {
                    drop(running);
                    running = start(&server, C::LOOP, &Interruption::none());
                }
            }
            eventually(&what, done).await;
            // It writes no more, and another start has nothing to do.
            tokio::time::sleep(Duration::from_secs(5)).await;
            let before = store.revision().await.unwrap();
            drop(running);
            let again = Interruption::none();
            let _running = start(&server, C::LOOP, &again);
            tokio::time::sleep(Duration::from_secs(5)).await;
            let writes = again.writes.load(Ordering::Relaxed);
            assert_eq!((store.revision().await.unwrap(), writes), (before, 0), "{what}");
            assert!(case.is_done(&client, round).await, "{what}");
            if nth > C::WRITES {
                let writes = interruption.writes.load(Ordering::Relaxed);
                assert_eq!(writes, C::WRITES, "{what}: the loop has another number of writes");
            }
        }
    }
}

fn names(round: usize) -> impl Iterator<Item = String> {
    (0..3).map(move |number| format!("s{round}-{number}"))
}

/// A Secret for the token of an account.
fn token_secret(name: &str, account: &str) -> Secret {
    serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
    }))
    .unwrap()
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Secrets without tokens, whose account exists.
struct Unfilled;

impl Case for Unfilled {
    const LOOP: &'static str = "serviceaccount-token-controller";
    const WRITES: usize = 3;

    async fn prepare(&self, client: &Client, round: usize) {
        create::<ServiceAccount>(
            &Api::default_namespaced(client.clone()),
            json!({"metadata": {"name": account(round)}}),
        )
        .await;
        let secrets: Api<Secret> = Api::default_namespaced(client.clone());
        for name in names(round) {
            secrets.create(&PostParams::default(), &token_secret(&name, &account(round))).await.unwrap();
        }
    }

    async fn is_done(&self, client: &Client, round: usize) -> bool {
        let secrets: Api<Secret> = Api::default_namespaced(client.clone());
        let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
        let uid = accounts.get(&account(round)).await.unwrap().uid();
        for name in names(round) {
            let secret = secrets.get(&name).await.unwrap();
            let keys: Vec<String> = secret.data.clone().unwrap_or_default().into_keys().collect();
            let noted = secret.annotations().get("kubernetes.io/service-account.uid");
            if keys != ["ca.crt", "namespace", "token"] || noted != uid.as_ref() {
                assert!(keys.is_empty(), "{name} is half-filled: {keys:?}");
                return false;
            }
        }
        true
    }
}

fn account(round: usize) -> String {
    format!("bot-{round}")
}

/// Secrets whose account does not exist, and one whose account does.
struct Orphaned;

impl Case for Orphaned {
    const LOOP: &'static str = "serviceaccount-token-controller";
    const WRITES: usize = 4;

    async fn prepare(&self, client: &Client, round: usize) {
        Unfilled.prepare(client, round).await;
        let secrets: Api<Secret> = Api::default_namespaced(client.clone());
        for name in names(round).skip(1) {
            secrets.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        for name in names(round) {
            let orphan = token_secret(&format!("{name}-orphan"), "nobody");
            secrets.create(&PostParams::default(), &orphan).await.unwrap();
        }
    }

    async fn is_done(&self, client: &Client, round: usize) -> bool {
        let secrets: Api<Secret> = Api::default_namespaced(client.clone());
        let kept = names(round).next().unwrap();
        let mut of_round = secrets.list(&Default::default()).await.unwrap().items;
        of_round.retain(|secret| secret.name_any().starts_with(&format!("s{round}-")));
        let is_filled = secrets.get(&kept).await.unwrap().data.is_some_and(|data| data.contains_key("token"));
        is_filled && of_round.len() == 1
    }
}

/// A bootstrap token.
fn bootstrap_token(id: &str, expiration: Option<SignedDuration>) -> Value {
    let mut secret = json!({
        "metadata": {"name": format!("bootstrap-token-{id}")},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"},
    });
    if let Some(expiration) = expiration {
        let time = windlass_clock::now_in_seconds().checked_add(expiration).unwrap();
        secret["stringData"]["expiration"] = time.to_string().into();
    }
    secret
}

/// Tokens that have expired, and one that has not.
struct Expired;

impl Case for Expired {
    const LOOP: &'static str = "token-cleaner-controller";
    const WRITES: usize = 3;

    async fn prepare(&self, client: &Client, round: usize) {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
        for number in 0..3 {
            create(&secrets, bootstrap_token(&format!("e{round:02}x{number:02}"), Some(-SignedDuration::from_secs(9))))
                .await;
        }
        let valid = Some(SignedDuration::from_hours(1000));
        create(&secrets, bootstrap_token(&format!("v{round:02}x00"), valid)).await;
    }

    async fn is_done(&self, client: &Client, round: usize) -> bool {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
        let mut left: Vec<String> =
            secrets.list(&Default::default()).await.unwrap().iter().map(|secret| secret.name_any()).collect();
        left.retain(|name| name.contains(&format!("{round:02}x")));
        assert!(left.contains(&format!("bootstrap-token-v{round:02}x00")), "a valid token is gone: {left:?}");
        left.len() == 1
    }
}

/// Information about the cluster without the signatures of new tokens, and with that of a token that is gone.
struct Unsigned;

impl Case for Unsigned {
    const LOOP: &'static str = "bootstrap-signer-controller";
    const WRITES: usize = 1;

    async fn prepare(&self, client: &Client, round: usize) {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
        for secret in secrets.list(&Default::default()).await.unwrap() {
            secrets.delete(&secret.name_any(), &DeleteParams::default()).await.unwrap();
        }
        let _ = maps.delete("cluster-info", &DeleteParams::default()).await;
        for number in 0..2 {
            create(&secrets, bootstrap_token(&format!("s{round:02}x{number:02}"), None)).await;
        }
        let data = json!({"kubeconfig": "text", "jws-kubeconfig-gone00": "old"});
        create(&maps, json!({"metadata": {"name": "cluster-info"}, "data": data})).await;
    }

    async fn is_done(&self, client: &Client, round: usize) -> bool {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
        let keys: Vec<String> = maps.get("cluster-info").await.unwrap().data.unwrap().into_keys().collect();
        let signed = [0, 1].map(|number| format!("jws-kubeconfig-s{round:02}x{number:02}"));
        keys == [&signed[0], &signed[1], "kubeconfig"]
    }
}

#[tokio::test]
async fn secrets_of_accounts_are_filled_despite_interruptions() {
    interrupt_everywhere(Unfilled).await;
}

#[tokio::test]
async fn secrets_without_accounts_are_deleted_despite_interruptions() {
    interrupt_everywhere(Orphaned).await;
}

#[tokio::test]
async fn expired_tokens_are_deleted_despite_interruptions() {
    interrupt_everywhere(Expired).await;
}

#[tokio::test]
async fn the_information_about_a_cluster_is_signed_despite_interruptions() {
    interrupt_everywhere(Unsigned).await;
}

#[tokio::test]
async fn accounts_forget_deleted_secrets_although_the_server_rejects_it_at_first() {
    tokio::time::pause();
    let _time = windlass_clock::virtual_time();
    let server = Server::builder(Arc::new(MemoryStore::new())).build().await.unwrap();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(server.client());
    let secrets: Api<Secret> = Api::default_namespaced(server.client());
    for name in ["a", "b"] {
        let references = json!([{"name": "deleted"}, {"name": "kept"}]);
        create(&accounts, json!({"metadata": {"name": name}, "secrets": references})).await;
    }
    // The first writes fill the Secrets, which shows that the loop has seen them.
    for nth in [3, 4] {
        let interruption = Interruption::new(nth, Fault::Rejected);
        let running = start(&server, Unfilled::LOOP, &interruption);
        for name in ["deleted", "other"] {
            let secret = token_secret(name, "a");
            secrets.create(&PostParams::default(), &secret).await.unwrap();
            eventually("it is filled", async || secrets.get(name).await.unwrap().data.map(drop)).await;
        }
        secrets.delete("deleted", &DeleteParams::default()).await.unwrap();
        interruption.reached().await;
        eventually("both accounts have forgotten it", async || {
            let left = accounts.list(&Default::default()).await.unwrap().items;
            let left = left.into_iter().map(|account| account.secrets.unwrap_or_default());
            let left: Vec<Vec<String>> =
                left.map(|secrets| secrets.into_iter().filter_map(|secret| secret.name).collect()).collect();
            (left == [["kept"], ["kept"]]).then_some(())
        })
        .await;
        drop(running);
        // Again, for the write after this one.
        secrets.delete("other", &DeleteParams::default()).await.unwrap();
        for name in ["a", "b"] {
            let mut account = accounts.get(name).await.unwrap();
            account.secrets = serde_json::from_value(json!([{"name": "deleted"}, {"name": "kept"}])).unwrap();
            accounts.replace(name, &PostParams::default(), &account).await.unwrap();
        }
    }
}
