use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[track_caller]
fn selects(selector: &str, labels: &[(&str, &str)], expected: bool) {
    let parsed = LabelSelector::parse(selector).expect("the selector must parse");
    assert_eq!(parsed.matches_sorted(labels), expected, "{selector} on {labels:?}");
}

#[test]
fn every_operator_matches_as_in_kube_apiserver() {
    let labels = [("env", "prod"), ("example.com/owner", ""), ("rank", "3")];
    for (selector, expected) in [
        ("", true),
        ("env=prod", true),
        ("env==prod", true),
        ("env=dev", false),
        ("env!=prod", false),
        ("none!=prod", true),
        ("env in (prod, dev)", true),
        ("env in (qa)", false),
        ("env notin (prod,qa)", false),
        ("none notin (prod)", true),
        ("example.com/owner", true),
        ("example.com/owner=", true),
        ("example.com/owner in ()", true),
        ("!env", false),
        ("!none", true),
        ("rank>2", true),
        ("rank>3", false),
        ("rank<4", true),
        ("env>2", false),
        ("none<2", false),
        (" env == prod , rank ", true),
        ("env=prod,rank=4", false),
        ("in", false),
        ("notin=x", false),
    ] {
        selects(selector, &labels, expected);
    }
}

#[test]
fn label_selector_errors_match_kube_apiserver() {
    for (selector, expected) in [
        ("env in prod", "unable to parse requirement: found 'prod' expected: '('"),
        ("env=prod,", "found '', expected: identifier after ','"),
        ("!env=prod", "found '=', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (x,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        (
            "rank>abc",
            "unable to parse requirement: values[0]: Invalid value: \"abc\": for 'Gt', 'Lt' operators, the value must be \
             an integer",
        ),
    ] {
        assert_eq!(LabelSelector::parse(selector), Err(Error(expected.to_owned())), "{selector}");
    }
    let start = |selector: &str| {
        let error = LabelSelector::parse(selector).expect_err("the selector must be rejected");
        error.to_string().split(": ").take(4).collect::<Vec<_>>().join(": ")
    };
    let prefix = "unable to parse requirement";
    assert_eq!(start("env=-bad"), format!("{prefix}: values[0][env]: Invalid value: \"-bad\""));
    assert_eq!(start("en_v/_x=y"), format!("{prefix}: <nil>: Invalid value: \"en_v/_x\""));
}

#[test]
fn label_selectors_print_sorted() {
    let printed = |text: &str| LabelSelector::parse(text).map(|selector| selector.to_string());
    let expected = "a in (,x,y),b notin (z),c==1,!d,e!=2,f>3,g<4,h=,i";
    assert_eq!(printed("i, h=, g<4,f>3,e!=2,!d,c==1,b notin(z),a in (y,x,,y)"), Ok(expected.to_owned()));
}

#[test]
fn selectors_in_objects_become_requirements() {
    let built = |selector: Value| LabelSelector::from_object(&selector).map(|selector| selector.to_string());
    let selector = json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["z", "a"]},
            {"key": "env", "operator": "Exists"},
        ],
    });
    assert_eq!(built(selector), Ok("app=web,env,tier notin (a,z)".to_owned()));
    assert!(LabelSelector::from_object(&json!({})).is_ok_and(|selector| selector.is_empty()));
    assert!(LabelSelector::from_object(&Value::Null).is_ok_and(|selector| !selector.matches(|_| None)));
    assert_eq!(
        built(json!({"matchExpressions": [{"key": "a", "operator": "Gt"}]})),
        Err(Error("\"Gt\" is not a valid label selector operator".to_owned()))
    );
    assert_eq!(
        built(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
        Err(Error("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".to_owned()))
    );
}

#[test]
fn an_exactly_matched_label_is_found() {
    let exact = |text: &str| {
        let selector = LabelSelector::parse(text).expect("the selector must parse");
        selector.requires_exact_match("a").map(str::to_owned)
    };
    assert_eq!(exact("a=1"), Some("1".to_owned()));
    assert_eq!(exact("a in (1)"), Some("1".to_owned()));
    assert_eq!(exact("a in (1,2)"), None);
    assert_eq!(exact("a!=1"), None);
    assert_eq!(exact("b=1"), None);
}

#[test]
fn field_selectors_compare_fields() {
    let field = |name: &str| match name {
        "metadata.name" => Some("a"),
        "status.phase" => Some("Running"),
        _ => None,
    };
    for (selector, expected) in [
        ("", true),
        ("metadata.name=a", true),
        ("metadata.name==a,status.phase!=Pending", true),
        ("metadata.name=b", false),
        ("metadata.name!=a", false),
        ("spec.nodeName=", true),
        ("spec.nodeName!=", false),
        (",,metadata.name=a,", true),
    ] {
        let parsed = FieldSelector::parse(selector).expect("the selector must parse");
        assert_eq!(parsed.matches(field), expected, "{selector}");
    }
    let parsed = FieldSelector::parse("metadata.name!=x,metadata.name=y").expect("the selector must parse");
    assert_eq!(parsed.requires_exact_match("metadata.name"), Some("y"));
    assert_eq!(parsed.requires_exact_match("metadata.namespace"), None);
    assert_eq!(FieldSelector::one("metadata.name", "y").requires_exact_match("metadata.name"), Some("y"));
}

#[test]
fn field_selector_errors_match_kube_apiserver() {
    for (selector, expected) in [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ] {
        assert_eq!(FieldSelector::parse(selector), Err(Error(expected.to_owned())), "{selector}");
    }
}

#[test]
fn escapes_in_field_values_round_trip() {
    let text = r"a=x\,y\=z\\";
    let parsed = FieldSelector::parse(text).expect("the selector must parse");
    assert_eq!(parsed.terms()[0].value, r"x,y=z\");
    assert_eq!(parsed.to_string(), text);
}

/// Generates strings from pieces of selectors.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "env",
        "example.com/x",
        "in",
        "notin",
        "=",
        "==",
        "!=",
        "!",
        "(",
        ")",
        ",",
        " ",
        ">",
        "<",
        "1",
        "-5",
        "_",
        "é",
        "\\",
        "\\,",
        "\0",
    ]);
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn label_selectors_round_trip(text in pieces()) {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn field_selectors_round_trip(text in pieces()) {
        if let Ok(selector) = FieldSelector::parse(&text) {
            let again = FieldSelector::parse(&selector.to_string()).map(|again| {
                let mut terms = again.terms().to_vec();
                terms.sort_by(|left, right| left.field.cmp(&right.field).then_with(|| left.value.cmp(&right.value)));
                terms
            });
            let mut terms = selector.terms().to_vec();
            terms.sort_by(|left, right| left.field.cmp(&right.field).then_with(|| left.value.cmp(&right.value)));
            prop_assert_eq!(again, Ok(terms));
        }
    }

    #[test]
    fn any_text_parses_or_is_rejected(text in any::<String>()) {
        let labels = LabelSelector::parse(&text).map(|selector| selector.matches(|_| Some("x")));
        let fields = FieldSelector::parse(&text).map(|selector| selector.matches(|_| Some("x")));
        prop_assert!(labels.err().is_none_or(|error| !error.to_string().is_empty()));
        prop_assert!(fields.err().is_none_or(|error| !error.to_string().is_empty()));
    }
}
