//! Paths of JSON patches: `jsonpatch.escapeKey('example.com/key')`.

use super::{Call, Table};
use crate::value::{Outcome, Value};

pub(super) const FUNCTIONS: &Table = &[("jsonpatch.escapeKey", escape_key)];

fn escape_key<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match call.arguments.first().and_then(Value::as_str) {
        Some(key) => Ok(Value::string(key.replace('~', "~0").replace('/', "~1"))),
        None => Err(call.mismatch()),
    }
}
