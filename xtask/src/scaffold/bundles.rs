//! Validates the bundles of projects for the Operator Lifecycle Manager.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::execute;
use crate::peers::BUNDLE_VALIDATOR;

/// Returns the validator, if it was built.
pub(super) fn validator(peers: &Path) -> Option<PathBuf> {
    let program = peers.join(BUNDLE_VALIDATOR);
    if !program.is_file() {
        println!("bundles are not validated: `cargo xtask peers {BUNDLE_VALIDATOR}` builds what does it");
        return None;
    }
    std::path::absolute(program).ok()
}

/// Validates the bundle of a project.
pub(super) fn validate(validator: &Path, project: &Path) -> anyhow::Result<()> {
    execute(Command::new(validator).arg(project.join("bundle")))
}
