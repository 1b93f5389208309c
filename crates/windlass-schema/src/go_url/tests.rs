use proptest::prelude::*;

use super::*;

#[test]
fn urls_are_parsed_and_printed_as_in_go() {
    for (text, user, host, path, fragment, whole) in [
        ("HTTPS://h:1/p?q#f", None, "h:1", "/p", "f", "https://h:1/p?q#f"),
        ("http://u:p%40@h/a b", Some("u:p%40"), "h", "/a%20b", "", "http://u:p%40@h/a%20b"),
        ("http://[fe80::1%25en%30]:80/", None, "[fe80::1%en0]:80", "/", "", "http://[fe80::1%25en0]:80/"),
        ("mailto:x", None, "", "", "", "mailto:x"),
        ("/a%2Fb?", None, "", "/a%2Fb", "", "/a%2Fb?"),
        ("//h", None, "h", "", "", "//h"),
        ("http:///x", None, "", "/x", "", "http:///x"),
        ("a%3Ab c", None, "", "a:b%20c", "", "./a:b%20c"),
        ("x#%20\"", None, "", "x", " \"", "x#%20%22"),
        ("*", None, "", "*", "", "*"),
        ("", None, "", "", "", ""),
    ] {
        let url = parse(text).expect(text);
        let found = (url.user.as_deref(), &*url.host, &*url.escaped_path, &*url.fragment, &*url.text);
        assert_eq!(found, (user, host, path, fragment, whole), "{text}");
    }
}

#[test]
fn invalid_urls_are_rejected_with_gos_errors() {
    for (text, message) in [
        (":a", "missing protocol scheme"),
        ("a\n", "net/url: invalid control character in URL"),
        ("a_b:c", "first path segment in URL cannot contain colon"),
        ("http://h:x", "invalid port \":x\" after host"),
        ("http://h:1:2", "invalid port \":1:2\" after host"),
        ("http://a[b]", "invalid IP-literal"),
        ("http://[1.2.3.4]", "invalid IP-literal"),
        ("http://[::1", "missing ']' in host"),
        (
            "http://[g::]",
            "invalid host: ParseAddr(\"g::\"): each colon-separated field must have at least one digit (at \"g::\")",
        ),
        ("http://a b", "invalid character \" \" in host name"),
        ("http://%41", "invalid URL escape \"%41\""),
        ("/%zé", "invalid URL escape \"%z\\xc3\""),
        ("http://é@h", "net/url: invalid userinfo"),
    ] {
        assert_eq!(parse(text), Err(format!("parse {}: {message}", quote(text))), "{text}");
    }
    assert_eq!(parse("a_b:c#f"), Err("parse \"a_b:c\": first path segment in URL cannot contain colon".to_owned()));
    assert_eq!(parse("x#%"), Err("parse \"x#%\": invalid URL escape \"%\"".to_owned()));
    assert_eq!(parse_request_uri(""), Err("parse \"\": empty url".to_owned()));
    assert_eq!(parse_request_uri("x"), Err("parse \"x\": invalid URI for request".to_owned()));
    assert_eq!(parse_request_uri("/x#y").map(|url| url.text), Ok("/x%23y".to_owned()));
}

proptest! {
    #[test]
    fn any_text_parses_without_panic(text in "[a-z0-9:/?#%@\\[\\]. é]{0,20}|(http://|//)?[a:@%25\\[\\]./?é]{0,12}") {
        let _ = parse_request_uri(&text);
        if let Ok(url) = parse(&text) {
            prop_assert!(parse(&url.text).is_ok(), "{}", url.text);
        }
    }
}
