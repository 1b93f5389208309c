//! What can be wrong with what a user asks for.

/// Why something cannot be generated. [`hint`](Self::hint) says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaffoldError {
    /// A name that Kubernetes or Rust would refuse.
    #[error("{what} {name:?} {why}")]
    Name {
        /// What the name is of.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
        /// What to do.
        hint: String,
    },
    /// A `--field` that is not understood.
    #[error("field {text:?}: {why}")]
    Field {
        /// The field as it was given.
        text: String,
        /// What is wrong with it.
        why: String,
        /// What to do.
        hint: String,
    },
    /// The PROJECT file cannot be read.
    #[error("PROJECT{}: {why}", line.map(|line| format!(":{line}")).unwrap_or_default())]
    Project {
        /// The line.
        line: Option<u64>,
        /// What is wrong with it.
        why: String,
    },
    /// The project is of another version of the scaffold.
    #[error("the project is of scaffold {project}, this windlass makes scaffold {ours}")]
    Scaffold {
        /// The project's.
        project: u32,
        /// This program's.
        ours: u32,
    },
    /// Something is there already.
    #[error("{what} is there already")]
    Exists {
        /// What.
        what: String,
        /// What to do.
        hint: String,
    },
    /// Something is not there.
    #[error("there is no {what}")]
    Missing {
        /// What.
        what: String,
        /// What to do.
        hint: String,
    },
    /// What is asked for contradicts itself or the project.
    #[error("{why}")]
    Contradiction {
        /// What is wrong.
        why: String,
        /// What to do.
        hint: String,
    },
}

impl ScaffoldError {
    /// What the user can do.
    pub fn hint(&self) -> String {
        match self {
            Self::Name { hint, .. }
            | Self::Field { hint, .. }
            | Self::Exists { hint, .. }
            | Self::Missing { hint, .. }
            | Self::Contradiction { hint, .. } => hint.clone(),
            Self::Project { .. } => "repair the file by hand, or take it from version control".to_owned(),
            Self::Scaffold { project, ours } if project < ours => "run `windlass upgrade` first".to_owned(),
            Self::Scaffold { .. } => "install a newer windlass".to_owned(),
        }
    }
}
