//! URLs, parsed like Go's `net/url`.

use std::collections::BTreeMap;

use windlass_schema::go_url::{self, Url, parse_request_uri};
use windlass_schema::sorting::Gather as _;

use super::{Call, Table};
use crate::value::{EvalError, Key, Map, Opaque, Outcome, Text, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("url", url),
    ("isURL", is_url),
    ("getScheme", get_scheme),
    ("getHost", get_host),
    ("getHostname", get_hostname),
    ("getPort", get_port),
    ("getEscapedPath", get_escaped_path),
    ("getQuery", get_query),
];

fn url<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [Value::String(text)] = &*call.arguments else { return Err(call.mismatch()) };
    let parsed = parse_request_uri(text)
        .and_then(|_| go_url::parse(text))
        .map_err(|error| EvalError::new(format!("URL parse error during conversion from string: {error}")))?;
    Ok(Value::opaque(Opaque::Url(parsed)))
}

fn is_url<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => Ok(Value::Bool(parse_request_uri(text).is_ok())),
        _ => Err(call.mismatch()),
    }
}

fn receiver<'c>(call: &'c Call<'_, '_>) -> Result<&'c Url, EvalError> {
    match &*call.arguments {
        [Value::Opaque(value)] if let Opaque::Url(url) = &**value => Ok(url),
        _ => Err(call.mismatch()),
    }
}

fn get_scheme<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    receiver(&call).map(|url| Value::string(&*url.scheme))
}

fn get_host<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    receiver(&call).map(|url| Value::string(&*url.host))
}

/// Splits a host from its port, and removes the brackets.
fn split(host: &str) -> (&str, &str) {
    let (name, port) = match host.rfind(':') {
        Some(at) if host[at + 1..].bytes().all(|b| b.is_ascii_digit()) => (&host[..at], &host[at + 1..]),
        _ => (host, ""),
    };
    (name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name), port)
}

fn get_hostname<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    receiver(&call).map(|url| Value::string(split(&url.host).0))
}

fn get_port<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    receiver(&call).map(|url| Value::string(split(&url.host).1))
}

fn get_escaped_path<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    receiver(&call).map(|url| Value::string(&*url.escaped_path))
}

fn get_query<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let mut entries: BTreeMap<String, Vec<Value<'a>>> = BTreeMap::new();
    for part in receiver(&call)?.query.split('&') {
        if part.is_empty() || part.contains(';') {
            continue;
        }
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        if let (Some(key), Some(value)) = (go_url::unescape_query(key), go_url::unescape_query(value)) {
            entries.entry(key).or_default().push(Value::string(value));
        }
    }
    let entries: BTreeMap<_, _> =
        entries.into_iter().map(|(key, values)| (Key::String(Text::Shared(key.into())), Value::list(values))).gather();
    Ok(Value::Map(Map::from(entries)))
}
