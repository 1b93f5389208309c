//! Objects that are not read are kept as text.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{super::*, run, show, show_event, state};
use crate::cache::{
    Packing,
    index::{Entries, Values},
    store::tests::Step,
};
use crate::{
    object::Object,
    watch::{Decoder, Parse},
};

type Map = k8s_openapi::api::core::v1::ConfigMap;

const ALL: Range<usize> = 0..usize::MAX;

fn packer<K: Object>() -> Arc<Packer<K>> {
    Packer::new(Some(Packing { above: 2, idle: Duration::from_secs(60) }), Decoder::unchanged(Parse::typed()))
}

/// A store in which everything is packed.
fn packed() -> Store<Map> {
    let mut store = Store::new(packer());
    let objects = (1..=3).map(|number| state(&format!("object-{number}"), &number.to_string(), number)).collect();
    let events = run(&mut store, Step::List(3, objects));
    assert_eq!(events.len(), 3);
    assert_eq!(packed_names(&store), ["object-1", "object-2", "object-3"]);
    store
}

fn packed_names(store: &Store<Map>) -> Vec<String> {
    let packed = store.iter().filter(|object| object.is_packed());
    let mut names: Vec<_> = packed.map(|object| object.key().name().to_owned()).collect();
    names.sort();
    names
}

fn get<'a>(store: &'a Store<Map>, name: &str) -> &'a Arc<Cell<Map>> {
    store.get(("default", name)).expect("the object must exist")
}

#[test]
fn a_packed_object_is_equal_when_it_is_read_and_the_same_when_it_is_read_again() {
    let store = packed();
    let read = get(&store, "object-1").read();
    assert_eq!(read, state("object-1", "1", 1));
    assert!(Arc::ptr_eq(&read, &get(&store, "object-1").read()));
    assert_eq!(packed_names(&store), ["object-2", "object-3"]);
}

#[test]
fn a_peek_leaves_an_object_packed() {
    let store = packed();
    assert_eq!(get(&store, "object-1").peek(), state("object-1", "1", 1));
    assert_eq!(packed_names(&store).len(), 3);
}

#[test]
fn a_sweep_packs_objects_that_were_not_read_unless_they_are_held() {
    let store = packed();
    store.sweep(ALL);
    drop((get(&store, "object-1").read(), get(&store, "object-3").read()));
    let held = get(&store, "object-2").read();
    store.sweep(ALL);
    assert_eq!(packed_names(&store), Vec::<String>::new());
    drop(get(&store, "object-1").read());
    store.sweep(ALL);
    assert_eq!(packed_names(&store), ["object-3"]);
    store.sweep(ALL);
    assert_eq!(packed_names(&store), ["object-1", "object-3"]);
    assert!(Arc::ptr_eq(&held, &get(&store, "object-2").read()));
    drop(held);
    store.sweep(ALL);
    store.sweep(ALL);
    assert_eq!(packed_names(&store).len(), 3);
}

#[test]
fn few_objects_are_not_packed_and_held_objects_are_not_copied() {
    let mut store = Store::new(packer());
    run(&mut store, Step::List(2, vec![state("a", "1", 1), state("b", "2", 2)]));
    assert_eq!(packed_names(&store), Vec::<String>::new());
    let held = state("c", "3", 3);
    run(&mut store, Step::List(3, vec![state("a", "1", 1), state("d", "4", 3), held.clone()]));
    // Unchanged objects are kept as they are.
    assert_eq!(packed_names(&store), ["d"]);
    assert!(Arc::ptr_eq(&held, &get(&store, "c").read()));
}

#[test]
fn events_have_the_former_state_of_packed_objects() {
    let mut store = packed();
    for (step, expected) in [
        (Step::Apply(state("object-1", "1", 4)), "updated object-1:1@1 -> object-1:1@4"),
        (Step::Deleted("object-2", "2"), "deleted object-2:2@2"),
        (
            Step::List(9, vec![state("object-1", "1", 4), state("object-3", "3", 8), state("x", "5", 5)]),
            "updated object-3:3@3 -> object-3:3@8",
        ),
        (Step::Gone(ObjectKey::namespaced("default", "object-3"), 10), "deleted object-3:3@8"),
    ] {
        assert_eq!(run(&mut store, step)[0], expected);
    }
}

