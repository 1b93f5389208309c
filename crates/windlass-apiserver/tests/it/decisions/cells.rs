//! The cells of the decision matrix: a user, a verb, a resource and its scope, and the HTTP requests for them.
//!
//! `cargo xtask decisions` includes this file, so that kube-apiserver gets exactly the requests of the tests.

use std::{collections::BTreeMap, fmt, fmt::Write as _};

use serde_json::{Value, json};

/// The name of every object that a request names.
pub(crate) const NAME: &str = "it";

/// The path of roles and bindings.
const API: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Verbs of requests, then verbs that only access reviews have.
const VERBS: [&str; 16] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
    "approve",
    "attest",
    "bind",
    "escalate",
    "impersonate",
    "sign",
    "use",
    "*",
];

/// Resources that only access reviews name, as group, resource and subresource.
const UNSERVED: [(&str, &str, &str); 9] = [
    ("", "users", ""),
    ("", "groups", ""),
    ("authentication.k8s.io", "uids", ""),
    ("authentication.k8s.io", "userextras", "scopes"),
    ("certificates.k8s.io", "signers", ""),
    ("", "pods", "nothing"),
    ("example.com", "widgets", ""),
    ("metrics.k8s.io", "pods", ""),
    ("*", "*", ""),
];

const METHODS: [&str; 7] = ["delete", "get", "head", "options", "patch", "post", "put"];

/// Paths that are not those of resources.
const PATHS: [&str; 40] = [
    "/",
    "/.well-known/openid-configuration",
    "/.well-known/other",
    "/api",
    "/api/",
    "/api/v1",
    "/api/v1/",
    "/api/v2",
    "/apis",
    "/apis/",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/nothing.example.com",
    "/configz",
    "/debug/flags/v",
    "/debug/pprof/",
    "/debug/pprof/heap",
    "/flagz",
    "/healthz",
    "/healthz/",
    "/healthz/etcd",
    "/livez",
    "/livez/",
    "/livez/ping",
    "/logs",
    "/logs/kube-apiserver.log",
    "/metrics",
    "/metrics/slis",
    "/nothing",
    "/openapi",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/openid/v1/jwks",
    "/readyz",
    "/readyz/",
    "/readyz/ping",
    "/statusz",
    "/version",
    "/version/",
];

/// A user, with at most one role.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: &'static str,
    pub(crate) group: &'static str,
    pub(crate) role: Option<&'static str>,
    /// Whether the role is bound for the whole cluster instead of one namespace.
    pub(crate) everywhere: bool,
}

pub(crate) const IDENTITIES: [Identity; 8] = [
    Identity { user: "system:anonymous", group: "system:unauthenticated", role: None, everywhere: false },
    with_role("nobody", None, false),
    with_role("view", Some("view"), false),
    with_role("edit", Some("edit"), false),
    with_role("admin", Some("admin"), false),
    with_role("view-everywhere", Some("view"), true),
    with_role("edit-everywhere", Some("edit"), true),
    with_role("admin-everywhere", Some("admin"), true),
];

const fn with_role(user: &'static str, role: Option<&'static str>, everywhere: bool) -> Identity {
    Identity { user, group: "system:authenticated", role, everywhere }
}

/// Scope of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// The namespace in which roles are bound.
    Granted,
    /// A namespace without bindings.
    Other,
    Cluster,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Granted, Self::Other, Self::Cluster];

    pub(crate) fn namespace(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Other => "other",
            Self::Cluster => "",
        }
    }
}

/// A resource or subresource.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    namespaced: bool,
    /// The versions that are served.
    versions: Vec<String>,
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        write!(out, "{}{dot}{}{slash}{}", self.resource, self.group, self.subresource)
    }
}

