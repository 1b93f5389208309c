//! Errors of reads and writes.

use kube::core::Status;

use crate::{cache::IndexError, client::NoResponse, key::ObjectKey, lease::NotLeading, objects::owner::OwnerError};

/// Error of a read or write through a [`Context`](super::Context).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The kind is not cached for this controller or webhook. Reads never start a watch.
    #[error("{}", reader.hint(kind))]
    NotWatched {
        /// The kind.
        kind: String,
        /// The part of the program that reads.
        reader: Reader,
    },
    /// The kind is not served by the API server, so it is unknown which objects exist.
    #[error("{kind} is not served by the API server (hint: install its CRD; it is watched as soon as it is served)")]
    NotServed {
        /// The kind.
        kind: String,
    },
    /// The object exists, and its newest state failed to deserialize.
    #[error("failed to read {kind} {key}: {problem} (hint: is it from a newer version of this program?)")]
    Unreadable {
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The error, without the content.
        problem: String,
    },
    /// The kind has several informers, one per scope.
    #[error(
        "{kind} is watched in several scopes, each with its own informer (hint: ctx.index(..), ctx.get(..) and ctx.list() \
         read all of them)"
    )]
    SeveralScopes {
        /// The kind.
        kind: String,
    },
    /// The index cannot be created.
    #[error("failed to create an index of {kind}")]
    Index {
        /// The kind.
        kind: String,
        /// The cause.
        #[source]
        source: IndexError,
    },
    /// This process must not write, as it does not lead.
    #[error("failed to {verb} {kind} {key}")]
    NotLeading {
        /// The operation.
        verb: Verb,
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The cause.
        #[source]
        source: NotLeading,
    },
    /// The object that is being reconciled now belongs to another replica.
    #[error("failed to {verb} {kind} {key}: {primary} now belongs to another replica")]
    KeyLost {
        /// The operation.
        verb: Verb,
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The object that was being reconciled.
        primary: ObjectKey,
    },
    /// The object exists and was not created for this parent.
    #[error("{kind} {key} already exists and is not controlled by {parent}{}", controlled_by(controller))]
    NotOurs {
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The intended owner.
        parent: String,
        /// Its controller, if it has one.
        controller: Option<String>,
    },
    /// The parent cannot own the object.
    #[error("failed to set the owner of {kind} {key}")]
    Owner {
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The cause.
        #[source]
        source: OwnerError,
    },
    /// The object lacks a field that this operation needs.
    #[error("failed to {verb} {kind} {key}: it has no {what}")]
    Incomplete {
        /// The operation.
        verb: Verb,
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The missing field.
        what: &'static str,
    },
    /// The context is a [dry run](super::Context::dry_run), and the operation cannot be one.
    #[error("failed to {verb} {kind} {key}: a dry run cannot do this")]
    DryRun {
        /// The operation.
        verb: Verb,
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
    },
    /// An object could not be serialized, or a response could not be deserialized.
    #[error("failed to serialize or deserialize {kind} {key}")]
    Shape {
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The object has changed since it was read, or another object has its name now. Retry with the current state.
    #[error("failed to {verb} {kind} {key}: it has changed since it was read")]
    Conflict {
        /// The operation.
        verb: Verb,
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The response of the API server.
        #[source]
        source: Box<Status>,
    },
    /// The API server rejected the request.
    #[error("failed to {verb} {kind} {key}")]
    Rejected {
        /// The operation.
        verb: Verb,
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The response of the API server.
        #[source]
        source: Box<Status>,
    },
    /// There was no response.
    #[error("failed to {verb} {kind} {key}")]
    Failed {
        /// The operation.
        verb: Verb,
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// An earlier write got no response, and what has become of it cannot be looked up now. The object that was being
    /// reconciled then is not reconciled before it is known: a cache may still have the state from before the write.
    #[error("the outcome of an earlier write of {kind} {key} is unknown")]
    UnknownOutcome {
        /// Kind of the written object.
        kind: String,
        /// The written object.
        key: ObjectKey,
        /// The error of the look-up.
        #[source]
        source: Box<ContextError>,
    },
    /// A set has an object twice. Nothing was applied.
    #[error("failed to apply the set {set:?}: {kind} {key} is in it twice")]
    Duplicate {
        /// Name of the set.
        set: String,
        /// Kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
    },
    /// Some objects of a set could not be applied or deleted. If an apply failed, nothing was pruned.
    #[error("{} of {total} objects of the set {set:?} failed: {}", failures.len(), join(failures))]
    Set {
        /// Name of the set.
        set: String,
        /// Number of objects to write.
        total: usize,
        /// The errors of the failed objects.
        failures: Vec<ContextError>,
    },
}

/// The part of a program that has a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reader {
    /// A controller, or code outside of an operator.
    #[default]
    Controller,
    /// A webhook.
    Webhook,
    /// A task of an operator.
    Task,
}

