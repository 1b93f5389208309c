//! Storage version migration: rewrites the stored objects of a custom resource in its storage version.
//!
//! When the storage version of a CRD changes, objects stay as they are stored until they are written again, and
//! `status.storedVersions` lists every version that may be among them. A version can be removed from the CRD only when it
//! is no longer listed. [`migrate_settled`] writes every object once, unchanged, and then removes the old versions from the
//! list.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> Result<(), windlass_runtime::migration::MigrationError> {
//! use windlass_runtime::migration::{MigrationOutcome, SETTLE, migrate_settled};
//!
//! let waits = |time| println!("waiting for {time:?}");
//! let outcome =
//!     migrate_settled(&client, "sites.example.com", SETTLE, waits, |progress| println!("{progress}")).await?;
//! if let MigrationOutcome::Migrated { removed, .. } = outcome {
//!     println!("no object is stored as {} any more", removed.join(", "));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - **Safe with other writers**: an object is written with its resource version, so a change by someone else is never
//!   overwritten. That change has been stored in the storage version.
//! - **In pages**, a few objects at a time, and **resumable**: after each page, the position is saved in an annotation of the
//!   CRD. A migration that was interrupted continues there. If the position has expired, it continues where the API server
//!   says, or starts again, which is harmless.
//! - **Not too early**: a replica of the API server that does not know the new storage version yet still stores objects in
//!   the old one, so the CRD must have been unchanged for a while.
//! - **All or nothing**: if an object cannot be written, for example because it violates the schema, the list of stored
//!   versions is left alone, and the error names the objects. The next attempt begins with them, and does not repeat the others
//!   unless they are very many.
//!
//! [`Operator::migrate_storage`](crate::operator::Operator::migrate_storage) does this whenever it is needed.

use std::{collections::BTreeSet, fmt, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use tokio::time::Instant;

mod controller;
mod definition;

pub(crate) use controller::controller;
use definition::{Position, Saved, Target};

use crate::{client::TimeLimit, context::REQUEST_TIMEOUT};

/// Time for which a CRD should be unchanged before its objects are migrated. A replica of the API server learns about a new
/// storage version within seconds, unless its watch has to be established again.
pub const SETTLE: Duration = Duration::from_secs(60);

/// Objects per page.
const PAGE: u32 = 200;
/// Objects that are written at the same time.
const CONCURRENCY: usize = 8;
/// Number of failed objects that an error lists.
const SHOWN: usize = 10;
/// Number of times that an object is written if the API server is overloaded.
const TRIES: u32 = 5;
/// Number of times in a row that a position may expire.
const EXPIRIES: u32 = 3;

/// Progress of a migration, after each page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationProgress {
    /// Name of the CRD.
    pub definition: String,
    /// Objects that were rewritten.
    pub rewritten: u64,
    /// Objects that were changed or deleted by someone else at the same time, and need no rewrite.
    pub skipped: u64,
    /// Objects that could not be rewritten.
    pub failed: u64,
    /// Objects that are left, if the API server counts them.
    pub remaining: Option<u64>,
}

/// Outcome of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MigrationOutcome {
    /// All objects are stored in the storage version already.
    NotNeeded {
        /// The storage version.
        version: String,
    },
    /// All objects were rewritten.
    Migrated {
        /// The storage version.
        version: String,
        /// Versions that were removed from `status.storedVersions`.
        removed: Vec<String>,
        /// The last progress.
        progress: MigrationProgress,
    },
}

