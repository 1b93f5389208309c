//! How tests of strategies say what they expect: the errors and warnings of a write, a line each.

use expect_test::Expect;
use serde_json::Value;
use windlass_schema::field::ErrorList;

use crate::strategy::Strategy;

fn lines(errors: &ErrorList, warnings: Vec<String>) -> String {
    let warnings = warnings.into_iter().map(|warning| format!("warning: {warning}\n"));
    errors.iter().map(|error| format!("{error}\n")).chain(warnings).collect()
}

/// A new object, on the way that a request takes: defaults, what a client may not set, validation.
pub(crate) fn check_create(kind: &dyn Strategy, mut object: Value, expected: Expect) {
    kind.default(&mut object);
    kind.prepare_for_create(&mut object);
    expected.assert_eq(&lines(&kind.validate(&object), kind.warnings(&object, None)));
}

/// A changed object, on the way that a request takes.
pub(crate) fn check_update(kind: &dyn Strategy, mut object: Value, mut old: Value, expected: Expect) {
    kind.default(&mut old);
    kind.default(&mut object);
    kind.prepare_for_update(&mut object, &old);
    expected.assert_eq(&lines(&kind.validate_update(&object, &old), kind.warnings(&object, Some(&old))));
}

/// A changed status, on the way that a request takes.
pub(crate) fn check_status(kind: &dyn Strategy, mut object: Value, mut old: Value, expected: Expect) {
    kind.default(&mut old);
    kind.default(&mut object);
    kind.prepare_for_subresource_update("status", &mut object, &old);
    expected.assert_eq(&lines(&kind.validate_subresource_update("status", &object, &old), Vec::new()));
}
