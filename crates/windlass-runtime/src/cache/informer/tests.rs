//! Informers that are fed by the test.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::core::ObjectMeta;
use parking_lot::Mutex;

use super::*;
use crate::{
    cache::{Packing, parse_selector, parsed_scope::ScopeMatch},
    object::revision_of,
};

type Seen = Arc<Mutex<Vec<String>>>;

fn object(name: &str, revision: u64) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        namespace: Some(name.chars().take(1).collect()),
        uid: Some(format!("uid-{name}")),
        resource_version: Some(revision.to_string()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

fn apply(name: &str, revision: u64) -> Change<ConfigMap> {
    Change::Apply(Arc::new(object(name, revision)))
}

fn replace(names: &[&str], revision: u64) -> Change<ConfigMap> {
    let objects = names.iter().map(|name| Arc::new(object(name, revision))).collect();
    Change::Replace { objects, unreadable: Vec::new(), revision }
}

#[tokio::test]
async fn texts_that_arrive_while_there_are_few_objects_are_compared_too() {
    /// A type that hides a field, and does not serialize it.
    #[derive(kube::Resource, Clone, serde::Serialize, serde::Deserialize)]
    #[resource(inherit = ConfigMap)]
    struct Discreet {
        metadata: ObjectMeta,
        #[serde(default, skip_serializing)]
        token: Option<String>,
    }
    impl std::fmt::Debug for Discreet {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Discreet").field("metadata", &self.metadata).finish_non_exhaustive()
        }
    }
    let (_sender, changes) = mpsc::channel(1);
    let (informer, _feed) = Informer::<Discreet>::fed(&(), Settings::default(), changes);
    let informer = informer.into_any();
    let text = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "1"}, "token": "kept"}"#;
    assert_eq!(serde_json::from_str::<Discreet>(text).unwrap().token.as_deref(), Some("kept"));
    assert!(informer.packer.packs(2000));
    crate::watch::ObjectStorer::received(&informer, text.as_bytes());
    assert!(!informer.packer.packs(2000), "the object would lose a field");
}

/// An informer and its channel.
struct Fed {
    informer: Informer<ConfigMap>,
    sender: mpsc::Sender<Change<ConfigMap>>,
}

impl Fed {
    fn new(settings: Settings<ConfigMap>) -> Self {
        let (sender, changes) = mpsc::channel(16);
        let (informer, feed) = Informer::fed(&(), settings, changes);
        tokio::spawn(feed);
        Self { informer, sender }
    }

    /// Sends changes and waits until they are stored. Handlers have been called then, as there is one thread.
    async fn send(&self, changes: impl IntoIterator<Item = Change<ConfigMap>>) {
        for change in changes {
            self.sender.send(change).await.unwrap();
        }
        let mark = self.informer.revision() + 1000;
        self.sender.send(Change::Bookmark(mark)).await.unwrap();
        let mut progress = self.informer.any.progress();
        progress.wait_for(|progress| progress.revision >= mark).await.unwrap();
    }

    fn record(&self) -> (Seen, Subscription) {
        let seen = Seen::default();
        let into = seen.clone();
        let subscription = self.informer.subscribe(move |event| into.lock().push(describe(&event)));
        (seen, subscription)
    }

    fn write(&self, name: &str, revision: u64) {
        let object = Arc::new(object(name, revision));
        self.informer.any.change(|store, emit| store.wrote(object, ScopeMatch::Within, false, emit));
    }
}

fn describe(event: &Event<ConfigMap>) -> String {
    let name = event.object().metadata.name.clone().unwrap();
    match event {
        _ if event.is_resync() => format!("={name}"),
        Event::Added { initial: true, .. } => format!("+{name} (initial)"),
        Event::Added { .. } => format!("+{name}"),
        Event::Updated { .. } => format!("~{name}"),
        Event::Deleted { .. } => format!("-{name}"),
    }
}

fn names(mut objects: Vec<Arc<ConfigMap>>) -> Vec<String> {
    objects.sort_by_key(|object| ObjectKey::of(&**object));
    objects.iter().map(|object| object.metadata.name.clone().unwrap()).collect()
}

