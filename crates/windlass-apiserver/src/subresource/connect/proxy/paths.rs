//! Paths of forwarded requests. Pure.

/// Returns an absolute path without empty and relative segments, as Go's `path.Clean` does. A slash at the end is kept.
pub(super) fn clean(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut cleaned = format!("/{}", segments.join("/"));
    if path.ends_with('/') && !cleaned.ends_with('/') {
        cleaned.push('/');
    }
    cleaned
}

/// Returns the path at the pod: `rest` is that behind `proxy`, and `whole` that of the request. It is empty if the request
/// has nothing behind `proxy`, not even a slash.
pub(super) fn at_pod(rest: &str, whole: &str) -> String {
    match (rest, whole.ends_with('/')) {
        ("", false) => String::new(),
        ("", true) => "/".to_owned(),
        (rest, true) => clean(&format!("{rest}/")),
        (rest, false) => clean(rest),
    }
}

/// Returns the part of a request's path before that at the pod.
pub(super) fn prefix<'a>(whole: &'a str, at_pod: &str) -> &'a str {
    whole.strip_suffix(at_pod).unwrap_or(whole)
}

/// Returns a path as it is sent, escaped as Go does.
pub(super) fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            true => escaped.push(byte.into()),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_at_the_pod_is_what_follows_the_subresource() {
        let whole = "/api/v1/namespaces/n/pods/p/proxy";
        for (rest, slash, expected) in [
            ("", "", ""),
            ("", "/", "/"),
            ("a/b", "", "/a/b"),
            ("a", "/", "/a/"),
            ("a//b/./c", "", "/a/b/c"),
            ("../../x", "", "/x"),
        ] {
            let whole = format!("{whole}/{rest}{slash}");
            let whole = if rest.is_empty() { whole.replacen("proxy/", "proxy", 1) } else { whole };
            assert_eq!(at_pod(rest, &whole), expected, "{rest:?} {slash:?}");
        }
        assert_eq!(prefix("/x/proxy/a/b", "/a/b"), "/x/proxy");
        assert_eq!(prefix("/x/proxy/", "/"), "/x/proxy");
        assert_eq!(prefix("/x/proxy", ""), "/x/proxy");
        assert_eq!(escape("/a b/ü?#/%/!"), "/a%20b/%C3%BC%3F%23/%25/%21");
    }
}
