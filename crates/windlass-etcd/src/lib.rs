//! A backend of [`windlass_store`] that keeps the objects in etcd v3.
//!
//! Reads are linearizable and retried while a member is unreachable or the cluster elects a leader. Writes are the
//! compare-and-swap transactions of kube-apiserver and are never sent twice: if the response is lost, the key is read, and the
//! write fails with [`Error::Unknown`](windlass_store::Error::Unknown) only if its state does not tell what happened. Watches
//! resume after the last delivered revision, on another member if need be.
//!
//! A write that is dropped while it waits may still be carried out.
//!
//! [`EtcdTarget`] and [`EtcdImport`] fill an empty prefix with the objects of another store, whose revisions it continues.

mod base;
mod channel;
mod client;
mod connection;
mod error;
mod frames;
mod guard;
mod health;
mod import;
mod keys;
mod list;
mod messages;
mod options;
mod revisions;
mod status;
mod store;
mod tls;
mod translate;
mod watch;
mod write;

#[cfg(test)]
mod tests;

pub use self::{
    error::EtcdError,
    import::{EtcdImport, EtcdTarget, ImportError},
    options::{DEFAULT_PREFIX, EtcdOptions},
    store::EtcdStore,
};
