//! Lists, read page by page, so that no response is very large.

use std::sync::Arc;

use windlass_store::{Entry, Error, ListOptions, Page, Revision};

use crate::{
    client::{Client, revision, signed, unsigned},
    messages::{KeyValue, RANGE, RangeRequest, RangeResponse},
};

/// Number of entries in the first page, and the limits of the others.
const FIRST_PAGE: usize = 100;
const MIN_PAGE: usize = 8;
const MAX_PAGE: usize = 10_000;
/// Size of the pages after the first, about.
const PAGE_BYTES: usize = 4 << 20;
/// Number of times that a list begins again, if its revision is compacted meanwhile.
const ATTEMPTS: usize = 5;

impl Client {
    /// Lists entries.
    pub(crate) async fn list(&self, options: &ListOptions) -> Result<Page, Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.list_once(options).await {
                Err(Error::Compacted { .. }) if options.at.is_none() && attempt < ATTEMPTS => {}
                result => return result,
            }
        }
    }

    async fn list_once(&self, options: &ListOptions) -> Result<Page, Error> {
        let (mut start, end) = self.prefix.range(&options.prefix, options.after.as_deref())?;
        if let Some(at) = options.at {
            self.base.check(at)?;
        }
        // The first revision is that of the empty store, and 0 means the newest.
        let mut at = options.at.map(|at| at.max(Revision::INITIAL));
        let mut entries: Vec<Entry> = Vec::new();
        let mut page = FIRST_PAGE;
        loop {
            let wanted = options.limit.map_or(page, |limit| page.min(limit - entries.len()));
            let request = RangeRequest {
                key: start.clone(),
                range_end: end.clone(),
                limit: i64::try_from(wanted).unwrap_or(i64::MAX),
                revision: at.map_or(0, signed),
                // A limit of 0 would be none.
                count_only: wanted == 0,
                keys_only: false,
            };
            let answer: RangeResponse = match self.read(RANGE, &request).await {
                Ok(answer) => answer,
                Err(error) => return Err(self.explain(error, at.unwrap_or_default()).await),
            };
            let at = *at.get_or_insert_with(|| revision(answer.header.as_ref()));
            let left = usize::try_from(unsigned(answer.count)).unwrap_or(usize::MAX).saturating_sub(answer.kvs.len());
            let next = answer.kvs.last().map(after);
            page = next_page(&answer.kvs);
            entries.extend(answer.kvs.into_iter().filter_map(|kv| self.entry(kv)));
            let is_full = options.limit.is_some_and(|limit| entries.len() >= limit);
            match next {
                Some(next) if answer.more && !is_full => start = next,
                _ => {
                    let remaining = if options.count { left } else { left.min(1) };
                    let revision = options.at.unwrap_or(at);
                    return Ok(Page { entries, revision, remaining });
                }
            }
        }
    }

    /// Returns an entry of the store; `None` for keys that are not the store's.
    pub(crate) fn entry(&self, kv: KeyValue) -> Option<Entry> {
        let Some(key) = self.prefix.strip(&kv.key) else {
            tracing::warn!(key = %kv.key.escape_ascii(), "ignoring a key in etcd that is not one of the store's");
            return None;
        };
        Some(Entry { key: Arc::from(key), value: kv.value, revision: Revision(unsigned(kv.mod_revision)) })
    }
}

/// Returns the first key after an entry.
fn after(kv: &KeyValue) -> bytes::Bytes {
    let mut key = Vec::with_capacity(kv.key.len() + 1);
    key.extend_from_slice(&kv.key);
    key.push(0);
    key.into()
}

/// Returns the number of entries to read next, if they are as large as these.
fn next_page(kvs: &[KeyValue]) -> usize {
    let bytes: usize = kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    let average = (bytes / kvs.len().max(1)).max(1);
    (PAGE_BYTES / average).clamp(MIN_PAGE, MAX_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_large_as_the_entries_allow() {
        let page = |size| next_page(&[KeyValue { value: vec![0; size].into(), ..KeyValue::default() }]);
        assert_eq!((page(0), page(1 << 10), page(1 << 20), page(2 << 20)), (MAX_PAGE, 4096, MIN_PAGE, MIN_PAGE));
        assert_eq!(next_page(&[]), MAX_PAGE);
    }
}
