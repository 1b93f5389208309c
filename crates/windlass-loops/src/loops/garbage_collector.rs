//! The garbage collector: deletes dependents after their last owner is deleted.
//!
//! ```text
//!  metadata watches --> graph --> queue --> attempt: query the server, decide, delete or unlink
//!      ^                  ^                   |
//!      |                  +- absent objects --+
//!  discovery <-- changed CustomResourceDefinitions
//! ```
//!
//! The graph alone decides nothing: before an object is deleted, it and its owners are fetched from the server, and the
//! deletion has the observed state as a precondition. The graph only selects the objects to check.

mod cluster;
mod decide;
mod graph;
mod node;
mod recent;
#[cfg(test)]
mod tests;

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::timeout,
};
use windlass::{
    Result,
    context::Context,
    events::{EventType, Recorder},
    operator::Operator,
    queue::{Priority, Queue},
    shutdown::Shutdown,
};

use self::{
    cluster::{Monitors, Outcome, Remote, attempt, orphan},
    graph::{Effect, Graph},
    node::{Identity, Owner, Uid},
};
use crate::{discovery::Served, loops::ClusterCertificates};

/// Number of objects that are processed at the same time.
const WORKERS: usize = 16;

/// Time for which objects wait for the first lists of all resources. Afterwards they are processed anyway.
const FIRST_LISTS: Duration = Duration::from_secs(30);

/// Delays before repeating discovery after a CustomResourceDefinition has changed: it may be served a little later.
const AFTER_A_CHANGE: [Duration; 3] = [Duration::from_millis(25), Duration::from_millis(250), Duration::from_secs(3)];

/// Delay before retrying if the server or an aggregated one does not respond.
const AFTER_A_FAILURE: Duration = Duration::from_secs(30);

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    operator.leader_task("garbage-collector-controller", run)
}

/// A task for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    Attempt(Uid),
    Orphan(Uid),
}

/// State shared by watches and workers.
struct Shared {
    client: Client,
    /// The client of the metadata watches: that of the informers.
    watching: Client,
    cluster: Remote,
    // Locked for the duration of one change of the graph, and never across an await.
    graph: Mutex<Graph>,
    queue: Queue<Task>,
    /// Tasks that wait until other kinds are served.
    parked: Mutex<HashSet<Task>>,
    /// Notifies of changed CustomResourceDefinitions.
    definitions: Notify,
    events: Recorder,
}

async fn run(ctx: Context, shutdown: Shutdown) -> Result<()> {
    let shared = Arc::new(Shared {
        cluster: Remote::new(ctx.client()),
        client: ctx.client(),
        watching: ctx.caches().client(),
        graph: Mutex::new(Graph::new()),
        queue: Queue::builder("garbage-collector-controller").build(),
        parked: Mutex::default(),
        definitions: Notify::new(),
        events: ctx.recorder().reporting("garbage-collector-controller"),
    });
    // Dropped with this future, and their tasks with them.
    let (mut watches, mut workers) = (JoinSet::new(), JoinSet::new());
    for _ in 0..WORKERS {
        workers.spawn(work(shared.clone()).boxed());
    }
    tokio::select! {
        () = follow_definitions(&shared, &mut watches) => {}
        Some(ended) = workers.join_next() => ended?,
        () = shutdown.draining() => {}
    }
    shared.queue.close();
    Ok(())
}

/// Watches all served resources. Never returns.
async fn follow_definitions(shared: &Arc<Shared>, watches: &mut JoinSet<()>) {
    let mut monitors = Monitors::default();
    let (unsynced, mut first_lists) = mpsc::channel(1);
    let mut unsynced = Some(unsynced);
    let mut again = AFTER_A_CHANGE.iter();
    loop {
        let complete = match Served::fetch(&shared.client).await {
            Ok(served) => {
                monitors.follow(&served, shared, watches, unsynced.as_ref());
                while watches.try_join_next().is_some() {}
                let complete = served.unknown.is_empty();
                shared.cluster.serves(served);
                shared.unpark();
                complete
            }
            Err(error) => {
                tracing::warn!(%error, "discovery failed");
                false
            }
        };
        if complete && unsynced.take().is_some() {
            // Senders are dropped as lists complete; nothing is ever sent.
            let _ = timeout(FIRST_LISTS, first_lists.recv()).await;
            shared.graph.lock().start();
            shared.dispatch();
        }
        let pause = if complete { again.next().copied() } else { Some(AFTER_A_FAILURE) };
        let due = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.definitions.notified() => again = AFTER_A_CHANGE.iter(),
            () = due => {}
        }
    }
}

async fn work(shared: Arc<Shared>) {
    while let Some(work) = shared.queue.next().await {
        let task = work.key().clone();
        let outcome = reconcile(&shared, &task).await;
        shared.dispatch();
        match outcome {
            Outcome::Done => work.done(),
            Outcome::Again => work.retry(),
            Outcome::NotServed => {
                shared.parked.lock().insert(task);
                work.done();
            }
            Outcome::Failed(error) => {
                tracing::debug!(?task, %error, "retrying a task");
                work.retry();
            }
        }
    }
}

async fn reconcile(shared: &Shared, task: &Task) -> Outcome {
    match task {
        Task::Attempt(uid) => attempt(&shared.graph, &shared.cluster, uid).await,
        Task::Orphan(uid) => orphan(&shared.graph, &shared.cluster, uid).await,
    }
}

impl Shared {
    /// Performs the effects of the graph.
    fn dispatch(&self) {
        let effects = self.graph.lock().effects();
        for effect in effects {
            match effect {
                Effect::Attempt(uid) => self.queue.add(Task::Attempt(uid), Priority::NORMAL),
                Effect::Orphan(uid) => self.queue.add(Task::Orphan(uid), Priority::NORMAL),
                Effect::WrongNamespace { dependent, owner } => self.report(&dependent, &owner),
            }
        }
    }

    fn unpark(&self) {
        let parked = std::mem::take(&mut *self.parked.lock());
        parked.into_iter().for_each(|task| self.queue.add(task, Priority::LOW));
    }

    fn report(&self, dependent: &Identity, owner: &Owner) {
        let about = ObjectReference {
            api_version: Some(dependent.kind.api_version.to_string()),
            kind: Some(dependent.kind.kind.to_string()),
            namespace: Some(dependent.namespace.to_string()),
            name: Some(dependent.name.to_string()),
            uid: Some(dependent.uid.to_string()),
            ..ObjectReference::default()
        };
        let namespace = &*dependent.namespace;
        let note =
            format!("ownerRef {} does not exist in namespace {namespace:?}", owner.identity(&dependent.namespace));
        self.events.record(&about, EventType::Warning, "OwnerRefInvalidNamespace", "", &note);
    }
}
