//! Clusters that commands work with: which one, and bringing objects there and away again.
//!
//! ```ignore
//! let cluster = args.cluster.connect().await?;
//! let objects = documents::read(&text)?;
//! let applied = cluster.apply(&objects, ApplyOptions::default(), &mut |applied| eprintln!("{applied}")).await?;
//! cluster.delete(&objects, DeleteOptions { wait: Some(Duration::from_secs(60)), ..Default::default() }, &mut |_| {}).await?;
//! ```
//!
//! Objects are applied by server-side apply, as the field manager [`MANAGER`]: namespaces and definitions first, and what
//! is of a definition only once it is served.

mod apply;
mod delete;
pub(crate) mod documents;
mod order;
mod reference;
mod resources;
mod target;
mod wait;

use kube::Client;

pub(crate) use apply::{Applied, ApplyOptions, Outcome};
pub(crate) use delete::{DeleteOptions, Deleted};
pub(crate) use reference::Reference;
pub(crate) use target::ClusterArgs;

/// Whose the fields of applied objects are.
pub(crate) const MANAGER: &str = "windlass";

/// A cluster, and how it was found.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// Talks to it.
    pub(crate) client: Client,
    /// Its address.
    pub(crate) url: String,
    /// The namespace of the context.
    pub(crate) namespace: String,
    /// Where its address is from, in words: `context a of /home/me/.kube/config`.
    pub(crate) origin: String,
}
