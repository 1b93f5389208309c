//! Go's regular expressions.

use crate::kinds::custom_resource_definition::pattern::check;

#[test]
fn what_go_accepts_is_accepted() {
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
    ] {
        assert_eq!(check(pattern), Ok(()), "{pattern}");
    }
}

#[test]
fn what_go_refuses_is_refused_in_its_words() {
    for (pattern, message) in [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}?", "invalid nested repetition operator: `{2}{3}?`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("(?i)+?", "missing argument to repetition operator: `+?`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){11}", "invalid repeat count: `{11}`"),
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
        assert_eq!(check(pattern), Err(message.to_owned()), "{pattern}");
    }
    let deep = "(".repeat(1001);
    assert!(check(&deep).is_err_and(|message| message.starts_with("expression nests too deeply")));
}
