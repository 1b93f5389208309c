use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::apply::path::ItemValue;

type Model = BTreeSet<Path>;

fn element() -> impl Strategy<Value = PathElement> {
    let name =
        || prop::sample::select(vec!["a", "b", "c", "", "a name that is longer than the place for it", "\"<é\n"]);
    let item = prop_oneof![
        (-2i64..12).prop_map(ItemValue::Int),
        prop::sample::select(vec![0.5, 1e-9, 1e22, 2.0]).prop_map(ItemValue::Float),
        name().prop_map(|name| ItemValue::String(name.into())),
        any::<bool>().prop_map(ItemValue::Bool),
        Just(ItemValue::Other(Box::new(Value::Null))),
    ];
    prop_oneof![
        4 => name().prop_map(PathElement::field),
        2 => (item.clone(), prop::option::of(item.clone())).prop_map(|(first, second)| {
            PathElement::key([("name", first)].into_iter().chain(second.map(|second| ("b", second))))
        }),
        1 => item.prop_map(PathElement::Value),
        1 => (0i64..3).prop_map(PathElement::Index),
    ]
}

fn model() -> impl Strategy<Value = Model> {
    prop::collection::btree_set(prop::collection::vec(element(), 1..4).prop_map(Path::from), 0..10)
}

/// Generates two models that have some members in common.
fn models() -> impl Strategy<Value = (Model, Model)> {
    (model(), model(), model()).prop_map(|(left, right, both)| (&left | &both, &right | &both))
}

fn set(model: &Model) -> Set {
    model.iter().cloned().collect()
}

fn has_above(model: &Model, path: &Path) -> bool {
    (1..=path.len()).any(|length| model.contains(&path[..length].iter().cloned().collect::<Path>()))
}

proptest! {
    #[test]
    fn sets_have_the_paths_they_were_made_of(model in model(), other in model()) {
        let set = set(&model);
        prop_assert_eq!(set.paths().into_iter().collect::<Model>(), model.clone());
        prop_assert_eq!(set.len(), model.len());
        prop_assert_eq!(set.is_empty(), model.is_empty());
        for path in other.iter().chain(&model) {
            prop_assert_eq!(set.has(path), model.contains(path));
        }
    }

    #[test]
    fn set_algebra_matches_the_paths((left, right) in models()) {
        let (a, b) = (set(&left), set(&right));
        prop_assert_eq!(a.union(&b), set(&(&left | &right)));
        let mut extended = a.clone();
        extended.extend(b.clone());
        prop_assert_eq!(extended, a.union(&b));
        prop_assert_eq!(a.intersection(&b), set(&(&left & &right)));
        prop_assert_eq!(a.intersects(&b), !a.intersection(&b).is_empty());
        prop_assert_eq!(a.difference(&b), set(&(&left - &right)));
        let outside = left.iter().filter(|path| !has_above(&right, path)).cloned().collect();
        prop_assert_eq!(a.recursive_difference(&b), set(&outside));
        prop_assert_eq!(a == b, left == right);
    }

    #[test]
    fn leaves_have_nothing_below_them(model in model()) {
        let below = |path: &Path| model.iter().any(|other| other.len() > path.len() && other.starts_with(path));
        let leaves = model.iter().filter(|path| !below(path)).cloned().collect();
        prop_assert_eq!(set(&model).leaves(), set(&leaves));
    }

    #[test]
    fn fields_round_trip(model in model()) {
        let set = set(&model);
        prop_assert_eq!(Set::from_fields(&set.to_fields()), Ok(set.clone()));
        prop_assert_eq!(Set::from_fields_text(&set.to_fields_text()), Ok(set.clone()));
        prop_assert_eq!(serde_json::from_str::<Value>(&set.to_fields_text()).ok(), Some(set.to_fields()));
    }

    #[test]
    fn any_key_parses_or_is_rejected(text in "[fkvi.x]?:?[\\[{\"a0:,}\\]é-]{0,8}") {
        if let Ok(element) = PathElement::parse(&text) {
            prop_assert_eq!(PathElement::parse(&element.to_key()), Ok(element));
        }
        let _ = Set::from_fields_text(&format!("{{\"f:a\":{text}}}"));
        let _ = Set::from_fields_text(&text);
    }
}
