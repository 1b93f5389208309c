//! Measures the memory of an informer besides its objects: `cargo run --release --example cache_memory`. With the
//! argument `packed`, objects are kept packed.
#![allow(clippy::print_stdout)]

use std::{sync::Arc, time::Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ObjectMeta;
use windlass_runtime::{
    cache::{Informer, Packing, Settings},
    key::ObjectKey,
    watch::Change,
};

const OBJECTS: usize = 100_000;

/// Returns the resident memory of the process, on Linux; zero elsewhere.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<usize>().ok());
    pages.unwrap_or_default() * 4096
}

fn objects(revision: u64) -> Vec<Arc<ConfigMap>> {
    let object = |number: usize| {
        let metadata = ObjectMeta {
            name: Some(format!("object-{number:06}")),
            namespace: Some(format!("namespace-{}", number % 100)),
            uid: Some(format!("00000000-0000-4000-8000-{number:012}")),
            resource_version: Some((number as u64 % revision).to_string()),
            labels: Some([("app".to_owned(), format!("app-{}", number % 1000))].into()),
            ..ObjectMeta::default()
        };
        let data = [("settings".to_owned(), "x".repeat(200))].into();
        Arc::new(ConfigMap { metadata, data: Some(data), ..ConfigMap::default() })
    };
    (0..OBJECTS).map(object).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (sender, changes) = tokio::sync::mpsc::channel(1);
    let packed = std::env::args().nth(1).is_some_and(|form| form == "packed");
    let settings = Settings::default().packing(packed.then(Packing::default));
    let (informer, feed) = Informer::<ConfigMap>::fed(&(), settings, changes);
    tokio::spawn(feed);
    let empty = resident();
    let first = objects(1_000_000);
    let alone = resident() - empty;

    let began = Instant::now();
    let all = Change::Replace { objects: first, unreadable: Vec::new(), revision: 1_000_000 };
    sender.send(all).await.expect("the informer must be fed");
    informer.synced().await;
    report("objects alone", alone, began);
    report("in an informer", resident() - empty, began);

    let began = Instant::now();
    let found = informer.list_in("namespace-7").len() + informer.owned_by("nobody").len();
    assert_eq!(found, OBJECTS / 100);
    report("with an index by namespace", resident() - empty, began);

    let began = Instant::now();
    for number in 0..OBJECTS {
        let key = ObjectKey::namespaced(&format!("namespace-{}", number % 100), &format!("object-{number:06}"));
        assert!(informer.get(&key).is_some());
    }
    report("each read once", resident() - empty, began);

    let began = Instant::now();
    assert_eq!(informer.list().len(), OBJECTS);
    report("listed", resident() - empty, began);

    let again = objects(1_000_000);
    let began = Instant::now();
    let all = Change::Replace { objects: again, unreadable: Vec::new(), revision: 1_000_001 };
    sender.send(all).await.expect("the informer must be fed");
    informer.caught_up(1_000_001).await;
    report("after a relist", resident() - empty, began);
}

fn report(what: &str, bytes: usize, began: Instant) {
    println!("{what:28} {:5} bytes an object, {:?}", bytes / OBJECTS, began.elapsed());
}
