use serde_json::json;

use super::*;
use crate::checker::TypeProvider;

fn of(kind: Kind) -> Structural {
    Structural { kind: Some(kind), ..Structural::default() }
}

#[test]
fn sizes_come_from_the_schema_or_from_the_size_of_a_request() {
    let mut text = of(Kind::String);
    assert_eq!(DeclType::of(&text, false).expect("the type must exist").max_elements, MAX_REQUEST_SIZE - 2);
    text.validation.allowed = vec![json!("ab"), json!("abcd"), json!(7)];
    assert_eq!(DeclType::of(&text, false).expect("the type must exist").max_elements, 4);
    text.validation.max_length = Some(10);
    assert_eq!(DeclType::of(&text, false).expect("the type must exist").max_elements, 40);
    text.validation.max_length = Some(-1);
    assert_eq!(DeclType::of(&text, false).expect("the type must exist").max_elements, 0);

    let mut list = of(Kind::Array);
    assert!(DeclType::of(&list, false).is_none(), "a list without items is not exposed");
    list.items = Some(Box::new(of(Kind::Integer)));
    assert_eq!(DeclType::of(&list, false).expect("the type must exist").max_elements, (MAX_REQUEST_SIZE - 2) / 2);
    list.validation.max_items = Some(3);
    assert_eq!(DeclType::of(&list, false).expect("the type must exist").max_elements, 3);

    let mut map = of(Kind::Object);
    map.additional = Additional::Schema(Box::new(of(Kind::Boolean)));
    assert_eq!(DeclType::of(&map, false).expect("the type must exist").max_elements, (MAX_REQUEST_SIZE - 2) / 10);
}

#[test]
fn required_fields_without_a_default_make_an_object_longer() {
    let mut object = of(Kind::Object);
    object.properties.insert("abc".to_owned(), of(Kind::String));
    object.properties.insert("free".to_owned(), Structural::default());
    assert_eq!(DeclType::of(&object, false).expect("the type must exist").min_serialized_size, 2);
    object.validation.required = vec!["abc".to_owned(), "free".to_owned()];
    assert_eq!(DeclType::of(&object, false).expect("the type must exist").min_serialized_size, 2 + 3 + 2 + 4);
    object.properties.get_mut("abc").expect("there").default = Some(json!("x"));
    assert_eq!(DeclType::of(&object, false).expect("the type must exist").min_serialized_size, 2);
}

#[test]
fn the_root_of_a_resource_always_has_its_name() {
    let declared = DeclType::of(&of(Kind::Object), true).expect("the type must exist");
    let provider = Declared::new("self1", Arc::new(declared));
    assert_eq!(provider.find_field("self1", "metadata"), Some(Type::Object("self1.metadata".into())));
    assert_eq!(provider.find_field("self1.metadata", "generateName"), Some(Type::String));
    assert_eq!(provider.find_field("self1.metadata", "labels"), None);
}

#[test]
fn object_types_are_named_by_their_path() {
    let mut item = of(Kind::Object);
    item.properties.insert("a-b".to_owned(), of(Kind::Integer));
    item.properties.insert("namespace".to_owned(), of(Kind::String));
    let mut list = of(Kind::Array);
    list.items = Some(Box::new(item));
    let mut root = of(Kind::Object);
    root.properties.insert("l".to_owned(), list);
    let provider = Declared::new("s", Arc::new(DeclType::of(&root, false).expect("the type must exist")));
    let item = Type::Object("s.l.@idx".into());
    assert_eq!(provider.find_field("s", "l"), Some(Type::List(Arc::new(item.clone()))));
    assert_eq!(provider.find_type("s.l.@idx"), Some(item));
    assert_eq!(provider.find_field("s.l.@idx", "a__dash__b"), Some(Type::Int));
    assert_eq!(provider.find_field("s.l.@idx", "namespace"), Some(Type::String));
    assert_eq!(provider.find_field("s.l.@idx", "__namespace__"), Some(Type::String));
    assert_eq!(provider.find_type("s.x"), None);
}
