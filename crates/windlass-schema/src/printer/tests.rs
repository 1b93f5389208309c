use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::{Column, SelectableField, TableBudget, human_duration};
use crate::time::{Time, parse_rfc3339};

fn now() -> Time {
    parse_rfc3339("2026-01-01T00:00:00Z").expect("a time")
}

fn cell(kind: &str, value: Value) -> Value {
    let column = Column::compile("A", kind, "", "", 0, ".a").expect("a column");
    column.cell(&json!({"a": value}), now())
}

#[test]
fn recorded_columns_have_the_recorded_cells() {
    let column = |kind: &str, path: &str| Column::compile("A", kind, "", "", 0, path).expect("a column");
    let columns = [
        column("string", ".spec.title"),
        column("integer", ".spec.pages"),
        column("number", ".spec.price"),
        column("boolean", ".spec.lent"),
        column("string", ".spec.tags[*]"),
        column("string", ".spec.tags[0]"),
        column("string", r#".status.conditions[?(@.type=="Ready")].status"#),
        column("date", ".spec.due"),
        column("string", ".spec.raw"),
    ];
    let cells = |book: Value| columns.iter().map(|column| column.cell(&book, now())).collect::<Value>();
    let full = json!({
        "spec": {"title": "Emma", "pages": 474, "price": 9.5, "lent": true, "tags": ["x", "y"],
            "due": "2999-01-01T00:00:00Z", "raw": {"k": [1, "2"]}},
        "status": {"conditions": [{"type": "Old", "status": "False"}, {"type": "Ready", "status": "True"}]},
    });
    let expected = json!(["Emma", 474, 9.5, true, "x", "x", "True", "<invalid>", r#"{"k":[1,"2"]}"#]);
    assert_eq!(cells(full), expected);
    let sparse = json!({"spec": {"title": 7, "pages": "many", "price": 3, "tags": [], "due": "soon"}});
    assert_eq!(cells(sparse), json!(["7", null, 3, null, null, null, null, "<invalid>", null]));
}

#[test]
fn cells_have_the_type_of_their_column_or_are_null() {
    assert_eq!(cell("integer", json!(2.9)), json!(2));
    assert_eq!(cell("integer", json!(-2.9)), json!(-2));
    assert_eq!(cell("integer", json!("2")), Value::Null);
    assert_eq!(cell("number", json!(3)), json!(3));
    assert_eq!(cell("number", json!(0.25)), json!(0.25));
    assert_eq!(cell("number", json!(true)), Value::Null);
    assert_eq!(cell("boolean", json!(false)), json!(false));
    assert_eq!(cell("boolean", json!("false")), Value::Null);
    assert_eq!(cell("date", json!(5)), Value::Null);
    assert_eq!(cell("unknown", json!("x")), Value::Null);
    for kind in ["integer", "number", "boolean", "date"] {
        assert_eq!(cell(kind, Value::Null), Value::Null);
    }
}

#[test]
fn text_columns_print_any_value() {
    assert_eq!(cell("string", json!(1.5)), json!("1.5"));
    assert_eq!(cell("string", json!(1e21)), json!("1e+21"));
    assert_eq!(cell("string", json!(0.00001)), json!("1e-05"));
    assert_eq!(cell("string", json!(true)), json!("true"));
    assert_eq!(cell("string", Value::Null), json!("<no value>"));
    assert_eq!(cell("string", json!(["<a>"])), json!(r#"["\u003ca\u003e"]"#));
}

#[test]
fn dates_are_ages() {
    for (date, age) in [
        ("2025-12-31T23:59:01Z", "59s"),
        ("2026-01-01T00:00:01Z", "0s"),
        ("2026-01-01T00:00:02Z", "<invalid>"),
        ("2025-12-31T23:55:55Z", "4m5s"),
        ("2025-12-29T22:00:00Z", "2d2h"),
        ("2022-01-01T00:00:00Z", "4y1d"),
        ("1500-01-01T00:00:00Z", "292y"),
        ("0001-01-01T00:00:00Z", "<unknown>"),
        ("", "<unknown>"),
        ("null", "<unknown>"),
        ("2026-01-01", "<invalid>"),
    ] {
        assert_eq!(cell("date", json!(date)), json!(age), "{date}");
    }
    assert_eq!(human_duration(now(), now()), "0s");
}

#[test]
fn the_age_is_the_only_default_column_and_an_invalid_path_ends_the_columns() {
    let names = |columns: Value| -> Vec<String> {
        Column::of_definition(Some(&columns)).into_iter().map(|column| column.name).collect()
    };
    assert_eq!(names(json!([])), ["Age"]);
    assert_eq!(Column::of_definition(None)[0].definition()["type"], "date");
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    assert_eq!(names(json!([column("A", ".a"), column("B", ".b["), column("C", ".c")])), ["A"]);
    let scale: Vec<_> = Column::of_scale().into_iter().map(|column| column.name).collect();
    assert_eq!(scale, ["Desired", "Available", "Age"]);
}

#[test]
fn a_column_without_a_description_is_described_by_its_path() {
    let columns = json!([{"name": "A", "type": "integer", "format": "int32", "jsonPath": ".a", "priority": 1}]);
    let expected = json!({
        "name": "A", "type": "integer", "format": "int32", "priority": 1,
        "description": "Custom resource definition column (in JSONPath format): .a",
    });
    assert_eq!(Column::of_definition(Some(&columns))[0].definition(), expected);
}

#[test]
fn selectable_fields_are_strings_and_empty_if_absent() {
    let fields = json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.new"}]);
    let fields = SelectableField::of_definition(Some(&fields)).expect("fields");
    let shirt = json!({"spec": {"color": "red", "size": 3, "new": true}});
    let expected = json!({"spec.color": "red", "spec.size": "3", "spec.new": "true"});
    assert_eq!(Value::Object(SelectableField::values(&fields, &shirt)), expected);
    let bare = json!({"spec": {"color": null}});
    let expected = json!({"spec.color": "", "spec.size": "", "spec.new": ""});
    assert_eq!(Value::Object(SelectableField::values(&fields, &bare)), expected);
    assert!(SelectableField::compile(".a[").is_err());
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9TZ:+.é-]{0,25}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_has_a_cell_in_any_column(
        kind in select(vec!["string", "integer", "number", "boolean", "date", "x"]),
        path in select(vec![".", "..", ".a", ".a.b", ".a[*]", ".a[0]", "..a", ".a[?(@.b==1)]", ".a[1:]", ".b", "1"]),
        value in values(),
    ) {
        if let Ok(column) = Column::compile("A", kind, "", "", 0, path) {
            column.cell(&value, now());
        }
        if let Ok(field) = SelectableField::compile(path) {
            let _ = field.value(&value);
        }
    }
}

#[test]
fn the_cells_of_a_table_take_bounded_time_and_memory() {
    let column = |path: &str| Column::compile("A", "string", "", "", 0, path).expect("a column");
    let object = json!({"a": "x".repeat(1_000_000), "b": vec![0; 10_000]});
    for path in [".", "..b..c"] {
        let column = column(path);
        let mut budget = TableBudget { left: 5_000_000 };
        let bytes: usize = (0..20_000).map(|_| column.cell_within(&object, now(), &mut budget).to_string().len()).sum();
        assert!(bytes < 8 << 20, "{bytes}");
    }
}
