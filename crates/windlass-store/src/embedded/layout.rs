//! The tables in the file: opening and reading them, and the format of their records.

use std::{ops::RangeInclusive, sync::Arc};

use bytes::Bytes;
use redb::{
    Builder, Database, DatabaseError, ReadOnlyTable, ReadTransaction, ReadableDatabase, StorageBackend,
    TableDefinition, TableError, WriteTransaction,
};

use super::{
    fence::{Fence, Health, Locks},
    migrate, pack,
    progress::Opening,
};
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
pub(super) const FORMAT: &str = "format";

/// The format that this version writes. Files of earlier formats are migrated when they are opened.
pub(super) const CURRENT_FORMAT: u64 = 2;

/// A written value, in format 1.
const WRITTEN_UNSIZED: u8 = 0;
const DELETED: u8 = 1;
/// A written value, with its size.
const WRITTEN: u8 = 2;

/// Bytes that a write occupies in addition to its key and value.
const RECORD_OVERHEAD: u64 = 32;

/// Returns the number of bytes that a write occupies.
pub(super) fn cost(key: &str, value: Option<u32>) -> u64 {
    RECORD_OVERHEAD + key.len() as u64 + u64::from(value.unwrap_or(0))
}

/// A store as found in its file.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) health: Arc<Health>,
    pub(super) history: History<u32>,
    /// Number of bytes that all writes in the history occupy.
    pub(super) in_use: u64,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) key: &'a str,
    /// Size of the value; `None` if the key was deleted.
    pub(super) value: Option<u32>,
}

impl<'a> Record<'a> {
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        match self.value {
            Some(size) => {
                buffer.push(WRITTEN);
                buffer.extend_from_slice(&size.to_le_bytes());
            }
            None => buffer.push(DELETED),
        }
        buffer.extend_from_slice(self.key.as_bytes());
    }

    /// Decodes a record; in format 1 the size of a value must be found with `size_of`.
    fn decode(revision: u64, record: &'a [u8], size_of: impl FnOnce() -> Result<u32, Error>) -> Result<Self, Error> {
        let corrupt = || Error::Storage { cause: format!("log record of revision {revision} is corrupt") };
        let (&kind, rest) = record.split_first().ok_or_else(corrupt)?;
        let (value, key) = match kind {
            DELETED => (None, rest),
            WRITTEN => {
                let (size, key) = rest.split_first_chunk().ok_or_else(corrupt)?;
                (Some(u32::from_le_bytes(*size)), key)
            }
            WRITTEN_UNSIZED => (Some(size_of()?), rest),
            _ => return Err(corrupt()),
        };
        Ok(Self { key: std::str::from_utf8(key).map_err(|_| corrupt())?, value })
    }
}

impl Snapshot {
    /// Returns a snapshot of the last commit.
    pub(super) fn of(database: &Database) -> Result<Self, Error> {
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

    /// Passes the values from a revision on to `each`, in order, until it returns false.
    pub(super) fn values(
        &self,
        from: Revision,
        mut each: impl FnMut(Revision, &[u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        for value in self.values.range(from.0..).map_err(storage)? {
            let (revision, value) = value.map_err(storage)?;
            if !each(Revision(revision.value()), value.value())? {
                break;
            }
        }
        Ok(())
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
            let size_of = || Ok(self.value(Revision(revision))?.len().try_into().unwrap_or(u32::MAX));
            if !each(Revision(revision), Record::decode(revision, record.value(), size_of)?)? {
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

/// Opens the database, creates the tables if there are none, and reads the index.
pub(super) fn open(
    backend: &Arc<dyn StorageBackend>,
    locks: Locks,
    cache_bytes: usize,
    name: &str,
) -> Result<Opened, Error> {
    let health = Arc::new(Health::default());
    let opening = Arc::new(Opening::new(name));
    let fence = Fence::new(backend.clone(), health.clone(), locks, opening.clone());
    let mut database = open_database(fence, opening.clone(), cache_bytes, name)?;
    let mut meta = match read_meta(&database.begin_read().map_err(storage)?)? {
        Some(meta) => meta,
        None => create_tables(&database)?,
    };
    migrate::to_current(&database, &mut meta.format, name)?;
    let (history, in_use, newest) = read_index(&database)?;
    // Only at start: a recovery must be quick.
    if locks == Locks::Acquire
        && let Err(error) = pack::if_worthwhile(&mut database, &**backend, in_use, name)
    {
        tracing::warn!(file = name, %error, "failed to return free space of the store to the file system");
        drop(database);
        return open(backend, Locks::Held, cache_bytes, name);
    }
    let failed = |error: std::io::Error| Error::Storage { cause: format!("{name}: {error}") };
    health.arm(&**backend).map_err(failed)?;
    let (compacted, swept) = (Revision(meta.compacted), Revision(meta.swept));
    let revision = newest.max(compacted).max(Revision::INITIAL);
    let snapshot = Snapshot::of(&database)?;
    opening.done();
    Ok(Opened { database, health, history, in_use, revision, compacted, swept, snapshot })
}

fn open_database(fence: Fence, opening: Arc<Opening>, cache_bytes: usize, name: &str) -> Result<Database, Error> {
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    builder.set_repair_callback(move |_| opening.checks());
    builder.create_with_backend(fence).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => Error::Locked { path: name.to_owned() },
        error => storage(error),
    })
}

/// Reads the index of all versions, the number of bytes that they occupy, and the newest revision.
fn read_index(database: &Database) -> Result<(History<u32>, u64, Revision), Error> {
    let (mut writes, mut in_use, mut newest) = (Vec::new(), 0, Revision(0));
    Snapshot::of(database)?.log(0..=u64::MAX, |revision, record| {
        in_use += cost(record.key, record.value);
        writes.push((Arc::from(record.key), Version { revision, value: record.value }));
        newest = revision;
        Ok(true)
    })?;
    Ok((History::of(writes), in_use, newest))
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