#[test]
fn an_index_finds_packed_objects_and_follows_their_changes() {
    let mut store = packed();
    let by_revision = |object: &Map| vec![revision_of(object), 0];
    let place = store.add_index(Box::new(Entries::new("revision", Values::OfObject(Box::new(by_revision)))));
    let count = |store: &Store<Map>, value: u64| {
        let index = store.index_at(place).as_any().downcast_ref::<Entries<Map, u64>>();
        index.expect("the index must exist").count(&value)
    };
    assert_eq!((count(&store, 1), count(&store, 2), count(&store, 0)), (1, 1, 3));
    assert_eq!(packed_names(&store).len(), 3);
    run(&mut store, Step::Apply(state("object-1", "1", 7)));
    run(&mut store, Step::Deleted("object-2", "2"));
    store.sweep(ALL);
    store.sweep(ALL);
    assert_eq!((count(&store, 1), count(&store, 7), count(&store, 2), count(&store, 0)), (0, 1, 0, 2));
    run(&mut store, Step::Absent);
    assert_eq!(count(&store, 0), 0);
}

#[test]
fn an_object_that_is_not_from_a_server_is_not_packed() {
    let packer = packer();
    assert!(packer.pack(&Map::default()).is_none());
    let long = state("a", &"u".repeat(70_000), 1);
    assert!(packer.pack(&*long).is_none());
    let cell = Cell::packed(long.clone(), &packer);
    assert!(Arc::ptr_eq(&cell.read(), &long));
    assert_eq!(show(&cell.read()).len(), "a:@1".len() + 70_000);
}

/// Returns whether an object can be packed; the unpacked object must be the same.
fn packs<K: Object + PartialEq>(json: &serde_json::Value) -> bool {
    let object: K = serde_json::from_value(json.clone()).expect("the object must parse");
    let Some(packed) = packer().pack(&object) else { return false };
    assert_eq!(*packed.parse(), object);
    assert_eq!(packed.brief(), Brief::of(object.meta()));
    true
}

#[test]
fn objects_of_every_form_survive_packing() {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a\"b", "namespace": "default", "uid": "1", "resourceVersion": "1", "labels": {},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "100m"}}, "ports": [{"containerPort": 80}]}]},
    });
    assert!(packs::<k8s_openapi::api::core::v1::Pod>(&pod));
    assert!(packs::<kube::core::DynamicObject>(&pod));
    let meta: kube::core::PartialObjectMeta<Map> = serde_json::from_value(pod.clone()).expect("metadata must parse");
    let packed = packer().pack(&meta).expect("metadata must be packed");
    assert_eq!(packed.parse().metadata, meta.metadata);

    let mut fractions = pod;
    fractions["spec"] = serde_json::json!({"f": [0.5, -1e300, 3.0, 0.1]});
    assert!(packs::<kube::core::DynamicObject>(&fractions));
    for number in 0..1000 {
        fractions["spec"] = serde_json::json!({ "f": 1.0 / f64::from(number + 3) });
        packs::<kube::core::DynamicObject>(&fractions);
    }
}

#[test]
fn a_resync_of_a_packed_object_is_seen_as_one() {
    let store = packed();
    let cell = get(&store, "object-1");
    let event = Event::Updated { old: cell.clone(), new: cell.clone() }.open();
    assert!(event.is_resync(), "{}", show_event(&event));
}

/// A type that loses a field when it is serialized.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Forgetful")]
struct ForgetfulSpec {
    #[serde(default, skip_serializing)]
    secret: String,
    #[serde(default)]
    numbers: HashMap<String, u32>,
}

