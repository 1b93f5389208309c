//! Bearer tokens of requests: in the `Authorization` header, or among the subprotocols of a WebSocket.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, header};

/// The warning for `Bearer  token`, whose token is ignored.
pub(crate) const EXTRA_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// The prefix of a subprotocol that is a token.
const SUBPROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The token in an `Authorization` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bearer<'a> {
    /// There is none: no header, or one of another scheme.
    None,
    /// There may be one, after more than one space.
    ExtraSpace,
    Token(&'a str),
}

impl<'a> Bearer<'a> {
    /// Returns the token of a request.
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let value = headers.get(header::AUTHORIZATION).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        value.map_or(Self::None, Self::parse)
    }

    /// Returns the token in the value of a header.
    pub(super) fn parse(value: &'a str) -> Self {
        let mut parts = value.trim().splitn(3, ' ');
        let scheme = parts.next().unwrap_or_default();
        let Some(token) = parts.next().filter(|_| scheme.eq_ignore_ascii_case("bearer")) else { return Self::None };
        match (token, parts.next()) {
            ("", Some(_)) => Self::ExtraSpace,
            ("", None) => Self::None,
            (token, _) => Self::Token(token),
        }
    }
}

/// Returns the token among the subprotocols of a WebSocket handshake, which browsers use because they can set no other
/// header.
///
/// # Errors
/// Returns an error if there are several tokens, or the token is malformed or not accompanied by another subprotocol.
pub(super) fn subprotocol_token(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    if !is_websocket(headers) {
        return Ok(None);
    }
    let (mut token, mut others) = (None, false);
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    for protocol in values.flat_map(|value| value.split(',')).map(str::trim) {
        let Some(encoded) = protocol.strip_prefix(SUBPROTOCOL) else {
            others = true;
            continue;
        };
        if token.is_some() {
            return Err("multiple base64.bearer.authorization tokens specified");
        }
        let bytes = URL_SAFE_NO_PAD.decode(encoded);
        let bytes = bytes.map_err(|_| "invalid base64.bearer.authorization token encoding")?;
        token = Some(String::from_utf8(bytes).map_err(|_| "invalid base64.bearer.authorization token")?);
    }
    match token.filter(|token| !token.is_empty()) {
        Some(_) if !others => Err("missing additional subprotocol"),
        token => Ok(token),
    }
}

/// Removes the tokens among the subprotocols of a WebSocket handshake that is forwarded.
pub(crate) fn remove_subprotocol_tokens(headers: &mut HeaderMap) {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let others: Vec<&str> = values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|protocol| !protocol.starts_with(SUBPROTOCOL))
        .collect();
    match HeaderValue::try_from(others.join(", ")) {
        Ok(others) if !others.is_empty() => drop(headers.insert(header::SEC_WEBSOCKET_PROTOCOL, others)),
        _ => drop(headers.remove(header::SEC_WEBSOCKET_PROTOCOL)),
    }
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let contains = |name: header::HeaderName, wanted: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.to_ascii_lowercase().contains(wanted)
    };
    contains(header::UPGRADE, "websocket") && contains(header::CONNECTION, "upgrade")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_case_insensitive_and_a_second_space_hides_the_token() {
        for (value, expected) in [
            ("Bearer a", Bearer::Token("a")),
            ("bEARER a b", Bearer::Token("a")),
            (" Bearer a ", Bearer::Token("a")),
            ("Bearer  a", Bearer::ExtraSpace),
            ("Bearer", Bearer::None),
            ("Bearer ", Bearer::None),
            ("Basic a", Bearer::None),
            ("", Bearer::None),
        ] {
            assert_eq!(Bearer::parse(value), expected, "{value:?}");
        }
    }

    #[test]
    fn a_websocket_may_have_one_token_besides_another_subprotocol() {
        let token = |text: &str| format!("{SUBPROTOCOL}{}", URL_SAFE_NO_PAD.encode(text));
        let parse = |protocols: &[&str]| {
            let mut headers = HeaderMap::new();
            headers.insert(header::UPGRADE, "websocket".parse().unwrap());
            headers.insert(header::CONNECTION, "Upgrade".parse().unwrap());
            for protocol in protocols {
                headers.append(header::SEC_WEBSOCKET_PROTOCOL, protocol.parse().unwrap());
            }
            subprotocol_token(&headers)
        };
        let (a, b) = (token("a"), token("b"));
        assert_eq!(parse(&["v4.channel.k8s.io"]), Ok(None));
        assert_eq!(parse(&[&format!("v4.channel.k8s.io, {a}")]), Ok(Some("a".to_owned())));
        assert_eq!(parse(&[&a, "v4.channel.k8s.io"]), Ok(Some("a".to_owned())));
        assert_eq!(parse(&[&a]), Err("missing additional subprotocol"));
        assert_eq!(parse(&[&a, &b, "x"]), Err("multiple base64.bearer.authorization tokens specified"));
        assert_eq!(parse(&[&format!("{SUBPROTOCOL}=")]), Err("invalid base64.bearer.authorization token encoding"));
        let mut headers = HeaderMap::new();
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, a.parse().unwrap());
        assert_eq!(subprotocol_token(&headers), Ok(None), "the request is no handshake");
    }
}
