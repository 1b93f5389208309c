//! The load of a run: clients and watchers from the beginning of a history to its end.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use tokio::{sync::watch, task::JoinSet};

use super::{
    LoadArgs,
    history::{Call, History, Key, ListKind, Operation, Outcome, Revision},
    lane::{Connection, Lane, Shared},
    object,
    watcher::{Watched, Watcher},
};
use crate::client::Client;

/// Running clients and watchers.
pub(super) struct Traffic {
    shared: Arc<Shared>,
    clients: JoinSet<anyhow::Result<Vec<Operation>>>,
    watchers: JoinSet<anyhow::Result<Watched>>,
    /// The number of the client that reads before the others and after them.
    auditor: u32,
    /// Its operations so far.
    operations: Vec<Operation>,
    /// The revision after which everything is written.
    start: Revision,
    /// The revision that every watch must reach; given at the end.
    target: watch::Sender<Option<Revision>>,
}

/// A recorded history, without its faults.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) history: History,
    /// Whether a watch at the end delivered all events since the beginning.
    pub(super) replayed_in_full: bool,
    /// Number of watches that continued an earlier one, and of those that could not.
    pub(super) resumed: u64,
    pub(super) expired: u64,
}

impl Traffic {
    /// Starts the load; a server must be running.
    pub(super) async fn begin(shared: Arc<Shared>, load: &LoadArgs, seed: u64) -> anyhow::Result<Self> {
        let mut auditor = Lane::new(shared.clone(), load.clients, 0);
        let connection = connect(&shared, 0).await?;
        auditor.perform(&connection, Call::List(ListKind::Consistent)).await?;
        let start = match auditor.operations.last().map(|operation| &operation.outcome) {
            Some(Outcome::Listed { revision, .. }) => *revision,
            other => bail!("failed to list before the first write: {other:?}"),
        };
        let mut clients = JoinSet::new();
        for number in 0..load.clients {
            clients.spawn(Lane::new(shared.clone(), number, seed).run());
        }
        let (target, targets) = watch::channel(None);
        let mut watchers = JoinSet::new();
        for number in 0..load.watchers {
            watchers.spawn(Watcher::new(shared.clone(), load.clients + 1 + number, targets.clone()).run());
        }
        let operations = auditor.operations;
        Ok(Self { shared, clients, watchers, auditor: load.clients, operations, start, target })
    }

    /// Waits while the load runs. Fails if a client or a watcher ends.
    pub(super) async fn run_for(&mut self, time: Duration) -> anyhow::Result<()> {
        self.run_until(async {
            tokio::time::sleep(time).await;
            Ok(())
        })
        .await
    }

    /// Awaits something while the load runs. Fails if a client or a watcher ends.
    pub(super) async fn run_until<T>(&mut self, until: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let error = |ended: anyhow::Result<()>| ended.err().unwrap_or_else(|| anyhow::anyhow!("too early"));
        tokio::select! {
            result = until => result,
            Some(ended) = self.clients.join_next() => Err(error(ended?.map(drop)).context("a client ended")),
            Some(ended) = self.watchers.join_next() => Err(error(ended?.map(drop)).context("a watcher ended")),
        }
    }

    /// Ends the load, reads everything through every server, and returns what was recorded.
    pub(super) async fn end(mut self) -> anyhow::Result<Recording> {
        self.shared.stopped.store(true, Ordering::Relaxed);
        let mut history = History { operations: std::mem::take(&mut self.operations), ..History::default() };
        while let Some(ended) = self.clients.join_next().await {
            history.operations.extend(ended??);
        }
        let (end, last) = self.finish().await?;
        history.operations.extend(last);
        self.target.send_replace(Some(end));
        // A watch from the beginning observes everything, unless the server no longer has it.
        let replay = Watcher::new(self.shared.clone(), self.auditor, self.target.subscribe()).after(self.start);
        let replayed = replay.run().await?;
        let mut recording = Recording { replayed_in_full: replayed.expired == 0, ..Recording::default() };
        history.operations.extend(replayed.lists);
        history.watches.extend(replayed.streams);
        while let Some(ended) = self.watchers.join_next().await {
            let watched: Watched = ended??;
            history.operations.extend(watched.lists);
            history.watches.extend(watched.streams);
            recording.resumed += watched.resumed;
            recording.expired += watched.expired;
        }
        recording.history = history;
        Ok(recording)
    }

    /// Writes a last object and reads everything. Returns the revision of the write, which every watch must reach.
    async fn finish(&self) -> anyhow::Result<(Revision, Vec<Operation>)> {
        let mut lane = Lane::new(self.shared.clone(), self.auditor, 0);
        let connection = connect(&self.shared, 0).await?;
        lane.perform(&connection, Call::Create(Key(self.shared.keys))).await?;
        let written = match lane.operations.last().map(|operation| &operation.outcome) {
            Some(Outcome::Object(version)) => version.revision,
            other => bail!("failed to create the last object: {other:?}"),
        };
        let mut read = async |connection: &Connection, calls: &mut dyn Iterator<Item = Call>| {
            for call in calls {
                ensure!(lane.perform(connection, call).await?, "failed to read everything: {call}");
            }
            Ok(())
        };
        let lists = || [Call::List(ListKind::Cached), Call::List(ListKind::Consistent)].into_iter();
        let servers = u32::try_from(self.shared.count()).unwrap_or(0);
        for server in 1..servers {
            read(&connect(&self.shared, server).await?, &mut lists()).await?;
        }
        let gets = (0..self.shared.keys).map(|key| Call::Get(Key(key)));
        read(&connection, &mut gets.chain(lists())).await?;
        Ok((written, lane.operations))
    }
}

async fn connect(shared: &Shared, server: u32) -> anyhow::Result<Connection> {
    shared.connect(server).await.context("the servers must be running")
}

/// Creates the namespace of the objects.
pub(super) async fn prepare(client: &Client) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": object::NAMESPACE}});
    client.ensure("/api/v1/namespaces", &namespace).await
}