/// Returns the resources of aggregated discovery documents, and those that only access reviews name.
pub(crate) fn targets(documents: &[Value]) -> Vec<Target> {
    let mut found: BTreeMap<(String, String, String), (bool, Vec<String>)> = BTreeMap::new();
    for (group, resource, subresource) in UNSERVED {
        found.insert((group.to_owned(), resource.to_owned(), subresource.to_owned()), (true, Vec::new()));
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for group in documents.iter().flat_map(|document| list(&document["items"])) {
        for version in list(&group["versions"]) {
            for resource in list(&version["resources"]) {
                let namespaced = resource["scope"] == "Namespaced";
                let mut subresources = vec![String::new()];
                subresources.extend(list(&resource["subresources"]).iter().map(|sub| text(&sub["subresource"])));
                for subresource in subresources {
                    let key = (text(&group["metadata"]["name"]), text(&resource["resource"]), subresource);
                    found.entry(key).or_insert((namespaced, Vec::new())).1.push(text(&version["version"]));
                }
            }
        }
    }
    let target = |((group, resource, subresource), (namespaced, mut versions)): (_, (_, Vec<String>))| {
        versions.sort();
        Target { group, resource, subresource, namespaced, versions }
    };
    found.into_iter().map(target).collect()
}

/// Request of a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    Resource(&'a Target, Scope),
    Path(&'static str),
}

/// A question to an authorizer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell<'a> {
    pub(crate) identity: &'static Identity,
    pub(crate) subject: Subject<'a>,
    pub(crate) verb: &'static str,
}

/// Returns all cells, those of an identity and a scope together.
pub(crate) fn cells(targets: &[Target]) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for identity in &IDENTITIES {
        for scope in Scope::ALL {
            for target in targets {
                cells.extend(VERBS.map(|verb| Cell { identity, subject: Subject::Resource(target, scope), verb }));
            }
        }
        for path in PATHS {
            cells.extend(METHODS.map(|verb| Cell { identity, subject: Subject::Path(path), verb }));
        }
    }
    cells
}

/// An HTTP request without its body.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
}

impl Cell<'_> {
    /// Returns the section of the cell in the recorded file.
    pub(crate) fn section(&self) -> String {
        let user = self.identity.user;
        match self.subject {
            Subject::Resource(_, Scope::Cluster) => format!("{user} at cluster scope"),
            Subject::Resource(_, scope) => format!("{user} in namespace {}", scope.namespace()),
            Subject::Path(_) => format!("{user} on paths"),
        }
    }

    /// Returns the name of the resource or path in the recorded file.
    pub(crate) fn subject_name(&self) -> String {
        match self.subject {
            Subject::Resource(target, _) => target.to_string(),
            Subject::Path(path) => path.to_owned(),
        }
    }

    /// Returns all forms of the request. Some cells have none: a verb or a scope that no path expresses.
    pub(crate) fn requests(&self) -> Vec<HttpRequest> {
        let (target, scope) = match self.subject {
            Subject::Path(path) => {
                return vec![HttpRequest { method: self.verb.to_uppercase(), path: path.to_owned() }];
            }
            Subject::Resource(target, scope) => (target, scope),
        };
        let Some(object) = self.object() else { return Vec::new() };
        let prefix = match scope.namespace() {
            namespace if target.namespaced && !namespace.is_empty() => format!("/namespaces/{namespace}"),
            _ => String::new(),
        };
        let mut requests = Vec::new();
        for version in &target.versions {
            let root = match target.group.as_str() {
                "" => format!("/api/{version}"),
                group => format!("/apis/{group}/{version}"),
            };
            let mut path = format!("{root}{prefix}/{}", target.resource);
            if !object.is_empty() {
                let slash = if target.subresource.is_empty() { "" } else { "/" };
                let _ = write!(path, "/{object}{slash}{}", target.subresource);
            }
            let mut add = |method: &str, path: String| requests.push(HttpRequest { method: method.to_owned(), path });
            match self.verb {
                "get" | "list" => {
                    add("GET", path.clone());
                    add("HEAD", path);
                }
                "watch" => {
                    add("GET", format!("{path}?watch=true"));
                    add("GET", format!("{root}/watch{prefix}/{}", target.resource));
                }
                "create" => add("POST", path),
                "update" => add("PUT", path),
                "patch" => add("PATCH", path),
                _ => add("DELETE", path),
            }
        }
        requests
    }

    /// Returns the name of the requested object, empty for a collection; `None` if no path expresses the cell.
    fn object(&self) -> Option<&'static str> {
        let Subject::Resource(target, scope) = self.subject else { return None };
        let named = match self.verb {
            "get" | "update" | "patch" | "delete" => true,
            "create" => !target.subresource.is_empty(),
            "list" | "watch" | "deletecollection" if target.subresource.is_empty() => false,
            _ => return None,
        };
        // A namespace is in the namespace of its own name.
        let is_namespace = target.group.is_empty() && target.resource == "namespaces";
        match (scope, named) {
            (Scope::Cluster, true) => (!is_namespace).then_some(NAME),
            (Scope::Cluster, false) => Some(""),
            (_, true) if is_namespace => Some(scope.namespace()),
            (_, true) => target.namespaced.then_some(NAME),
            (_, false) => target.namespaced.then_some(""),
        }
    }

    /// Returns the message of the 403.
    pub(crate) fn denial(&self) -> String {
        let (user, verb) = (self.identity.user, self.verb);
        let (target, scope) = match self.subject {
            Subject::Path(path) => return format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\""),
            Subject::Resource(target, scope) => (target, scope),
        };
        let Target { group, resource, subresource, .. } = target;
        let dot = if group.is_empty() { "" } else { "." };
        let slash = if subresource.is_empty() { "" } else { "/" };
        let name = match self.object() {
            None | Some("") => String::new(),
            Some(name) => format!(" \"{name}\""),
        };
        let place = match scope.namespace() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        format!(
            "{resource}{dot}{group}{name} is forbidden: User \"{user}\" cannot {verb} resource \
             \"{resource}{slash}{subresource}\" in API group \"{group}\" {place}"
        )
    }
}

