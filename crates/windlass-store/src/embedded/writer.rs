//! The writer thread: owns the database, decides writes in order of arrival, and commits them in groups.

use std::{
    collections::HashMap,
    mem,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use redb::{Database, Durability, WriteTransaction};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Failure, Shared,
    fence::Health,
    layout::{COMPACTED, LOG, META, Record, SWEPT, Snapshot, VALUES, cost, storage},
    space::Space,
};
use crate::{
    Error, Event, Revision,
    history::{Operation, Version},
};

/// Maximum number of writes that share a transaction.
const GROUP: usize = 512;

/// A group is closed when its values reach this size, which keeps a transaction within redb's write buffer.
const GROUP_BYTES: usize = 4 << 20;

/// Maximum number of writes that a transaction sweeps: a few milliseconds of work.
const SWEEP: usize = 256;

/// Maximum time that a group stays open for more writes.
const GATHER: Duration = Duration::from_micros(1500);

/// A group is closed when no write has arrived for this long.
const STEP: Duration = Duration::from_micros(100);

type Answer<T> = oneshot::Sender<Result<T, Error>>;

pub(super) enum Request {
    Write(Write),
    Compact { revision: Revision, answer: Answer<()> },
}

pub(super) struct Write {
    pub(super) operation: Operation,
    pub(super) key: Arc<str>,
    pub(super) value: Option<Bytes>,
    pub(super) answer: Answer<Revision>,
}

pub(super) struct Writer {
    pub(super) database: Database,
    pub(super) health: Arc<Health>,
    pub(super) shared: Arc<Shared>,
    pub(super) queue: mpsc::Receiver<Request>,
    pub(super) notify: watch::Sender<Revision>,
    /// Every write up to this revision has been swept.
    pub(super) swept: Revision,
    /// Target revision of the sweep.
    pub(super) sweep_to: Revision,
    /// Compactions whose sweep is in progress.
    sweeping: Vec<(Revision, Answer<()>)>,
    last_group: usize,
    record: Vec<u8>,
    space: Space,
}

/// Writes that share one transaction, and the responses to their writers.
#[derive(Default)]
struct Group {
    events: Vec<Event>,
    answers: Vec<(Answer<Revision>, Result<Revision, Error>)>,
    /// A compaction to record.
    compacted: Option<Revision>,
    /// Versions to remove, and the revision up to which that sweeps.
    swept: Option<(Revision, Vec<Revision>)>,
    /// Number of bytes that these versions occupy.
    freed: u64,
}

impl Writer {
    pub(super) fn new(
        database: Database,
        health: Arc<Health>,
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Request>,
        notify: watch::Sender<Revision>,
        swept: Revision,
    ) -> Self {
        // Continue a sweep that an earlier process did not finish.
        let sweep_to = shared.state.lock().compacted;
        Self {
            database,
            health,
            shared,
            queue,
            notify,
            swept,
            sweep_to,
            sweeping: Vec::new(),
            last_group: 0,
            record: Vec::new(),
            space: Space::default(),
        }
    }

    /// Serves requests until the store is dropped, then closes the file.
    pub(super) fn run(mut self) {
        let mut requests = Vec::with_capacity(GROUP);
        while self.take_requests(&mut requests) {
            let served = catch_unwind(AssertUnwindSafe(|| {
                self.serve(&mut requests);
                self.recover_if_failed();
            }));
            if served.is_err() {
                self.shared.fail(Failure { cause: "the writer thread panicked".into(), permanent: true });
                requests.clear();
                self.sweeping.clear();
            }
        }
        let shared = self.shared.clone();
        drop(self);
        if let Err(error) = shared.backend.close() {
            tracing::warn!(file = shared.name, %error, "failed to close the store");
        }
    }

    /// Waits for requests; returns false if there will be no more.
    fn take_requests(&mut self, requests: &mut Vec<Request>) -> bool {
        let sweeping = self.swept < self.sweep_to && !self.shared.has_failed();
        if sweeping {
            self.take_waiting(requests);
            return !requests.is_empty() || !self.queue.is_closed();
        }
        if self.queue.blocking_recv_many(requests, GROUP) == 0 {
            return false;
        }
        if requests.len().max(self.last_group) > 1 {
            self.gather(requests);
        }
        self.last_group = requests.len();
        true
    }

