//! The target of a request, parsed from its method and path.

use http::Method;

use crate::{query::Query, verb::Verb};

/// The target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestInfo<'a> {
    /// A path in an API group version, which may name a resource.
    Resource(ResourceRequest<'a>),
    /// Anything else: health, discovery, OpenAPI.
    Path(&'a str),
}

/// The parts of a resource path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ResourceRequest<'a> {
    /// The API group; empty for the core group.
    pub(crate) group: &'a str,
    /// The version.
    pub(crate) version: &'a str,
    /// The namespace; empty for cluster-wide requests. A namespace has its own name here.
    pub(crate) namespace: &'a str,
    /// Whether the path has the form `/namespaces/<namespace>/<resource>`, which no namespace has.
    pub(crate) in_namespace: bool,
    /// The plural resource name.
    pub(crate) resource: &'a str,
    /// The object's name; empty for collections.
    pub(crate) name: &'a str,
    /// The subresource; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The rest of the path after the subresource, for proxies.
    pub(crate) rest: &'a str,
    /// Whether the path has the old `/watch/` form.
    pub(crate) old_watch: bool,
}

impl<'a> RequestInfo<'a> {
    /// Parses a path.
    ///
    /// A trailing slash is ignored; a path with an empty segment is not a resource path.
    pub(crate) fn from_path(path: &'a str) -> Self {
        let trimmed = path.strip_suffix('/').unwrap_or(path);
        let mut segments = segments(trimmed);
        if segments.next() != Some("") {
            return Self::Path(path);
        }
        let mut request = ResourceRequest::default();
        match segments.next() {
            Some("api") => {}
            Some("apis") => match segments.next() {
                Some(group) if !group.is_empty() => request.group = group,
                _ => return Self::Path(path),
            },
            _ => return Self::Path(path),
        }
        match segments.next() {
            Some(version) if !version.is_empty() => request.version = version,
            _ => return Self::Path(path),
        }
        // More segments change nothing.
        let (mut all, mut count) = ([""; 7], 0);
        for (place, segment) in all.iter_mut().zip(segments) {
            *place = segment;
            count += 1;
        }
        let mut parts = &all[..count];
        if let ["watch", rest @ ..] = parts {
            request.old_watch = true;
            parts = rest;
        }
        if parts.is_empty() {
            return Self::Path(path);
        }
        // `/namespaces/x/<resource>...`; the namespace itself and its own subresources are of resource `namespaces`.
        if parts[0] == "namespaces" && parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
            request.namespace = parts[1];
            request.in_namespace = true;
            parts = &parts[2..];
        } else if parts[0] == "namespaces" && parts.len() > 1 {
            request.namespace = parts[1];
        }
        request.resource = parts[0];
        request.name = parts.get(1).copied().unwrap_or_default();
        request.subresource = parts.get(2).copied().unwrap_or_default();
        if parts.len() > 3 {
            let from = parts[3].as_ptr() as usize - trimmed.as_ptr() as usize;
            request.rest = &trimmed[from..];
        }
        Self::Resource(request)
    }
}

/// Splits a path at its slashes. Segments are short, so that a search for the next slash by words costs more than it saves.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let path = rest?;
        let slash = path.bytes().position(|byte| byte == b'/');
        rest = slash.map(|at| &path[at + 1..]);
        Some(slash.map_or(path, |at| &path[..at]))
    })
}

impl ResourceRequest<'_> {
    /// Returns whether the request connects to a pod or node, so that it may last indefinitely.
    pub(crate) fn is_long_running(&self) -> bool {
        matches!(self.subresource, "attach" | "exec" | "proxy" | "log" | "portforward")
    }

    /// Returns the API verb of a request.
    pub(crate) fn verb(&self, method: &Method, query: &Query) -> Verb {
        let watch = self.old_watch || (self.name.is_empty() && query.flag("watch"));
        match *method {
            Method::GET | Method::HEAD if watch => Verb::Watch,
            Method::GET | Method::HEAD if self.name.is_empty() => Verb::List,
            Method::GET | Method::HEAD => Verb::Get,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if self.name.is_empty() => Verb::DeleteCollection,
            Method::DELETE => Verb::Delete,
            _ => Verb::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> String {
        match RequestInfo::from_path(path) {
            RequestInfo::Resource(r) => {
                format!(
                    "{}|{}|{}|{}|{}|{}|{}",
                    r.group, r.version, r.namespace, r.resource, r.name, r.subresource, r.rest
                )
            }
            RequestInfo::Path(path) => format!("path {path}"),
        }
    }

    #[test]
    fn paths_are_split_into_their_parts() {
        for (path, want) in [
            ("/api/v1/pods", "|v1||pods|||"),
            ("/api/v1/namespaces/a/pods/b/log", "|v1|a|pods|b|log|"),
            ("/api/v1/namespaces/a", "|v1|a|namespaces|a||"),
            ("/api/v1/namespaces/a/", "|v1|a|namespaces|a||"),
            ("/api/v1/namespaces/a/finalize", "|v1|a|namespaces|a|finalize|"),
            ("/apis/apps/v1/namespaces/a/deployments/d/scale", "apps|v1|a|deployments|d|scale|"),
            ("/api/v1/nodes/n/proxy/x/y", "|v1||nodes|n|proxy|x/y"),
            ("/api/v1/nodes/n/proxy/1/2/3/4/5/6", "|v1||nodes|n|proxy|1/2/3/4/5/6"),
            ("/api/v1/watch/namespaces/a/pods/b/proxy/1/2/3", "|v1|a|pods|b|proxy|1/2/3"),
            ("/api/v1/watch", "path /api/v1/watch"),
            ("/apis/apps/v1", "path /apis/apps/v1"),
            ("//api/v1/namespaces", "path //api/v1/namespaces"),
            ("/api/v1/namespaces/a//b", "|v1|a||b||"),
            ("/api/v1/pods//", "|v1||pods|||"),
            ("", "path "),
            ("/", "path /"),
            ("/healthz", "path /healthz"),
        ] {
            assert_eq!(resource(path), want, "{path}");
        }
    }
}
