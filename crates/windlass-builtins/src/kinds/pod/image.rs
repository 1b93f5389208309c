//! Container image names, parsed as far as needed: the tag determines the default pull policy.

/// Returns the default pull policy: `Always` for `:latest` and for images without a tag, otherwise `IfNotPresent`.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// Returns the tag of an image: `latest` if there is neither tag nor digest, `None` if there is only a digest or the
/// name is invalid.
fn tag(image: &str) -> Option<&str> {
    if image.len() == 64 && image.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return None;
    }
    let (domain, rest) = match name.split_once('/') {
        Some((domain, rest))
            if domain.contains(['.', ':']) || domain == "localhost" || domain.to_lowercase() != domain =>
        {
            (Some(domain), rest)
        }
        _ => (None, name),
    };
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let valid = domain.is_none_or(is_domain)
        && path.split('/').all(is_path_component)
        && name.len() <= 255
        && tag.is_none_or(is_tag);
    match (valid, tag, digest) {
        (false, ..) | (true, None, Some(_)) => None,
        (true, Some(tag), _) => Some(tag),
        (true, None, None) => Some("latest"),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !domain.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let ipv6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match ipv6 {
        Some(address) => !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':'),
        None => host.split('.').all(is_label),
    };
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns whether a component consists of lower-case letters and digits, in groups separated by `.`, `_`, `__` or any
/// number of `-`.
fn is_path_component(component: &str) -> bool {
    let is_alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    if !bytes.first().copied().is_some_and(is_alphanumeric) || !bytes.last().copied().is_some_and(is_alphanumeric) {
        return false;
    }
    bytes
        .split(|b| is_alphanumeric(*b))
        .all(|separator| matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|b| *b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || b == b'.' || b == b'-')
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::pull_policy;

    #[test]
    fn only_latest_and_untagged_images_are_always_pulled() {
        let digest = "0123456789abcdef".repeat(4);
        for image in ["busybox", "a/b/c", "localhost:5000/x", "r.example.com/a:latest", "a__b/c-d--e", "[::1]:5000/a"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        let pinned = format!("app@sha256:{digest}");
        let both = format!("app:latest@sha256:{digest}");
        assert_eq!(pull_policy(&both), "Always");
        for image in [
            "busybox:1",
            "r.example.com:5/a:v1",
            &pinned,
            &digest,
            "",
            "Upper",
            "a//b",
            "a:",
            "a b",
            "-a",
            "x@sha256:0",
        ] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
