//! Files that `windlass init`, `create`, `edit`, `delete` and `upgrade` write, as text.
//!
//! A [`Project`] is the content of the PROJECT file: names, resources, their versions and fields. [`generate`] creates
//! all other files from it. A command changes the project, and [`plan`] compares the files generated before, the files
//! to generate now and the files on disk: unmodified files are replaced, edited files are merged, and changes that
//! cannot be merged are reported line by line. The generated code therefore needs no markers.
//!
//! This crate does no I/O: the caller reads and writes files.
//!
//! ```
//! use windlass_scaffold::{ApiOptions, Project, ProjectOptions, generate};
//!
//! let mut project = Project::new(ProjectOptions::new("bookshop", "example.com"))?;
//! project.create_api(ApiOptions::new("shop", "v1", "Book").field("pages:int32=1..5000")?)?;
//! let files = generate(&project);
//! assert!(files["src/api/book/v1.rs"].contains("pub pages: i32"));
//! # Ok::<(), windlass_scaffold::ScaffoldError>(())
//! ```

mod builtin;
mod change;
mod difference;
mod error;
mod field;
mod fingerprint;
mod generate;
mod import;
mod merge;
pub mod names;
pub mod package;
mod plan;
mod project;
mod template;

pub use change::{ApiOptions, ControllerOptions, Edits, FieldEdits, VersionOptions, WebhookOptions};
pub use difference::difference;
pub use error::ScaffoldError;
pub use field::{Field, FieldType, Number};
pub use fingerprint::fingerprint;
pub use generate::{Files, copy_version, generate, types_path};
pub use import::{Definition, ImportOptions, Types};
pub use plan::{Change, Conflicts, FilePlan, ManualEdit, Question, plan};
pub use project::{
    GitSource, License, Origin, Overlay, Project, ProjectOptions, Resource, SCAFFOLD, Source, VERSION, Version,
    Webhooks,
};
