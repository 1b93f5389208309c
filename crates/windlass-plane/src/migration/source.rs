//! Stores to copy from.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::timeout;
use windlass_etcd::{EtcdOptions, EtcdStore};
use windlass_store::{
    EmbeddedOptions, EmbeddedStore, Entry, Error, ListOptions, Revision, Store as _,
    snapshot::{Decoder, Digest, SnapshotReader},
};

use super::{Location, MigrationError, PIECE, Progress};
use crate::{
    DataDirLock, PlaneError,
    plane::{STORE, open_when_free},
};

/// Number of objects that are read from etcd at a time.
const PAGE: usize = 500;
/// Time within which a running API server writes its lease.
const RENEWAL: Duration = Duration::from_secs(15);

/// A source, which no other process uses.
pub(super) enum Source {
    Embedded(EmbeddedSource),
    Snapshot(SnapshotSource),
    Etcd(EtcdSource),
}

impl Source {
    pub(super) async fn open(
        location: &Location,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Self, MigrationError> {
        Ok(match location {
            Location::Embedded(directory) => Self::Embedded(EmbeddedSource::open(directory).await?),
            Location::Snapshot(path) => Self::Snapshot(SnapshotSource::open(path)?),
            Location::Etcd(options) => Self::Etcd(EtcdSource::open(options, progress).await?),
        })
    }

    /// The revision of the objects: at least that of every entry.
    pub(super) fn revision(&self) -> Revision {
        match self {
            Self::Embedded(source) => source.reader.revision(),
            Self::Snapshot(source) => source.decoder.revision(),
            Self::Etcd(source) => Revision(source.at.0 + source.count),
        }
    }

    /// Number of objects.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Embedded(source) => source.count,
            Self::Snapshot(source) => source.decoder.records(),
            Self::Etcd(source) => source.count,
        }
    }

    /// Returns the next entries in the order of their revisions; none at the end.
    pub(super) async fn next(&mut self) -> Result<Vec<Entry>, MigrationError> {
        match self {
            Self::Embedded(source) => source.reader.read(PIECE).map_err(MigrationError::Read),
            Self::Snapshot(source) => source.next(),
            Self::Etcd(source) => source.next().await.map_err(MigrationError::Read),
        }
    }

    /// Checks that all objects have been read, and that none was written meanwhile.
    pub(super) async fn check_unchanged(&self, read: Digest) -> Result<(), MigrationError> {
        if read.entries != self.count() {
            return Err(MigrationError::Changed);
        }
        match self {
            Self::Etcd(source) => source.check_unchanged().await,
            // Locked, or a file that is complete.
            Self::Embedded(_) | Self::Snapshot(_) => Ok(()),
        }
    }
}

/// The store in a data directory.
pub(super) struct EmbeddedSource {
    reader: Box<dyn SnapshotReader>,
    count: u64,
    _store: EmbeddedStore,
    // The last field, so that the directory is unlocked after the store is closed.
    _lock: DataDirLock,
}

impl EmbeddedSource {
    async fn open(directory: &Path) -> Result<Self, MigrationError> {
        let path = directory.join(STORE);
        if !path.exists() {
            return Err(MigrationError::NoObjects { path: directory.to_owned() });
        }
        let lock = DataDirLock::acquire(directory).map_err(PlaneError::from)?;
        let failed = |source| PlaneError::Store { path: path.clone(), source };
        let store = open_when_free(|| EmbeddedStore::open_file(&path, EmbeddedOptions::default())).map_err(failed)?;
        let reader = store.snapshot().await.map_err(failed)?;
        Ok(Self { count: reader.remaining() as u64, reader, _store: store, _lock: lock })
    }
}

/// A snapshot.
pub(super) struct SnapshotSource {
    path: PathBuf,
    decoder: Decoder<BufReader<File>>,
}

impl SnapshotSource {
    /// Opens a snapshot after reading all of it, so that damage is found before anything is written.
    fn open(path: &Path) -> Result<Self, MigrationError> {
        let mut source = Self::start(path)?;
        while !source.next()?.is_empty() {}
        Self::start(path)
    }

    fn start(path: &Path) -> Result<Self, MigrationError> {
        let file = File::open(path).map_err(|source| MigrationError::File { path: path.to_owned(), source })?;
        let decoder = Decoder::new(BufReader::with_capacity(PIECE, file));
        let decoder = decoder.map_err(|source| MigrationError::Snapshot { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), decoder })
    }

    fn next(&mut self) -> Result<Vec<Entry>, MigrationError> {
        let damaged = |source| MigrationError::Snapshot { path: self.path.clone(), source };
        let (mut entries, end) = (Vec::new(), self.decoder.position() + PIECE as u64);
        while self.decoder.position() < end {
            let Some(entry) = self.decoder.next_entry().map_err(damaged)? else { break };
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// The objects in etcd, in the order of their keys.
///
/// Each entry gets a revision of its own after the newest one: other programs may have written several keys at one
/// revision, and only the order of the keys can be read in pieces.
pub(super) struct EtcdSource {
    store: EtcdStore,
    /// The newest revision when the source was opened.
    at: Revision,
    count: u64,
    read: u64,
    after: Option<String>,
}

impl EtcdSource {
    async fn open(options: &EtcdOptions, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Self, MigrationError> {
        let store = EtcdStore::open(options.clone()).await.map_err(PlaneError::Etcd)?;
        let counting = ListOptions { limit: Some(0), count: true, ..ListOptions::default() };
        let page = store.list(counting).await.map_err(MigrationError::Read)?;
        let source = Self { store, at: page.revision, count: page.remaining as u64, read: 0, after: None };
        source.check_unused(progress).await?;
        Ok(source)
    }

    async fn next(&mut self) -> Result<Vec<Entry>, Error> {
        let (after, at) = (self.after.clone(), Some(self.at));
        let options = ListOptions { after, at, limit: Some(PAGE), ..ListOptions::default() };
        let mut entries = self.store.list(options).await?.entries;
        for entry in &mut entries {
            self.read += 1;
            entry.revision = Revision(self.at.0 + self.read);
        }
        if let Some(last) = entries.last() {
            self.after = Some(last.key.to_string());
        }
        Ok(entries)
    }

    /// Checks that no API server runs: every one of them writes its lease every ten seconds.
    async fn check_unused(&self, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<(), MigrationError> {
        progress(Progress::Watching(RENEWAL));
        let mut watch = self.store.watch("", self.at).await.map_err(MigrationError::Read)?;
        let written = async {
            loop {
                if let Some(event) = watch.next().await?.events.into_iter().next() {
                    return Ok(event.key.to_string());
                }
            }
        };
        match timeout(RENEWAL, written).await {
            Err(_) => Ok(()),
            Ok(Ok(key)) => Err(MigrationError::InUse { key }),
            Ok(Err(error)) => Err(MigrationError::Read(error)),
        }
    }

    /// Checks that nothing has been written since the source was opened.
    async fn check_unchanged(&self) -> Result<(), MigrationError> {
        let newest = self.store.revision().await.map_err(MigrationError::Read)?;
        if newest == self.at {
            return Ok(());
        }
        let mut watch = self.store.watch("", self.at).await.map_err(MigrationError::Read)?;
        loop {
            let batch = watch.next().await.map_err(MigrationError::Read)?;
            if let Some(event) = batch.events.into_iter().next() {
                return Err(MigrationError::InUse { key: event.key.to_string() });
            }
            if batch.revision >= newest {
                return Ok(());
            }
        }
    }
}
