//! The string library: searching, slicing, replacing, joining.

use super::{Call, Table};
use crate::value::{EvalError, List, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("charAt", char_at),
    ("indexOf", index_of),
    ("lastIndexOf", last_index_of),
    ("lowerAscii", lower_ascii),
    ("upperAscii", upper_ascii),
    ("replace", replace),
    ("split", split),
    ("substring", substring),
    ("trim", trim),
    ("join", join),
    ("strings.quote", quote),
];

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

/// Returns the byte offset of a character, including the end; `None` beyond it.
fn byte_offset(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn char_at<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [Value::String(text), Value::Int(index)] = &*call.arguments else { return Err(call.mismatch()) };
    let at = byte_offset(text, *index).ok_or_else(|| out_of_range(*index))?;
    Ok(Value::string(text[at..].chars().next().map_or(String::new(), String::from)))
}

fn index_of<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let (text, part, offset) = match &*call.arguments {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, *offset),
        [Value::List(list), item] => return Ok(Value::Int(super::lists::position(list, item, false))),
        _ => return Err(call.mismatch()),
    };
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let found = byte_offset(text, offset)
        .and_then(|start| text[start..].find(&**part))
        .and_then(|at| byte_offset(text, offset).map(|start| start + at));
    Ok(Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}

fn last_index_of<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let (text, part, offset) = match &*call.arguments {
        [Value::String(text), Value::String(part)] => {
            let length = text.chars().count() as i64;
            if part.is_empty() {
                return Ok(Value::Int(length));
            }
            if text.len() < part.len() {
                return Ok(Value::Int(-1));
            }
            (text, part, length - 1)
        }
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, *offset),
        [Value::List(list), item] => return Ok(Value::Int(super::lists::position(list, item, true))),
        _ => return Err(call.mismatch()),
    };
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let length = text.chars().count() as i64;
    if offset >= length {
        return Ok(Value::Int(-1));
    }
    let last = offset.min(length - part.chars().count() as i64);
    let Some(start) = byte_offset(text, last) else { return Ok(Value::Int(-1)) };
    let places = text[..start].char_indices().map(|(at, _)| at).chain([start]).enumerate();
    let found = places.filter(|(_, at)| text[*at..].starts_with(&**part)).last();
    Ok(Value::Int(found.map_or(-1, |(index, _)| index as i64)))
}

fn lower_ascii<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => Ok(Value::string(text.to_ascii_lowercase())),
        _ => Err(call.mismatch()),
    }
}

fn upper_ascii<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => Ok(Value::string(text.to_ascii_uppercase())),
        _ => Err(call.mismatch()),
    }
}

fn replace<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    Ok(Value::string(match &*call.arguments {
        [Value::String(text), Value::String(old), Value::String(new)] => text.replace(&**old, new),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(count)] => {
            match usize::try_from(*count) {
                Ok(count) => text.replacen(&**old, new, count),
                Err(_) => text.replace(&**old, new),
            }
        }
        _ => return Err(call.mismatch()),
    }))
}

fn split<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let (text, separator, limit) = match &*call.arguments {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(call.mismatch()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<Value<'a>> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        let starts: Vec<_> = text.char_indices().map(|(at, _)| at).take(limit).collect();
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        starts.iter().zip(ends).map(|(start, end)| Value::string(&text[*start..end])).collect()
    } else {
        text.splitn(limit, &**separator).map(Value::string).collect()
    };
    Ok(Value::list(parts))
}

fn substring<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text), Value::Int(start)] => {
            let at = byte_offset(text, *start).ok_or_else(|| out_of_range(*start))?;
            Ok(Value::string(&text[at..]))
        }
        [Value::String(text), Value::Int(start), Value::Int(end)] => {
            if start > end {
                return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
            }
            let from = byte_offset(text, *start).ok_or_else(|| out_of_range(*start))?;
            let to = byte_offset(text, *end).ok_or_else(|| out_of_range(*end))?;
            Ok(Value::string(&text[from..to]))
        }
        _ => Err(call.mismatch()),
    }
}

fn trim<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => Ok(Value::string(text.trim())),
        _ => Err(call.mismatch()),
    }
}

fn join<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::List(list)] => joined(list, ""),
        [Value::List(list), Value::String(separator)] => joined(list, separator),
        _ => Err(call.mismatch()),
    }
}

fn joined<'a>(list: &List<'a>, separator: &str) -> Outcome<'a> {
    let mut out = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        match item {
            Ok(Value::String(text)) => out.push_str(&text),
            Ok(other) => return Err(EvalError::new(format!("join: invalid input: {}", other.display()))),
            Err(error) => return Err(EvalError::new(format!("join: invalid input: {error}"))),
        }
    }
    Ok(Value::string(out))
}

fn quote<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [Value::String(text)] = &*call.arguments else { return Err(call.mismatch()) };
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(Value::string(out))
}
