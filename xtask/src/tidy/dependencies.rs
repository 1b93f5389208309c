//! Allowed dependencies between the crates of the workspace, and banned crates.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The crates of the workspace, and which others of the workspace each may name.
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("windlass-clock", &[]),
    ("windlass-descriptions", &[]),
    ("windlass-tls", &[]),
    ("windlass-json", &[]),
    ("windlass-schema", &["windlass-json"]),
    ("windlass-cel", &["windlass-schema"]),
    ("windlass-merge", &["windlass-schema"]),
    ("windlass-store", &["windlass-schema", "windlass-merge"]),
    ("windlass-etcd", &["windlass-store"]),
    ("windlass-builtins", &["windlass-schema", "windlass-cel", "windlass-merge"]),
    (
        "windlass-apiserver",
        &[
            "windlass-clock",
            "windlass-tls",
            "windlass-json",
            "windlass-schema",
            "windlass-cel",
            "windlass-merge",
            "windlass-store",
            "windlass-builtins",
            "windlass-descriptions",
        ],
    ),
    ("windlass-macros", &[]),
    ("windlass-runtime", &["windlass-clock", "windlass-macros", "windlass-tls"]),
    ("windlass", &["windlass-clock", "windlass-runtime", "windlass-macros"]),
    // The loops are a client of any API server. Quantities and cron schedules are the schema crate's, the resources
    // that quotas count the built-ins'.
    ("windlass-loops", &["windlass-clock", "windlass-schema", "windlass-builtins", "windlass"]),
    // Pods that run as processes answer the API server's `logs`, `exec`, `attach` and `port-forward`. The requests of pods
    // are computed with the built-in kinds.
    (
        "windlass-nodes",
        &[
            "windlass-clock",
            "windlass-schema",
            "windlass-builtins",
            "windlass-loops",
            "windlass-apiserver",
            "windlass-resource-metrics",
            "windlass",
        ],
    ),
    // Objects that are computed, in the API server of the plane or in one of their own.
    ("windlass-resource-metrics", &["windlass-clock", "windlass-schema", "windlass-apiserver"]),
    (
        "windlass-plane",
        &[
            "windlass-clock",
            "windlass-loops",
            "windlass-nodes",
            "windlass-apiserver",
            "windlass-resource-metrics",
            "windlass-store",
            "windlass-etcd",
            "windlass-tls",
            "windlass",
        ],
    ),
    (
        "windlass-testing",
        &["windlass-clock", "windlass-plane", "windlass-apiserver", "windlass-store", "windlass-runtime", "windlass"],
    ),
    // Servers for kinds that users define, on the engine of the API server.
    ("windlass-extension", &["windlass-clock", "windlass-tls", "windlass-store", "windlass-apiserver", "windlass"]),
    // Patterns of fields are read as the server reads them.
    ("windlass-scaffold", &["windlass-schema"]),
    (
        "windlass-cli",
        // Schema and built-ins for work on manifests, which needs no server; two operators for the demo.
        &[
            "windlass-clock",
            "guestbook-operator",
            "network-operator",
            "windlass-schema",
            "windlass-builtins",
            "windlass-plane",
            "windlass-scaffold",
            "windlass-testing",
            "windlass-tls",
            "windlass",
        ],
    ),
    // Operators are programs of users: all they know is the facade.
    // Schedules are read as Kubernetes reads them.
    ("crontab-operator", &["windlass", "windlass-schema"]),
    ("foo-operator", &["windlass"]),
    ("guestbook-operator", &["windlass"]),
    ("imoocpod-operator", &["windlass"]),
    ("network-operator", &["windlass"]),
    ("pod2-operator", &["windlass"]),
    ("podtask-operator", &["windlass"]),
    ("vpc-operator", &["windlass"]),
    ("wardle-apiserver", &["windlass-extension"]),
    ("metrics-server", &["windlass-clock", "windlass-extension", "windlass-resource-metrics"]),
    // Drives servers from the outside, except for decisions about access, which it measures in its own process.
    ("windlass-bench", &["windlass-apiserver", "windlass-store"]),
    ("windlass-bench-sdk", &["windlass", "windlass-bench"]),
    // Its tests may use everything.
    ("windlass-book", &[]),
    // Calls the parsers of everything that receives bytes from clients.
    (
        "windlass-fuzz",
        &[
            "windlass-schema",
            "windlass-cel",
            "windlass-merge",
            "windlass-store",
            "windlass-builtins",
            "windlass-apiserver",
        ],
    ),
    // Enables features, and has no code.
    ("windlass-shared-features", &["windlass", "windlass-runtime"]),
    ("xtask", &["windlass-schema", "windlass-builtins", "windlass-book"]),
];

/// Crates that never use tokio, the network or the disk, not even through other crates.
pub(super) const PURE: &[&str] =
    &["windlass-json", "windlass-schema", "windlass-cel", "windlass-merge", "windlass-scaffold"];
const NEVER_IN_PURE: &[&str] = &["async-std", "hyper", "kube", "kube-client", "mio", "redb", "reqwest", "tokio"];

/// Crates that must not be in the dependency tree, and why.
const BANNED: &[(&str, &str)] = &[
    ("openssl-sys", "the binary links no system library"),
    ("native-tls", "the binary links no system library"),
    ("aws-lc-sys", "ring is the one cryptographic provider"),
];

