//! Requests while the store cannot write, or has compacted its history.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use windlass_store::{Entry, Error, ListOptions, Page, Revision, Store, Watch, memory::MemoryStore};

use crate::client::{CONFIG_MAPS, Client, config_map, names};

/// A store whose disk becomes full.
struct Full {
    inner: MemoryStore,
    full: AtomicBool,
}

impl Full {
    fn check(&self) -> Result<(), Error> {
        match self.full.load(Ordering::Relaxed) {
            true => Err(Error::Poisoned { cause: "no space left on device".to_owned() }),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Full {
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
        self.check()?;
        self.inner.create(key, value).await
    }
    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error> {
        self.check()?;
        self.inner.update(key, expected, value).await
    }
    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.check()?;
        self.inner.delete(key, expected).await
    }
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        self.inner.watch(prefix, after).await
    }
    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.inner.compact(revision).await
    }
}

#[tokio::test]
async fn a_full_disk_fails_writes_with_a_status_and_leaves_reads_alone() {
    let store = Arc::new(Full { inner: MemoryStore::new(), full: AtomicBool::new(false) });
    let client = Client::over(store.clone()).await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    store.full.store(true, Ordering::Relaxed);
    for answer in [
        client.post(CONFIG_MAPS, &config_map("b")).await,
        client.merge(&format!("{CONFIG_MAPS}/a"), &serde_json::json!({"data": {"a": "2"}})).await,
        client.delete(&format!("{CONFIG_MAPS}/a")).await,
    ] {
        assert_eq!((answer.code, answer.json()["reason"].as_str()), (500, Some("InternalError")));
        assert!(answer.message().contains("no space left on device"), "{}", answer.message());
    }
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.expect(200)["data"]["a"], "1");
}

#[tokio::test]
async fn a_page_of_a_compacted_revision_says_how_to_continue() {
    let store = Arc::new(MemoryStore::new());
    let client = Client::over(store.clone()).await;
    for name in ["a", "b", "c"] {
        client.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    let first = client.get(&format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    client.post(CONFIG_MAPS, &config_map("d")).await.expect(201);
    store.compact(store.revision().await.unwrap()).await.unwrap();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let gone = client.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await;
    assert_eq!((gone.code, gone.json()["reason"].as_str()), (410, Some("Expired")));
    let token = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = client.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["b", "c", "d"]);
}
