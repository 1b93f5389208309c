//! What `windlass init`, `create`, `edit`, `delete` and `upgrade` write, as text.
//!
//! A [`Project`] is what the PROJECT file says: names, resources, their versions and fields. [`generate`] makes all
//! files of it. A command changes the project, and [`plan`] compares what was generated before, what is to be
//! generated now and what is on the disk, and says what to do with each file: files that nobody has edited are
//! replaced, edited ones are merged, and what cannot be merged is told to the user line by line. So there are no
//! markers in the generated code.
//!
//! Nothing here touches the disk: whoever calls reads and writes.
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

pub use change::{ApiOptions, ControllerOptions, Edits, VersionOptions, WebhookOptions};
pub use difference::difference;
pub use error::ScaffoldError;
pub use field::{Field, FieldType, Number};
pub use fingerprint::fingerprint;
pub use generate::{Files, copy_version, generate, types_path};
pub use import::{Definition, ImportOptions, Types};
pub use plan::{ByHand, Change, Conflicts, Plan, Question, plan};
pub use project::{
    GitSource, License, Origin, Project, ProjectOptions, Resource, SCAFFOLD, Source, VERSION, Version, Webhooks,
};