impl Reader {
    /// Returns what is wrong when it reads a kind that is not watched for it, and what to do.
    fn hint(self, kind: &str) -> String {
        let (by, add) = match self {
            Self::Controller => {
                ("by this controller", format!("add .owns::<{kind}>() or .watches::<{kind}>(..) to the controller"))
            }
            Self::Webhook => ("for this webhook", format!("add .reads::<{kind}>() to the webhook")),
            Self::Task => ("for this task", "add an informer with ctx.add_informer(..)".to_owned()),
        };
        format!("{kind} is not watched {by} (hint: {add}, or read it uncached with ctx.live())")
    }
}

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Read of one object.
    Get,
    /// Read of several objects.
    List,
    /// Creation.
    Create,
    /// Replacement.
    Update,
    /// Patch.
    Patch,
    /// Server-side apply.
    Apply,
    /// Server-side apply of the status.
    SetStatus,
    /// Deletion.
    Delete,
    /// Deletion of several objects.
    DeleteAll,
    /// Read or change of the scale.
    Scale,
    /// Eviction of a pod.
    Evict,
    /// Read of a pod's logs.
    Logs,
    /// Command in a container.
    Exec,
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::SetStatus => "set the status of",
            Self::Delete => "delete",
            Self::DeleteAll => "delete all",
            Self::Scale => "scale",
            Self::Evict => "evict",
            Self::Logs => "read the logs of",
            Self::Exec => "run a command in",
        })
    }
}

impl ContextError {
    /// Returns whether the kind is not served by the API server, because its CRD is not installed.
    pub fn is_not_served(&self) -> bool {
        matches!(self, Self::NotServed { .. })
    }

    /// Returns the response of the API server, if that is the cause.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Conflict { source, .. } | Self::Rejected { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Returns whether the object does not exist. False if its kind is not served, or if something on the way to the
    /// API server responded with 404.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(is_not_found)
    }

    /// Returns whether an object of this name already exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Returns whether nothing can be created in the namespace, because it is being deleted. For a set, whether this is
    /// the cause of all failures.
    pub fn is_namespace_terminating(&self) -> bool {
        if let Self::Set { failures, .. } = self {
            return failures.iter().all(Self::is_namespace_terminating);
        }
        let details = self.status().and_then(|status| status.details.as_ref());
        details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
    }

    /// Returns whether a pod cannot be evicted now, because its disruption budgets do not allow it.
    pub fn is_disruption_budget(&self) -> bool {
        let details = self.status().filter(|status| status.code == 429).and_then(|status| status.details.as_ref());
        details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "DisruptionBudget"))
    }

    /// Returns whether the object has changed since it was read. For a set, whether all failures are conflicts.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Conflict { .. } => true,
            Self::Set { failures, .. } => failures.iter().all(Self::is_conflict),
            _ => false,
        }
    }

    /// Returns whether there was no response within the [time limit](crate::operator::Operator::request_timeout).
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Failed { source, .. } if NoResponse::is_cause(source))
    }

    /// Returns whether a write may have happened nevertheless: there was no response, or an inconclusive one.
    pub(super) fn is_unsure(&self) -> bool {
        matches!(self, Self::Failed { .. }) || self.status().is_some_and(|status| status.code >= 500)
    }

    /// Returns whether the same read would fail again: the API server has rejected it, or the response is unreadable.
    pub(super) fn is_final(&self) -> bool {
        let rejected = |status: &Status| (400..500).contains(&status.code) && !matches!(status.code, 408 | 429);
        match self {
            Self::Failed { .. } => false,
            Self::Conflict { source, .. } | Self::Rejected { source, .. } => rejected(source),
            _ => true,
        }
    }

    /// Returns whether the object belongs to another owner or controller.
    pub fn is_not_ours(&self) -> bool {
        match self {
            Self::NotOurs { .. } => true,
            Self::Owner { source, .. } => matches!(source, OwnerError::Controlled { .. }),
            Self::Set { failures, .. } => failures.iter().any(Self::is_not_ours),
            _ => false,
        }
    }

    /// Returns whether this process no longer leads.
    pub fn is_not_leading(&self) -> bool {
        match self {
            Self::NotLeading { .. } => true,
            Self::Set { failures, .. } => failures.iter().any(Self::is_not_leading),
            _ => false,
        }
    }

    /// Returns whether the object being reconciled now belongs to another replica.
    pub fn is_key_lost(&self) -> bool {
        match self {
            Self::KeyLost { .. } => true,
            Self::Set { failures, .. } => failures.iter().any(Self::is_key_lost),
            _ => false,
        }
    }
}

