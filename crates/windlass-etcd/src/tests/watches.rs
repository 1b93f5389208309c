//! Watches that are cut off, compacted, and asked for progress.

use windlass_store::{Batch, Error, Event, Revision, Store, Watch};

use super::fake::{Fake, FakeWatch, Reply, found, header};
use crate::{
    EtcdStore,
    messages::{KeyValue, RANGE, RangeRequest, WatchCommand, WatchEvent, WatchResponse},
};
use prost::Message as _;

const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";

/// Starts a server at a revision whose history before another one is compacted.
async fn server(revision: i64, compacted: i64) -> Fake {
    Fake::start(move |method, body| {
        let request = RangeRequest::decode(body).ok().filter(|_| method == RANGE)?;
        Some(match request.revision {
            0 => found(revision, Vec::new()),
            at if at < compacted => Reply::Status(11, COMPACTED),
            at if at > revision => Reply::Status(11, "etcdserver: mvcc: required revision is a future revision"),
            _ => found(revision, Vec::new()),
        })
    })
    .await
}

fn answer(revision: i64, events: &[i64]) -> WatchResponse {
    let event = |at: &i64| WatchEvent {
        kind: 0,
        kv: Some(KeyValue { key: format!("/windlass/{at}").into(), mod_revision: *at, ..KeyValue::default() }),
    };
    WatchResponse { header: header(revision), events: events.iter().map(event).collect(), ..WatchResponse::default() }
}

fn created() -> WatchResponse {
    WatchResponse { created: true, ..answer(99, &[]) }
}

/// Returns the next watch that the client starts.
async fn accept(fake: &mut Fake) -> FakeWatch {
    let watch = fake.watches.recv().await.unwrap();
    watch.send(&created()).await;
    watch
}

async fn started(fake: &mut Fake, store: &EtcdStore, after: u64) -> (Box<dyn Watch>, FakeWatch) {
    let (watch, accepted) = tokio::join!(store.watch("/", Revision(after)), accept(fake));
    (watch.unwrap(), accepted)
}

fn revisions(batch: &Batch) -> (Vec<u64>, u64) {
    (batch.events.iter().map(|event: &Event| event.revision.0).collect(), batch.revision.0)
}

#[tokio::test]
async fn a_watch_that_is_cut_off_resumes_after_the_last_event() {
    let mut fake = server(20, 3).await;
    let store = EtcdStore::open(fake.options()).await.unwrap();
    let (mut watch, etcd) = started(&mut fake, &store, 5).await;
    assert_eq!((etcd.create.start_revision, etcd.create.fragment), (6, true));
    assert_eq!((&etcd.create.key[..], &etcd.create.range_end[..]), (&b"/windlass/"[..], &b"/windlass0"[..]));
    assert_eq!(etcd.headers["hasleader"], "true");
    etcd.send(&answer(20, &[6, 7])).await;
    assert_eq!(revisions(&watch.next().await.unwrap()), (vec![6, 7], 7));
    // The first part of a response: its last revision may be incomplete.
    etcd.send(&WatchResponse { fragment: true, ..answer(20, &[8, 9]) }).await;
    assert_eq!(revisions(&watch.next().await.unwrap()), (vec![8], 8));
    etcd.reset().await;
    let (batch, etcd) = tokio::join!(watch.next(), async {
        let etcd = accept(&mut fake).await;
        etcd.send(&answer(20, &[9, 9, 10])).await;
        etcd
    });
    assert_eq!((etcd.create.start_revision, revisions(&batch.unwrap())), (9, (vec![9, 9, 10], 10)));
    // etcd ends watches of members without a leader.
    etcd.send(&WatchResponse { canceled: true, cancel_reason: "etcdserver: no leader".into(), ..answer(20, &[]) })
        .await;
    let (batch, etcd) = tokio::join!(watch.next(), async {
        let etcd = accept(&mut fake).await;
        etcd.send(&answer(20, &[])).await;
        etcd
    });
    assert_eq!((etcd.create.start_revision, revisions(&batch.unwrap())), (11, (vec![], 20)));
}

#[tokio::test]
async fn waits_that_are_dropped_do_not_keep_a_watch_from_resuming() {
    let mut fake = server(20, 3).await;
    let store = EtcdStore::open(fake.options()).await.unwrap();
    let (mut watch, etcd) = started(&mut fake, &store, 5).await;
    etcd.reset().await;
    let resumed = async {
        let etcd = accept(&mut fake).await;
        etcd.send(&answer(20, &[6])).await;
        etcd
    };
    let mut resumed = Box::pin(resumed);
    let mut again = None;
    let batch = loop {
        tokio::select! {
            biased;
            batch = watch.next() => break batch.unwrap(),
            etcd = &mut resumed, if again.is_none() => again = Some(etcd),
            () = tokio::task::yield_now() => {}
        }
    };
    assert_eq!(revisions(&batch), (vec![6], 6));
}

#[tokio::test]
async fn a_watch_that_cannot_resume_says_what_is_left() {
    let mut fake = server(20, 3).await;
    let store = EtcdStore::open(fake.options()).await.unwrap();
    let (mut watch, etcd) = started(&mut fake, &store, 5).await;
    etcd.send(&WatchResponse { canceled: true, compact_revision: 12, ..answer(20, &[]) }).await;
    let error = watch.next().await.unwrap_err();
    assert!(matches!(error, Error::Compacted { requested: Revision(5), oldest: Revision(12) }), "{error}");
    assert!(watch.next().await.is_err());
}

#[tokio::test]
async fn a_watch_starts_neither_in_the_compacted_past_nor_in_the_future() {
    let mut fake = server(20, 12).await;
    let store = EtcdStore::open(fake.options()).await.unwrap();
    let error = store.watch("/", Revision(21)).await.err().unwrap();
    assert!(matches!(error, Error::Future { requested: Revision(21), current: Revision(20) }), "{error}");
    // Only a watch that is too old learns what is left.
    let (watch, ()) = tokio::join!(store.watch("/", Revision(11)), async {
        let etcd = accept(&mut fake).await;
        etcd.send(&WatchResponse { canceled: true, compact_revision: 12, ..answer(20, &[]) }).await;
    });
    let error = watch.err().unwrap();
    assert!(matches!(error, Error::Compacted { requested: Revision(11), oldest: Revision(12) }), "{error}");
    let (_, etcd) = started(&mut fake, &store, 12).await;
    assert_eq!(etcd.create.start_revision, 13);
}

#[tokio::test]
async fn progress_is_requested_while_a_reader_waits_and_until_there_is_an_answer() {
    let mut fake = server(20, 3).await;
    let store = EtcdStore::open(fake.options()).await.unwrap();
    let (mut watch, mut etcd) = started(&mut fake, &store, 5).await;
    etcd.send(&answer(20, &[6])).await;
    assert_eq!(revisions(&watch.next().await.unwrap()), (vec![6], 6));
    assert!(etcd.requests.try_recv().is_err(), "nobody waits");
    assert_eq!(store.revision().await.unwrap(), Revision(20));
    let (batch, ()) = tokio::join!(watch.next(), async {
        for _ in 0..2 {
            let request = etcd.requests.recv().await.unwrap();
            assert!(matches!(request.command, Some(WatchCommand::Progress(_))), "{request:?}");
        }
        // A member that is behind, and then one that is not.
        etcd.send(&answer(6, &[])).await;
        etcd.send(&answer(20, &[])).await;
    });
    assert_eq!(revisions(&batch.unwrap()), (vec![], 20));
}
