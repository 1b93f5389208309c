//! Changes of how the operator is deployed and released.

use crate::{Overlay, Project, ScaffoldError};

impl Project {
    /// Adds an overlay, or replaces the one of the same name.
    pub fn create_overlay(&mut self, overlay: Overlay) -> Result<(), ScaffoldError> {
        overlay.check()?;
        match self.overlays.iter_mut().find(|one| one.name == overlay.name) {
            Some(there) => *there = overlay,
            None => self.overlays.push(overlay),
        }
        Ok(())
    }

    /// Removes an overlay.
    pub fn delete_overlay(&mut self, name: &str) -> Result<(), ScaffoldError> {
        self.overlay(name)?;
        self.overlays.retain(|one| one.name != name);
        Ok(())
    }

    /// Returns an overlay by name.
    pub fn overlay(&self, name: &str) -> Result<&Overlay, ScaffoldError> {
        self.overlays.iter().find(|one| one.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.overlays.iter().map(|one| one.name.as_str()).collect();
            ScaffoldError::Missing {
                what: format!("overlay {name}"),
                hint: match known.is_empty() {
                    true => format!("create it with `windlass create overlay {name}`"),
                    false => format!("overlays of this project: {}", known.join(", ")),
                },
            }
        })
    }

    /// Adds the release workflow.
    pub fn create_release_workflow(&mut self) -> Result<(), ScaffoldError> {
        if self.release_workflow {
            let what = "the release workflow".to_owned();
            return Err(ScaffoldError::Exists { what, hint: "edit .github/workflows/release.yml".to_owned() });
        }
        self.release_workflow = true;
        Ok(())
    }
}