#[test]
fn a_type_that_loses_fields_is_not_packed() {
    let numbers: HashMap<_, _> = (0..50).map(|number| (number.to_string(), number)).collect();
    let mut object = Forgetful::new("a", ForgetfulSpec { secret: String::new(), numbers });
    object.metadata.uid = Some("1".into());
    object.metadata.resource_version = Some("1".into());
    let packer = packer();
    // The order of maps does not matter.
    assert!(packer.pack(&object).is_some() && packer.packs(3));
    object.spec.secret = "kept".into();
    assert!(packer.pack(&object).is_none() && !packer.packs(3));
    object.spec.secret = String::new();
    assert!(packer.pack(&object).is_none());
}

#[test]
fn every_object_is_verified_not_only_the_first() {
    let mut object = Forgetful::new("a", ForgetfulSpec { secret: String::new(), numbers: HashMap::new() });
    object.metadata.uid = Some("1".into());
    object.metadata.resource_version = Some("1".into());
    let packer = packer();
    for _ in 0..40 {
        assert!(packer.pack(&object).is_some());
    }
    object.spec.secret = "kept".into();
    assert!(packer.pack(&object).is_none(), "the field would be lost");
}

#[test]
fn a_received_text_restores_what_a_type_does_not_serialize() {
    let text = r#"{"apiVersion": "example.com/v1", "kind": "Forgetful", "spec": {"secret": "kept"},
        "metadata": {"name": "a", "uid": "1", "resourceVersion": "1"}}"#;
    let object: Forgetful = serde_json::from_str(text).expect("the object must parse");
    let packer = packer();
    let cell = Cell::of_text(Arc::new(object), text.as_bytes(), &packer);
    for _ in 0..3 {
        assert!(cell.is_packed());
        assert_eq!(cell.read().spec.secret, "kept");
        assert!(!cell.is_packed());
        // While it is in use, however long that is, and when it is not.
        for _ in 0..3 {
            cell.read();
            cell.sweep(&packer);
        }
        cell.sweep(&packer);
    }
}

/// A type whose debug output hides the field that it does not serialize.
#[derive(CustomResource, Clone, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Discreet")]
struct DiscreetSpec {
    #[serde(default, skip_serializing)]
    token: Option<String>,
    #[serde(default)]
    size: u32,
}

impl std::fmt::Debug for DiscreetSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiscreetSpec").field("token", &"(hidden)").field("size", &self.size).finish()
    }
}

fn received<K: Object>(spec: &str) -> (String, Arc<K>) {
    let text = format!(
        r#"{{"apiVersion": "example.com/v1", "kind": "{}", "spec": {spec}, "status": {{"unknown": [1]}},
            "metadata": {{"name": "a", "uid": "1", "resourceVersion": "1", "annotations": null, "later": "field"}}}}"#,
        std::any::type_name::<K>().rsplit("::").next().expect("a type has a name")
    );
    let object = serde_json::from_str(&text).expect("the object must parse");
    (text, Arc::new(object))
}

