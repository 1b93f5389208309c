//! Runs an election against an API server.

use std::{collections::BTreeMap, future::Future, pin::pin, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use tokio::{sync::watch, time::timeout};

use super::{
    InvalidTiming, Leadership, Timing, clock,
    election::{Election, ElectionResult, ElectionStep},
    identity,
    leadership::LeadershipState,
    record::LeaseRecord,
};
use crate::{metrics::Metrics, random};

/// Participation of one process in a leader election, on one Lease.
///
/// Compatible with client-go: replicas of an operator in Go and in Rust exclude each other. At any time, at most one
/// process passes [`Leadership::check`] for a lease, regardless of slow requests, lost messages, paused processes and
/// skewed clocks, as long as the Lease is not deleted.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use windlass_runtime::lease::{ElectionOutcome, LeaderElection};
///
/// let election = LeaderElection::new(client, "default", "my-operator");
/// let leadership = election.leadership();
/// let stop = tokio_util::sync::CancellationToken::new();
/// let stopped = stop.clone();
/// let running = tokio::spawn(async move { election.run(stopped.cancelled()).await });
///
/// leadership.acquired().await;
/// leadership.check()?; // before each write
/// stop.cancel(); // after all work is done: releases the lease
/// assert_eq!(running.await?, ElectionOutcome::Stopped);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LeaderElection {
    leases: LeaseClient,
    identity: String,
    timing: Timing,
    release: bool,
    metrics: ElectionMetrics,
    standing: watch::Sender<LeadershipState>,
    leadership: Leadership,
}

/// Outcome of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionOutcome {
    /// The lease could not be renewed in time, or another process holds it. The process should exit and be restarted.
    Lost,
    /// It was stopped. The lease was released, if it was held and the API server responded.
    Stopped,
}

/// Metrics of elections, under client-go's names: `leader_election_master_status` (1 for the leader) and
/// `leader_election_slowpath_total` (renewals that had to read the lease first), by the name of the lease.
#[derive(Clone, Debug, Default)]
pub struct ElectionMetrics {
    master: Family<LeaseName, Gauge>,
    slow: Family<LeaseName, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseName {
    name: String,
}

/// The Lease of an election on the API server, and its last known state.
#[derive(Debug)]
struct LeaseClient {
    api: Api<Lease>,
    name: String,
    labels: BTreeMap<String, String>,
    /// Last observed state, on which a replacement is based.
    last: Option<Lease>,
}

impl ElectionMetrics {
    /// Registers the metrics. Must be called once per process, and shared by its elections.
    pub fn register(metrics: &Metrics) -> Self {
        let families = Self::default();
        metrics.register(|registry| {
            let help = "Whether this process holds the lease: 1 if it leads, 0 if it is on standby";
            registry.register("leader_election_master_status", help, families.master.clone());
            let help = "Renewals by the leader that had to read the lease first";
            registry.register("leader_election_slowpath", help, families.slow.clone());
        });
        families
    }

    fn leads(&self, name: &str, leads: bool) {
        self.master.get_or_create(&LeaseName { name: name.to_owned() }).set(leads.into());
    }

    fn slow(&self, name: &str) {
        self.slow.get_or_create(&LeaseName { name: name.to_owned() }).inc();
    }
}

impl LeaderElection {
    /// Creates a candidate for the Lease of this name, with a unique [identity](super::identity) and client-go's
    /// [timing](Timing).
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        let (standing, leadership) = Leadership::followed();
        let api = Api::namespaced(client, namespace);
        Self {
            leases: LeaseClient { api, name: name.to_owned(), labels: BTreeMap::new(), last: None },
            identity: identity::identity(),
            timing: Timing::default(),
            release: true,
            metrics: ElectionMetrics::default(),
            standing,
            leadership,
        }
    }

    /// Sets another identity. It must be unique among all running processes.
    pub fn identity(mut self, identity: &str) -> Self {
        self.identity = identity.to_owned();
        self
    }

    /// Sets other durations, if they are safe. All candidates should use the same.
    pub fn timing(mut self, timing: Timing) -> Result<Self, InvalidTiming> {
        timing.validate()?;
        self.timing = timing;
        Ok(self)
    }

    /// Sets labels of the Lease. Other labels are kept.
    pub fn labels(mut self, labels: BTreeMap<String, String>) -> Self {
        self.leases.labels = labels;
        self
    }

