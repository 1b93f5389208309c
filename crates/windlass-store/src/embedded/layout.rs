//! The tables in the file: opening and reading them, and the format of their records.

use std::{ops::RangeInclusive, path::Path, sync::Arc};

use bytes::Bytes;
use redb::{
    Builder, Database, DatabaseError, ReadOnlyTable, ReadTransaction, ReadableDatabase, StorageBackend,
    TableDefinition, TableError, WriteTransaction, backends::FileBackend,
};

use super::fence::{Fence, Health};
use crate::{
    Error, Revision,
    history::{History, Version},
};

pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
pub(super) const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
pub(super) const VALUES: TableDefinition<u64, &[u8]> = TableDefinition::new("values");

/// Names in the table `meta`.
pub(super) const COMPACTED: &str = "compacted";
pub(super) const SWEPT: &str = "swept";
const FORMAT: &str = "format";

/// The format that this version reads and writes.
const CURRENT_FORMAT: u64 = 1;

const WRITTEN: u8 = 0;
const DELETED: u8 = 1;

/// A store as found in its file.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) health: Arc<Health>,
    pub(super) history: History<()>,
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    pub(super) swept: Revision,
    pub(super) snapshot: Snapshot,
}

/// The file at one revision.
pub(super) struct Snapshot {
    log: ReadOnlyTable<u64, &'static [u8]>,
    values: ReadOnlyTable<u64, &'static [u8]>,
}

/// One record of the table `log`.
pub(super) struct Record<'a> {
    pub(super) key: &'a str,
    pub(super) deleted: bool,
}

impl<'a> Record<'a> {
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.push(if self.deleted { DELETED } else { WRITTEN });
        buffer.extend_from_slice(self.key.as_bytes());
    }

    fn decode(revision: u64, record: &'a [u8]) -> Result<Self, Error> {
        let corrupt = || Error::Storage { cause: format!("log record of revision {revision} is corrupt") };
        let (&kind, key) = record.split_first().ok_or_else(corrupt)?;
        let deleted = match kind {
            WRITTEN => false,
            DELETED => true,
            _ => return Err(corrupt()),
        };
        Ok(Self { key: std::str::from_utf8(key).map_err(|_| corrupt())?, deleted })
    }
}

impl Snapshot {
    /// Takes a snapshot of the last commit.
    pub(super) fn take(database: &Database) -> Result<Self, Error> {
        let transaction = database.begin_read().map_err(storage)?;
        Ok(Self {
            log: transaction.open_table(LOG).map_err(storage)?,
            values: transaction.open_table(VALUES).map_err(storage)?,
        })
    }

    /// Returns the value written at a revision.
    pub(super) fn value(&self, revision: Revision) -> Result<Bytes, Error> {
        let value = self.values.get(revision.0).map_err(storage)?;
        let value = value.ok_or_else(|| Error::Storage {
            cause: format!("value of revision {revision} is missing from the file"),
        })?;
        Ok(Bytes::copy_from_slice(value.value()))
    }

    /// Passes the records of some revisions to `each`, in order, until it returns false.
    pub(super) fn log(
        &self,
        revisions: RangeInclusive<u64>,
        mut each: impl FnMut(Revision, Record<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        for record in self.log.range(revisions).map_err(storage)? {
            let (revision, record) = record.map_err(storage)?;
            let revision = revision.value();
            if !each(Revision(revision), Record::decode(revision, record.value())?)? {
                break;
            }
        }
        Ok(())
    }
}

/// Converts any redb error.
pub(super) fn storage(error: impl Into<redb::Error>) -> Error {
    Error::Storage { cause: error.into().to_string() }
}

/// Opens or creates the file.
pub(super) fn open_file(path: &Path) -> Result<FileBackend, Error> {
    let failed = |error: std::io::Error| Error::Storage { cause: format!("{}: {error}", path.display()) };
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).map_err(failed)?;
    // The file's directory entry must be as durable as its content.
    #[cfg(unix)]
    if let Some(directory) = path.parent() {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    }
    FileBackend::new(file).map_err(storage)
}

/// Opens the database, creates the tables if there are none, and reads the index.
pub(super) fn open(backend: impl StorageBackend, cache_bytes: usize, name: &str) -> Result<Opened, Error> {
    let health = Arc::new(Health::default());
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    let named = name.to_owned();
    builder.set_repair_callback(move |_| tracing::debug!(file = named, "checking the store file after a crash"));
    let database = builder.create_with_backend(Fence::new(backend, health.clone())).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => Error::Locked { path: name.to_owned() },
        error => storage(error),
    })?;
    let meta = match read_meta(&database.begin_read().map_err(storage)?)? {
        Some(meta) => meta,
        None => create_tables(&database)?,
    };
    if meta.format != CURRENT_FORMAT {
        let cause = format!("{name} has format {}; this version supports only format {CURRENT_FORMAT}", meta.format);
        return Err(Error::Storage { cause });
    }
    let snapshot = Snapshot::take(&database)?;
    let mut history = History::default();
    let mut revision = Revision(meta.compacted).max(Revision::INITIAL);
    snapshot.log(0..=u64::MAX, |written, record| {
        let key = history.share(record.key);
        history.apply(&key, Version { revision: written, value: (!record.deleted).then_some(()) });
        revision = revision.max(written);
        Ok(true)
    })?;
    health.arm();
    let (compacted, swept) = (Revision(meta.compacted), Revision(meta.swept));
    Ok(Opened { database, health, history, revision, compacted, swept, snapshot })
}

struct Meta {
    format: u64,
    compacted: u64,
    swept: u64,
}

fn read_meta(transaction: &ReadTransaction) -> Result<Option<Meta>, Error> {
    let table = match transaction.open_table(META) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(storage(error)),
    };
    let number = |name| table.get(name).map(|found| found.map_or(0, |found| found.value())).map_err(storage);
    Ok(Some(Meta { format: number(FORMAT)?, compacted: number(COMPACTED)?, swept: number(SWEPT)? }))
}

fn create_tables(database: &Database) -> Result<Meta, Error> {
    let transaction: WriteTransaction = database.begin_write().map_err(storage)?;
    transaction.open_table(META).map_err(storage)?.insert(FORMAT, CURRENT_FORMAT).map_err(storage)?;
    transaction.open_table(LOG).map_err(storage)?;
    transaction.open_table(VALUES).map_err(storage)?;
    transaction.commit().map_err(storage)?;
    Ok(Meta { format: CURRENT_FORMAT, compacted: 0, swept: 0 })
}