/// Returns whether a response says that an object does not exist, by naming it.
pub(super) fn is_not_found(status: &Status) -> bool {
    let names_it = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    status.code == 404 && status.reason == "NotFound" && names_it
}

/// Returns whether a response says that the object has changed, or is another one. Applying a UID to an object with
/// another UID is rejected as an attempt to change it.
fn is_conflict(status: &Status) -> bool {
    let causes = || status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        409 => status.reason != "AlreadyExists",
        422 => causes().any(|cause| cause.field == "metadata.uid"),
        _ => false,
    }
}

/// Subject of a request, for its errors.
#[derive(Clone, Debug)]
pub(crate) struct RequestSubject {
    pub(crate) verb: Verb,
    pub(crate) kind: String,
    pub(crate) key: ObjectKey,
    /// Whether the kind is the name of a Rust type.
    pub(crate) is_typed: bool,
}

impl RequestSubject {
    pub(crate) fn not_leading(self, source: NotLeading) -> ContextError {
        ContextError::NotLeading { verb: self.verb, kind: self.kind, key: self.key, source }
    }

    pub(crate) fn key_lost(self, primary: &ObjectKey) -> ContextError {
        ContextError::KeyLost { verb: self.verb, kind: self.kind, key: self.key, primary: primary.clone() }
    }

    pub(crate) fn shape(self, source: serde_json::Error) -> ContextError {
        ContextError::Shape { kind: self.kind, key: self.key, source }
    }

    #[cfg(feature = "ws")]
    pub(crate) fn no_dry_run(self) -> ContextError {
        ContextError::DryRun { verb: self.verb, kind: self.kind, key: self.key }
    }

    pub(crate) fn lacks(self, what: &'static str) -> ContextError {
        ContextError::Incomplete { verb: self.verb, kind: self.kind, key: self.key, what }
    }

    pub(crate) fn failed(self, error: kube::Error) -> ContextError {
        let Self { verb, kind, key, .. } = self;
        match error {
            kube::Error::Api(source) if is_conflict(&source) => ContextError::Conflict { verb, kind, key, source },
            kube::Error::Api(source) => ContextError::Rejected { verb, kind, key, source },
            error => ContextError::Failed { verb, kind, key, source: Box::new(error) },
        }
    }
}

fn controlled_by(controller: &Option<String>) -> String {
    controller.as_ref().map(|controller| format!(": it is controlled by {controller}")).unwrap_or_default()
}

fn join(failures: &[ContextError]) -> String {
    let mut text = String::new();
    for failure in failures {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&failure.to_string());
        if let Some(source) = std::error::Error::source(failure) {
            text.push_str(": ");
            text.push_str(&source.to_string());
        }
    }
    text
}
