//! Reports of authenticators about a request, in addition to its user.

use std::sync::Arc;

use crate::audit::RequestAudit;

/// Reports of authenticators about a request, in addition to its user.
pub(crate) struct Notices<'a> {
    audit: Option<&'a Arc<RequestAudit>>,
    /// Warnings for the client.
    pub(crate) warnings: Vec<&'static str>,
}

impl<'a> Notices<'a> {
    pub(crate) fn new(audit: Option<&'a Arc<RequestAudit>>) -> Self {
        Self { audit, warnings: Vec::new() }
    }

    /// Adds a warning for the client.
    pub(super) fn warn(&mut self, warning: &'static str) {
        self.warnings.push(warning);
    }

    /// Adds an annotation to the audit event of the request.
    pub(super) fn annotate(&self, key: &str, value: impl FnOnce() -> String) {
        if let Some(audit) = self.audit {
            audit.annotate(key, &value());
        }
    }
}
