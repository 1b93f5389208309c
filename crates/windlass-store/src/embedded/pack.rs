//! Returning free pages of the file to the file system.
//!
//! redb reuses free pages and cuts off free ones at the end of the file as it goes, but does not close holes. Closing
//! them needs exclusive access to the file, so it happens at start, and only if the file is much larger than its content.

use std::time::Instant;

use redb::{Database, ReadableDatabase as _, StorageBackend};

use super::layout::{META, storage};
use crate::Error;

/// Smaller files are left alone.
const WORTHWHILE: u64 = 64 << 20;

/// Name in the table `meta`: the size of the file after it was last packed.
const PACKED: &str = "packed";

/// Packs a file that has more free space than content, unless packing it did not help the last time.
pub(super) fn if_worthwhile(
    database: &mut Database,
    backend: &dyn StorageBackend,
    in_use: u64,
    name: &str,
) -> Result<(), Error> {
    let size = || backend.len().map_err(|error| Error::Storage { cause: format!("{name}: {error}") });
    let before = size()?;
    if before < WORTHWHILE.max(in_use.saturating_mul(2)) {
        return Ok(());
    }
    let packed = {
        let meta = database.begin_read().map_err(storage)?.open_table(META).map_err(storage)?;
        meta.get(PACKED).map_err(storage)?.map_or(0, |packed| packed.value())
    };
    if before <= packed.saturating_add(packed / 4) {
        return Ok(());
    }
    tracing::info!(file = name, size = before, in_use, "returning free space of the store to the file system");
    let start = Instant::now();
    database.compact().map_err(storage)?;
    let after = size()?;
    let transaction = database.begin_write().map_err(storage)?;
    transaction.open_table(META).map_err(storage)?.insert(PACKED, after).map_err(storage)?;
    transaction.commit().map_err(storage)?;
    let elapsed = start.elapsed();
    tracing::info!(file = name, size = after, returned = before.saturating_sub(after), ?elapsed, "returned free space");
    Ok(())
}