/// Error of a migration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// The CRD could not be read or written.
    #[error("failed to {verb} CustomResourceDefinition {name}")]
    Definition {
        /// `get` or `update`.
        verb: &'static str,
        /// Name of the CRD.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The CRD has no storage version that can be written.
    #[error("CustomResourceDefinition {name} serves no version")]
    NotServed {
        /// Name of the CRD.
        name: String,
    },
    /// The objects could not be listed.
    #[error("failed to list the objects of {name}")]
    List {
        /// Name of the CRD.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The CRD changed during the migration, perhaps its storage version, so some objects may be stored in another one.
    #[error("CustomResourceDefinition {name} changed during the migration; start it again")]
    DefinitionChanged {
        /// Name of the CRD.
        name: String,
    },
    /// Some objects could not be written.
    #[error("failed to rewrite {failed} objects of {name}: {}", objects.join("; "))]
    Objects {
        /// Name of the CRD.
        name: String,
        /// Number of objects.
        failed: u64,
        /// The first of them, with their errors.
        objects: Vec<String>,
    },
}

/// Rewrites all objects of a custom resource in its storage version, and removes other versions from
/// `status.storedVersions`. Does nothing if there are none. `report` is called after each page.
///
/// With several API servers, it must not begin before all of them know the storage version: see [`migrate_settled`].
///
/// Dropping the future at any time is safe: the next call continues.
pub async fn migrate(
    client: &Client,
    definition: &str,
    report: impl FnMut(&MigrationProgress),
) -> Result<MigrationOutcome, MigrationError> {
    let definitions = Api::all(client.clone());
    let target = Target::read(&definitions, definition).await?;
    rewrite_all(client, &definitions, target, report).await
}

/// Like [`migrate`], once the specification of the CRD has been unchanged for `settle`: until then, an API server may still
/// store objects in another version. `waits` is called before each wait.
///
/// The time of the last change is that in the managed fields of the CRD if it has any, and otherwise that of this call.
pub async fn migrate_settled(
    client: &Client,
    definition: &str,
    settle: Duration,
    mut waits: impl FnMut(Duration),
    report: impl FnMut(&MigrationProgress),
) -> Result<MigrationOutcome, MigrationError> {
    let definitions = Api::all(client.clone());
    let mut target = Target::read(&definitions, definition).await?;
    let (mut known, mut since) = (target.identity().clone(), Instant::now());
    while !target.is_migrated() {
        let remaining = settle.saturating_sub(target.unchanged_for().max(since.elapsed()));
        if remaining.is_zero() {
            break;
        }
        waits(remaining);
        tokio::time::sleep(remaining).await;
        target = Target::read(&definitions, definition).await?;
        if *target.identity() != known {
            (known, since) = (target.identity().clone(), Instant::now());
        }
    }
    rewrite_all(client, &definitions, target, report).await
}

/// Rewrites all objects of a CRD as it was read.
async fn rewrite_all(
    client: &Client,
    definitions: &Api<CustomResourceDefinition>,
    target: Target,
    mut report: impl FnMut(&MigrationProgress),
) -> Result<MigrationOutcome, MigrationError> {
    if target.is_migrated() {
        return Ok(MigrationOutcome::NotNeeded { version: target.storage });
    }
    let (resource, definition) = (target.resource()?, target.name());
    let mut state = target.saved();
    let mut progress = MigrationProgress::of(&definition);
    let (mut failures, mut expiries) = (Failures::default(), 0);
    if !state.failed.is_empty() {
        let again = rewrite_again(client, &resource, std::mem::take(&mut state.failed));
        let mut outcomes = std::pin::pin!(again);
        while let Some(outcome) = outcomes.next().await {
            progress.count(outcome, &mut state, &mut failures);
        }
        report(&progress);
        target.save(definitions, &state).await?;
    }
    while state.position != Position::End {
        let page = match list(client, &resource, &state.position).await {
            // The position has expired, or is not one of this server.
            Err(kube::Error::Api(status))
                if matches!(status.code, 400 | 410) && state.position != Position::Start && expiries < EXPIRIES =>
            {
                expiries += 1;
                // Objects after this position, as they are now. Newer objects are stored in the storage version.
                let later = status.metadata.as_ref().and_then(|meta| meta.continue_.clone());
                let later = later.filter(|token| status.code == 410 && !token.is_empty());
                state.position = later.map_or(Position::Start, Position::At);
                if state.position == Position::Start {
                    // Objects that were rewritten are rewritten again, without effect.
                    (progress, failures) = (MigrationProgress::of(&definition), Failures::default());
                    state.failed.clear();
                }
                continue;
            }
            page => page.map_err(|error| MigrationError::List { name: definition.clone(), source: Box::new(error) })?,
        };
        expiries = 0;
        let objects = futures_util::stream::iter(page.items)
            .map(|object| rewrite(client, &resource, object).boxed())
            .buffer_unordered(CONCURRENCY);
        let mut outcomes = std::pin::pin!(objects);
        while let Some(outcome) = outcomes.next().await {
            progress.count(outcome, &mut state, &mut failures);
        }
        progress.remaining = page.metadata.remaining_item_count.and_then(|count| u64::try_from(count).ok());
        report(&progress);
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        state.position = next.map_or(Position::End, Position::At);
        // Only objects that failed are retried.
        if state.position != Position::End || !state.failed.is_empty() {
            target.save(definitions, &state).await?;
        }
    }
    if progress.failed > 0 {
        let objects = failures.0.into_iter().collect();
        return Err(MigrationError::Objects { name: definition, failed: progress.failed, objects });
    }
    let removed = target.finish(definitions).await?;
    Ok(MigrationOutcome::Migrated { version: target.storage, removed, progress })
}

async fn list(
    client: &Client,
    resource: &ApiResource,
    position: &Position,
) -> Result<kube::core::ObjectList<DynamicObject>, kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let continue_token = match position {
        Position::At(token) => Some(token.clone()),
        Position::Start | Position::End => None,
    };
    let params = ListParams { limit: Some(PAGE), continue_token, ..ListParams::default() };
    within(api.list(&params)).await
}

