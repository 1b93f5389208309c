//! The ConfigMap that other API servers read, while writes fail, conflict, or end with the server.

use std::{sync::Arc, time::Duration};

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use windlass_apiserver::{Server, authentication::AuthenticationOptions};
use windlass_store::{Store, memory::MemoryStore};

use crate::{
    client::Client,
    test_store::{TestStore, polled},
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const PUBLISHED: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const KEY: &str = "/core/configmaps/kube-system/extension-apiserver-authentication";

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
    let store = Arc::new(TestStore::default());
    let authority = certificate();
    let client = start(store.clone(), &authority).await;
    assert_eq!(published(&client).await, json!(authority));
    for change in 0..3 {
        store.reject(|key| key == KEY);
        let before = store.rejected();
        // Changed directly in the store, as an older version would have left it.
        let found = store.inner.get(KEY).await.unwrap().unwrap();
        if change == 0 {
            store.inner.delete(KEY, found.revision).await.unwrap();
        } else {
            let text = String::from_utf8(found.value.to_vec()).unwrap();
            let text = text.replace("client-ca-file", "other-file");
            store.inner.update(KEY, found.revision, text.into()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert!(store.rejected() > before, "{change}");
        assert_eq!(published(&client).await, Value::Null, "{change}");
        store.accept();
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(published(&client).await, json!(authority), "{change}");
    }
}

/// More await points than a start has.
const MAX_POLLS: usize = 500;

#[tokio::test(start_paused = true)]
async fn a_server_that_was_killed_before_it_published_does_so_at_its_next_start() {
    let (store, authority) = (Arc::new(TestStore::slow()), certificate());
    let options = AuthenticationOptions { client_ca: Some(authority.clone()), ..AuthenticationOptions::default() };
    let starting = || Box::pin(Server::builder(store.clone()).authentication(options.clone()).build());
    store.reject(|key| key == KEY);
    // Whether it starts or not, nothing was published.
    drop(starting().await);
    assert!(store.inner.get(KEY).await.unwrap().is_none());
    store.accept();
    // Killed at every await point of the start: before the write, while it is in the store's queue, and after it.
    let (mut before, mut after) = (0, 0);
    for polls in 1..MAX_POLLS {
        if let Some(published) = store.inner.get(KEY).await.unwrap() {
            store.inner.delete(KEY, published.revision).await.unwrap();
        }
        if polled(starting(), polls).await.is_some() {
            assert!(before > 3 && after > 0, "killed {before} times before the write and {after} times after it");
            return;
        }
        match store.inner.get(KEY).await.unwrap() {
            None => before += 1,
            Some(_) => after += 1,
        }
        // What was in the queue takes effect.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let client = start(store.clone(), &authority).await;
        assert_eq!(published(&client).await, json!(authority), "killed after {polls} polls");
    }
    panic!("a start has more than {MAX_POLLS} await points");
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
        // A client that overwrites it causes no conflict, and its change is reverted.
        let emptied = json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": {}});
        clients[0].put(PUBLISHED, &emptied).await.expect(200);
        clients[0].post(CONFIG_MAPS, &json!({"metadata": {"generateName": "x-"}})).await.expect(201);
    }
}