    /// Takes the requests that are already in the queue.
    pub(super) fn take_waiting(&mut self, requests: &mut Vec<Request>) {
        while requests.len() < GROUP
            && let Ok(request) = self.queue.try_recv()
        {
            requests.push(request);
        }
    }

    /// Keeps a group open while writes keep arriving.
    ///
    /// A transaction costs about as much for one write as for ten, and there is more than one writer: the writers of
    /// the last group have just received their responses, and most of them are about to write again.
    fn gather(&mut self, requests: &mut Vec<Request>) {
        let deadline = Instant::now() + GATHER;
        while requests.len() < GROUP && Instant::now() < deadline {
            thread::sleep(STEP);
            let before = requests.len();
            self.take_waiting(requests);
            if requests.len() == before {
                return;
            }
        }
    }

    pub(super) fn serve(&mut self, requests: &mut Vec<Request>) {
        let mut requests = requests.drain(..).peekable();
        loop {
            let mut group = Group::default();
            self.admit(&mut requests, &mut group);
            self.plan_sweep(&mut group);
            self.commit(group);
            if requests.peek().is_none() {
                return;
            }
        }
    }

    /// Decides requests in order until the group is full.
    fn admit(&mut self, requests: &mut impl Iterator<Item = Request>, group: &mut Group) {
        let mut state = self.shared.state.lock();
        let mut revision = state.revision;
        let mut bytes = 0;
        let (mut in_use, quota) = (state.in_use, self.shared.options.quota_bytes);
        // Effects of the group on keys, before they are visible to others.
        let mut pending: HashMap<Arc<str>, Option<Revision>> = HashMap::new();
        while bytes < GROUP_BYTES {
            match requests.next() {
                None => break,
                Some(Request::Compact { revision: to, answer }) => match to.within(Revision(0), state.revision) {
                    Err(error) => drop(answer.send(Err(error))),
                    Ok(()) => {
                        if to > state.compacted {
                            state.compacted = to;
                            group.compacted = Some(to);
                            self.sweep_to = to;
                        }
                        self.sweeping.push((to, answer));
                    }
                },
                Some(Request::Write(write)) => {
                    let key = state.history.share(&write.key);
                    let current = match pending.get(&key) {
                        Some(current) => *current,
                        None => state.history.current(&key).map(|(_, revision, _)| revision),
                    };
                    let size = cost(&key, size_of(write.value.as_ref()));
                    let admitted = write.operation.admit(&key, current);
                    let admitted = admitted.and_then(|()| self.space.admit(write.operation, in_use + size, quota));
                    let decided = admitted.map(|()| {
                        bytes += key.len() + write.value.as_ref().map_or(0, Bytes::len);
                        in_use += size;
                        for value in write.operation.values(write.value) {
                            revision = revision.next();
                            pending.insert(key.clone(), value.is_some().then_some(revision));
                            group.events.push(Event { key: key.clone(), revision, value });
                        }
                        revision
                    });
                    group.answers.push((write.answer, decided));
                }
            }
        }
    }

    /// Selects the next writes to sweep.
    fn plan_sweep(&mut self, group: &mut Group) {
        if self.swept >= self.sweep_to || self.shared.has_failed() {
            return;
        }
        let snapshot = self.shared.state.lock().snapshot.clone();
        let mut writes: Vec<(Revision, Arc<str>)> = Vec::with_capacity(SWEEP);
        let read = snapshot.log(self.swept.next().0..=self.sweep_to.0, |revision, record| {
            writes.push((revision, Arc::from(record.key)));
            Ok(writes.len() < SWEEP)
        });
        if let Err(error) = read {
            self.poison(error.to_string());
            return;
        }
        let through = if writes.len() < SWEEP { self.sweep_to } else { writes[writes.len() - 1].0 };
        // Removed before this is durable: `compacted` already prevents reads of these versions.
        let mut removed = Vec::new();
        let mut state = self.shared.state.lock();
        for (revision, key) in writes {
            state.history.remove_before(&key, revision, |version| {
                removed.push(version.revision);
                group.freed += cost(&key, version.value);
            });
        }
        removed.sort_unstable();
        group.swept = Some((through, removed));
    }

