//! Checks of strategies that compare all errors and warnings of a write, one per line.

use expect_test::Expect;
use serde_json::Value;
use windlass_schema::field::ErrorList;

use crate::strategy::{Strategy, WriteContext};

fn lines(errors: &ErrorList, warnings: Vec<String>) -> String {
    let warnings = warnings.into_iter().map(|warning| format!("warning: {warning}\n"));
    errors.iter().map(|error| format!("{error}\n")).chain(warnings).collect()
}

/// Checks a create: defaulting, preparation, validation.
pub(crate) fn check_create(kind: &dyn Strategy, mut object: Value, expected: Expect) {
    kind.default(&mut object);
    kind.prepare_for_create(&mut object, &WriteContext::test());
    expected.assert_eq(&lines(&kind.validate(&object), kind.warnings(&object, None)));
}

/// Checks an update.
pub(crate) fn check_update(kind: &dyn Strategy, mut object: Value, mut old: Value, expected: Expect) {
    kind.default(&mut old);
    kind.default(&mut object);
    kind.prepare_for_update(&mut object, &old, &WriteContext::test());
    expected.assert_eq(&lines(&kind.validate_update(&object, &old), kind.warnings(&object, Some(&old))));
}

/// Checks an update of the status.
pub(crate) fn check_status(kind: &dyn Strategy, mut object: Value, mut old: Value, expected: Expect) {
    kind.default(&mut old);
    kind.default(&mut object);
    kind.prepare_for_subresource_update("status", &mut object, &old, &WriteContext::test());
    expected.assert_eq(&lines(&kind.validate_subresource_update("status", &object, &old), Vec::new()));
}
