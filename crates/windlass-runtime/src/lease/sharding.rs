//! Shares keys among replicas, over an API server.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use tokio::{sync::watch, time::timeout};
use uuid::Uuid;

use super::{
    InvalidTiming, Shard, Timing, clock,
    identity::identity,
    membership::{Answer, ListedLease, Membership, Step},
    record::LeaseRecord,
    ring::Ring,
    shard::ShardView,
};

/// The label of all leases of a group.
const GROUP: &str = "sharding.windlass.dev/group";
/// The annotation with the members that the holder of a lease goes by.
const RING: &str = "sharding.windlass.dev/ring";

/// One process's part in a group of replicas that share all keys among them.
///
/// **The guarantee**: at any moment at most one process in the world is told by [`Shard::owns`] that it owns a key,
/// whatever is slow, lost, paused or skewed, as long as nobody deletes leases of the group. And when messages arrive
/// and the group stays as it is for a few seconds, every key is owned by somebody. When a member comes or goes, about
/// one key in as many as there are members changes hands; the others are worked on without a break.
///
/// # The protocol
///
/// Each member holds a Lease of its own, labelled with the group's name, and renews it as a leader does. The members
/// that somebody sees with leases that are not over are its *ring*; a ring gives each key to one of its members by
/// rendezvous hashing. An annotation on the member's lease says which ring it goes by, and so which keys it *claims*.
///
/// A member owns a key if all of this holds:
/// 1. its own lease is not over, counted from before the last renewal was sent, as for leaders;
/// 2. the ring on its lease claims the key, and so does every ring that it adopted or tried to write since: a key that
///    a newer ring takes away is let go of at once, before that ring is written;
/// 3. in a list of all leases that was asked for *after* that ring was written, no other member whose lease may not be
///    over claims the key.
///
/// So a key is handed over when the one that loses it has written a ring without it (it has stopped by then), or has
/// been silent for the whole of its lease (it has noticed by then). Two that claim one key at the same time, because
/// they see different members, both have it written before they look, so at least one sees the other's claim and waits;
/// when they see the same members, one of them gives way.
///
/// # Writes on their way
///
/// Owning is asked for at the moment of each write, and a request that has not been answered when its key is lost is
/// dropped. The server may have it all the same. If the lease ran out, it has the rest of `lease_duration` to arrive
/// before the next owner begins. If the key was handed to another member, it has only the time that it takes to write a
/// ring and for the other to see it: a request that is under way for longer than that may arrive after the first writes
/// of the new owner. Where that matters, writes carry a version or a uid, as updates, status writes, deletions and
/// applies of what is owned do.
///
/// Nobody's clock is compared with another's. A lease counts as over only when it had not changed for its whole
/// duration *before* the list that shows it was asked for. Leases that have been over for long are deleted by the
/// others.
///
/// ```no_run
/// # async fn example(client: kube::Client) {
/// use windlass_runtime::{key::ObjectKey, lease::Sharding};
///
/// let sharding = Sharding::new(client, "default", "my-operator");
/// let mut shard = sharding.shard();
/// tokio::spawn(sharding.run(std::future::pending()));
/// loop {
///     shard.changed().await;
///     let mine = shard.owns(&ObjectKey::namespaced("default", "web"));
/// #   if mine { break }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Sharding {
    leases: LeaseClient,
    identity: String,
    timing: Timing,
    view: watch::Sender<ShardView>,
    shard: Shard,
}

/// The leases of a group on the server.
#[derive(Debug)]
struct LeaseClient {
    api: Api<Lease>,
    group: String,
    name: Arc<str>,
    /// This member's, as observed last.
    mine: Option<Lease>,
}

impl Sharding {
    /// A member of the group of that name, with client-go's [timing](Timing). The name must be fit for a label.
    pub fn new(client: Client, namespace: &str, group: &str) -> Self {
        let name: Arc<str> = format!("{group}-{}", Uuid::new_v4().simple()).into();
        let (view, shard) = Shard::followed(name.clone());
        let api = Api::namespaced(client, namespace);
        Self {
            leases: LeaseClient { api, group: group.to_owned(), name, mine: None },
            identity: identity(),
            timing: Timing::default(),
            view,
            shard,
        }
    }

    /// Other durations, if they are safe. Members may differ.
    pub fn timing(mut self, timing: Timing) -> Result<Self, InvalidTiming> {
        timing.validate()?;
        self.timing = timing;
        Ok(self)
    }

