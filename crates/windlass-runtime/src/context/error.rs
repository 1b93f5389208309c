//! Why a context could not read or write.

use kube::core::Status;

use crate::{cache::IndexError, key::ObjectKey, lease::NotLeading, objects::owner::OwnerError};

/// Why a context could not read or write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The kind is not in this controller's cache. Reads start no watch of their own.
    #[error(
        "{kind} is not watched by this controller (hint: add .owns::<{kind}>() or .watches::<{kind}>(..) to the controller, \
         or read it uncached with ctx.live())"
    )]
    NotWatched {
        /// The kind that was asked for.
        kind: String,
    },
    /// The kind has an informer for each of several scopes.
    #[error(
        "{kind} is watched in several scopes, and has an informer for each (hint: ctx.index(..), ctx.get(..) and ctx.list() \
         read all of them)"
    )]
    SeveralScopes {
        /// The kind that was asked for.
        kind: String,
    },
    /// There is no such index.
    #[error("{kind} cannot be looked up")]
    Index {
        /// The kind that was asked for.
        kind: String,
        /// Why not.
        #[source]
        source: IndexError,
    },
    /// This process must not write.
    #[error("could not {verb} {kind} {key}")]
    NotLeading {
        /// What was to be done.
        verb: Verb,
        /// The kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// Why not.
        #[source]
        source: NotLeading,
    },
    /// What is being reconciled is another replica's by now.
    #[error("could not {verb} {kind} {key}: {primary} is not this process's any more")]
    KeyLost {
        /// What was to be done.
        verb: Verb,
        /// The kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// What was being reconciled.
        primary: ObjectKey,
    },
    /// The object is somebody else's: it was there without being made for this parent.
    #[error("{kind} {key} exists already and is not managed by {parent}{}", controlled_by(controller))]
    NotOurs {
        /// The kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// Who wanted it.
        parent: String,
        /// Who has it, if it has a controller.
        controller: Option<String>,
    },
    /// The parent cannot own the object.
    #[error("{kind} {key} cannot be owned")]
    Owner {
        /// The kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// Why not.
        #[source]
        source: OwnerError,
    },
    /// The object lacks something that this write needs.
    #[error("could not {verb} {kind} {key}: it has no {what}")]
    Incomplete {
        /// What was to be done.
        verb: Verb,
        /// The kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// What it lacks.
        what: &'static str,
    },
    /// An object cannot be written as JSON, or an answer is not one.
    #[error("{kind} {key} and its type do not fit together")]
    Shape {
        /// The kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// What does not fit.
        #[source]
        source: serde_json::Error,
    },
    /// The object has changed in between, or another one has its name now. Trying again with fresh state cures it.
    #[error("could not {verb} {kind} {key}: it has changed in between")]
    Conflict {
        /// What was to be done.
        verb: Verb,
        /// The kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The server's answer.
        #[source]
        source: Box<Status>,
    },
    /// The server said no.
    #[error("could not {verb} {kind} {key}")]
    Refused {
        /// What was to be done.
        verb: Verb,
        /// The kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The server's answer.
        #[source]
        source: Box<Status>,
    },
    /// There was no answer.
    #[error("could not {verb} {kind} {key}")]
    Failed {
        /// What was to be done.
        verb: Verb,
        /// The kind of the object.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// What went wrong.
        #[source]
        source: Box<kube::Error>,
    },
    /// Some objects of a set could not be applied or deleted. Nothing was pruned if an apply failed.
    #[error("{} of {total} objects of the set {set:?} failed: {}", failures.len(), join(failures))]
    Set {
        /// The set.
        set: String,
        /// How many objects were to be written.
        total: usize,
        /// Why each of the failed ones did.
        failures: Vec<ContextError>,
    },
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// GET.
    Get,
    /// GET of many.
    List,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// Server-side apply.
    Apply,
    /// Server-side apply of the status.
    SetStatus,
    /// DELETE.
    Delete,
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
        })
    }
}

impl ContextError {
    /// The server's answer, if that is what failed.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Conflict { source, .. } | Self::Refused { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Whether the object is not there. That its kind is not there, or that somebody on the way to the server does not
    /// know it, is another matter.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(is_not_found)
    }

    /// Whether an object of that name is there already.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Whether the object has changed in between; of a set, whether nothing else is wrong with it.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Conflict { .. } => true,
            Self::Set { failures, .. } => failures.iter().all(Self::is_conflict),
            _ => false,
        }
    }

    /// Whether a write may have been done nevertheless: there was no answer, or none that says.
    pub(super) fn is_unsure(&self) -> bool {
        matches!(self, Self::Failed { .. }) || self.status().is_some_and(|status| status.code >= 500)
    }

    /// Whether the object is somebody else's.
    pub fn is_not_ours(&self) -> bool {
        match self {
            Self::NotOurs { .. } => true,
            Self::Owner { source, .. } => matches!(source, OwnerError::Controlled { .. }),
            Self::Set { failures, .. } => failures.iter().any(Self::is_not_ours),
            _ => false,
        }
    }

    /// Whether this process did not lead any more.
    pub fn is_not_leading(&self) -> bool {
        match self {
            Self::NotLeading { .. } => true,
            Self::Set { failures, .. } => failures.iter().any(Self::is_not_leading),
            _ => false,
        }
    }

    /// Whether what is being reconciled was not this process's any more.
    pub fn is_key_lost(&self) -> bool {
        match self {
            Self::KeyLost { .. } => true,
            Self::Set { failures, .. } => failures.iter().any(Self::is_key_lost),
            _ => false,
        }
    }
}

/// Whether an answer says that an object is not there: it names it.
pub(super) fn is_not_found(status: &Status) -> bool {
    let names_it = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    status.code == 404 && status.reason == "NotFound" && names_it
}

/// Whether an answer says that the object has changed, or is another one. A uid that is applied to an object with
/// another one is refused as one tries to change it.
fn is_conflict(status: &Status) -> bool {
    let causes = || status.details.iter().flat_map(|details| &details.causes);
    match status.code {
        409 => status.reason != "AlreadyExists",
        422 => causes().any(|cause| cause.field == "metadata.uid"),
        _ => false,
    }
}

/// What a request is about, for its errors.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) verb: Verb,
    pub(crate) kind: String,
    pub(crate) key: ObjectKey,
}

impl Target {
    pub(crate) fn not_leading(self, source: NotLeading) -> ContextError {
        ContextError::NotLeading { verb: self.verb, kind: self.kind, key: self.key, source }
    }

    pub(crate) fn key_lost(self, primary: &ObjectKey) -> ContextError {
        ContextError::KeyLost { verb: self.verb, kind: self.kind, key: self.key, primary: primary.clone() }
    }

    pub(crate) fn shape(self, source: serde_json::Error) -> ContextError {
        ContextError::Shape { kind: self.kind, key: self.key, source }
    }

    pub(crate) fn lacks(self, what: &'static str) -> ContextError {
        ContextError::Incomplete { verb: self.verb, kind: self.kind, key: self.key, what }
    }

    pub(crate) fn failed(self, error: kube::Error) -> ContextError {
        let Self { verb, kind, key } = self;
        match error {
            kube::Error::Api(source) if is_conflict(&source) => ContextError::Conflict { verb, kind, key, source },
            kube::Error::Api(source) => ContextError::Refused { verb, kind, key, source },
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