#[tokio::test]
async fn a_late_subscriber_gets_the_present_state_first() {
    let fed = Fed::new(Settings::default());
    let (early, early_subscription) = fed.record();
    assert!(!early_subscription.is_synced());
    fed.send([replace(&["a"], 1), apply("b", 1001)]).await;
    early_subscription.synced().await;
    let (late, late_subscription) = fed.record();
    late_subscription.synced().await;
    fed.send([apply("a", 3000)]).await;
    assert_eq!(*early.lock(), ["+a (initial)", "+b", "~a"]);
    let mut late = late.lock().clone();
    late[..2].sort();
    assert_eq!(late, ["+a (initial)", "+b (initial)", "~a"]);
}

#[tokio::test]
async fn a_dropped_subscription_ends_and_drops_its_handler() {
    let fed = Fed::new(Settings::default());
    let (seen, subscription) = fed.record();
    fed.send([replace(&["a"], 1)]).await;
    drop(subscription);
    fed.send([apply("b", 2000)]).await;
    assert_eq!(*seen.lock(), ["+a (initial)"]);
    assert_eq!(Arc::strong_count(&seen), 1);
}

#[tokio::test]
async fn a_handler_that_panics_misses_one_event_alone() {
    let fed = Fed::new(Settings::default());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let subscription = fed.informer.subscribe(move |_| {
        assert!(counted.fetch_add(1, Ordering::Relaxed) != 0, "the first event panics");
    });
    let (seen, _other) = fed.record();
    fed.send([replace(&["a"], 1), apply("b", 2000)]).await;
    assert_eq!(*seen.lock(), ["+a (initial)", "+b"]);
    assert_eq!((count.load(Ordering::Relaxed), fed.informer.any.panics()), (2, 1));
    assert!(subscription.is_synced());
}

#[tokio::test]
async fn a_handler_may_use_its_informer_in_every_way() {
    let fed = Fed::new(Settings::default());
    let informer = fed.informer.clone();
    let seen = Seen::default();
    let (into, inner) = (seen.clone(), Mutex::new(None));
    let subscription = fed.informer.subscribe(move |event| {
        into.lock().push(format!("{} of {}", describe(&event), informer.len()));
        if let Event::Added { initial: true, .. } = event {
            let written = Arc::new(object("c", 9000));
            informer.any.change(|store, emit| store.wrote(written, ScopeMatch::Within, false, emit));
            let into = into.clone();
            let subscription = informer.subscribe(move |event| into.lock().push(format!("inner {}", describe(&event))));
            *inner.lock() = Some(subscription);
        } else {
            *inner.lock() = None;
        }
    });
    fed.send([replace(&["a"], 1)]).await;
    subscription.synced().await;
    // The write is delivered after the current event; by then, the inner handler is gone.
    assert_eq!(*seen.lock(), ["+a (initial) of 1", "+c of 2"]);
}

#[tokio::test]
async fn events_of_writers_and_the_watch_are_ordered_per_object() {
    let fed = Fed::new(Settings::default());
    fed.send([replace(&["a"], 1)]).await;
    let last = Arc::new(Mutex::new(0));
    let seen = last.clone();
    let subscription = fed.informer.subscribe(move |event| {
        let revision = revision_of(&**event.object());
        let mut last = seen.lock();
        assert!(*last <= revision, "an object went back");
        *last = revision;
    });
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let fed = &fed;
            scope.spawn(move || {
                for revision in 0..500 {
                    fed.write("a", 10_000 + revision * 4 + thread);
                }
            });
        }
    });
    assert_eq!((*last.lock(), fed.informer.any.panics()), (10_000 + 499 * 4 + 3, 0));
    drop(subscription);
}

#[tokio::test]
async fn an_index_follows_every_change() {
    let fed = Fed::new(Settings::default());
    fed.send([replace(&["a1", "a2", "b1"], 1)]).await;
    let keys = |object: &ConfigMap| object.data.iter().flat_map(|data| data.keys().cloned()).collect::<Vec<_>>();
    let index = fed.informer.index("keys", keys).unwrap();
    let with = |name: &str, revision, keys: &[&str]| {
        let data = keys.iter().map(|key| (key.to_string(), String::new())).collect();
        Change::Apply(Arc::new(ConfigMap { data: Some(data), ..object(name, revision) }))
    };
    assert_eq!(index.get("x").len(), 0);
    fed.send([with("a1", 5000, &["x", "y"]), with("a2", 5001, &["x"])]).await;
    assert_eq!((names(index.get("x")), names(index.get("y"))), (vec!["a1".into(), "a2".into()], vec!["a1".into()]));
    fed.send([with("a1", 8000, &["y"]), Change::Delete(Arc::new(object("a2", 8001)))]).await;
    assert_eq!((index.count("x"), names(index.get("y"))), (0, vec!["a1".into()]));
    assert_eq!(index.values(), ["y"]);
    fed.send([Change::Absent]).await;
    assert_eq!(index.count("y"), 0);
}