    /// Sets whether the lease is released on stop; true by default. Otherwise the next leader waits until it expires.
    ///
    /// An election that releases must be stopped only after all work that needs the lease is finished.
    pub fn release(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Sets the metrics.
    pub fn metrics(mut self, metrics: ElectionMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Returns a handle that reports whether this process leads.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Takes part until the lease is lost or `stop` resolves.
    ///
    /// Errors of the API server are retried; while leading, until the deadline. If this future is dropped, the process
    /// leads until the deadline of its last renewal, and the lease is not released.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> ElectionOutcome {
        let mut election = Election::new(self.identity.clone(), self.timing);
        let mut stop = pin!(stop);
        let name = self.leases.name.clone();
        self.metrics.leads(&name, false);
        tracing::info!(lease = %name, identity = %self.identity, "waiting to become the leader");
        let mut leader = None;
        loop {
            let step = election.next(clock::now(), Timestamp::now(), random::fraction());
            self.publish(&election);
            if matches!(step, ElectionStep::Replace(_)) && election.is_slow() {
                self.metrics.slow(&name);
            }
            let patience = election.patience(clock::now());
            let answer = tokio::select! {
                biased;
                () = &mut stop => break,
                answer = self.leases.perform(step, patience) => answer,
            };
            match answer {
                StepOutcome::Ended => {
                    tracing::error!(lease = %name, "lost the lease");
                    return ElectionOutcome::Lost;
                }
                StepOutcome::Waited => continue,
                StepOutcome::Answered(answer) => election.answer(answer, clock::now()),
            }
            self.publish(&election);
            if election.holder() != leader.as_deref() {
                leader = election.holder().map(str::to_owned);
                tracing::info!(lease = %name, holder = leader.as_deref().unwrap_or_default(), "the lease has a new holder");
            }
        }
        let held = election.stop();
        // Before the lease is released: from here on, no check passes.
        self.publish(&election);
        if held && self.release {
            let patience = self.timing.renew_deadline;
            if timeout(patience, self.surrender(election)).await.is_err() {
                tracing::warn!(lease = %name, "failed to release the lease; it will expire");
            }
        }
        ElectionOutcome::Stopped
    }

    async fn surrender(&mut self, mut election: Election) {
        let patience = self.timing.request();
        while let Some(step) = election.surrender(clock::now(), Timestamp::now()) {
            if let StepOutcome::Answered(answer) = self.leases.perform(step, patience).await {
                if answer == ElectionResult::Missing {
                    return;
                }
                if answer == ElectionResult::Failed {
                    tokio::time::sleep(self.timing.retry_period).await;
                }
                election.answer(answer, clock::now());
            }
        }
    }

    fn publish(&self, election: &Election) {
        let standing = election.standing();
        self.standing.send_if_modified(|told| {
            let changed = *told != standing;
            *told = standing;
            changed
        });
        self.metrics.leads(&self.leases.name, matches!(standing, LeadershipState::Leads { .. }));
    }
}

impl Drop for LeaderElection {
    fn drop(&mut self) {
        self.metrics.leads(&self.leases.name, false);
    }
}

/// Result of a step.
enum StepOutcome {
    Answered(ElectionResult),
    Waited,
    Ended,
}

impl LeaseClient {
    async fn perform(&mut self, step: ElectionStep, patience: Duration) -> StepOutcome {
        let params = PostParams::default();
        let creates = matches!(step, ElectionStep::Create(_));
        let answered = match step {
            ElectionStep::End => return StepOutcome::Ended,
            ElectionStep::Wait(pause) => {
                tokio::time::sleep(pause).await;
                return StepOutcome::Waited;
            }
            ElectionStep::Read => timeout(patience, self.api.get(&self.name)).await,
            ElectionStep::Create(record) => {
                timeout(patience, self.api.create(&params, &self.with(&record, None))).await
            }
            ElectionStep::Replace(record) => {
                let lease = self.with(&record, self.last.as_ref());
                timeout(patience, self.api.replace(&self.name, &params, &lease)).await
            }
        };
        let answer = match answered {
            Ok(Ok(lease)) => {
                let version = lease.metadata.resource_version.clone().unwrap_or_default();
                let record = LeaseRecord::of(&lease);
                self.last = Some(lease);
                ElectionResult::Is { record, version }
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                // A create fails with 404 only if the namespace does not exist.
                if creates {
                    tracing::warn!(
                        lease = %self.name, error = %status,
                        "failed to create the lease: create its namespace, or set another with --leader-election-namespace",
                    );
                }
                ElectionResult::Missing
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => ElectionResult::Rejected,
            Ok(Err(error)) => {
                tracing::warn!(lease = %self.name, %error, "request for the lease failed");
                ElectionResult::Failed
            }
            Err(_) => {
                tracing::warn!(lease = %self.name, ?patience, "request for the lease timed out");
                ElectionResult::Failed
            }
        };
        StepOutcome::Answered(answer)
    }

    /// Returns the lease with another record.
    fn with(&self, record: &LeaseRecord, last: Option<&Lease>) -> Lease {
        let mut lease = record.lease(&self.name, last);
        if !self.labels.is_empty() {
            lease.metadata.labels.get_or_insert_default().extend(self.labels.clone());
        }
        lease
    }
}

#[cfg(test)]
mod tests;