    /// A handle that tells which keys are this process's.
    pub fn shard(&self) -> Shard {
        self.shard.clone()
    }

    /// Takes part until `stop` resolves; then owns nothing, and says so, so that the others need not wait.
    ///
    /// Whoever stops must have finished all work on its keys. If this future is dropped, the process owns what it owned
    /// until the deadline of its last renewal.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut membership = Membership::new(self.leases.name.clone(), self.identity.clone(), self.timing);
        let mut stop = pin!(stop);
        loop {
            let step = membership.next(clock::now(), Timestamp::now());
            self.publish(&membership);
            let patience = membership.patience();
            let answer = tokio::select! {
                biased;
                () = &mut stop => break,
                answer = self.leases.perform(step, patience) => answer,
            };
            if let Some(answer) = answer {
                membership.answer(answer, clock::now());
                self.publish(&membership);
            }
        }
        membership.stop();
        // Before it is written: from here on nothing is owned.
        self.publish(&membership);
        let patience = self.timing.renew_deadline;
        if timeout(patience, self.surrender(membership)).await.is_err() {
            tracing::warn!(lease = %self.leases.name, "the group could not be told; the lease expires by itself");
        }
    }

    async fn surrender(&mut self, mut membership: Membership) {
        while let Some(step) = membership.surrender(clock::now(), Timestamp::now()) {
            let patience = membership.patience();
            if let Some(answer) = self.leases.perform(step, patience).await {
                if answer == Answer::Failed {
                    tokio::time::sleep(self.timing.retry_period).await;
                }
                membership.answer(answer, clock::now());
            }
        }
    }

    fn publish(&self, membership: &Membership) {
        let view = membership.view();
        self.view.send_if_modified(|told| {
            let changed = !told.answers_as(&view);
            *told = view;
            changed
        });
    }
}

impl LeaseClient {
    /// None after a pause.
    async fn perform(&mut self, step: Step, patience: Duration) -> Option<Answer> {
        if let Step::Wait(pause) = step {
            tokio::time::sleep(pause).await;
            return None;
        }
        match timeout(patience, self.ask(step)).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(error)) => {
                tracing::warn!(group = %self.group, %error, "a request for the group's leases failed");
                Some(Answer::Failed)
            }
            Err(_) => {
                tracing::warn!(group = %self.group, ?patience, "a request for the group's leases took too long");
                Some(Answer::Failed)
            }
        }
    }

    async fn ask(&mut self, step: Step) -> kube::Result<Answer> {
        let params = PostParams::default();
        let lease = match step {
            Step::List => {
                // No version: the list is as new as the server's newest write.
                let list = self.api.list(&ListParams::default().labels(&format!("{GROUP}={}", self.group))).await?;
                self.mine = list.items.iter().find(|lease| lease.metadata.name.as_deref() == Some(&self.name)).cloned();
                return Ok(Answer::Listed(list.items.iter().filter_map(seen).collect()));
            }
            Step::Delete { name, version } => {
                let preconditions = Preconditions { resource_version: Some(version), uid: None };
                self.api.delete(&name, &DeleteParams::default().preconditions(preconditions)).await?;
                return Ok(Answer::Deleted);
            }
            Step::Create(record, ring) => self.api.create(&params, &self.with(&record, ring, None)).await?,
            Step::Replace(record, ring) => {
                let lease = self.with(&record, ring, self.mine.as_ref());
                self.api.replace(&self.name, &params, &lease).await?
            }
            Step::Wait(_) => return Ok(Answer::Failed),
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let record = LeaseRecord::of(&lease);
        self.mine = Some(lease);
        Ok(Answer::Written { record, version })
    }

    fn with(&self, record: &LeaseRecord, ring: String, last: Option<&Lease>) -> Lease {
        let mut lease = record.lease(&self.name, last);
        lease.metadata.labels.get_or_insert_default().insert(GROUP.to_owned(), self.group.clone());
        lease.metadata.annotations.get_or_insert_default().insert(RING.to_owned(), ring);
        lease
    }
}

fn seen(lease: &Lease) -> Option<ListedLease> {
    let metadata = &lease.metadata;
    let ring = metadata.annotations.as_ref().and_then(|annotations| annotations.get(RING));
    Some(ListedLease {
        name: metadata.name.as_deref()?.into(),
        version: metadata.resource_version.clone().unwrap_or_default(),
        record: LeaseRecord::of(lease),
        ring: ring.and_then(|text| Ring::parse(text)),
    })
}
