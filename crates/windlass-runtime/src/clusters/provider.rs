//! Sources of clusters.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;

use super::{ClusterSet, KUBECONFIG};
use crate::{cache::Caches, manifests::Permission, scope::Scope};

/// Interval at which a directory is read.
const FOLDER_POLL: Duration = Duration::from_secs(10);

/// A source of clusters.
pub(super) enum Provider {
    Secrets { namespace: String, labels: String },
    Folder(PathBuf),
}

impl Provider {
    /// Returns the permission that it needs in the home cluster.
    pub(super) fn permission(&self) -> Option<Permission> {
        match self {
            Self::Secrets { namespace, .. } => {
                Some(Permission::new("", "secrets", ["get", "list", "watch"]).in_namespace(namespace))
            }
            Self::Folder(_) => None,
        }
    }

    /// Keeps the clusters of the set up to date. Never returns.
    pub(super) async fn run(self, number: usize, set: ClusterSet, home: Caches) {
        match self {
            Self::Secrets { namespace, labels } => {
                let informer = home.informer::<Secret>(&Scope::namespace(&namespace).labels(&labels));
                let changed = Arc::new(tokio::sync::Notify::new());
                let notified = changed.clone();
                let _subscription = informer.subscribe(move |_| notified.notify_one());
                informer.synced().await;
                loop {
                    set.provide(number, informer.list().iter().filter_map(|secret| member(secret)).collect(), false);
                    changed.notified().await;
                }
            }
            Self::Folder(path) => loop {
                match read(&path) {
                    Ok(members) => set.provide(number, members, true),
                    // A directory that is being replaced must not stop all clusters.
                    Err(error) => {
                        tracing::warn!(%error, path = %path.display(), "failed to read the directory of kubeconfigs")
                    }
                }
                tokio::time::sleep(FOLDER_POLL).await;
            },
        }
    }
}

/// Returns the name and kubeconfig of a Secret.
fn member(secret: &Secret) -> Option<(String, Arc<str>)> {
    let name = secret.metadata.name.clone()?;
    let text =
        secret.data.as_ref().and_then(|data| data.get(KUBECONFIG)).map(|value| String::from_utf8(value.0.clone()));
    match text {
        Some(Ok(text)) => Some((name, text.into())),
        _ => {
            tracing::warn!(secret = name, "the Secret has no valid text under the key `kubeconfig`; skipping it");
            None
        }
    }
}

/// Returns the kubeconfigs in a directory by name.
fn read(directory: &Path) -> io::Result<BTreeMap<String, Arc<str>>> {
    let mut members = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_kubeconfig = path.extension().is_some_and(|extension| extension == KUBECONFIG);
        let name = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_kubeconfig);
        if let Some(name) = name {
            members.insert(name.to_owned(), std::fs::read_to_string(&path)?.into());
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_a_cluster_per_kubeconfig() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.kubeconfig", "b.kubeconfig", "notes.txt"] {
            std::fs::write(directory.path().join(name), name).unwrap();
        }
        let members = read(directory.path()).unwrap();
        assert_eq!(
            members.into_iter().map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>(),
            ["a=a.kubeconfig", "b=b.kubeconfig"]
        );
        assert!(read(&directory.path().join("none")).is_err());
    }

    #[test]
    fn a_provider_removes_only_its_own_clusters() {
        let set = ClusterSet::default();
        set.add_kubeconfig("code", "x");
        let members = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), Arc::from("y"))).collect();
        set.provide(0, members(&["a", "b", "code"]), true);
        set.provide(1, members(&["c"]), true);
        assert_eq!(set.names(), ["a", "b", "c", "code"]);
        set.provide(0, members(&["b"]), true);
        assert_eq!(set.names(), ["b", "c", "code"]);
        assert!(set.remove("c") && !set.remove("c"));
    }

    #[test]
    fn a_cluster_whose_name_was_taken_takes_over_when_the_other_is_removed() {
        let set = ClusterSet::default();
        let members = |text: &str| [("a".to_owned(), Arc::from(text))].into();
        let used = || match set.wanted.borrow().members.get("a").map(|member| (member.access.clone(), member.version)) {
            Some((crate::clusters::Access::Kubeconfig { text, .. }, version)) => Some((text.to_string(), version)),
            _ => None,
        };
        let of = |text: &str, version| Some((text.to_owned(), version));
        set.provide(0, members("first"), true);
        set.provide(1, members("second"), true);
        set.add_kubeconfig("a", "code");
        assert_eq!(used(), of("first", 1));
        // The shadowed one changes.
        set.provide(1, members("second again"), true);
        set.provide(0, BTreeMap::new(), true);
        assert_eq!(used(), of("second again", 2));
        set.provide(0, members("first"), true);
        // Code removes its own cluster, not that of a provider.
        assert!(set.remove("a"));
        assert_eq!(used(), of("second again", 2));
        set.provide(1, BTreeMap::new(), true);
        assert_eq!(used(), of("first", 3));
        set.provide(0, BTreeMap::new(), true);
        assert_eq!((used(), set.names()), (None, Vec::new()));
        assert!(!set.remove("a"));
    }
}
