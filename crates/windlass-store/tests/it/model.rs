//! Random histories on both backends, compared with the simplest possible model of a store: the list of all its events.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use proptest::prelude::*;
use windlass_store::{EmbeddedOptions, EmbeddedStore, Error, ListOptions, MemoryStore, Retention, Revision, Store};

use crate::disk::Disk;

const OPTIONS: EmbeddedOptions = EmbeddedOptions {
    cache_bytes: 64 << 10,
    recent: Retention { events: 4, bytes: 1 << 20 },
    ..EmbeddedOptions::DEFAULT
};

#[derive(Debug, Clone)]
enum Step {
    Create(u8, Vec<u8>),
    /// With the right revision, or one that is off by this much.
    Update(u8, u64, Vec<u8>),
    Delete(u8, u64),
    /// Distance before the newest revision.
    Compact(u64),
    List {
        back: u64,
        after: Option<u8>,
        limit: Option<usize>,
    },
    Watch {
        back: u64,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    let wrong = prop_oneof![4 => Just(0_u64), 1 => 1..5_u64];
    let value = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => (key.clone(), value.clone()).prop_map(|(key, value)| Step::Create(key, value)),
        4 => (key.clone(), wrong.clone(), value).prop_map(|(key, wrong, value)| Step::Update(key, wrong, value)),
        3 => (key.clone(), wrong).prop_map(|(key, wrong)| Step::Delete(key, wrong)),
        1 => (0..12_u64).prop_map(Step::Compact),
        3 => (0..12_u64, prop::option::of(key), prop::option::of(0..4_usize))
            .prop_map(|(back, after, limit)| Step::List { back, after, limit }),
        2 => (0..12_u64).prop_map(|back| Step::Watch { back }),
        1 => Just(Step::Reopen),
    ]
}

/// All events, and the range of revisions that may be read.
#[derive(Debug)]
struct Model {
    events: Vec<(String, Revision, Option<Bytes>)>,
    revision: Revision,
    compacted: Revision,
}

impl Model {
    fn state(&self, at: Revision) -> BTreeMap<String, (Revision, Bytes)> {
        let mut state = BTreeMap::new();
        for (key, revision, value) in self.events.iter().filter(|event| event.1 <= at) {
            match value {
                Some(value) => drop(state.insert(key.clone(), (*revision, value.clone()))),
                None => drop(state.remove(key)),
            }
        }
        state
    }

    fn current(&self, key: &str) -> Option<Revision> {
        self.state(self.revision).get(key).map(|(revision, _)| *revision)
    }

    fn write(&mut self, key: String, value: Option<Bytes>) -> Revision {
        self.revision = Revision(self.revision.0 + 1);
        self.events.push((key, self.revision, value));
        self.revision
    }
}

fn name(key: u8) -> String {
    format!("/k/{key}")
}

/// Reduces a result to its revision or error message.
fn outcome(result: Result<Revision, Error>) -> String {
    match result {
        Ok(revision) => revision.to_string(),
        Err(error) => error.to_string(),
    }
}

fn expected_write(model: &mut Model, key: u8, expected: Option<Revision>, value: Option<Bytes>) -> String {
    let key = name(key);
    match (expected, model.current(&key)) {
        (None, Some(_)) => format!("key {key:?} exists already"),
        (Some(_), None) => format!("key {key:?} does not exist"),
        (Some(expected), Some(actual)) if expected != actual => {
            format!("key {key:?} is at revision {actual}, not {expected}")
        }
        _ => model.write(key, value).to_string(),
    }
}

async fn check(mut store: Arc<dyn Store>, disk: Option<Disk>, steps: Vec<Step>) {
    let mut model = Model { events: Vec::new(), revision: Revision::INITIAL, compacted: Revision(0) };
    for step in steps {
        let newest = model.revision;
        let back = |back: u64| Revision(newest.0.saturating_sub(back));
        match step {
            Step::Create(key, value) => {
                let value = Bytes::from(value);
                let result = store.create(&name(key), value.clone()).await;
                assert_eq!(outcome(result), expected_write(&mut model, key, None, Some(value)));
            }
            Step::Update(key, wrong, value) => {
                let (value, current) = (Bytes::from(value), model.current(&name(key)).unwrap_or_default());
                let expected = Revision(current.0 + wrong);
                let result = store.update(&name(key), expected, value.clone()).await;
                assert_eq!(outcome(result), expected_write(&mut model, key, Some(expected), Some(value)));
            }
            Step::Delete(key, wrong) => {
                let expected = Revision(model.current(&name(key)).unwrap_or_default().0 + wrong);
                let result = store.delete(&name(key), expected).await;
                assert_eq!(outcome(result), expected_write(&mut model, key, Some(expected), None));
            }
            Step::Compact(by) => {
                store.compact(back(by)).await.expect("compact must succeed");
                model.compacted = model.compacted.max(back(by));
            }
            Step::List { back: by, after, limit } => list(&*store, &model, back(by), after, limit).await,
            Step::Watch { back: by } => watch(&*store, &model, back(by)).await,
            Step::Reopen => {
                if let Some(disk) = &disk {
                    drop(store);
                    store = Arc::new(EmbeddedStore::open_with(disk.clone(), OPTIONS).expect("the store must open"));
                }
            }
        }
        assert_eq!(store.revision().await.expect("revision must succeed"), model.revision);
    }
}

async fn list(store: &dyn Store, model: &Model, at: Revision, after: Option<u8>, limit: Option<usize>) {
    let after = after.map(name);
    let options = ListOptions { prefix: "/k/".into(), after: after.clone(), limit, at: Some(at), count: true };
    let result = store.list(options).await;
    if at < model.compacted {
        assert!(matches!(result, Err(Error::Compacted { .. })), "{result:?}");
        return;
    }
    let page = result.expect("list must succeed");
    let mut expected: Vec<_> = model.state(at).into_iter().collect();
    expected.retain(|(key, _)| after.as_ref().is_none_or(|after| key > after));
    let remaining = expected.len().saturating_sub(limit.unwrap_or(usize::MAX));
    expected.truncate(expected.len() - remaining);
    let entries: Vec<_> =
        page.entries.into_iter().map(|entry| (entry.key.to_string(), (entry.revision, entry.value))).collect();
    assert_eq!((entries, page.remaining, page.revision), (expected, remaining, at));
}

async fn watch(store: &dyn Store, model: &Model, after: Revision) {
    let result = store.watch("/k/", after).await;
    if after < model.compacted {
        assert!(matches!(result.err(), Some(Error::Compacted { .. })));
        return;
    }
    let mut watch = result.expect("watch must start");
    let expected: Vec<_> = model.events.iter().filter(|event| event.1 > after).cloned().collect();
    let mut events = Vec::new();
    while events.len() < expected.len() {
        let batch = watch.next().await.expect("the watch must continue");
        events.extend(batch.events.into_iter().map(|event| (event.key.to_string(), event.revision, event.value)));
    }
    assert_eq!(events, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_backends_do_what_the_model_does(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime must start");
        runtime.block_on(async {
            check(Arc::new(MemoryStore::new()), None, steps.clone()).await;
            let disk = Disk::default();
            let store = EmbeddedStore::open_with(disk.clone(), OPTIONS).expect("the store must open");
            check(Arc::new(store), Some(disk), steps).await;
        });
    }
}