    /// Makes a group durable, then visible, then responds.
    fn commit(&mut self, group: Group) {
        if !self.shared.has_failed() && group.changes_anything() {
            match self.persist(&group) {
                Ok(snapshot) => self.publish(&group, snapshot),
                Err(error) => {
                    // The first cause is the error of the storage, not redb's interpretation of it.
                    let cause = self.health.shut(error.to_string()).cause.clone();
                    self.poison(cause);
                }
            }
        }
        for (answer, decided) in group.answers {
            // The caller may have dropped its future.
            let _ = answer.send(self.shared.writable().and(decided));
        }
        let failed = self.shared.has_failed();
        let (done, rest) = mem::take(&mut self.sweeping).into_iter().partition(|(to, _)| failed || *to <= self.swept);
        self.sweeping = rest;
        let done: Vec<(Revision, Answer<()>)> = done;
        for (_, answer) in done {
            let _ = answer.send(self.shared.writable());
        }
    }

    fn persist(&mut self, group: &Group) -> Result<Snapshot, Error> {
        let mut transaction = self.database.begin_write().map_err(storage)?;
        transaction.set_durability(Durability::Immediate).map_err(storage)?;
        self.append(&transaction, &group.events)?;
        if let Some((_, removed)) = &group.swept {
            let mut log = transaction.open_table(LOG).map_err(storage)?;
            let mut values = transaction.open_table(VALUES).map_err(storage)?;
            for revision in removed {
                log.remove(revision.0).map_err(storage)?;
                values.remove(revision.0).map_err(storage)?;
            }
        }
        if group.compacted.is_some() || group.swept.is_some() {
            let mut meta = transaction.open_table(META).map_err(storage)?;
            if let Some(compacted) = group.compacted {
                meta.insert(COMPACTED, compacted.0).map_err(storage)?;
            }
            if let Some((through, _)) = group.swept {
                meta.insert(SWEPT, through.0).map_err(storage)?;
            }
        }
        transaction.commit().map_err(storage)?;
        if let Some(failure) = self.health.failure() {
            return Err(Error::Storage { cause: failure.cause.clone() });
        }
        // A write to a file that cannot be found again must not be acknowledged.
        self.shared.check_place();
        self.shared.writable()?;
        self.space.look(&self.shared);
        Snapshot::of(&self.database)
    }

    /// Appends events to the tables.
    fn append(&mut self, transaction: &WriteTransaction, events: &[Event]) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        let mut log = transaction.open_table(LOG).map_err(storage)?;
        let mut end = log.upper_bound_mut(Bound::<u64>::Unbounded).map_err(storage)?;
        for event in events {
            Record { key: &event.key, value: size_of(event.value.as_ref()) }.encode(&mut self.record);
            end.insert_before(event.revision.0, self.record.as_slice()).map_err(storage)?;
        }
        end.close().map_err(storage)?;
        let mut values = transaction.open_table(VALUES).map_err(storage)?;
        let mut end = values.upper_bound_mut(Bound::<u64>::Unbounded).map_err(storage)?;
        for event in events {
            if let Some(value) = &event.value {
                end.insert_before(event.revision.0, value.as_ref()).map_err(storage)?;
            }
        }
        end.close().map_err(storage)
    }

    /// Makes a durable group visible to readers.
    fn publish(&mut self, group: &Group, snapshot: Snapshot) {
        if let Some((through, _)) = group.swept {
            self.swept = through;
        }
        let mut state = self.shared.state.lock();
        let former = mem::replace(&mut state.snapshot, Arc::new(snapshot));
        for event in &group.events {
            let size = size_of(event.value.as_ref());
            state.history.apply(&event.key, Version { revision: event.revision, value: size });
            state.in_use += cost(&event.key, size);
            state.recent.push(event.clone());
            state.revision = event.revision;
        }
        state.in_use = state.in_use.saturating_sub(group.freed);
        while state.recent.pop_excess().is_some() {}
        let revision = state.revision;
        drop(state);
        // Outside the lock: dropping the last reference to a snapshot ends its read transaction.
        drop(former);
        if !group.events.is_empty() {
            self.notify.send_replace(revision);
        }
    }

    fn poison(&self, cause: String) {
        self.shared.fail(Failure { cause, permanent: false });
    }
}

/// Size of a value in the table `log`.
fn size_of(value: Option<&Bytes>) -> Option<u32> {
    value.map(|value| u32::try_from(value.len()).unwrap_or(u32::MAX))
}

impl Group {
    fn changes_anything(&self) -> bool {
        !self.events.is_empty() || self.compacted.is_some() || self.swept.is_some()
    }
}
