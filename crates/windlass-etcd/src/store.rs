//! The store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::{sync::watch, task::JoinSet, time::sleep};
use windlass_store::{Entry, Error, ListOptions, Page, Revision, Store, Usage, Watch};

use crate::{
    EtcdError, EtcdOptions,
    base::Found,
    channel::Channel,
    client::{Client, signed},
    guard,
    health::{self, Health},
    keys::Prefix,
    messages::{COMPACT, CompactionRequest, CompactionResponse},
    revisions::{self, Revisions},
    watch::EtcdWatch,
    write::Write,
};

/// Number of attempts to delete a key that has its last value, and the pause between them.
const DELETIONS: usize = 20;
const DELETE_AGAIN: Duration = Duration::from_millis(500);

/// A [`Store`] in etcd.
pub struct EtcdStore {
    client: Arc<Client>,
    revisions: Revisions,
    wanted: watch::Receiver<Revision>,
    health: Arc<Health>,
    /// End with the store.
    _tasks: JoinSet<()>,
}

impl EtcdStore {
    /// Connects to etcd, and checks that it can be used.
    pub async fn open(options: EtcdOptions) -> Result<Self, EtcdError> {
        let channel = Channel::new(&options)?;
        channel.connection().await?;
        let client = Client::new(channel, Prefix::parse(&options.prefix)?);
        guard::check(&client).await?;
        let base = Found::read(&client).await?.base(&client)?;
        let client = Arc::new(client.with_base(base));
        let (revisions, queue) = Revisions::new();
        let (sender, wanted) = watch::channel(Revision(0));
        let health = Arc::new(Health::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(revisions::answer(client.clone(), sender, queue).boxed());
        tasks.spawn(health::watch_over(client.clone(), health.clone()).boxed());
        Ok(Self { client, revisions, wanted, health, _tasks: tasks })
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn revision(&self) -> Result<Revision, Error> {
        Ok(self.revisions.newest().await?)
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let answer = self.client.range(self.client.prefix.key(key)?, 0).await?;
        Ok(answer.kvs.into_iter().next().and_then(|kv| self.client.entry(kv)))
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.client.list(&options).await
    }

    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error> {
        self.client.carry_out(key, Write::Create(value)).await
    }

    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error> {
        self.client.carry_out(key, Write::Update(expected, value)).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.client.carry_out(key, Write::Delete(expected)).await
    }

    /// In two writes: etcd's transactions write a key only once. The deletion is retried while etcd does not respond.
    async fn update_and_delete(&self, key: &str, expected: Revision, last: Bytes) -> Result<Revision, Error> {
        let updated = self.update(key, expected, last).await?;
        let mut attempt = 1;
        loop {
            let error = match self.delete(key, updated).await {
                Err(error @ (Error::Unavailable { .. } | Error::Unknown { .. })) if attempt < DELETIONS => error,
                // An earlier attempt may have been carried out.
                Err(Error::NotFound { .. }) if attempt > 1 => return self.revision().await,
                result => return result,
            };
            tracing::debug!(key, %error, "failed to delete a key that has its last value; retrying");
            sleep(DELETE_AGAIN).await;
            attempt += 1;
        }
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        let range = self.client.prefix.range(prefix, None)?;
        let watch = EtcdWatch::start(self.client.clone(), self.wanted.clone(), range, after).await?;
        Ok(Box::new(watch))
    }

    async fn compact(&self, at: Revision) -> Result<(), Error> {
        // Everything before the first revision counts as compacted.
        if at == Revision(0) || self.client.base.check(at).is_err() {
            return Ok(());
        }
        let request = CompactionRequest { revision: signed(at) };
        // Doing it twice changes nothing.
        let answer: Result<CompactionResponse, _> = self.client.read(COMPACT, &request).await;
        match answer {
            Ok(_) => Ok(()),
            // This revision, or a later one.
            Err(error) if error.status().is_some_and(|status| status.is_compacted()) => Ok(()),
            Err(error) => Err(self.client.explain(error, at).await),
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn health(&self) -> Result<(), Error> {
        self.health.verdict()
    }

    async fn failed(&self) -> Error {
        Error::Failed { cause: self.client.rebased().await }
    }

    fn usage(&self) -> Usage {
        self.health.usage()
    }
}