/// Bounds a request.
async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    TimeLimit::new(REQUEST_TIMEOUT).run(request).await?
}

enum Rewrite {
    Done,
    Skipped,
    /// Key and error.
    Failed(String, String),
}

/// The first errors of objects, in the order of their keys.
#[derive(Default)]
struct Failures(BTreeSet<String>);

impl Failures {
    fn add(&mut self, key: &str, error: &str) {
        self.0.insert(format!("{key}: {error}"));
        if self.0.len() > SHOWN {
            self.0.pop_last();
        }
    }
}

/// Returns the key of an object.
fn key_of(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// Writes objects that could not be written before, as they are now.
fn rewrite_again(
    client: &Client,
    resource: &ApiResource,
    keys: BTreeSet<String>,
) -> impl futures_util::Stream<Item = Rewrite> {
    let again = move |key: String| async move {
        let (namespace, name) = match key.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, &*key),
        };
        match within(api(client, resource, namespace).get(name)).await {
            Ok(object) => rewrite(client, resource, object).await,
            Err(error) if is_outdated(&error, resource, name) => Rewrite::Skipped,
            Err(error) => Rewrite::Failed(key.clone(), error.to_string()),
        }
    };
    futures_util::stream::iter(keys).map(again).buffer_unordered(CONCURRENCY)
}

fn api(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// Writes an object as it is, if it is still as it was read.
async fn rewrite(client: &Client, resource: &ApiResource, mut object: DynamicObject) -> Rewrite {
    let (name, namespace) = (object.name_any(), object.namespace());
    let api = api(client, resource, namespace.as_deref());
    // Lists omit it.
    object.types.get_or_insert_with(|| kube::core::TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    });
    let mut delay = Duration::from_millis(200);
    for tries in 1.. {
        let error = match within(api.replace(&name, &PostParams::default(), &object)).await {
            Ok(_) => return Rewrite::Done,
            Err(error) => error,
        };
        let code = match &error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        };
        match code {
            404 | 409 if is_outdated(&error, resource, &name) => return Rewrite::Skipped,
            // Overloaded, or no response.
            0 | 429 | 500.. if tries < TRIES => {
                tokio::time::sleep(delay).await;
                delay *= 2;
            }
            _ => return Rewrite::Failed(key_of(namespace.as_deref(), &name), error.to_string()),
        }
    }
    unreachable!("the last try returns")
}

/// Returns whether an object was not written because it is not any more as it was read.
fn is_outdated(error: &kube::Error, resource: &ApiResource, name: &str) -> bool {
    let kube::Error::Api(status) = error else { return false };
    // The answer may also be about another object, such as a quota, or be the verdict of a webhook.
    let about = status.details.as_ref();
    let is_about_it = about.is_some_and(|details| details.kind == resource.plural && details.name == name);
    is_about_it && matches!((status.code, &*status.reason), (404, "NotFound") | (409, "Conflict"))
}

impl MigrationProgress {
    fn of(definition: &str) -> Self {
        Self { definition: definition.to_owned(), ..Self::default() }
    }

    fn count(&mut self, outcome: Rewrite, state: &mut Saved, failures: &mut Failures) {
        match outcome {
            Rewrite::Done => self.rewritten += 1,
            Rewrite::Skipped => self.skipped += 1,
            Rewrite::Failed(key, error) => {
                self.failed += 1;
                failures.add(&key, &error);
                state.add_failed(key);
            }
        }
    }
}

impl fmt::Display for MigrationProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} rewritten", self.definition, self.rewritten)?;
        if self.skipped > 0 {
            write!(f, ", {} changed by others", self.skipped)?;
        }
        if self.failed > 0 {
            write!(f, ", {} failed", self.failed)?;
        }
        match self.remaining {
            Some(remaining) if remaining > 0 => write!(f, ", {remaining} left"),
            _ => Ok(()),
        }
    }
}
