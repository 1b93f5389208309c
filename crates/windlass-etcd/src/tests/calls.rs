//! Reads and writes whose responses are lost, late, large or wrong.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bytes::Bytes;
use windlass_store::{Error, Revision, Store};

use super::fake::{self, CLUSTER, Fake, Reply, found, header, read};
use crate::{
    EtcdError, EtcdStore,
    channel::Channel,
    client::{ATTEMPT, Client},
    keys::Prefix,
    messages::{
        KeyValue, RANGE, RangeRequest, RangeResponse, ResponseHeader, STATUS, StatusResponse, TXN, TxnResponse,
    },
    status::{CallError, TIMED_OUT},
};

const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";

fn kv(value: &'static [u8]) -> KeyValue {
    KeyValue {
        key: "/windlass/a".into(),
        create_revision: 6,
        mod_revision: 6,
        version: 1,
        value: Bytes::from_static(value),
    }
}

/// Creates a key on a server that carries out the write or does not, and answers it like this; returns the result, and
/// how often the write was sent.
async fn create(carries_out: bool, reply: fn() -> Reply) -> (Result<Revision, Error>, usize) {
    let written = Arc::new(AtomicBool::new(false));
    let fake = Fake::start(move |method, body| {
        if method == TXN {
            written.store(carries_out, Ordering::SeqCst);
            return Some(reply());
        }
        let is_written = written.load(Ordering::SeqCst);
        read(method, &body, if is_written { 6 } else { 5 }, is_written.then(|| kv(b"value")))
    })
    .await;
    let store = EtcdStore::open(fake.options()).await.unwrap();
    let result = store.create("/a", "value".into()).await;
    (result, fake.count(TXN))
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_looked_up_and_not_sent_again() {
    let lost: [fn() -> Reply; 3] =
        [|| Reply::Reset, || Reply::Status(14, TIMED_OUT), || Reply::Status(14, "etcdserver: leader changed")];
    for reply in lost {
        let (result, sent) = create(true, reply).await;
        assert_eq!((result.unwrap(), sent), (Revision(6), 1));
        let (result, sent) = create(false, reply).await;
        assert!(matches!(result, Err(Error::Unknown { .. })), "{result:?}");
        assert_eq!(sent, 1);
    }
}

#[tokio::test]
async fn a_write_that_uses_up_the_space_may_have_been_carried_out() {
    let (result, _) = create(true, || Reply::Status(8, NO_SPACE)).await;
    assert_eq!(result.unwrap(), Revision(6));
    let (result, _) = create(false, || Reply::Status(8, NO_SPACE)).await;
    assert!(matches!(result, Err(Error::NoSpace)), "{result:?}");
}

#[tokio::test]
async fn a_write_that_etcd_rejects_has_its_error() {
    let large = "etcdserver: request is too large";
    let (result, _) = create(false, || Reply::Status(3, "etcdserver: request is too large")).await;
    assert!(matches!(&result, Err(Error::TooLarge { cause }) if cause == large), "{result:?}");
    let (result, _) = create(false, || Reply::Status(7, "etcdserver: permission denied")).await;
    assert!(matches!(&result, Err(Error::Storage { cause }) if cause == "etcdserver: permission denied"), "{result:?}");
    let (result, _) = create(false, || Reply::Status(8, "etcdserver: too many requests")).await;
    assert!(matches!(result, Err(Error::Unavailable { .. })), "{result:?}");
    let exists = || Reply::of(&TxnResponse { header: header(9), succeeded: false, responses: Vec::new() });
    let (result, _) = create(false, exists).await;
    assert!(matches!(result, Err(Error::Exists { .. })), "{result:?}");
}

#[tokio::test]
async fn reads_are_retried() {
    let attempts = AtomicUsize::new(0);
    let fake = Fake::start(move |method, body| {
        let is_asked = method == RANGE && body.ends_with(b"/windlass/a\x18\x01");
        let attempt = if is_asked { attempts.fetch_add(1, Ordering::SeqCst) } else { 9 };
        match attempt {
            0 => Some(Reply::Status(14, "etcdserver: leader changed")),
            1 => Some(Reply::Reset),
            2 => Some(Reply::Status(14, TIMED_OUT)),
            _ => read(method, &body, 6, Some(kv(b"value"))),
        }
    })
    .await;
    let store = EtcdStore::open(fake.options()).await.unwrap();
    let entry = store.get("/a").await.unwrap().unwrap();
    assert_eq!((&*entry.key, entry.revision, &entry.value[..]), ("/a", Revision(6), &b"value"[..]));
}

#[tokio::test]
async fn answers_may_be_larger_than_four_megabytes() {
    static LARGE: [u8; 9 << 20] = [1; 9 << 20];
    let fake = Fake::start(|method, body| read(method, &body, 6, Some(kv(&LARGE)))).await;
    let store = EtcdStore::open(fake.options()).await.unwrap();
    assert!(store.get("/a").await.unwrap().unwrap().value == LARGE[..]);
}

async fn client(fake: &Fake) -> Client {
    Client::new(Channel::new(&fake.options()).unwrap(), Prefix::parse("/windlass").unwrap())
}

#[tokio::test]
async fn an_answer_of_another_cluster_is_not_used() {
    let fake = Fake::start(|method, _| {
        let header = Some(ResponseHeader { cluster_id: CLUSTER + 1, revision: 9 });
        (method == RANGE).then(|| Reply::of(&RangeResponse { header, ..RangeResponse::default() }))
    })
    .await;
    let client = client(&fake).await;
    let answer: Result<RangeResponse, _> = client.try_read(RANGE, &RangeRequest::default(), ATTEMPT).await;
    assert!(matches!(&answer, Err(CallError::Lost(cause)) if cause.contains("another cluster")), "{answer:?}");
}

#[tokio::test]
async fn a_revision_that_falls_is_an_error() {
    let revision = std::sync::atomic::AtomicI64::new(10);
    let fake = Fake::start(move |method, _| {
        (method == RANGE).then(|| found(revision.fetch_sub(1, Ordering::SeqCst), Vec::new()))
    })
    .await;
    let client = client(&fake).await;
    let request = RangeRequest { limit: 1, ..RangeRequest::default() };
    let read = || client.try_read::<RangeResponse>(RANGE, &request, ATTEMPT);
    assert!(read().await.is_ok());
    let answer = read().await;
    assert!(matches!(&answer, Err(CallError::Lost(cause)) if cause.contains("restored from a backup")), "{answer:?}");
}

#[tokio::test]
async fn unusable_members_are_not_used() {
    type Change = fn(&mut StatusResponse);
    let cases: [(Change, &str); 3] = [
        (|status| status.is_learner = true, "it is a learner"),
        (|status| status.errors = vec!["etcdserver: no leader".to_owned()], "it has no leader"),
        (|status| status.version = "3.5.2".to_owned(), "etcd 3.5.2 is too old"),
    ];
    for (change, expected) in cases {
        let fake = Fake::start(move |method, _| {
            let mut status =
                StatusResponse { header: header(1), version: "3.6.0".to_owned(), ..StatusResponse::default() };
            change(&mut status);
            (method == STATUS).then(|| Reply::of(&status))
        })
        .await;
        let error = EtcdStore::open(fake.options()).await.err().unwrap();
        assert!(error.to_string().ends_with(expected), "{error}");
        assert_eq!(error.is_transient(), !matches!(error, EtcdError::Version { .. }));
    }
    let fake = Fake::start(|method, _| (method == STATUS).then(fake::healthy)).await;
    assert!(Channel::new(&fake.options()).unwrap().connection().await.is_ok());
}
