//! The power fails at any moment, and the disk keeps an arbitrary part of the unsynced data.

use std::sync::Arc;

use tokio::task::JoinSet;
use windlass_store::{EmbeddedOptions, EmbeddedStore, Error, Retention, Store};

use crate::{
    disk::{Disk, Fault},
    ledger::{Ledger, write_once},
    random::Random,
};

const OPTIONS: EmbeddedOptions = EmbeddedOptions {
    cache_bytes: 256 << 10,
    recent: Retention { events: 8, bytes: 64 << 10 },
    ..EmbeddedOptions::DEFAULT
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_any_power_cut() {
    let mut acknowledged = 0;
    for seed in 0..12 {
        let mut random = Random(seed);
        let mut disk = Disk::default();
        let mut ledger = Ledger::default();
        for _ in 0..8 {
            // The power may fail while the store is being opened, in the first transaction, or much later.
            let operations = [10, 60, 400, 1500][usize::try_from(random.below(4)).expect("a choice must fit")];
            disk.fail_after(Fault::PowerCut, random.below(operations));
            match EmbeddedStore::open_with(disk.clone(), OPTIONS) {
                Ok(store) => write_until_it_fails(Arc::new(store), &mut ledger, &mut random).await,
                Err(error) => assert!(disk.has_failed(), "seed {seed}: {error}"),
            }
            disk = disk.after_power_cut(&mut random);
            let store = EmbeddedStore::open_with(disk.clone(), OPTIONS)
                .unwrap_or_else(|error| panic!("seed {seed}: the store must open after a cut: {error}"));
            ledger.verify(&store).await;
        }
        acknowledged += ledger.total();
    }
    assert!(acknowledged > 1000, "only {acknowledged} writes were acknowledged");
}

async fn write_until_it_fails(store: Arc<dyn Store>, ledger: &mut Ledger, random: &mut Random) {
    let mut writers = JoinSet::new();
    for writer in 0..6 {
        let (store, mut random) = (store.clone(), Random(random.next()));
        writers.spawn(async move {
            let mut acknowledged = Vec::new();
            loop {
                let key = format!("/{writer}/{}", random.below(8));
                match write_once(&*store, key, random.next()).await {
                    Ok(written) => acknowledged.push(written),
                    // Without power, reads fail as well as writes.
                    Err(Error::Poisoned { .. } | Error::Storage { .. }) => return acknowledged,
                    Err(error) => panic!("this key must have no other writer: {error}"),
                }
            }
        });
    }
    // History verified after the last power cut may be compacted.
    let compacted = store.compact(ledger.verified()).await;
    assert!(matches!(compacted, Ok(()) | Err(Error::Poisoned { .. })), "{compacted:?}");
    for (revision, written) in writers.join_all().await.into_iter().flatten() {
        ledger.acknowledge(revision, written);
    }
}
