use super::*;

fn rendered(text: &str, places: &[(u32, &str)]) -> String {
    let source = Source::new(text);
    let mut errors = Errors::new(source.clone());
    for (offset, message) in places {
        errors.report(source.location(*offset), *message);
    }
    errors.to_string()
}

#[test]
fn an_error_shows_its_line_and_a_caret() {
    assert_eq!(
        rendered("self.x", &[(4, "undefined field 'x'")]),
        "ERROR: <input>:1:5: undefined field 'x'\n | self.x\n | ....^"
    );
}

#[test]
fn errors_are_sorted_by_location_and_lines_are_counted() {
    assert_eq!(
        rendered("a &&\n\tb", &[(6, "second"), (0, "first")]),
        "ERROR: <input>:1:1: first\n | a &&\n | ^\nERROR: <input>:2:2: second\n |  b\n | .^"
    );
}

#[test]
fn wide_characters_are_underlined_with_wide_ones() {
    assert_eq!(
        rendered("'\u{e9}' \u{e9}", &[(4, "no")]),
        "ERROR: <input>:1:5: no\n | '\u{e9}' \u{e9}\n | .\u{ff0e}..\u{ff3e}"
    );
}

#[test]
fn an_error_without_a_location_shows_no_line() {
    let mut errors = Errors::new(Source::new("a"));
    errors.report(Location::NONE, "too deep");
    assert_eq!(errors.to_string(), "ERROR: <input>:-1:0: too deep");
}

#[test]
fn errors_past_a_hundred_are_counted() {
    let mut errors = Errors::new(Source::new(""));
    for _ in 0..103 {
        errors.report(Location { line: 1, column: 0 }, "x");
    }
    assert!(errors.to_string().ends_with("\n3 more errors were truncated"));
    assert_eq!(errors.len(), 103);
}
