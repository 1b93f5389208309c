//! Query parameters, decoded as kube-apiserver decodes them.

use std::borrow::Cow;

use crate::status::{ApiError, Result};

/// The parameters of a request, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Decodes a query string; pairs with invalid percent-encoding are dropped, as Go does.
    pub(crate) fn parse(text: Option<&'a str>) -> Self {
        let Some(text) = text else { return Self::default() };
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Self(
            pairs
                .filter_map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((unescape(key)?, unescape(value)?))
                })
                .collect(),
        )
    }

    /// Returns the first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Returns the first value of a parameter, or an empty string.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Returns all values of a parameter.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| &**value).collect()
    }

    /// Returns all parameters, in order.
    pub(crate) fn into_pairs(self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        self.0.into_iter()
    }

    /// Returns a boolean parameter: absent, `0` and `false` are false, anything else is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// Returns a boolean parameter; `None` if it is absent.
    pub(crate) fn optional_flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value, "0" | "false" | "False" | "FALSE"))
    }

    /// Returns an integer parameter; `None` if it is absent.
    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
                let why = if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                    "value out of range"
                } else {
                    "invalid syntax"
                };
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing {}: {why}",
                    windlass_schema::field::quote(text)
                ))
            }),
        }
    }
}

/// Decodes `%xx` and `+`; returns `None` if it is malformed.
fn unescape(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'+' => out.push(b' '),
            b'%' => {
                // Two digits, not one with a sign.
                let digit = |offset| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
                out.push((digit(1)? << 4 | digit(2)?) as u8);
                at += 2;
            }
            byte => out.push(byte),
        }
        at += 1;
    }
    Some(Cow::Owned(String::from_utf8_lossy(&out).into_owned()))
}

/// Decodes the percent-encoding of a path; returns `None` if it is malformed.
pub(crate) fn unescape_path(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    unescape(&text.replace('+', "%2B")).map(|text| Cow::Owned(text.into_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse(Some("a=1&b=x%20y&c&a=2&limit=two&w=false&v=maybe"));
        assert_eq!(query.all("a"), ["1", "2"]);
        assert_eq!(query.text("b"), "x y");
        assert!(query.flag("c") && query.flag("v") && !query.flag("w") && !query.flag("none"));
        let error = query.integer("limit").unwrap_err();
        assert_eq!(error.message, "strconv.ParseInt: parsing \"two\": invalid syntax");
    }

    #[test]
    fn an_escape_has_two_digits() {
        for pair in ["a=%+1", "a=%-1", "a=%1", "a=%", "a=%1g", "%+1=a"] {
            assert_eq!(Query::parse(Some(pair)).0, [], "{pair}");
        }
        assert_eq!(Query::parse(Some("a=%4a%4A")).text("a"), "JJ");
    }

    proptest! {
        #[test]
        fn no_query_string_panics(text in ".{0,200}") {
            let query = Query::parse(Some(&text));
            let _ = (query.flag("watch"), query.integer("limit").is_ok());
            let _ = unescape_path(&text);
        }
    }
}
