use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::{DynamicObject, PartialObjectMeta};
use proptest::prelude::*;
use serde::Deserializer;
use serde_json::{Value, json};

use super::*;

fn decoder<K: DeserializeOwned>(keep_managed_fields: bool) -> Decoder<K> {
    let resource = ApiResource::erase::<ConfigMap>(&());
    Decoder::new(Parse::typed(), &resource, keep_managed_fields)
}

fn object<K: DeserializeOwned + Clone>(decoder: &Decoder<K>, text: &str) -> Result<K, serde_json::Error> {
    decoder.parse(&mut serde_json::Deserializer::from_slice(text.as_bytes())).map(Arc::unwrap_or_clone)
}

/// The objects of a list, its metadata, and the skipped objects.
type Listed<K> = (Vec<Arc<K>>, ListMeta, Vec<Unreadable>);

/// Parses a list from pieces of the given size.
fn list<K: DeserializeOwned>(text: &[u8], piece: usize) -> Result<Listed<K>, DecodeError> {
    let decoder = decoder(false);
    let mut list = ListBody::new(&decoder);
    let (mut objects, mut skipped) = (Vec::new(), Vec::new());
    for piece in text.chunks(piece.max(1)) {
        list.feed(bytes::Bytes::copy_from_slice(piece));
        while list.parse(1, &mut |object, _: &[u8]| objects.push(object), &mut |object| skipped.push(object))?
            == Progress::More
        {}
    }
    list.end();
    while list.parse(1, &mut |object, _: &[u8]| objects.push(object), &mut |object| skipped.push(object))?
        == Progress::More
    {}
    Ok((objects, list.finish()?, skipped))
}

fn lines(pieces: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut lines = Lines::default();
    let mut found = Vec::new();
    for piece in pieces {
        lines.feed(piece.into());
        while let Some(line) = lines.next().unwrap() {
            found.push(line.to_vec());
        }
    }
    found
}

const CONFIG_MAP: &str = r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7","managedFields":
    [{"manager":"m","fieldsV1":{"f:data":{"f:metadata":{}}}}],"labels":{"managedFields":"kept"}},
    "data":{"metadata":"kept","managedFields":"kept"}}"#;

#[test]
fn only_managed_fields_are_skipped() {
    let parsed: ConfigMap = object(&decoder(false), CONFIG_MAP).unwrap();
    assert_eq!(parsed.metadata.managed_fields, None);
    assert_eq!(parsed.metadata.labels.unwrap()["managedFields"], "kept");
    assert_eq!(parsed.data.unwrap().len(), 2);
    let kept: ConfigMap = object(&decoder(true), CONFIG_MAP).unwrap();
    assert_eq!(kept.metadata.managed_fields.unwrap().len(), 1);
}

#[test]
fn a_type_that_panics_with_an_object_does_not_know_it() {
    #[derive(Debug)]
    struct Picky;
    impl<'de> Deserialize<'de> for Picky {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let object = Value::deserialize(deserializer)?;
            assert!(object["metadata"]["name"] != "odd", "of a test");
            Ok(Self)
        }
    }
    let text = br#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"odd"}},
        {"metadata":{"name":"b"}}]}"#;
    let (objects, _, skipped) = list::<Picky>(text, 1000).unwrap();
    assert_eq!((objects.len(), skipped.len(), skipped[0].name.as_str()), (2, 1, "odd"));
    let line = br#"{"type":"DELETED","object":{"metadata":{"name":"odd","namespace":"n","resourceVersion":"8"}}}"#;
    let Ok((Event::Unreadable { object, deleted: true }, _)) = decoder::<Picky>(false).event(line) else {
        panic!("it must not be read")
    };
    assert_eq!(object.key(), Some(ObjectKey::namespaced("n", "odd")));
}

#[test]
fn objects_whose_type_is_known_at_run_time_have_the_types_of_their_resource() {
    for sent in ["", r#""apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","#] {
        let text = CONFIG_MAP.replacen('{', &format!("{{{sent}"), 1);
        let dynamic: DynamicObject = object(&decoder(false), &text).unwrap();
        let partial: PartialObjectMeta<ConfigMap> = object(&decoder(false), &text).unwrap();
        for types in [dynamic.types, partial.types] {
            let types = types.unwrap();
            assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
        }
        assert_eq!(dynamic.metadata.managed_fields, None);
        assert_eq!(dynamic.data["data"]["managedFields"], "kept");
        assert_eq!(partial.metadata.name.as_deref(), Some("a"));
    }
}