/// The part of `cargo metadata` that the rules use.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    pub(super) workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) license: Option<String>,
    pub(super) license_file: Option<String>,
    pub(super) source: Option<String>,
    #[serde(default)]
    pub(super) version: String,
    /// Registries that the crate may be published to: all if absent, none if empty.
    pub(super) publish: Option<Vec<String>>,
    pub(super) documentation: Option<String>,
    pub(super) readme: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) rust_version: Option<String>,
    #[serde(default)]
    pub(super) keywords: Vec<String>,
    #[serde(default)]
    pub(super) categories: Vec<String>,
    #[serde(default)]
    pub(super) metadata: serde_json::Value,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) kind: Option<String>,
    /// The version requirement: `*` if the manifest names none.
    #[serde(default)]
    pub(super) req: String,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDependency>,
}

#[derive(Debug, Deserialize)]
struct NodeDependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Package {
    /// Returns whether the crate is published.
    pub(super) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

impl Metadata {
    /// Returns the crates of the workspace.
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Returns the names of all crates that are linked into these, except for tests.
    fn reachable<'a>(&'a self, from: impl Iterator<Item = &'a Package>) -> BTreeSet<&'a str> {
        let nodes: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let names: BTreeMap<&str, &str> =
            self.packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect();
        let mut pending: Vec<&str> = from.map(|package| package.id.as_str()).collect();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        while let Some(id) = pending.pop() {
            if seen.insert(id)
                && let Some(node) = nodes.get(id)
            {
                let real = |dependency: &&NodeDependency| {
                    dependency.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"))
                };
                pending.extend(node.deps.iter().filter(real).map(|dependency| dependency.pkg.as_str()));
            }
        }
        seen.into_iter().filter_map(|id| names.get(id).copied()).collect()
    }
}

/// Checks the directions of the workspace's dependencies, the purity of the pure crates, and the banned crates.
pub(super) fn check(metadata: &Metadata) -> Vec<String> {
    let ours: BTreeSet<&str> = metadata.members().map(|package| package.name.as_str()).collect();
    let mut complaints = Vec::new();
    for package in metadata.members() {
        let name = package.name.as_str();
        let Some((_, allowed)) = DIRECTIONS.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!("{name}: add it to DIRECTIONS in xtask/src/tidy/dependencies.rs"));
            continue;
        };
        for dependency in &package.dependencies {
            let wanted = dependency.name.as_str();
            let in_tests = dependency.kind.as_deref() == Some("dev");
            if !in_tests && ours.contains(wanted) && !allowed.contains(&wanted) {
                complaints.push(format!("{name}: must not depend on {wanted}"));
            }
        }
        if PURE.contains(&name) {
            let reachable = metadata.reachable(std::iter::once(package));
            for wanted in NEVER_IN_PURE.iter().filter(|wanted| reachable.contains(**wanted)) {
                complaints.push(format!("{name}: is pure and must not reach {wanted}"));
            }
        }
    }
    let reachable = metadata.reachable(metadata.members());
    for (name, reason) in BANNED.iter().filter(|(name, _)| reachable.contains(name)) {
        complaints.push(format!("{name}: is banned: {reason}"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata of a workspace with these dependencies: from, to, kind.
    fn workspace(edges: &[(&str, &str, Option<&str>)], external: &[&str]) -> Metadata {
        let names: BTreeSet<&str> = edges.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        let packages: Vec<_> = names
            .iter()
            .map(|name| {
                let dependencies: Vec<_> = edges
                    .iter()
                    .filter(|(from, ..)| from == name)
                    .map(|(_, to, kind)| serde_json::json!({"name": to, "kind": kind}))
                    .collect();
                serde_json::json!({"id": name, "name": name, "dependencies": dependencies})
            })
            .collect();
        let nodes: Vec<_> = names
            .iter()
            .map(|name| {
                let deps: Vec<_> = edges
                    .iter()
                    .filter(|(from, ..)| from == name)
                    .map(|(_, to, kind)| serde_json::json!({"pkg": to, "dep_kinds": [{"kind": kind}]}))
                    .collect();
                serde_json::json!({"id": name, "deps": deps})
            })
            .collect();
        let members: Vec<_> = names.iter().filter(|name| !external.contains(name)).collect();
        serde_json::from_value(serde_json::json!({
            "packages": packages, "workspace_members": members, "resolve": {"nodes": nodes},
        }))
        .unwrap()
    }

    #[test]
    fn a_dependency_against_the_direction_is_found() {
        let metadata = workspace(
            &[
                ("windlass-merge", "windlass-schema", None),
                ("windlass-store", "windlass-apiserver", None),
                ("windlass-schema", "windlass-merge", Some("dev")),
            ],
            &[],
        );
        assert_eq!(check(&metadata), ["windlass-store: must not depend on windlass-apiserver"]);
    }

    #[test]
    fn a_pure_crate_that_reaches_tokio_through_another_is_found() {
        let edges = [("windlass-schema", "middle", None), ("middle", "tokio", None)];
        let external = ["middle", "tokio"];
        assert_eq!(check(&workspace(&edges, &external)), ["windlass-schema: is pure and must not reach tokio"]);
        let edges = [("windlass-schema", "middle", Some("dev")), ("middle", "tokio", None)];
        assert_eq!(check(&workspace(&edges, &external)), Vec::<String>::new());
    }

    #[test]
    fn a_crate_without_a_place_in_the_directions_is_found() {
        let complaints = check(&workspace(&[("windlass-new", "windlass-schema", None)], &[]));
        assert!(complaints[0].starts_with("windlass-new: add it to DIRECTIONS"), "{complaints:?}");
    }

    #[test]
    fn a_banned_crate_is_found_however_deep() {
        let edges = [("windlass-cli", "tls", None), ("tls", "openssl-sys", None)];
        let complaints = check(&workspace(&edges, &["tls", "openssl-sys"]));
        assert_eq!(complaints, ["openssl-sys: is banned: the binary links no system library"]);
    }
}
