//! Properties of any history: applying twice is idempotent, no manager loses a field silently, and the object and its
//! managed fields match a model that knows only leaves.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_merge::apply::{field_manager::ApplyError, set::Set};

use super::Story;

/// Values of leaves by pointer.
type Leaves = BTreeMap<&'static str, u8>;

/// Operations and names of managers.
type Owners = BTreeSet<(String, String)>;

/// The leaves used in histories: pointers to scalars, atomic values, map entries and set items.
const LEAVES: [&str; 14] = [
    "/spec/a",
    "/spec/b",
    "/spec/n",
    "/spec/obj/x",
    "/spec/obj/y",
    "/spec/obj/deep/z",
    "/spec/m/k1",
    "/spec/m/k2",
    "/spec/atom",
    "/spec/strings",
    "/spec/others/v0",
    "/spec/others/v1",
    "/metadata/labels/l1",
    "/metadata/labels/l2",
];

const MANAGERS: [&str; 3] = ["alpha", "beta", "gamma"];

#[derive(Debug, Clone)]
enum Step {
    Put(Leaves),
    Apply { leaves: Leaves, force: bool },
}

fn leaves() -> impl Strategy<Value = Leaves> {
    let leaf = (0..LEAVES.len(), 0..2u8).prop_map(|(position, value)| {
        // A set item has no value except itself.
        let value = if LEAVES[position].starts_with("/spec/others/") { 0 } else { value };
        (LEAVES[position], value)
    });
    proptest::collection::btree_map(0..LEAVES.len(), leaf, 0..7).prop_map(|leaves| leaves.into_values().collect())
}

fn steps() -> impl Strategy<Value = Vec<(&'static str, Step)>> {
    let step = prop_oneof![
        leaves().prop_map(Step::Put),
        (leaves(), any::<bool>()).prop_map(|(leaves, force)| Step::Apply { leaves, force }),
    ];
    proptest::collection::vec((proptest::sample::select(&MANAGERS[..]), step), 1..10)
}

/// Returns an object with these leaves.
fn object(leaves: &Leaves) -> Value {
    let mut object = json!({});
    for (leaf, value) in leaves {
        match *leaf {
            "/spec/n" => object["spec"]["n"] = json!(value),
            "/spec/atom" => object["spec"]["atom"] = json!({"p": value.to_string()}),
            "/spec/strings" => object["spec"]["strings"] = json!(["s", value.to_string()]),
            leaf => {
                let mut place = &mut object;
                let (parent, name) = leaf.rsplit_once('/').expect("a leaf must have a parent");
                for name in parent.split('/').skip(1) {
                    place = &mut place[name];
                }
                if parent == "/spec/others" {
                    match place.as_array_mut() {
                        Some(items) => items.push(name.into()),
                        None => *place = json!([name]),
                    }
                } else {
                    place[name] = value.to_string().into();
                }
            }
        }
    }
    object
}

/// Returns the leaves of an object.
fn leaves_of(object: &Value) -> Leaves {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).or(value.as_u64().map(|n| n as u8));
    let read = |leaf: &&'static str| {
        let value = match *leaf {
            "/spec/atom" => number(object.pointer("/spec/atom/p")?)?,
            "/spec/strings" => number(object.pointer("/spec/strings/1")?)?,
            leaf if leaf.starts_with("/spec/others/") => {
                let item = Value::from(leaf.trim_start_matches("/spec/others/"));
                u8::from(!object.pointer("/spec/others")?.as_array()?.contains(&item))
            }
            leaf => number(object.pointer(leaf)?)?,
        };
        (!leaf.starts_with("/spec/others/") || value == 0).then_some((*leaf, value))
    };
    LEAVES.iter().filter_map(read).collect()
}

/// Returns the managers that own a leaf according to the managed fields.
fn owners_of(object: &Value, leaf: &str) -> Owners {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let owns = |entry: &&Value| {
        let mut pointer = String::from("/fieldsV1");
        for name in leaf.split('/').skip(1) {
            let item = leaf.starts_with("/spec/others/") && name.starts_with('v');
            pointer.push_str(&if item { format!("/v:\"{name}\"") } else { format!("/f:{name}") });
        }
        entry.pointer(&pointer).is_some()
    };
    let owner = |entry: &Value| (text(entry, "operation"), text(entry, "manager"));
    entries.into_iter().flatten().filter(owns).map(owner).collect()
}

