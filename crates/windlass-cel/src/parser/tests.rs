use proptest::prelude::*;

use super::*;
use crate::ast::{ExprKind, Literal};

fn errors(text: &str) -> String {
    parse(text, Options::KUBERNETES).expect_err("the text must not parse").to_string()
}

fn literal(text: &str) -> Literal {
    match parse(text, Options::KUBERNETES).unwrap_or_else(|errors| panic!("{errors}")).expr.kind {
        ExprKind::Literal(literal) => literal,
        other => panic!("{text} must be a literal, not {other:?}"),
    }
}

#[test]
fn literals_have_their_values() {
    assert_eq!(literal("-9223372036854775808"), Literal::Int(i64::MIN));
    assert_eq!(literal("0xFF"), Literal::Int(255));
    assert_eq!(literal("18446744073709551615u"), Literal::Uint(u64::MAX));
    assert_eq!(literal("-1.5e3"), Literal::Double(-1500.0));
    assert_eq!(literal(r"'a\n\x41\u00e9\U0001F600\101'"), Literal::String("a\nA\u{e9}\u{1F600}A".to_owned()));
    assert_eq!(literal(r"r'\d'"), Literal::String(r"\d".to_owned()));
    assert_eq!(literal("'''a\r\nb'''"), Literal::String("a\nb".to_owned()));
    assert_eq!(literal(r"b'\xffé'"), Literal::Bytes(vec![0xff, 0xc3, 0xa9]));
    assert_eq!(literal("--1"), Literal::Int(1));
}

#[test]
fn long_logical_chains_become_shallow_trees() {
    fn depth(expr: &Expr) -> usize {
        match &expr.kind {
            ExprKind::Call { args, .. } => 1 + args.iter().map(depth).max().unwrap_or_default(),
            _ => 0,
        }
    }
    let parsed = parse(&vec!["true"; 1024].join("&&"), Options::KUBERNETES).expect("the text must parse");
    assert_eq!(depth(&parsed.expr), 10);
}

#[test]
fn nesting_is_limited() {
    for (open, inner, close) in
        [("(", "1", ")"), ("[", "1", "]"), ("f(", "1", ")"), ("{1:", "1", "}"), ("a?b:", "c", ""), ("1+1*(", "1", ")")]
    {
        let text = format!("{}{inner}{}", open.repeat(5000), close.repeat(5000));
        assert_eq!(errors(&text), "ERROR: <input>:-1:0: expression recursion limit exceeded: 250");
    }
    for text in [format!("a{}", ".b".repeat(251)), format!("1{}", "+1".repeat(251)), format!("a{}", "[0]".repeat(251))]
    {
        assert_eq!(errors(&text), "ERROR: <input>:-1:0: max recursion depth exceeded");
    }
}

#[test]
fn length_is_limited() {
    let text = "\u{e9}".repeat(100_001);
    let expected = "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000";
    assert_eq!(errors(&text), expected);
}

#[test]
fn macros_that_use_their_target_twice_cannot_explode() {
    let text = format!("a{}", ".optMap(x, x)".repeat(200));
    assert!(errors(&text).contains("expression is too large after the expansion of macros"));
}

#[test]
fn disabled_features_are_errors() {
    let core = Options {
        optionals: false,
        quoted_identifiers: false,
        two_variable_macros: false,
        sort_by: false,
        bindings: false,
    };
    for (text, message) in [
        ("a.?b", "ERROR: <input>:1:2: unsupported syntax '.?'\n | a.?b\n | .^"),
        ("a[?b]", "ERROR: <input>:1:2: unsupported syntax '[?'\n | a[?b]\n | .^"),
        ("[?a]", "ERROR: <input>:1:2: unsupported syntax '?'\n | [?a]\n | .^"),
        ("{?a: b}", "ERROR: <input>:1:2: unsupported syntax '?'\n | {?a: b}\n | .^"),
        ("a.`b-c`", "ERROR: <input>:1:3: unsupported syntax: '`'\n | a.`b-c`\n | ..^"),
    ] {
        assert_eq!(parse(text, core).expect_err("the text must not parse").to_string(), message);
    }
}

#[test]
fn enabled_features_are_accepted() {
    let all = Options { quoted_identifiers: true, bindings: true, ..Options::KUBERNETES };
    let quoted = parse("a.`b-c`", all).expect("the text must parse").expr.kind;
    assert!(matches!(quoted, ExprKind::Select { field, .. } if field == "b-c"));
    let bound = parse("cel.bind(x, 1, x + x)", all).expect("the text must parse").expr.kind;
    assert!(matches!(bound, ExprKind::Comprehension(fold) if fold.accumulator == "x"));
}

proptest! {
    #[test]
    fn any_text_parses_or_has_errors(text in any::<String>()) {
        if let Err(errors) = parse(&text, Options::KUBERNETES) {
            prop_assert!(errors.to_string().starts_with("ERROR: <input>:"));
        }
    }

    #[test]
    fn any_tokens_parse_or_have_errors(text in "(a|in|true|1|2\\.5|3u|'s'|\"|'|`q`|for|\\.|\\(|\\)|\\[|\\]|\\{|\\}|,|:|\\?|[-+*/%!<>=&|]|==|&&|[ \n#]){0,40}") {
        if let Err(errors) = parse(&text, Options::KUBERNETES) {
            prop_assert!(!errors.is_empty());
        }
    }

    #[test]
    fn white_space_between_tokens_changes_only_positions(parts in prop::collection::vec("a|b|1|'s'|\\.|\\(|\\)|\\[|\\]|,|\\+|-|!|==|&&|\\?|:", 1..12)) {
        let tight = parse(&parts.join(" "), Options::KUBERNETES);
        let loose = parse(&parts.join(" // c\n\t "), Options::KUBERNETES);
        match (tight, loose) {
            (Ok(tight), Ok(loose)) => prop_assert_eq!(tight.expr, loose.expr),
            (tight, loose) => prop_assert_eq!(tight.is_ok(), loose.is_ok()),
        }
    }

    #[test]
    fn recovery_finds_no_errors_in_valid_texts(parts in prop::collection::vec("a|b|1|'s'|\\.|\\(|\\)|\\[|\\]|\\{|\\}|,|\\+|-|!|==|&&|\\?|:", 1..10)) {
        let source = Source::new(&parts.join(" "));
        let (tokens, lexical) = token::tokenize(&source);
        let right = descent::parse(&tokens).is_some();
        let mut errors = Errors::new(source.clone());
        let recovered = recovery::Recovery::new(&source, &tokens, &lexical, &mut errors).parse();
        prop_assert_eq!(right, errors.is_empty());
        prop_assert!(recovered.is_ok() || !right);
    }
}
