//! JSON pointers: finding the container and key that the path of an operation refers to.

use std::{borrow::Cow, io};

use serde_json::Value;

/// Returns the container of the path's last segment, that segment, and its depth.
pub(super) fn parent_mut<'d, 'p>(doc: &'d mut Value, path: &'p str) -> Option<(&'d mut Value, Cow<'p, str>, usize)> {
    let (segments, last) = split(path)?;
    let mut level = 1;
    let mut at = doc;
    for segment in segments {
        let key = unescape(segment);
        at = match at {
            Value::Object(map) => map.get_mut(&*key)?,
            Value::Array(items) => {
                let index = index(&key, items.len()).ok()?;
                &mut items[index]
            }
            _ => return None,
        };
        level += 1;
    }
    matches!(at, Value::Object(_) | Value::Array(_)).then(|| (at, unescape(last), level))
}

/// Like [`parent_mut`], for reading.
pub(super) fn parent<'d, 'p>(doc: &'d Value, path: &'p str) -> Option<(&'d Value, Cow<'p, str>)> {
    let (segments, last) = split(path)?;
    let mut at = doc;
    for segment in segments {
        at = match at {
            Value::Object(map) => map.get(&*unescape(segment))?,
            Value::Array(items) => &items[index(&unescape(segment), items.len()).ok()?],
            _ => return None,
        };
    }
    matches!(at, Value::Object(_) | Value::Array(_)).then(|| (at, unescape(last)))
}

/// Returns the child of a container; a missing map key reads as null.
pub(super) fn child<'d>(container: &'d Value, key: &str) -> Result<&'d Value, String> {
    match container {
        Value::Array(items) => index(key, items.len()).map(|index| &items[index]),
        other => Ok(other.get(key).unwrap_or(&Value::Null)),
    }
}

/// Returns the position of an existing element; negative indices count from the end.
pub(super) fn index(key: &str, length: usize) -> Result<usize, String> {
    position(key, length).filter(|index| *index < length).ok_or_else(|| invalid_index(key))
}

/// Returns the position before which `add` inserts; `-` and -1 are the end.
pub(super) fn insertion_index(key: &str, length: usize) -> Result<usize, String> {
    if key == "-" {
        return Ok(length);
    }
    position(key, length + 1).filter(|index| *index <= length).ok_or_else(|| invalid_index(key))
}

/// Returns the length of a value as JSON in bytes; counting stops soon after `limit`.
pub(super) fn encoded_length(value: &Value, limit: usize) -> usize {
    struct Counter {
        count: usize,
        limit: usize,
    }
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.count += bytes.len();
            if self.count > self.limit { Err(io::ErrorKind::Other.into()) } else { Ok(bytes.len()) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter { count: 0, limit };
    // An error only means that the limit was exceeded, which the count shows too.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.count
}

fn position(key: &str, length: usize) -> Option<usize> {
    let index: i64 = key.parse().ok()?;
    if index < 0 {
        length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    } else {
        usize::try_from(index).ok()
    }
}

fn invalid_index(key: &str) -> String {
    format!("Unable to access invalid index: {key}: invalid index referenced")
}

/// Returns the segments between the first and the last slash, and the one after the last; `None` without a slash.
fn split(path: &str) -> Option<(impl Iterator<Item = &str>, &str)> {
    let (_, rest) = path.split_once('/')?;
    let (segments, last) = match rest.rsplit_once('/') {
        Some((segments, last)) => (Some(segments), last),
        None => (None, rest),
    };
    Some((segments.into_iter().flat_map(|segments| segments.split('/')), last))
}

/// Replaces `~1` by a slash and `~0` by a tilde.
fn unescape(segment: &str) -> Cow<'_, str> {
    if !segment.contains('~') {
        return Cow::Borrowed(segment);
    }
    let mut out = String::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(position) = rest.find('~') {
        out.push_str(&rest[..position]);
        let (replacement, taken) = match rest.as_bytes().get(position + 1) {
            Some(b'1') => ('/', 2),
            Some(b'0') => ('~', 2),
            _ => ('~', 1),
        };
        out.push(replacement);
        rest = &rest[position + taken..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}
