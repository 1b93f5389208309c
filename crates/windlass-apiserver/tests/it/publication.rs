//! The ConfigMap that other API servers read, while writes fail, conflict, or end with the server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use windlass_apiserver::{Server, authentication::AuthenticationOptions};
use windlass_store::{Entry, Error, ListOptions, Page, Revision, Store, Watch, memory::MemoryStore};

use crate::client::Client;

const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const PUBLISHED: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const KEY: &str = "/core/configmaps/kube-system/extension-apiserver-authentication";

/// A store that can reject writes of the ConfigMap, as a full disk does.
#[derive(Default)]
struct Rejecting {
    inner: Arc<MemoryStore>,
    rejects: AtomicBool,
    rejected: AtomicUsize,
}

impl Rejecting {
    fn check(&self, key: &str) -> Result<(), Error> {
        if key == KEY && self.rejects.load(Ordering::Relaxed) {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return Err(Error::Poisoned { cause: "no space left on device".to_owned() });
        }
        Ok(())
    }
}

#[async_trait]
impl Store for Rejecting {
    async fn revision(&self) -> Result<Revision, Error> {
        self.inner.revision().await
    }
    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.inner.get(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.inner.list(options).await
    }
    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error> {
        self.check(key)?;
        self.inner.create(key, value).await
    }
    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error> {
        self.check(key)?;
        self.inner.update(key, expected, value).await
    }
    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.inner.delete(key, expected).await
    }
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        self.inner.watch(prefix, after).await
    }
    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.inner.compact(revision).await
    }
}

fn certificate() -> String {
    let params = CertificateParams::new(Vec::new()).unwrap();
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem().replace("\r\n", "\n")
}

async fn start(store: Arc<dyn Store>, authority: &str) -> Client {
    let options = AuthenticationOptions { client_ca: Some(authority.to_owned()), ..AuthenticationOptions::default() };
    Client::of(Server::builder(store).authentication(options).build().await.unwrap())
}

async fn published(client: &Client) -> Value {
    client.get(PUBLISHED).await.json()["data"]["client-ca-file"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_deleted_publication_returns_when_the_disk_has_space_again() {
    let store = Arc::new(Rejecting::default());
    let authority = certificate();
    let client = start(store.clone(), &authority).await;
    assert_eq!(published(&client).await, json!(authority));
    for change in 0..3 {
        store.rejects.store(true, Ordering::Relaxed);
        let before = store.rejected.load(Ordering::Relaxed);
        match change {
            0 => client.delete(PUBLISHED).await.expect(200),
            // Written around the server, as an older version would have left it.
            _ => {
                let found = store.inner.get(KEY).await.unwrap().unwrap();
                let text = String::from_utf8(found.value.to_vec()).unwrap();
                let text = text.replace("client-ca-file", "other-file");
                store.inner.update(KEY, found.revision, text.into()).await.unwrap();
                Value::Null
            }
        };
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert!(store.rejected.load(Ordering::Relaxed) > before, "{change}");
        assert_eq!(published(&client).await, Value::Null, "{change}");
        store.rejects.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(published(&client).await, json!(authority), "{change}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_killed_before_it_published_does_so_at_its_next_start() {
    let (store, authority) = (Arc::new(Rejecting::default()), certificate());
    store.rejects.store(true, Ordering::Relaxed);
    let options = AuthenticationOptions { client_ca: Some(authority.clone()), ..AuthenticationOptions::default() };
    let starting = Server::builder(store.clone()).authentication(options.clone()).build().await;
    // Whether it starts or not, nothing was published.
    drop(starting);
    assert!(store.inner.get(KEY).await.unwrap().is_none());
    store.rejects.store(false, Ordering::Relaxed);
    // Killed at any point of the start.
    for polls in [1, 2, 5, 10, 20, 50, 100] {
        let mut starting = Box::pin(Server::builder(store.clone()).authentication(options.clone()).build());
        for _ in 0..polls {
            if (&mut starting).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let client = start(store, &authority).await;
    assert_eq!(published(&client).await, json!(authority));
}

#[tokio::test(start_paused = true)]
async fn servers_that_publish_after_every_change_end_with_the_certificates_of_all() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let authorities = [certificate(), certificate(), certificate()];
    let mut clients = Vec::new();
    for authority in &authorities {
        clients.push(start(store.clone(), authority).await);
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(61)).await;
        for client in &clients {
            let bundle = published(client).await;
            let bundle = bundle.as_str().unwrap();
            assert!(authorities.iter().all(|authority| bundle.contains(authority.trim())), "{bundle}");
            assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), 3);
        }
        // A client that overwrites it conflicts with nobody, and does not prevail.
        let emptied = json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": {}});
        clients[0].put(PUBLISHED, &emptied).await.expect(200);
        clients[0].post(CONFIG_MAPS, &json!({"metadata": {"generateName": "x-"}})).await.expect(201);
    }
}