#[test]
fn a_field_that_the_debug_output_hides_is_not_lost() {
    let (packer, (text, object)) = (packer(), received::<Discreet>(r#"{"token": "kept", "size": 3}"#));
    let cell = Cell::of_text(object, text.as_bytes(), &packer);
    for _ in 0..4 {
        assert_eq!(cell.read().spec.token.as_deref(), Some("kept"));
        cell.sweep(&packer);
    }
    cell.sweep(&packer);
    assert!(cell.is_packed(), "the text is still there");
    assert_eq!(cell.peek().spec.token.as_deref(), Some("kept"));
    // An object that was not received as text stays parsed, as one of its type was seen to lose a field.
    let (_, object) = received::<Discreet>(r#"{"token": "other"}"#);
    assert!(packer.pack(&*object).is_none());
}

/// Number of times that `size` was serialized.
static SERIALIZED: AtomicUsize = AtomicUsize::new(0);

fn counted<S: serde::Serializer>(size: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    SERIALIZED.fetch_add(1, Ordering::SeqCst);
    serializer.serialize_u32(*size)
}

/// Like `DiscreetSpec`, and counts how often it is serialized.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Observed")]
struct ObservedSpec {
    #[serde(default, serialize_with = "counted")]
    size: u32,
    #[serde(default, skip_serializing)]
    token: Option<String>,
}

#[test]
fn texts_of_events_are_compared_only_if_they_have_new_fields() {
    let packer = packer::<Observed>();
    let receive = |spec: &str| {
        let before = SERIALIZED.load(Ordering::SeqCst);
        packer.received(received::<Observed>(spec).0.as_bytes());
        (SERIALIZED.load(Ordering::SeqCst) - before, packer.packs(3))
    };
    assert_eq!(receive(r#"{"size": 1}"#), (1, true));
    for size in 2..100 {
        assert_eq!(receive(&format!(r#"{{"size": {size}}}"#)), (0, true));
    }
    assert_eq!(receive(r#"{"size": 0}"#), (1, true));
    assert_eq!(receive(r#"{"size": 7, "token": "kept"}"#), (1, false), "it would be lost");
    assert_eq!(receive(r#"{"size": 7, "other": "field"}"#), (0, false), "nothing is serialized any more");
    let (_, object) = received::<Observed>(r#"{"size": 1}"#);
    assert_eq!(object.spec.token, None);
    assert!(packer.pack(&*object).is_none());
}

#[test]
fn a_received_object_shows_whether_its_type_loses_fields() {
    for (spec, is_lossless) in [
        // Fields that the type does not know are no loss, nor are those that are empty.
        (r#"{"size": 3, "other": {"deep": [1, 2]}, "list": ["a"]}"#, true),
        (r#"{"size": 0, "token": null}"#, true),
        (r#"{"token": ""}"#, true),
        (r#"{"token": "x"}"#, false),
        (r#"{"token": "x", "other": 1}"#, false),
    ] {
        let (packer, (text, object)) = (packer(), received::<Discreet>(spec));
        assert_eq!(packer.check(&*object, text.as_bytes()), is_lossless, "{spec}");
        assert_eq!(packer.pack(&*object).is_some(), is_lossless, "{spec}");
    }
}

/// A type that serializes other values than it reads.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Twisted")]
struct TwistedSpec {
    #[serde(default, rename(serialize = "second", deserialize = "first"))]
    first: String,
    #[serde(default, rename(serialize = "first", deserialize = "second"))]
    second: String,
}

#[test]
fn swapped_values_are_noticed() {
    let (text, object) = received::<Twisted>(r#"{"first": "ab", "second": "ba"}"#);
    assert!(packer().pack(&*object).is_none(), "from the object alone");
    assert!(!packer::<Twisted>().check(&*object, text.as_bytes()), "from the text");
    let (text, object) = received::<Twisted>(r#"{"first": "ab", "second": "ab"}"#);
    assert!(packer::<Twisted>().check(&*object, text.as_bytes()));
}

#[test]
fn a_type_that_serializes_everything_drops_the_text_of_objects_in_use() {
    let text = r#"{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "metadata": {"name": "a", "uid": "1",
        "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "m"}]}}"#;
    let object: Arc<Map> = Arc::new(serde_json::from_str(text).expect("the object must parse"));
    let packer = packer();
    let cell = Cell::of_text(object, text.as_bytes(), &packer);
    cell.sweep(&packer);
    cell.sweep(&packer);
    assert!(cell.is_packed());
    for has_text in [true, true, false] {
        cell.read();
        assert_eq!((cell.is_packed(), cell.has_text()), (false, has_text));
        cell.sweep(&packer);
    }
    cell.sweep(&packer);
    assert!(cell.is_packed());
    // The first objects of a list have their text until the list is complete.
    for packs in [true, false] {
        let cell = Cell::with_text(cell.peek(), text.as_bytes(), &packer);
        assert!(cell.has_text());
        if packs {
            cell.pack(&packer);
        } else {
            cell.forget_text();
        }
        assert_eq!((cell.is_packed(), cell.has_text()), (packs, packs));
    }
}
