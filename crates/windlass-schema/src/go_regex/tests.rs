use proptest::prelude::*;

use super::*;

fn matches(pattern: &str, text: &str) -> bool {
    compile(pattern).expect(pattern).regex.is_match(text)
}

#[test]
fn classes_are_ascii_only_as_in_go() {
    for (pattern, text, expected) in [
        (r"^\d+$", "123", true),
        (r"^\d+$", "٣", false),
        (r"^\w$", "é", false),
        (r"^\s$", "\u{a0}", false),
        (r"^[\w.-]+$", "a-b.c_9", true),
        (r"^[^\D]$", "5", true),
        (r"\bab\b", "x ab y", true),
        (r"é\B\.", "é.", true),
        (r"^[[:alpha:]]+$", "abc", true),
        (r"^[[:^alpha:]]+$", "é1", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn syntax_that_differs_from_rust_has_the_meaning_of_go() {
    for (pattern, text, expected) in [
        (r"^[a&&b]$", "&", true),
        (r"^[+--]$", ",", true),
        (r"^[0-9-x]+$", "1-x", true),
        (r"^{a}$", "{a}", true),
        (r"^a{,2}$", "a{,2}", true),
        (r"^a{02}$", "a{02}", true),
        (r"^\<\/\_$", "</_", true),
        (r"^[[]$", "[", true),
        (r"^[]a]+$", "]a", true),
        (r"^\Qa.b\E$", "a.b", true),
        (r"^\Qab\E*$", "abb", true),
        (r"^\Qab\E*$", "abab", false),
        (r"^a\Q\E*$", "aa", true),
        (r"^\101\x{1F600}$", "A😀", true),
        (r"^\P{^Lu}$", "A", true),
        (r"^\P{^Lu}$", "a", false),
        (r"^\p{upper case-LETTER}$", "A", true),
        (r"^[^\P{Greek}]$", "α", true),
        (r"^a(?i)?B$", "b", true),
        (r"^a(?i)?B$", "Ab", false),
        (r"^a+(?i)?$", "aa", true),
        (r"^(a{2}(?i){2})$", "aaaa", true),
        (r"^(a{2}(?i){2})$", "aa", false),
        (r"^(?i-i)a(?)(?i-i:b)$", "aB", false),
        (r"^(?ii)a(?-i:b)$", "Ab", true),
        (r"^(?P<1>a)(?<1>b)$", "ab", true),
        (r"^\x{D800}?[\x{D000}-\x{DFFF}]$", "\u{d7ff}", true),
        (r"^[^\x{D800}]$", "a", true),
        (r"^[\x{D800}]|\p{Cs}$", "\u{fffd}", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn flags_between_an_expression_and_its_operator_apply_to_the_operator() {
    for (pattern, found) in [("a(?U)+", "a"), ("a(?U)+?", "aaa"), ("(?U)a(?-U)+", "aaa"), ("((?U)a)+", "aaa")] {
        let regex = compile(pattern).expect(pattern).regex;
        assert_eq!(regex.find("aaa").map(|found| found.as_str()), Some(found), "{pattern}");
    }
}

#[test]
fn patterns_that_go_accepts_are_accepted() {
    for pattern in [
        "",
        "^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "(?i)a(?P<n>b)(?<m>c)",
        "x{2,}?",
        "{",
        "a{,2}",
        "a{02}",
        "[]a]",
        "[^]]",
        r"\Q(\E",
        r"\pL\p{Greek}\P{^Lu}",
        r"\x{1F600}\x41\012\.",
        "[[:alpha:][:^digit:]]",
        "(|a)*",
        "^*",
        "[!-\\]]",
        r"\Aa\z\b\B",
        "(?i-s:a)",
        "(a{100}){10}",
        "é+",
        "[\\d-x]",
        r"\p{Any}\P{any}[\p{ASCII}\p{assigned}\pC]",
    ] {
        assert_eq!(check(pattern), Ok(()), "{pattern}");
        assert!(compile(pattern).is_ok(), "{pattern}");
    }
}

#[test]
fn patterns_that_go_rejects_are_rejected_with_its_errors() {
    for (pattern, message) in [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[", "missing closing ]: `[`"),
        ("[a", "missing closing ]: `[a`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}?", "invalid nested repetition operator: `{2}{3}?`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("(?i)+?", "missing argument to repetition operator: `+?`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){11}", "invalid repeat count: `{11}`"),
        ("(x{100}){100}", "invalid repeat count: `{100}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("\\q", "invalid escape sequence: `\\q`"),
        ("\\1", "invalid escape sequence: `\\1`"),
        ("\\C", "invalid escape sequence: `\\C`"),
        ("\\xg1", "invalid escape sequence: `\\xg1`"),
        ("\\x{}", "invalid escape sequence: `\\x{}`"),
        ("\\p{Boat}", "invalid character class range: `\\p{Boat}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?i-)", "invalid or unsupported Perl syntax: `(?i-)`"),
        ("(?P<n-m>a)", "invalid named capture: `(?P<n-m>`"),
        ("(?<n", "invalid named capture: `(?<n`"),
    ] {
        let error = check(pattern).expect_err(pattern);
        assert_eq!(error.to_string(), format!("error parsing regexp: {message}"), "{pattern}");
        assert_eq!(compile(pattern).map(drop), Err(error), "{pattern}");
    }
}

#[test]
fn patterns_that_nest_too_deeply_are_rejected() {
    let rejected = |result: Result<(), PatternError>| {
        result.is_err_and(|error| error.0.starts_with("expression nests too deeply: `"))
    };
    assert!(rejected(check(&"(".repeat(1001))));
    assert!(rejected(compile(&format!("{}{}", "(".repeat(900), ")".repeat(900))).map(drop)));
    let again = "a*".to_owned() + &"(?i)*".repeat(100_000);
    assert_eq!(check(&again), Ok(()));
    assert!(rejected(compile(&again).map(drop)));
}

#[test]
fn a_pattern_that_needs_too_much_memory_is_rejected() {
    let pattern = r"(?:[\pL\pS]\d){1000}";
    let expected = format!("error parsing regexp: expression too large: `{pattern}`");
    assert_eq!(compile(pattern).expect_err("it is too large").to_string(), expected);
}

#[test]
fn patterns_of_one_schema_share_a_budget() {
    let mut compiler = Compiler::default();
    let results: Vec<bool> =
        (0..1200).map(|n| compiler.compile(&format!("^[a-z]{{{n}}}$", n = n % 1000)).is_ok()).collect();
    assert!(results[0]);
    assert!(compiler.spent <= TOTAL_BUDGET);
}

proptest! {
    #[test]
    fn every_pattern_that_go_accepts_compiles(text in r"([(){}\[\]?*+|\\:<>a-zA-Z0-9,\-^$.é]|\(\?i\)|\\p\{Lu\}|\[a-f\]){0,20}") {
        prop_assert_eq!(check(&text), compile(&text).map(drop));
    }
}
