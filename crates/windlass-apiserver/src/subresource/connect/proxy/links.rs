//! Links to the pod, which lead through the proxy instead. Pure.
//!
//! A page of a pod has links without a host, or with that of the pod or of the request. Those with an absolute path get the
//! path of the proxy in front. Everything else on the page stays as it is, byte by byte.

use std::ops::Range;

use super::paths::{clean, escape};

/// Elements whose content is text.
const TEXT: [&str; 9] = ["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript"];

/// Elements with an attribute `src` that is a link.
const SOURCES: [&str; 9] = ["audio", "embed", "frame", "iframe", "img", "input", "script", "source", "video"];

/// Rewrites links of a page to paths of the proxy.
pub(super) struct Links<'a> {
    /// The path of the proxy.
    pub(super) prefix: &'a str,
    /// The host and port of the pod.
    pub(super) pod: &'a str,
    /// The host and port by which the client knows this server.
    pub(super) server: &'a str,
}

impl Links<'_> {
    /// Returns a link through the proxy; `None` if the link stays as it is.
    pub(super) fn through(&self, link: &str) -> Option<String> {
        let (scheme, rest) = split_scheme(link);
        let (host, rest) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())),
            // Neither `mailto:a` nor `x:/y` is a link to a host.
            None if !scheme.is_empty() => return None,
            None => ("", rest),
        };
        let (path, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        let elsewhere = !host.is_empty() && host != self.pod && host != self.server;
        if elsewhere || !path.starts_with('/') {
            return None;
        }
        let origin = match host == self.server && !host.is_empty() {
            true if scheme.is_empty() => format!("//{host}"),
            true => format!("{scheme}://{host}"),
            false => String::new(),
        };
        let prefix = escape(self.prefix);
        let path = if path.starts_with(&prefix) { path.to_owned() } else { clean(&format!("{prefix}/{path}")) };
        Some(format!("{origin}{path}{query}"))
    }

    /// Returns a page with its links through the proxy.
    pub(super) fn in_page(&self, page: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(page.len() + page.len() / 8);
        let mut copied = 0;
        for value in values(page) {
            let through = std::str::from_utf8(&page[value.clone()]).ok().and_then(|link| self.through(link));
            if let Some(through) = through {
                out.extend_from_slice(&page[copied..value.start]);
                out.extend_from_slice(through.as_bytes());
                copied = value.end;
            }
        }
        out.extend_from_slice(&page[copied..]);
        out
    }
}

/// Splits a URL into its scheme, which may be empty, and the rest.
fn split_scheme(link: &str) -> (&str, &str) {
    let is_scheme = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    };
    link.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", link))
}

/// Returns whether an attribute of an element is a link.
fn is_link(element: &str, attribute: &str) -> bool {
    match attribute {
        "href" => matches!(element, "a" | "area" | "base" | "link"),
        "src" => SOURCES.contains(&element),
        "cite" => matches!(element, "blockquote" | "del" | "ins" | "q"),
        "longdesc" => matches!(element, "frame" | "iframe" | "img"),
        "usemap" => matches!(element, "img" | "input" | "object"),
        "formaction" => matches!(element, "button" | "input"),
        "codebase" => matches!(element, "applet" | "object"),
        "classid" | "data" => element == "object",
        "action" => element == "form",
        "background" => element == "body",
        "icon" => element == "command",
        "manifest" => element == "html",
        "poster" => element == "video",
        "profile" => element == "head",
        _ => false,
    }
}

/// Returns where the values of attributes that are links are in a page, in order.
fn values(page: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = find(page, at, b"<") {
        at = match page.get(open + 1) {
            Some(b'!') if page[open..].starts_with(b"<!--") => after(page, open + 4, b"-->"),
            Some(b'!' | b'/' | b'?') => after(page, open + 1, b">"),
            Some(first) if first.is_ascii_alphabetic() => tag(page, open + 1, &mut found),
            _ => open + 1,
        };
    }
    found
}