/// Returns the objects that the matrix needs, each with the path of its collection.
pub(crate) fn objects() -> Vec<(String, Value)> {
    let mut objects: Vec<(String, Value)> = [Scope::Granted, Scope::Other]
        .map(|scope| ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": scope.namespace()}})))
        .into();
    for Identity { user, role, everywhere, .. } in &IDENTITIES {
        let Some(role) = role else { continue };
        let binding = json!({
            "metadata": {"name": user}, "subjects": [{"kind": "User", "name": user}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        });
        let path = match everywhere {
            true => format!("{API}/clusterrolebindings"),
            false => format!("{API}/namespaces/{}/rolebindings", Scope::Granted.namespace()),
        };
        objects.push((path, binding));
    }
    objects
}

/// Returns the text of the recorded file. A decision is the reason of a permission, or `None` for a denial.
pub(crate) fn render(targets: &[Target], answers: &[(Cell<'_>, Option<String>)]) -> String {
    let mut text = "# Written by `cargo xtask decisions`: what kube-apiserver allows. A line has the verbs and the resources or \
                    paths that\n# they are allowed on; all else is denied. Then the reasons for resources, and how often each was given.\n\n\
                    resources\n"
        .to_owned();
    for target in targets.iter().filter(|target| !target.versions.is_empty()) {
        let scope = if target.namespaced { "namespaced" } else { "cluster" };
        let _ = writeln!(text, "  {target} {scope} {}", target.versions.join(","));
    }
    for section in answers.chunk_by(|(one, _), (other, _)| one.section() == other.section()) {
        let mut verbs: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for (cell, reason) in section {
            let Some(reason) = reason else { continue };
            verbs.entry(cell.subject_name()).or_default().push(cell.verb);
            // Several bindings allow some paths, and kube-apiserver names any of them.
            if matches!(cell.subject, Subject::Resource(..)) {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        let mut subjects: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (subject, verbs) in verbs {
            subjects.entry(verbs.join(",")).or_default().push(subject);
        }
        if let Some((cell, _)) = section.first() {
            let _ = writeln!(text, "\n{}", cell.section());
        }
        for (verbs, subjects) in subjects {
            let _ = writeln!(text, "  {verbs}: {}", subjects.join(" "));
        }
        for (reason, times) in reasons {
            let _ = writeln!(text, "  {times} times {reason}");
        }
    }
    text
}
