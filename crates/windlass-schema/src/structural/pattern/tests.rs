use super::compile;

fn matches(pattern: &str, text: &str) -> bool {
    compile(pattern).expect("the pattern must compile").is_match(text)
}

#[test]
fn classes_know_only_ascii_as_in_go() {
    assert!(matches(r"^\d+$", "123"));
    assert!(!matches(r"^\d+$", "٣"));
    assert!(!matches(r"^\w$", "é"));
    assert!(!matches(r"^\s$", "\u{a0}"));
    assert!(matches(r"^[\w.-]+$", "a-b.c"));
}

#[test]
fn characters_that_our_engine_takes_for_operators_mean_themselves() {
    assert!(matches(r"^[a&&b]$", "&"));
    assert!(matches(r"^[+--]$", ","));
    assert!(matches(r"^[0-9-x]+$", "1-x"));
    assert!(matches(r"^{a}$", "{a}"));
    assert!(matches(r"^\<\/\_$", "</_"));
    assert!(matches(r"^[[]$", "["));
    assert!(matches(r"^\Qa.b\E$", "a.b"));
    assert!(matches(r"^\101\x{1F600}$", "A😀"));
}

#[test]
fn what_is_wrong_is_said_in_the_words_of_go() {
    for (pattern, message) in [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        (r"\h", r"invalid escape sequence: `\h`"),
        ("\\", "trailing backslash at end of expression: ``"),
    ] {
        let error = compile(pattern).expect_err("the pattern must be refused");
        assert_eq!(error.to_string(), format!("error parsing regexp: {message}"), "{pattern}");
    }
}

#[test]
fn a_pattern_that_would_take_too_much_memory_is_refused() {
    let pattern = r"(?:[\pL\pS]{1000}){100}";
    assert_eq!(
        compile(pattern).expect_err("it is too large").to_string(),
        "error parsing regexp: expression too large"
    );
}

#[test]
fn patterns_of_one_schema_share_a_budget() {
    let mut compiler = super::Compiler::default();
    let results: Vec<bool> =
        (0..1200).map(|n| compiler.compile(&format!("^[a-z]{{{n}}}$", n = n % 1000)).is_ok()).collect();
    assert!(results[0]);
    assert!(compiler.spent <= super::TOTAL_BUDGET);
}
