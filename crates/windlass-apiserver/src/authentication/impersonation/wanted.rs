//! The user to impersonate, from the headers of a request.

use http::{HeaderMap, HeaderValue};
use windlass_schema::go_format::quote;

use crate::{
    authentication::request_header,
    status::{ApiError, Result},
    user::User,
};

const PREFIX: &str = "impersonate-";
const EXTRA: &str = "impersonate-extra-";

/// Returns the user to impersonate, exactly as in the headers of a request; `None` without such headers.
///
/// # Errors
/// Returns an error if there are attributes of a user without its name.
pub(crate) fn wanted(headers: &HeaderMap) -> Result<Option<User>> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let one = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let user = User {
        name: one("impersonate-user"),
        uid: one("impersonate-uid"),
        groups: headers.get_all("impersonate-group").iter().map(text).collect(),
        extra: request_header::extra(headers, &[EXTRA.to_owned()]),
    };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user == User::default() {
        return Ok(None);
    }
    Err(ApiError::bad_request(format!("requested {} without impersonating a user name", syntax(&user))))
}

/// Formats a user like Go's `%#v`.
fn syntax(user: &User) -> String {
    let list = |texts: &[String]| {
        let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{}:{}", quote(key), list(values))).collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    let (name, uid) = (quote(&user.name), quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}
