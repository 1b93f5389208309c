//! A full or failing disk: writes stop, reads continue, and the store recovers when the disk does.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;
use windlass_store::{EmbeddedOptions, EmbeddedStore, Error, ListOptions, Retention, Retry, Revision, Store};

use crate::{
    disk::{Disk, Fault},
    ledger::{Ledger, write_once},
    random::Random,
};

/// So little memory that reads must go to the disk.
const OPTIONS: EmbeddedOptions = EmbeddedOptions {
    cache_bytes: 0,
    recent: Retention { events: 1, bytes: 0 },
    retry: Retry {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(2),
        give_up_after: Duration::from_secs(600),
    },
    ..EmbeddedOptions::DEFAULT
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_recovers_from_a_failed_write() {
    for operations in (0..40).chain((40..400).step_by(37)) {
        check(Fault::Write, operations, "write: ").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_recovers_from_a_failed_fsync() {
    for operations in 0..15 {
        check(Fault::Sync, operations, "fsync: ").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_recovers_from_a_failed_resize() {
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
    let causes = write_until_poisoned(&store, &disk, &mut ledger, &mut random).await;
    assert!(disk.has_failed());
    let cause = causes.first().expect("every writer must have received a cause");
    assert!(cause.starts_with(named) && cause.contains("injected"), "{cause}");
    assert!(causes.iter().all(|other| other == cause), "all writers must receive the first cause: {causes:?}");

    // Writes are rejected as long as the disk fails, and the store says so.
    let current = store.revision().await.expect("revision must succeed");
    for rejected in [
        store.create("/later", bytes::Bytes::new()).await.err(),
        store.delete("/before/1", Revision(3)).await.err(),
        store.compact(middle).await.err(),
        store.health().err(),
    ] {
        assert!(matches!(&rejected, Some(Error::Poisoned { cause: reported }) if reported == cause), "{rejected:?}");
    }

    // Reads continue: the newest state, an older one, and the events, without anything unacknowledged.
    ledger.verify(&*store).await;
    assert_eq!(ledger.verified(), current);
    let again =
        store.list(ListOptions { at: Some(middle), ..ListOptions::default() }).await.expect("must list").entries;
    assert_eq!(again, past);
    let mut watch = store.watch("/", Revision::INITIAL).await.expect("watch must start");
    let mut events = 0;
    while events < 50 {
        events += watch.next().await.expect("the watch must continue").events.len();
    }

    // When the disk works again, so does the store. No acknowledged write is lost.
    disk.heal();
    recovered(&*store).await;
    ledger.verify(&*store).await;
    let (revision, written) = write_once(&*store, "/healed".into(), 1).await.expect("the write must succeed");
    ledger.acknowledge(revision, written);
    let mut delivered = Revision(0);
    while delivered < revision {
        delivered = watch.next().await.expect("the watch must continue").revision;
    }
    store.compact(middle).await.expect("compact must succeed");

    // What the store says is on the disk is there after a power cut.
    let disk = disk.after_power_cut(&mut random);
    drop((watch, store));
    let store = EmbeddedStore::open_with(disk, OPTIONS).expect("the store must open");
    ledger.verify(&store).await;
    store.compact(revision).await.expect("compact must succeed");
}

/// Waits until the store accepts writes.
async fn recovered(store: &dyn Store) {
    let healthy = async {
        while store.health().is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), healthy).await.expect("the store must recover");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_failures_that_pass_and_power_cuts() {
    for seed in 0..4 {
        let mut random = Random(seed);
        let mut disk = Disk::default();
        let mut ledger = Ledger::default();
        for _ in 0..4 {
            let store: Arc<dyn Store> =
                Arc::new(EmbeddedStore::open_with(disk.clone(), OPTIONS).expect("the store must open"));
            ledger.verify(&*store).await;
            for _ in 0..3 {
                let (fault, within) = if random.below(2) == 0 { (Fault::Write, 200) } else { (Fault::Sync, 20) };
                disk.fail_after(fault, random.below(within));
                write_until_poisoned(&store, &disk, &mut ledger, &mut random).await;
                disk.heal();
                recovered(&*store).await;
                ledger.verify(&*store).await;
            }
            // The power fails while the store fails, recovers, or works.
            disk.fail_after(Fault::PowerCut, random.below(60));
            write_until_poisoned(&store, &disk, &mut ledger, &mut random).await;
            disk = disk.after_power_cut(&mut random);
        }
        let store = EmbeddedStore::open_with(disk, OPTIONS).expect("the store must open");
        ledger.verify(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_for_other_reasons_than_space_is_abandoned() {
    let disk = Disk::default();
    let retry = Retry { give_up_after: Duration::ZERO, ..OPTIONS.retry };
    let store = EmbeddedStore::open_with(disk.clone(), EmbeddedOptions { retry, ..OPTIONS }).expect("must open");
    store.create("/a", bytes::Bytes::from_static(b"1")).await.expect("create must succeed");
    disk.fail_after(Fault::Sync, 0);
    let rejected = store.create("/b", bytes::Bytes::new()).await.err();
    assert!(matches!(&rejected, Some(Error::Poisoned { .. })), "{rejected:?}");
    let failed = store.failed().await;
    assert!(matches!(&failed, Error::Failed { cause } if cause.starts_with("fsync: ")), "{failed:?}");
    // It does not come back, even if the disk does.
    disk.heal();
    let rejected = store.create("/b", bytes::Bytes::new()).await.err();
    assert!(matches!(&rejected, Some(Error::Failed { .. })), "{rejected:?}");
    assert!(store.get("/a").await.expect("reads must continue").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_waited_for() {
    let disk = Disk::default();
    let retry = Retry { give_up_after: Duration::ZERO, ..OPTIONS.retry };
    let store = EmbeddedStore::open_with(disk.clone(), EmbeddedOptions { retry, ..OPTIONS }).expect("must open");
    disk.fail_after(Fault::Write, 0);
    let rejected = store.create("/a", bytes::Bytes::new()).await.err();
    assert!(matches!(&rejected, Some(Error::Poisoned { .. })), "{rejected:?}");
    let before = disk.failures();
    while disk.failures() < before + 5 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(matches!(store.health(), Err(Error::Poisoned { .. })));
    disk.heal();
    recovered(&store).await;
    store.create("/a", bytes::Bytes::new()).await.expect("create must succeed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_ends_with_an_error_if_the_store_has_to_recover() {
    let disk = Disk::default();
    let store = EmbeddedStore::open_with(disk.clone(), OPTIONS).expect("the store must open");
    for number in 0..10 {
        store.create(&format!("/{number}"), vec![0; 1000].into()).await.expect("create must succeed");
    }
    let mut snapshot = store.snapshot().await.expect("must start");
    assert_eq!(snapshot.read(1).expect("must read").len(), 1);
    disk.fail_after(Fault::Write, 0);
    store.create("/a", bytes::Bytes::new()).await.expect_err("the disk must be full");
    disk.heal();
    // The snapshot is still held, and does not prevent this.
    recovered(&store).await;
    assert!(snapshot.read(1).is_err());
    assert_eq!(store.snapshot().await.expect("must start").remaining(), 10);
}

/// Writes until every writer has been rejected; returns the causes they received.
async fn write_until_poisoned(
    store: &Arc<dyn Store>,
    disk: &Disk,
    ledger: &mut Ledger,
    random: &mut Random,
) -> Vec<String> {
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (store, disk, mut random) = (store.clone(), disk.clone(), Random(random.next()));
        writers.spawn(async move {
            let mut acknowledged = Vec::new();
            loop {
                let key = format!("/{writer}/{}", random.below(1000));
                match write_once(&*store, key, random.next()).await {
                    Ok(written) => acknowledged.push(written),
                    Err(Error::Poisoned { cause }) => return (acknowledged, cause),
                    // Without power, reads fail as well as writes.
                    Err(Error::Storage { cause }) if disk.is_dead() => return (acknowledged, cause),
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