/// Reads a tag from its name on, and the text that follows if it is that of an element without tags. Returns its end.
fn tag(page: &[u8], start: usize, found: &mut Vec<Range<usize>>) -> usize {
    let end_of = |at: usize, ends: &[u8]| {
        let rest = page[at..].iter().position(|byte| byte.is_ascii_whitespace() || ends.contains(byte));
        rest.map_or(page.len(), |length| at + length)
    };
    let skip = |mut at: usize, slash: bool| {
        while page.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || (slash && *byte == b'/')) {
            at += 1;
        }
        at
    };
    let lower = |range: Range<usize>| String::from_utf8_lossy(&page[range]).to_ascii_lowercase();
    let mut at = end_of(start, b"/>");
    let element = lower(start..at);
    let mut links = Vec::new();
    loop {
        at = skip(at, true);
        match page.get(at) {
            None => return page.len(),
            Some(b'>') => break,
            Some(_) => {}
        }
        // A name may begin with an equals sign, and with no other.
        let name_end = end_of(at + 1, b"/>=");
        let attribute = lower(at..name_end);
        at = skip(name_end, false);
        if page.get(at) != Some(&b'=') {
            at = name_end;
            continue;
        }
        at = skip(at + 1, false);
        let value = match page.get(at) {
            Some(quote @ (b'"' | b'\'')) => match find(page, at + 1, &[*quote]) {
                Some(end) => at + 1..end,
                None => return page.len(),
            },
            _ => at..end_of(at, b">"),
        };
        let is_quoted = value.start > at;
        at = value.end + usize::from(is_quoted);
        if is_link(&element, &attribute) {
            links.push(value);
        }
    }
    found.append(&mut links);
    at += 1;
    if !TEXT.contains(&&*element) {
        return at;
    }
    let close = format!("</{element}");
    let rest = page[at..].windows(close.len()).position(|window| window.eq_ignore_ascii_case(close.as_bytes()));
    rest.map_or(page.len(), |length| at + length)
}

fn find(page: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    page.get(from..)?.windows(what.len()).position(|window| window == what).map(|found| from + found)
}

fn after(page: &[u8], from: usize, what: &[u8]) -> usize {
    find(page, from, what).map_or(page.len(), |found| found + what.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINKS: Links<'static> = Links { prefix: "/api/proxy", pod: "10.0.0.1:80", server: "localhost:6443" };

    #[test]
    fn absolute_links_to_the_pod_lead_through_the_proxy() {
        for (link, expected) in [
            ("/", Some("/api/proxy/")),
            ("/a/../b?x=/y#z", Some("/api/proxy/b?x=/y#z")),
            ("/a/", Some("/api/proxy/a/")),
            ("http://10.0.0.1:80/a", Some("/api/proxy/a")),
            ("//10.0.0.1:80/a", Some("/api/proxy/a")),
            ("https://localhost:6443/a", Some("https://localhost:6443/api/proxy/a")),
            ("/api/proxy/a", Some("/api/proxy/a")),
            ("http://10.0.0.1:80/api/proxy/a", Some("/api/proxy/a")),
            ("a/b", None),
            ("", None),
            ("#top", None),
            ("?x", None),
            ("http://example.com/a", None),
            ("//example.com/a", None),
            ("http://10.0.0.1:80", None),
            ("mailto:a@example.com", None),
        ] {
            assert_eq!(LINKS.through(link).as_deref(), expected, "{link}");
        }
    }

    #[test]
    fn only_links_of_a_page_change() {
        for (page, expected) in [
            (r#"<a href="/x">t</a>"#, r#"<a href="/api/proxy/x">t</a>"#),
            ("<A\n HREF = '/x' class=/y>", "<A\n HREF = '/api/proxy/x' class=/y>"),
            ("<img alt=a src=/x.png>", "<img alt=a src=/api/proxy/x.png>"),
            ("<link href=/x/>", "<link href=/api/proxy/x/>"),
            ("<br/><a/href=\"/x\"/>", "<br/><a/href=\"/api/proxy/x\"/>"),
            ("<!-- <a href=\"/x\"> --><a href=\"/y\">", "<!-- <a href=\"/x\"> --><a href=\"/api/proxy/y\">"),
            (
                "<script src=\"/x\">'<a href=\"/y\">'</SCRIPT><a href=/z>",
                "<script src=\"/api/proxy/x\">'<a href=\"/y\">'</SCRIPT><a href=/api/proxy/z>",
            ),
            (
                "<p title=\"/x\">a < b <a href=\"y\"> & <a href=\"/x",
                "<p title=\"/x\">a < b <a href=\"y\"> & <a href=\"/x",
            ),
            ("<form action=\"/a?b&amp;c\">", "<form action=\"/api/proxy/a?b&amp;c\">"),
        ] {
            assert_eq!(String::from_utf8(LINKS.in_page(page.as_bytes())).unwrap(), expected, "{page}");
        }
    }

    proptest! {
        #[test]
        fn no_page_panics(page in proptest::collection::vec(prop::sample::select(&b"<a href=/\"'>!-s \xff"[..]), 0..60)) {
            LINKS.in_page(&page);
        }
    }
}
