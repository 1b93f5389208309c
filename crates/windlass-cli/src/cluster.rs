//! Clusters that commands work with: selecting one, and applying and deleting objects.
//!
//! ```ignore
//! let cluster = args.cluster.connect().await?;
//! let objects = documents::read(&text)?;
//! let applied = cluster.apply(&objects, ApplyOptions::default(), &mut |applied| eprintln!("{applied}")).await?;
//! cluster.delete(&objects, DeleteOptions { wait: Some(Duration::from_secs(60)), ..Default::default() }, &mut |_| {}).await?;
//! ```
//!
//! Objects are applied with server-side apply and the field manager [`MANAGER`]: namespaces and CRDs first, and custom
//! resources only once their CRD is established.

mod apply;
mod available;
mod delete;
pub(crate) mod documents;
mod order;
mod reference;
mod resources;
mod target;
mod wait;

use std::{fmt, io::Write as _};

use anyhow::Context as _;
use kube::{Client, api::ListParams};
use serde_json::Value;

pub(crate) use apply::{Applied, ApplyOptions, Outcome};
pub(crate) use delete::DeleteOptions;
pub(crate) use reference::Reference;
pub(crate) use target::ClusterArgs;

/// Field manager of applied objects.
pub(crate) const MANAGER: &str = "windlass";

/// A cluster and how it was selected.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// Client of the cluster.
    pub(crate) client: Client,
    /// URL of the API server.
    pub(crate) url: String,
    /// Namespace of the context.
    pub(crate) namespace: String,
    /// Origin of the URL: `context a of /home/me/.kube/config`.
    pub(crate) origin: String,
}

impl Cluster {
    /// Prints which cluster is used, before anything is changed there.
    pub(crate) fn announce(&self) {
        eprintln!("cluster {} ({})", self.url, self.origin);
    }

    /// Describes the number of objects of each CRD that has any.
    pub(crate) async fn objects_of(&self, definitions: &[Value]) -> anyhow::Result<Vec<String>> {
        let mut resources = resources::Resources::new(self.client.clone(), self.namespace.clone());
        let mut found = Vec::new();
        for definition in definitions {
            let text = |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
            let stored = versions.filter(|version| version["storage"] == true).find_map(|one| one["name"].as_str());
            let reference = Reference {
                api_version: format!("{}/{}", text("/spec/group"), stored.unwrap_or_default()),
                kind: text("/spec/names/kind").to_owned(),
                namespace: None,
                name: String::new(),
            };
            let name = text("/metadata/name");
            let all = resources.everywhere(&reference).await.with_context(|| format!("failed to discover {name}"))?;
            let Some(all) = all else { continue };
            let list = all.list_metadata(&ListParams::default().limit(1)).await;
            let list = list.with_context(|| format!("failed to count objects of {name}"))?;
            let count = list.items.len() as i64 + list.metadata.remaining_item_count.unwrap_or(0);
            match count {
                0 => {}
                1 => found.push(format!("1 object of {name}")),
                count => found.push(format!("{count} objects of {name}")),
            }
        }
        Ok(found)
    }
}

/// Reports a change. In a dry run it is the requested output and goes to standard output.
pub(crate) fn report(done: &(impl fmt::Display + ?Sized), dry_run: bool) {
    match dry_run {
        // The reader has closed the pipe.
        true => drop(writeln!(std::io::stdout(), "{done}")),
        false => eprintln!("{done}"),
    }
}
