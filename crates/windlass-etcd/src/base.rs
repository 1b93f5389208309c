//! The relation between the revisions of the store and those of etcd.
//!
//! etcd starts at revision 1 and cannot be set to another one, but clients of a migrated store have seen later ones. So a
//! constant is added to all revisions that come from etcd and subtracted from all that are sent to it. The *base* is the
//! key of etcd that equals the prefix, which all reads of the newest revision read anyway. Its value is one line:
//!
//! ```text
//! windlass store format=1 state=complete offset=123000 import=4711
//! ```
//!
//! While objects are imported the state is `importing`, and the prefix cannot be opened. `import` is the revision in etcd at
//! which that began. The revision at which the import was completed is the first of the store: earlier ones count as
//! compacted. A prefix without the key has the revisions of etcd.

use windlass_store::{Error, Revision};

use crate::{
    EtcdError,
    client::{Client, unsigned},
    messages::{KeyValue, RANGE, RangeRequest, RangeResponse},
};

/// The format that this version reads and writes.
const FORMAT: &str = "1";
const MAGIC: &str = "windlass store";

/// State of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Only a part of the objects may be there.
    Importing,
    /// The store can be opened.
    Complete,
}

/// The value of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) state: State,
    /// The number to add to revisions of etcd.
    pub(crate) offset: u64,
    /// The revision in etcd after which the import began.
    pub(crate) import: u64,
}

impl Mark {
    pub(crate) fn encode(&self) -> String {
        let Self { state, offset, import } = self;
        let state = match state {
            State::Importing => "importing",
            State::Complete => "complete",
        };
        format!("{MAGIC} format={FORMAT} state={state} offset={offset} import={import}\n")
    }

    /// Decodes a value; `None` if it is not one of this format.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let mut fields = text.trim_end().strip_prefix(MAGIC)?.strip_prefix(' ')?.split(' ');
        let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
        if field("format")? != FORMAT {
            return None;
        }
        let state = match field("state")? {
            "importing" => State::Importing,
            "complete" => State::Complete,
            _ => return None,
        };
        let mut number = |name| field(name)?.parse().ok();
        let mark = Self { state, offset: number("offset")?, import: number("import")? };
        let is_usable = mark.offset <= u64::MAX / 4;
        (is_usable && fields.next().is_none()).then_some(mark)
    }
}

/// The base of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Base {
    /// The number to add to revisions of etcd.
    offset: u64,
    /// The first revision of the store, which is that of the last write of the key; 0 if there is none.
    first: Revision,
}

impl Base {
    /// The base with this offset, whose key was last written at this revision of etcd.
    pub(crate) fn new(offset: u64, written: i64) -> Self {
        Self { offset, first: Revision(offset + unsigned(written)) }
    }

    /// Returns the revision of the store for one of etcd.
    pub(crate) fn of_store(&self, revision: i64) -> i64 {
        revision.saturating_add_unsigned(self.offset)
    }

    /// Returns the revision of etcd for one of the store; -1 if it has none.
    pub(crate) fn of_etcd(&self, revision: i64) -> i64 {
        match revision.checked_sub_unsigned(self.offset) {
            Some(revision) if revision > 0 => revision,
            _ => -1,
        }
    }

    /// The first revision of the store; 0 if it is that of etcd.
    pub(crate) fn first(&self) -> Revision {
        self.first
    }

    /// Checks that the store has the state of a revision.
    pub(crate) fn check(&self, requested: Revision) -> Result<(), Error> {
        match requested < self.first {
            true => Err(Error::Compacted { requested, oldest: self.first }),
            false => Ok(()),
        }
    }

    /// Returns whether the key is still as it was when the base was read. `found` has been translated.
    pub(crate) fn is_current(&self, found: &[KeyValue]) -> bool {
        Revision(found.first().map_or(0, |kv| unsigned(kv.mod_revision))) == self.first
    }
}

/// The key as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// The revision of etcd at which it was last written; 0 if it does not exist.
    pub(crate) written: i64,
    pub(crate) mark: Option<Mark>,
    /// The newest revision of etcd.
    pub(crate) newest: i64,
}

impl Found {
    /// Reads the key, through a client that translates no revisions.
    pub(crate) async fn read(client: &Client) -> Result<Self, EtcdError> {
        let request = RangeRequest { key: client.prefix.probe(), limit: 1, ..RangeRequest::default() };
        let answer: RangeResponse = client.read(RANGE, &request).await.map_err(EtcdError::of_read)?;
        let newest = answer.header.map_or(0, |header| header.revision);
        let Some(kv) = answer.kvs.first() else { return Ok(Self { written: 0, mark: None, newest }) };
        let unknown = || EtcdError::Format { prefix: client.prefix.as_str().to_owned() };
        let mark = Mark::decode(&kv.value).ok_or_else(unknown)?;
        Ok(Self { written: kv.mod_revision, mark: Some(mark), newest })
    }

    /// Returns the base; an error if the objects have not been imported completely.
    pub(crate) fn base(&self, client: &Client) -> Result<Base, EtcdError> {
        match self.mark {
            None => Ok(Base::default()),
            Some(Mark { state: State::Complete, offset, .. }) => Ok(Base::new(offset, self.written)),
            Some(_) => Err(EtcdError::Incomplete { prefix: client.prefix.as_str().to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_survive_the_round_trip_and_others_are_rejected() {
        let text = "windlass store format=1 state=complete offset=12 import=3\n";
        let mark = Mark { state: State::Complete, offset: 12, import: 3 };
        assert_eq!((mark.encode().as_str(), Mark::decode(text.as_bytes())), (text, Some(mark)));
        let importing = Mark { state: State::Importing, ..mark };
        assert_eq!(Mark::decode(importing.encode().as_bytes()), Some(importing));
        for other in [
            "",
            "foreign",
            "windlass store format=2 state=complete offset=12 import=3",
            "windlass store format=1 state=moved offset=12 import=3",
            "windlass store format=1 state=complete offset=x import=3",
            "windlass store format=1 state=complete offset=18446744073709551615 import=3",
            "windlass store format=1 state=complete offset=12",
            "windlass store format=1 state=complete offset=12 import=3 more=4",
        ] {
            assert_eq!(Mark::decode(other.as_bytes()), None, "{other}");
        }
        assert_eq!(Mark::decode(b"\xff"), None);
    }

    #[test]
    fn revisions_are_translated_and_never_become_the_numbers_that_mean_something_else_in_etcd() {
        let base = Base::new(100, 7);
        assert_eq!((base.of_store(8), base.of_etcd(108)), (108, 8));
        // 0 is the newest revision in reads, and a key that does not exist in comparisons.
        for earlier in [100, 99, 1] {
            assert_eq!(base.of_etcd(earlier), -1, "{earlier}");
        }
        assert_eq!(base.of_etcd(101), 1);
        assert!(base.check(Revision(107)).is_ok());
        let early = base.check(Revision(106));
        assert!(matches!(early, Err(Error::Compacted { oldest: Revision(107), .. })), "{early:?}");
        assert!(Base::default().check(Revision(0)).is_ok());
    }

    #[test]
    fn a_key_that_was_written_created_or_deleted_is_another_base() {
        let kv = |at| vec![KeyValue { mod_revision: at, ..KeyValue::default() }];
        let base = Base::new(100, 7);
        assert!(base.is_current(&kv(107)) && !base.is_current(&kv(108)) && !base.is_current(&[]));
        assert!(Base::default().is_current(&[]) && !Base::default().is_current(&kv(3)));
    }
}
