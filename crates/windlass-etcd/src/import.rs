//! Import of the objects of another store into an empty prefix.
//!
//! The key of the base is written first, with the state `importing`, and once more when everything is there. Every request
//! in between is a transaction that compares the revision of that key: a second import, which takes over by writing the
//! key, stops the first one, and a request that arrives late changes nothing. Each object is written at a revision of its
//! own, so that the objects can be copied back to a store that has one write per revision.

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use windlass_store::{Entry, Error, ListOptions, Revision};

use crate::{
    EtcdError, EtcdOptions,
    base::{Base, Found, Mark, State},
    channel::Channel,
    client::{Client, unsigned},
    guard,
    keys::Prefix,
    messages::{
        Compare, DeleteRangeRequest, Operation, PutRequest, RANGE, RangeRequest, RangeResponse, RequestOp, TXN,
        TxnRequest, TxnResponse,
    },
    status::CallError,
};

/// Number of objects that are written at the same time: etcd writes them to the disk together.
const WRITES: usize = 64;
/// Number of keys that are read or deleted at a time.
const PAGE: usize = 1000;

/// Reasons why objects could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// etcd cannot be used.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// There are objects already.
    #[error("there are objects under {prefix} in etcd already")]
    NotEmpty {
        /// The prefix.
        prefix: String,
    },
    /// The prefix was taken over by another import, or an API server has been started meanwhile.
    #[error("another program has changed the keys under {prefix} in etcd")]
    Interrupted {
        /// The prefix.
        prefix: String,
    },
    /// The revision is too large to be continued in etcd.
    #[error("revision {revision} is too large")]
    Revision {
        /// The revision.
        revision: Revision,
    },
    /// An object could not be written.
    #[error("failed to write {key} to etcd: {cause}")]
    Write {
        /// The key of the object.
        key: String,
        /// The error of etcd.
        cause: String,
    },
    /// A request failed.
    #[error("etcd failed: {0}")]
    Call(String),
    /// The objects could not be read.
    #[error(transparent)]
    Read(#[from] Error),
}

impl ImportError {
    /// Returns advice on how to resolve the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Etcd(error) => error.hint(),
            Self::NotEmpty { .. } => {
                "choose another --etcd-prefix; or, if these objects are not needed any more, stop the API servers that use them \
                 and delete them with `etcdctl del --prefix` followed by the prefix and a slash"
            }
            Self::Interrupted { .. } => {
                "stop all API servers and other migrations that use this prefix, and run the migration again"
            }
            Self::Revision { .. } => "choose a smaller --bump-revision",
            Self::Write { .. } | Self::Call(_) | Self::Read(_) => {
                "check etcd, its limits --max-request-bytes (1.5 MiB by default) and --quota-backend-bytes (2 GiB by default), \
                 and its alarms; then run the migration again"
            }
        }
    }
}

impl From<CallError> for ImportError {
    fn from(error: CallError) -> Self {
        Self::Call(error.to_string())
    }
}

/// A prefix that can be imported to: nothing has been changed yet.
pub struct EtcdTarget {
    client: Client,
    found: Found,
}

/// An import in progress. It stays incomplete if this is dropped.
pub struct EtcdImport {
    client: Client,
    mark: Mark,
    /// The revision of etcd at which the key was written.
    written: i64,
}

impl EtcdTarget {
    /// Connects to etcd, and checks that there is nothing under the prefix but the remains of an incomplete import.
    pub async fn open(options: &EtcdOptions) -> Result<Self, ImportError> {
        let channel = Channel::new(options)?;
        channel.connection().await?;
        let client = Client::new(channel, Prefix::parse(&options.prefix)?);
        guard::check(&client).await?;
        let target = Self { found: Found::read(&client).await?, client };
        if !target.is_incomplete() && !keys(&target.client, 1).await?.kvs.is_empty() {
            return Err(not_empty(&target.client));
        }
        Ok(target)
    }

    /// Returns whether there are remains of an incomplete import.
    pub fn is_incomplete(&self) -> bool {
        self.found.mark.is_some_and(|mark| mark.state == State::Importing)
    }

