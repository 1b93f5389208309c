//! Functions that comprehensions with two variables expand to: adding entries to maps.

use super::{Call, Table};
use crate::value::{Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[("cel.@mapInsert", map_insert)];

fn map_insert<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match call.arguments {
        [target @ Value::Map(_), Value::Map(updates)] => {
            let updates = updates.clone();
            let Value::Map(mut map) = std::mem::replace(target, Value::Null) else { return Err(call.mismatch()) };
            for key in updates.keys() {
                if let Some(value) = updates.find(&key)? {
                    map = map.insert(&key, value)?;
                }
            }
            Ok(Value::Map(map))
        }
        [target @ Value::Map(_), key, value] => {
            let Value::Map(map) = std::mem::replace(target, Value::Null) else { return Err(call.mismatch()) };
            map.insert(key, std::mem::replace(value, Value::Null)).map(Value::Map)
        }
        _ => Err(call.mismatch()),
    }
}
