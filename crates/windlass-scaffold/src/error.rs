//! Errors of scaffolding.

/// Reasons why a project cannot be read or changed. [`hint`](Self::hint) says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaffoldError {
    /// A name that Kubernetes or Rust would reject.
    #[error("{what} {name:?} {why}")]
    Name {
        /// The named item.
        what: &'static str,
        /// The name.
        name: String,
        /// Reason why it is rejected.
        why: String,
        /// The hint.
        hint: String,
    },
    /// A `--field` that cannot be parsed.
    #[error("field {text:?}: {why}")]
    Field {
        /// The field as given.
        text: String,
        /// Reason why it is rejected.
        why: String,
        /// The hint.
        hint: String,
    },
    /// The PROJECT file cannot be read.
    #[error("PROJECT{}: {why}", line.map(|line| format!(":{line}")).unwrap_or_default())]
    Project {
        /// Line number.
        line: Option<u64>,
        /// Reason.
        why: String,
    },
    /// The project was created with another version of the scaffold.
    #[error("the project has scaffold version {project}, but this windlass uses scaffold version {ours}")]
    Scaffold {
        /// Scaffold version of the project.
        project: u32,
        /// Scaffold version of this program.
        ours: u32,
    },
    /// Something already exists.
    #[error("{what} already exists")]
    Exists {
        /// The existing item.
        what: String,
        /// The hint.
        hint: String,
    },
    /// Something does not exist.
    #[error("{what} does not exist")]
    Missing {
        /// The missing item.
        what: String,
        /// The hint.
        hint: String,
    },
    /// The request contradicts itself or the project.
    #[error("{why}")]
    Contradiction {
        /// Reason.
        why: String,
        /// The hint.
        hint: String,
    },
}

impl ScaffoldError {
    /// Returns what the user can do about the error.
    pub fn hint(&self) -> String {
        match self {
            Self::Name { hint, .. }
            | Self::Field { hint, .. }
            | Self::Exists { hint, .. }
            | Self::Missing { hint, .. }
            | Self::Contradiction { hint, .. } => hint.clone(),
            Self::Project { .. } => "fix the file by hand, or restore it from version control".to_owned(),
            Self::Scaffold { project, ours } if project < ours => "run `windlass upgrade` first".to_owned(),
            Self::Scaffold { .. } => "install a newer version of windlass".to_owned(),
        }
    }
}