    /// Starts an import, at revisions later than `newest`. From now on no server can use the prefix, until the import is
    /// complete.
    pub async fn begin(self, newest: Revision) -> Result<EtcdImport, ImportError> {
        let is_incomplete = self.is_incomplete();
        let Self { client, found } = self;
        let before = unsigned(found.newest);
        // A prefix whose objects were deleted never goes back either.
        let earlier = found.mark.map_or(0, |mark| mark.offset);
        let offset = newest.0.saturating_sub(before).max(earlier);
        if newest.0 > u64::MAX / 8 || offset > u64::MAX / 8 {
            return Err(ImportError::Revision { revision: newest });
        }
        let mark = Mark { state: State::Importing, offset, import: before };
        let mut compare = vec![Compare::written(client.prefix.probe(), found.written)];
        if !is_incomplete {
            let (key, range_end) = client.prefix.range("", None)?;
            compare.push(Compare { range_end, ..Compare::written(key, 0) });
        }
        let request = TxnRequest { compare, success: vec![put(&client, &mark)], failure: Vec::new() };
        // Not sent again if the response is lost: the prefix then has an incomplete import, which the next attempt replaces.
        let answer: TxnResponse = client.write(TXN, &request).await?;
        if !answer.succeeded {
            let prefix = client.prefix.as_str().to_owned();
            return Err(if is_incomplete { ImportError::Interrupted { prefix } } else { not_empty(&client) });
        }
        let written = answer.header.map_or(0, |header| header.revision);
        let import = EtcdImport { client, mark, written };
        import.clear().await?;
        Ok(import)
    }
}

impl EtcdImport {
    /// Writes entries. Their revisions are not kept.
    pub async fn write(&self, entries: Vec<Entry>) -> Result<(), ImportError> {
        stream::iter(entries).map(|entry| self.put(entry)).buffer_unordered(WRITES).try_collect().await
    }

    async fn put(&self, entry: Entry) -> Result<(), ImportError> {
        let failed = |cause: String| ImportError::Write { key: entry.key.to_string(), cause };
        let key = self.client.prefix.key(&entry.key).map_err(|error| failed(error.to_string()))?;
        let put = Operation::Put(PutRequest { key, value: entry.value.clone() });
        self.change(put).await.map_err(|error| match error {
            ImportError::Call(cause) => failed(cause),
            error => error,
        })
    }

    /// Passes all entries that are in etcd to `each`.
    pub async fn read_back(&self, each: &mut (dyn FnMut(&Entry) + Send)) -> Result<(), ImportError> {
        let mut options = ListOptions { limit: Some(PAGE), ..ListOptions::default() };
        loop {
            let page = self.client.list(&options).await?;
            page.entries.iter().for_each(&mut *each);
            match page.entries.last() {
                Some(last) if page.remaining > 0 => options.after = Some(last.key.to_string()),
                _ => return Ok(()),
            }
            options.at = Some(page.revision);
        }
    }

    /// Completes the import, and returns the first revision of the store.
    pub async fn complete(self) -> Result<Revision, ImportError> {
        let mark = Mark { state: State::Complete, ..self.mark };
        let request = self.guarded(put(&self.client, &mark));
        // If the response to an earlier attempt was lost, the key has been written.
        let answer: TxnResponse = self.client.read(TXN, &request).await?;
        let written = match answer.succeeded {
            true => answer.header.map_or(0, |header| header.revision),
            false => match Found::read(&self.client).await? {
                Found { mark: Some(found), written, .. } if found == mark => written,
                _ => return Err(self.interrupted()),
            },
        };
        Ok(Base::new(mark.offset, written).first())
    }

    /// Deletes the remains of an earlier import.
    async fn clear(&self) -> Result<(), ImportError> {
        loop {
            let found = keys(&self.client, PAGE).await?;
            let (Some(first), Some(last)) = (found.kvs.first(), found.kvs.last()) else { return Ok(()) };
            let range_end = Bytes::from([&last.key[..], b"\0"].concat());
            self.change(Operation::Delete(DeleteRangeRequest { key: first.key.clone(), range_end })).await?;
        }
    }

    /// Carries out an operation, which may happen twice, unless the import has been interrupted.
    async fn change(&self, operation: Operation) -> Result<(), ImportError> {
        let answer: TxnResponse = self.client.read(TXN, &self.guarded(operation.into())).await?;
        if answer.succeeded { Ok(()) } else { Err(self.interrupted()) }
    }

    fn guarded(&self, operation: RequestOp) -> TxnRequest {
        let compare = vec![Compare::written(self.client.prefix.probe(), self.written)];
        TxnRequest { compare, success: vec![operation], failure: Vec::new() }
    }

    fn interrupted(&self) -> ImportError {
        ImportError::Interrupted { prefix: self.client.prefix.as_str().to_owned() }
    }
}

fn put(client: &Client, mark: &Mark) -> RequestOp {
    Operation::Put(PutRequest { key: client.prefix.probe(), value: mark.encode().into() }).into()
}

/// Reads the first keys under the prefix.
async fn keys(client: &Client, limit: usize) -> Result<RangeResponse, ImportError> {
    let (key, range_end) = client.prefix.range("", None)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let request = RangeRequest { key, range_end, limit, keys_only: true, ..RangeRequest::default() };
    Ok(client.read(RANGE, &request).await?)
}

fn not_empty(client: &Client) -> ImportError {
    ImportError::NotEmpty { prefix: client.prefix.as_str().to_owned() }
}