#[tokio::test]
async fn an_index_of_many_objects_with_one_value_shrinks_and_grows() {
    let fed = Fed::new(Settings::default());
    let index = fed.informer.index("all", |_: &ConfigMap| vec![(), ()]).unwrap();
    let all: Vec<String> = (0..50).map(|number| format!("a{number}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    for count in [0, 1, 2, 16, 17, 50, 17, 3, 1, 0, 30] {
        fed.send([replace(&all[..count], fed.informer.revision() + 1)]).await;
        assert_eq!(index.count(&()), count);
        assert_eq!(names(index.get(&())), names(fed.informer.list()));
    }
}

#[tokio::test]
async fn an_index_asked_for_twice_is_the_same_and_never_of_another_type() {
    let fed = Fed::new(Settings::default());
    fed.send([replace(&["a"], 1)]).await;
    fed.informer.index("one", |_: &ConfigMap| vec![1u32]).unwrap();
    let again = fed.informer.index("one", |_: &ConfigMap| vec![2u32]).unwrap();
    assert_eq!((again.count(&1), again.count(&2)), (1, 0));
    let error = fed.informer.index("one", |_: &ConfigMap| vec![String::new()]).err().unwrap();
    assert_eq!(error.to_string(), "index \"one\" has values of type u32, not alloc::string::String");
}

#[tokio::test]
async fn objects_are_found_by_key_namespace_owner_and_labels() {
    let fed = Fed::new(Settings::default());
    let mut owned = object("b2", 2);
    owned.metadata.owner_references = Some(vec![OwnerReference { uid: "parent".into(), ..OwnerReference::default() }]);
    owned.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    fed.send([replace(&["a1", "b1"], 1), Change::Apply(Arc::new(owned))]).await;
    let informer = &fed.informer;
    assert!(informer.get(&ObjectKey::namespaced("a", "a1")).is_some());
    assert!(informer.get(&ObjectKey::namespaced("b", "a1")).is_none());
    assert_eq!(names(informer.list_in("b")), ["b1", "b2"]);
    assert_eq!(names(informer.list_in("c")), Vec::<String>::new());
    assert_eq!(names(informer.owned_by("parent")), ["b2"]);
    assert_eq!(names(informer.select(&parse_selector("app=web").unwrap())), ["b2"]);
    assert_eq!(names(informer.select(&parse_selector("!app").unwrap())), ["a1", "b1"]);
    fed.send([apply("b3", 5000)]).await;
    assert_eq!(names(informer.list_in("b")), ["b1", "b2", "b3"]);
}

#[tokio::test(start_paused = true)]
async fn a_resync_delivers_every_object_within_a_tenth_of_the_period() {
    let fed = Fed::new(Settings::default().resync(Duration::from_secs(100)));
    fed.send([replace(&["a"], 1)]).await;
    let (seen, _subscription) = fed.record();
    tokio::time::sleep(Duration::from_secs(89)).await;
    assert_eq!(*seen.lock(), ["+a (initial)"]);
    tokio::time::sleep(Duration::from_secs(22)).await;
    assert_eq!(*seen.lock(), ["+a (initial)", "=a"]);
}

#[tokio::test]
async fn fields_that_the_settings_drop_are_dropped_everywhere() {
    let settings = Settings::default().transform(|object: &mut ConfigMap| {
        assert!(object.metadata.name.as_deref() != Some("bad"), "a transform that panics");
        object.data = None;
    });
    let fed = Fed::new(settings);
    let full = |name| {
        let mut object = object(name, 5);
        object.data = Some([("key".to_owned(), "value".to_owned())].into());
        object.metadata.managed_fields = Some(Vec::new());
        Arc::new(object)
    };
    let replace = Change::Replace { objects: vec![full("a"), full("bad")], unreadable: Vec::new(), revision: 5 };
    fed.send([replace, Change::Apply(full("b"))]).await;
    assert_eq!(fed.informer.len(), 3);
    for object in fed.informer.list() {
        assert!(object.metadata.managed_fields.is_none());
        assert_eq!(object.data.is_some(), object.metadata.name.as_deref() == Some("bad"));
    }
}

#[tokio::test]
async fn readiness_of_the_informer_follows_the_resource_and_that_of_a_handler_stays() {
    let fed = Fed::new(Settings::default());
    let (_, subscription) = fed.record();
    assert!(!fed.informer.is_synced());
    fed.send([replace(&[], 1)]).await;
    assert!(fed.informer.is_synced() && subscription.is_synced());
    fed.send([Change::Absent]).await;
    assert!(!fed.informer.is_synced() && subscription.is_synced());
    let (_, late) = fed.record();
    assert!(!late.is_synced());
    fed.send([replace(&[], 1)]).await;
    assert!(fed.informer.is_synced() && late.is_synced());
}

#[tokio::test]
async fn waiting_for_a_revision_ends_when_it_is_reached() {
    let fed = Fed::new(Settings::default());
    fed.send([replace(&["a"], 10)]).await;
    let revision = fed.informer.revision();
    let waiting = tokio::spawn({
        let informer = fed.informer.clone();
        async move { informer.caught_up(revision + 5).await }
    });
    fed.sender.send(Change::Bookmark(revision + 4)).await.unwrap();
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    fed.sender.send(apply("a", revision + 5)).await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test]
async fn an_informer_that_is_closed_ends_its_subscriptions() {
    let fed = Fed::new(Settings::default());
    fed.send([replace(&["a"], 1)]).await;
    let (seen, subscription) = fed.record();
    fed.informer.any.close();
    assert!(subscription.is_ended());
    assert!(fed.informer.subscribe(|_| ()).is_ended());
    assert_eq!((Arc::strong_count(&seen), fed.informer.len()), (1, 1));
}

/// Returns the number of packed objects.
fn packed(fed: &Fed) -> usize {
    fed.informer.any.store().iter().filter(|object| object.is_packed()).count()
}

#[tokio::test(start_paused = true)]
async fn objects_are_packed_after_a_while_unless_they_are_read() {
    let idle = Duration::from_secs(60);
    let fed = Fed::new(Settings::default().packing(Packing { above: 1, idle }));
    fed.send([replace(&["a1"], 1)]).await;
    assert_eq!(packed(&fed), 0);
    fed.send([apply("b1", 5000), apply("b2", 5001), apply("c1", 5002)]).await;
    let (read, held) = (ObjectKey::namespaced("a", "a1"), fed.informer.get(&ObjectKey::namespaced("c", "c1")));
    for _ in 0..20 {
        tokio::time::sleep(idle / 4).await;
        assert!(fed.informer.get(&read).is_some());
    }
    assert_eq!(packed(&fed), 2);
    assert!(held.is_some());
    assert_eq!(names(fed.informer.list_in("b")), ["b1", "b2"]);
    assert_eq!(packed(&fed), 0);
}

#[tokio::test]
async fn packed_objects_are_read_and_delivered_like_others() {
    let settings = Settings::default().packing(Packing { above: 0, ..Packing::default() });
    let fed = Fed::new(settings.transform(|object: &mut ConfigMap| object.data = None));
    let (early, _early) = fed.record();
    fed.send([replace(&["a1", "b1", "b2"], 1)]).await;
    let (late, late_subscription) = fed.record();
    late_subscription.synced().await;
    assert_eq!(packed(&fed), 3);
    let told = |seen: Seen| {
        let mut seen = seen.lock().clone();
        seen.sort();
        seen
    };
    assert_eq!(told(early), ["+a1 (initial)", "+b1 (initial)", "+b2 (initial)"]);
    assert_eq!(told(late), ["+a1 (initial)", "+b1 (initial)", "+b2 (initial)"]);
    assert_eq!(names(fed.informer.list_in("b")), ["b1", "b2"]);
    assert_eq!((packed(&fed), fed.informer.owned_by("nobody").len(), packed(&fed)), (1, 0, 1));
    assert_eq!(names(fed.informer.select(&parse_selector("!app").unwrap())), ["a1", "b1", "b2"]);
    assert_eq!(packed(&fed), 0);
    // Everything is unchanged, and stays as it is.
    fed.send([replace(&["a1", "b1", "b2"], 1)]).await;
    assert_eq!((packed(&fed), names(fed.informer.list()).len()), (0, 3));
}