#[test]
fn a_list_is_the_same_in_pieces_of_any_size() {
    let text = format!(
        r#"{{"kind":"ConfigMapList","odd":[1,{{"items":[]}}],"items": [{CONFIG_MAP} , {CONFIG_MAP}],
        "metadata":{{"resourceVersion":"12","continue":"t","remainingItemCount":3}},"number":12 }}"#
    );
    for piece in 1..=text.len() {
        let (objects, meta, skipped) = list::<ConfigMap>(text.as_bytes(), piece).unwrap();
        assert_eq!((objects.len(), skipped.len()), (2, 0), "pieces of {piece}");
        assert_eq!(meta, ListMeta { resource_version: "12".into(), r#continue: "t".into() });
    }
}

#[test]
fn an_item_that_does_not_parse_is_skipped_and_named() {
    let text = r#"{"metadata":{"resourceVersion":"1"},"items":[
        {"metadata":{"name":"odd","namespace":"n"},"data":{"password":["hunter2"]}},
        null, 7, "text",
        {"metadata":{"name":"good"}}]}"#;
    for piece in [1, 7, 1000] {
        let (objects, _, skipped) = list::<ConfigMap>(text.as_bytes(), piece).unwrap();
        assert_eq!(objects.len(), 1);
        assert_eq!(skipped.len(), 4);
        assert_eq!((skipped[0].namespace.as_str(), skipped[0].name.as_str()), ("n", "odd"));
        assert!(!format!("{:?} {}", skipped[0], skipped[0].place).contains("hunter2"));
    }
}

#[test]
fn a_response_that_is_not_a_list_is_not_mistaken_for_an_empty_one() {
    for text in ["{}", r#"{"kind":"Status","metadata":{}}"#, "[]", "", "null", r#"{"items":[]"#, r#"{"items":[}]}"#] {
        assert!(list::<ConfigMap>(text.as_bytes(), 3).is_err(), "{text}");
    }
    assert!(list::<ConfigMap>(br#"{"metadata":{},"items":null}"#, 3).unwrap().0.is_empty());
}

#[test]
fn the_type_of_an_event_may_come_last() {
    for text in [
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}"#,
        r#"{"object":{"metadata":{"name":"a"}},"other":1,"type":"MODIFIED"}"#,
    ] {
        match decoder::<ConfigMap>(false).event(text.as_bytes()).unwrap().0 {
            Event::Modified(object) => assert_eq!(object.metadata.name.as_deref(), Some("a")),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn events_of_all_types_are_distinguished() {
    let event = |text: &str| format!("{:?}", decoder::<Pod>(false).event(text.as_bytes()).map(|(event, _)| event));
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":
        {"k8s.io/initial-events-end":"true"}}}}"#;
    assert_eq!(event(bookmark), r#"Ok(Bookmark { revision: "5", initial_events_end: true })"#);
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}"#;
    assert_eq!(event(bookmark), r#"Ok(Bookmark { revision: "6", initial_events_end: false })"#);
    let error = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","details":null}}"#;
    assert!(event(error).starts_with(r#"Ok(Error(Status { code: 410, reason: "Expired""#), "{}", event(error));
    assert_eq!(event(r#"{"type":"NEW","object":{}}"#), "Ok(Unknown)");
    let odd = r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"9"},"spec":"hunter2"}}"#;
    assert!(event(odd).contains("deleted: true") && event(odd).contains(r#"revision: "9""#), "{}", event(odd));
    assert!(!event(odd).contains("hunter2"));
    for text in ["", "{}", "[]", r#"{"type":"ADDED"}"#, r#"{"object":{}}"#, r#"{"type":"ADDED","object":{}} x"#] {
        assert!(event(text).starts_with("Err"), "{text}: {}", event(text));
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let key =
        prop_oneof![Just("metadata".to_owned()), Just("managedFields".into()), Just("kind".into()), any::<String>()];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn skipping_managed_fields_equals_removing_them(mut value in json_value(), metadata in json_value()) {
        if let Some(object) = value.as_object_mut() {
            object.insert("metadata".into(), metadata);
        }
        let parsed: Value = object(&decoder(false), &value.to_string()).unwrap();
        if let Some(object) = value.as_object_mut() {
            object.insert("apiVersion".into(), json!("v1"));
            object.insert("kind".into(), json!("ConfigMap"));
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        }
        prop_assert_eq!(parsed, value);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1..50usize) {
        let _ = list::<DynamicObject>(&bytes, piece);
        let _ = decoder::<DynamicObject>(false).event(&bytes);
    }

    #[test]
    fn no_damaged_list_makes_it_panic(at in 0..200usize, byte in any::<u8>(), piece in 1..50usize) {
        let mut text = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{CONFIG_MAP}]}}"#).into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let _ = list::<DynamicObject>(&text, piece);
    }

    #[test]
    fn lines_cut_anywhere_are_the_whole_lines(
        text in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..300),
        cuts in prop::collection::vec(0..300usize, 0..10),
    ) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([text.len()]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let found = lines(starts.zip(ends).map(|(start, end)| text[start..end].to_vec()));
        let whole = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let whole: Vec<_> = whole.filter(|line| !line.trim_ascii().is_empty()).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(found, whole);
    }
}

#[test]
fn a_stream_cut_at_every_byte_has_the_events_of_its_whole_lines() {
    let event = |name: &str| format!("{}\n", json!({"type": "ADDED", "object": {"metadata": {"name": name}}}));
    let text = event("a") + &event("b\u{e9}") + &event("c");
    let ends: Vec<_> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for cut in 0..=text.len() {
        let found = lines([text.as_bytes()[..cut].to_vec()]);
        assert_eq!(found.len(), ends.iter().filter(|end| **end <= cut).count(), "cut at {cut}");
        for line in found {
            assert!(matches!(decoder::<ConfigMap>(false).event(&line), Ok((Event::Added(_), _))));
        }
    }
}
