//! A full or failing disk: writes stop, reads continue, and reopening recovers.

use std::sync::Arc;

use tokio::task::JoinSet;
use windlass_store::{EmbeddedOptions, EmbeddedStore, Error, ListOptions, Retention, Revision, Store};

use crate::{
    disk::{Disk, Fault},
    ledger::{Ledger, write_once},
    random::Random,
};

/// So little memory that reads must go to the disk.
const OPTIONS: EmbeddedOptions = EmbeddedOptions { cache_bytes: 0, recent: Retention { events: 1, bytes: 0 } };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_write_poisons_the_store() {
    for operations in (0..40).chain((40..400).step_by(37)) {
        check(Fault::Write, operations, "write: ").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_fsync_poisons_the_store() {
    for operations in 0..15 {
        check(Fault::Sync, operations, "fsync: ").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_resize_poisons_the_store() {
    check(Fault::Resize, 0, "resize: ").await;
}

async fn check(fault: Fault, operations: u64, named: &str) {
    let disk = Disk::default();
    let mut ledger = Ledger::default();
    let mut random = Random(operations);
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open_with(disk.clone(), OPTIONS).expect("the store must open"));
    for number in 0..50 {
        let written = write_once(&*store, format!("/before/{number}"), random.next()).await;
        let (revision, written) = written.expect("the write must succeed");
        ledger.acknowledge(revision, written);
    }
    ledger.verify(&*store).await;
    let middle = Revision(25);
    let past = store.list(ListOptions { at: Some(middle), ..ListOptions::default() }).await.expect("must list").entries;

    disk.fail_after(fault, operations);
    let causes = write_until_poisoned(&store, &mut ledger, &mut random).await;
    assert!(disk.has_failed());
    let cause = causes.first().expect("every writer must have received a cause");
    assert!(cause.starts_with(named) && cause.contains("injected"), "{cause}");
    assert!(causes.iter().all(|other| other == cause), "all writers must receive the first cause: {causes:?}");

    // Writes are still rejected when the disk works again.
    disk.heal();
    let current = store.revision().await.expect("revision must succeed");
    for rejected in [
        store.create("/later", bytes::Bytes::new()).await.err(),
        store.delete("/before/1", Revision(3)).await.err(),
        store.compact(middle).await.err(),
    ] {
        assert!(matches!(&rejected, Some(Error::Poisoned { cause: reported }) if reported == cause), "{rejected:?}");
    }

    // Reads continue: the newest state, an older one, and the events, without anything unacknowledged.
    ledger.verify(&*store).await;
    assert_eq!(ledger.verified(), current);
    let again =
        store.list(ListOptions { at: Some(middle), ..ListOptions::default() }).await.expect("must list").entries;
    assert_eq!(again, past);
    let mut watch = store.watch("/before/", Revision::INITIAL).await.expect("watch must start");
    let mut events = 0;
    while events < 50 {
        events += watch.next().await.expect("the watch must continue").events.len();
    }
    drop((watch, store));

    let store = EmbeddedStore::open_with(disk, OPTIONS).expect("the store must open");
    ledger.verify(&store).await;
    let (revision, written) = write_once(&store, "/healed".into(), 1).await.expect("the write must succeed");
    ledger.acknowledge(revision, written);
    store.compact(revision).await.expect("compact must succeed");
}

/// Writes until every writer has been rejected; returns the causes they received.
async fn write_until_poisoned(store: &Arc<dyn Store>, ledger: &mut Ledger, random: &mut Random) -> Vec<String> {
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (store, mut random) = (store.clone(), Random(random.next()));
        writers.spawn(async move {
            let mut acknowledged = Vec::new();
            loop {
                let key = format!("/{writer}/{}", random.below(1000));
                match write_once(&*store, key, random.next()).await {
                    Ok(written) => acknowledged.push(written),
                    Err(Error::Poisoned { cause }) => return (acknowledged, cause),
                    Err(error) => panic!("reads must succeed, and this key must have no other writer: {error}"),
                }
            }
        });
    }
    let mut causes = Vec::new();
    for (acknowledged, cause) in writers.join_all().await {
        causes.push(cause);
        for (revision, written) in acknowledged {
            ledger.acknowledge(revision, written);
        }
    }
    causes
}