/// The naive model: each leaf with its value and its managers.
#[derive(Debug, Default, Clone)]
struct Model(BTreeMap<&'static str, (u8, Owners)>);

impl Model {
    fn put(&mut self, manager: &str, leaves: &Leaves) {
        self.0.retain(|leaf, _| leaves.contains_key(leaf));
        for (leaf, value) in leaves {
            if self.0.get(leaf).is_none_or(|(old, _)| old != value) {
                self.0.insert(leaf, (*value, BTreeSet::from([("Update".to_owned(), manager.to_owned())])));
            }
        }
    }

    /// Returns whether there is no conflict.
    fn apply(&mut self, manager: &str, leaves: &Leaves, force: bool) -> bool {
        let me = ("Apply".to_owned(), manager.to_owned());
        let conflicts = |(leaf, value): (&&'static str, &u8)| {
            self.0.get(leaf).is_some_and(|(old, owners)| old != value && owners.iter().any(|owner| *owner != me))
        };
        if !force && leaves.iter().any(conflicts) {
            return false;
        }
        self.0.retain(|leaf, (_, owners)| leaves.contains_key(leaf) || !owners.remove(&me) || !owners.is_empty());
        for (leaf, value) in leaves {
            let (old, owners) = self.0.entry(leaf).or_insert((*value, BTreeSet::new()));
            if old != value {
                *old = *value;
                owners.clear();
            }
            owners.insert(me.clone());
        }
        true
    }
}

fn run(story: &mut Story, manager: &str, step: &Step) -> bool {
    match step {
        Step::Put(leaves) => {
            let mut object = object(leaves);
            object["extra"] = "anchor".into();
            story.put(manager, object);
            true
        }
        Step::Apply { leaves, force } => match story.apply_with(manager, *force, object(leaves)) {
            Ok(_) => true,
            Err(ApplyError::Conflicts(_)) => false,
            Err(error) => panic!("{error}"),
        },
    }
}

/// Returns a story whose object always has an entry: without one, updates would not be tracked.
fn begin() -> Story {
    let mut story = Story::new();
    story.put("anchor", json!({"extra": "anchor"}));
    story
}

fn sets(object: &Value) -> BTreeMap<(String, String), Set> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let parse = |entry: &Value| {
        let set = Set::from_fields(&entry["fieldsV1"]).expect("stored fields must be valid");
        ((text(entry, "operation"), text(entry, "manager")), set)
    };
    entries.into_iter().flatten().map(parse).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn histories_agree_with_the_model(steps in steps()) {
        let (mut story, mut model) = (begin(), Model::default());
        for (manager, step) in steps {
            let done = run(&mut story, manager, &step);
            let expected = match &step {
                Step::Put(leaves) => { model.put(manager, leaves); true }
                Step::Apply { leaves, force } => model.apply(manager, leaves, *force),
            };
            prop_assert_eq!(done, expected, "{:?}", step);
            let values: Leaves = model.0.iter().map(|(leaf, (value, _))| (*leaf, *value)).collect();
            prop_assert_eq!(leaves_of(story.live()), values, "{:?}", step);
            for (leaf, (_, owners)) in &model.0 {
                prop_assert_eq!(&owners_of(story.live(), leaf), owners, "{} after {:?}", leaf, step);
            }
        }
    }

    #[test]
    fn applying_twice_is_applying_once(steps in steps(), leaves in leaves()) {
        let mut story = begin();
        for (manager, step) in steps {
            run(&mut story, manager, &step);
        }
        let once = story.force("alpha", object(&leaves)).clone();
        let twice = story.apply("alpha", object(&leaves)).expect("the only manager must not have conflicts").clone();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn no_manager_loses_a_field_silently(steps in steps(), leaves in leaves(), force in any::<bool>()) {
        let mut story = begin();
        for (manager, step) in steps {
            run(&mut story, manager, &step);
        }
        let before = story.live().clone();
        if !run(&mut story, "alpha", &Step::Apply { leaves, force }) {
            prop_assert!(!force, "a forced apply has no conflicts");
            return Ok(());
        }
        let me = ("Apply".to_owned(), "alpha".to_owned());
        let after = sets(story.live());
        let mine = after.get(&me).cloned().unwrap_or_default();
        for (owner, set) in sets(&before).into_iter().filter(|(owner, _)| *owner != me) {
            let lost = set.difference(&after.get(&owner).cloned().unwrap_or_default());
            prop_assert!(force || lost.is_empty(), "{:?} lost {} without force", owner, lost);
            prop_assert!(lost.difference(&mine).is_empty(), "{:?} lost {} although the write did not touch it", owner, lost);
        }
    }

    #[test]
    fn nothing_panics(sent in any_json(), spec in any_json(), patch in any_json()) {
        let mut story = begin();
        story.write("w", "", |object, _| {
            object["spec"] = spec.clone();
            object["metadata"]["managedFields"] = sent.clone();
        });
        let _ = story.apply("a", json!({"spec": patch.clone()}));
        let _ = story.apply_with("a", true, json!({"spec": spec, "extra": patch}));
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let name = || {
        let known = ["a", "ports", "port", "others", "m", "operation", "Update", "apiVersion", "fieldsV1", "f:spec"];
        prop_oneof![proptest::sample::select(known.to_vec()).prop_map(str::to_owned), "[a-z:.{\"]{0,3}"]
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        name().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
