//! Sharing of keys among replicas, through an API server.

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
    membership::{ListedLease, Membership, MembershipResult, MembershipStep},
    record::LeaseRecord,
    ring::Ring,
    shard::ShardView,
};

/// Label of all leases of a group.
const GROUP: &str = "sharding.windlass.dev/group";
/// Annotation with the members that the holder of a lease uses.
const RING: &str = "sharding.windlass.dev/ring";

/// Participation of one process in a group of replicas that share all keys.
///
/// **Guarantee**: at any time, at most one process owns a key according to [`Shard::owns`], regardless of slow
/// requests, lost messages, paused processes and skewed clocks, as long as no lease of the group is deleted. When
/// messages arrive and the group does not change for a few seconds, every key is owned by some process. When a member
/// joins or leaves, about one of N keys moves, where N is the number of members; work on the others continues without
/// interruption.
///
/// # Protocol
///
/// Each member holds its own Lease, labelled with the name of the group, and renews it as a leader does. The *ring* of
/// a member is the set of members whose leases it considers valid; a ring assigns each key to one of its members by
/// rendezvous hashing. An annotation on the member's lease contains the ring it uses, and thus the keys it *claims*.
///
/// A member owns a key if all of the following hold:
/// 1. its own lease is valid, counted from before the last renewal was sent, as for leaders;
/// 2. the ring on its lease claims the key, and so does every ring that it adopted or tried to write since: a key that
///    a newer ring takes away is released at once, before that ring is written;
/// 3. in a list of all leases that was requested *after* that ring was written, no other member whose lease may still
///    be valid claims the key.
///
/// So a key is handed over when the previous owner has written a ring without it (it has stopped by then), or has been
/// silent for its whole lease duration (it has noticed by then). If two members claim one key at the same time, because
/// they see different members, both have written their claim before they list, so at least one sees the other's claim
/// and waits; when they see the same members, one of them yields.
///
/// # Writes in flight
///
/// Ownership is checked at the time of each write, and a request without response is dropped when its key is lost. The
/// API server may have received it nevertheless. If the lease expired, the request has the rest of `lease_duration` to
/// arrive before the next owner begins. If the key was handed to another member, it has only the time that it takes to
/// write a ring and for the other member to see it: a request that takes longer may arrive after the first writes of
/// the new owner. Where that matters, writes carry a resource version or a UID, as updates, status writes, deletions
/// and applies of owned objects do.
///
/// Clocks are never compared. A lease counts as expired only if it had not changed for its whole duration *before* the
/// list that contains it was requested. Leases that expired long ago are deleted by the other members.
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

/// The leases of a group on the API server.
#[derive(Debug)]
struct LeaseClient {
    api: Api<Lease>,
    group: String,
    name: Arc<str>,
    /// This member's lease, as last observed.
    mine: Option<Lease>,
}

impl Sharding {
    /// Creates a member of the group of this name, with client-go's [timing](Timing). The name must be a valid label
    /// value.
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

    /// Sets other durations, if they are safe. Members may differ.
    pub fn timing(mut self, timing: Timing) -> Result<Self, InvalidTiming> {
        timing.validate()?;
        self.timing = timing;
        Ok(self)
    }

    /// Returns a handle that reports which keys belong to this process.
    pub fn shard(&self) -> Shard {
        self.shard.clone()
    }

    /// Takes part until `stop` resolves. Then it owns nothing and announces that, so that the others need not wait.
    ///
    /// All work on its keys must be finished before the stop. If this future is dropped, the process keeps its keys
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
        // Before it is written: from here on, nothing is owned.
        self.publish(&membership);
        let patience = self.timing.renew_deadline;
        if timeout(patience, self.surrender(membership)).await.is_err() {
            tracing::warn!(lease = %self.leases.name, "failed to announce that this member leaves; its lease will expire");
        }
    }

    async fn surrender(&mut self, mut membership: Membership) {
        while let Some(step) = membership.surrender(clock::now(), Timestamp::now()) {
            let patience = membership.patience();
            if let Some(answer) = self.leases.perform(step, patience).await {
                if answer == MembershipResult::Failed {
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
    /// Returns `None` after a wait.
    async fn perform(&mut self, step: MembershipStep, patience: Duration) -> Option<MembershipResult> {
        if let MembershipStep::Wait(pause) = step {
            tokio::time::sleep(pause).await;
            return None;
        }
        match timeout(patience, self.ask(step)).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(error)) => {
                tracing::warn!(group = %self.group, %error, "request for the group's leases failed");
                Some(MembershipResult::Failed)
            }
            Err(_) => {
                tracing::warn!(group = %self.group, ?patience, "request for the group's leases timed out");
                Some(MembershipResult::Failed)
            }
        }
    }

    async fn ask(&mut self, step: MembershipStep) -> kube::Result<MembershipResult> {
        let params = PostParams::default();
        let lease = match step {
            MembershipStep::List => {
                // Without a resource version, the list is as new as the latest write.
                let list = self.api.list(&ListParams::default().labels(&format!("{GROUP}={}", self.group))).await?;
                self.mine = list.items.iter().find(|lease| lease.metadata.name.as_deref() == Some(&self.name)).cloned();
                return Ok(MembershipResult::Listed(list.items.iter().filter_map(seen).collect()));
            }
            MembershipStep::Delete { name, version } => {
                let preconditions = Preconditions { resource_version: Some(version), uid: None };
                self.api.delete(&name, &DeleteParams::default().preconditions(preconditions)).await?;
                return Ok(MembershipResult::Deleted);
            }
            MembershipStep::Create(record, ring) => self.api.create(&params, &self.with(&record, ring, None)).await?,
            MembershipStep::Replace(record, ring) => {
                let lease = self.with(&record, ring, self.mine.as_ref());
                self.api.replace(&self.name, &params, &lease).await?
            }
            MembershipStep::Wait(_) => return Ok(MembershipResult::Failed),
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let record = LeaseRecord::of(&lease);
        self.mine = Some(lease);
        Ok(MembershipResult::Written { record, version })
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
