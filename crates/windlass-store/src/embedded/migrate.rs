//! Migration of files that an earlier version has written, one format after the other.
//!
//! | format | change |
//! |--------|--------|
//! | 1      | the first |
//! | 2      | records of `log` contain the size of the value, so that the space in use is known without reading `values` |
//!
//! A migration is one transaction, which also records the new format: after a crash the file has the old format or the
//! new one. Files of a later version are rejected, because their meaning is unknown.

use redb::Database;

use super::layout::{CURRENT_FORMAT, FORMAT, LOG, META, Snapshot, storage};
use crate::Error;

/// Brings a file to the current format.
pub(super) fn to_current(database: &Database, format: &mut u64, name: &str) -> Result<(), Error> {
    while *format != CURRENT_FORMAT {
        tracing::info!(file = name, from = *format, to = *format + 1, "migrating the store to a new format");
        match *format {
            1 => add_value_sizes(database)?,
            unknown => {
                let cause = format!(
                    "{name} has format {unknown}, and this version supports formats 1 to {CURRENT_FORMAT}: it was \
                     written by a later version of windlass"
                );
                return Err(Error::Storage { cause });
            }
        }
        *format += 1;
    }
    Ok(())
}

fn add_value_sizes(database: &Database) -> Result<(), Error> {
    let before = Snapshot::of(database)?;
    let transaction = database.begin_write().map_err(storage)?;
    {
        let mut log = transaction.open_table(LOG).map_err(storage)?;
        let mut buffer = Vec::new();
        before.log(0..=u64::MAX, |revision, record| {
            record.encode(&mut buffer);
            log.insert(revision.0, buffer.as_slice()).map_err(storage)?;
            Ok(true)
        })?;
        transaction.open_table(META).map_err(storage)?.insert(FORMAT, 2).map_err(storage)?;
    }
    transaction.commit().map_err(storage)
}
