//! Options of all writes of a context: dry runs, and the validation of fields.

use kube::api::ValidationDirective;

use super::Context;

/// Options of writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteOptions {
    pub(super) dry_run: bool,
    field_validation: Option<&'static str>,
}

impl Context {
    /// Returns a context whose writes are dry runs: the API server admits and validates them, and returns what would be
    /// stored, but stores nothing. Later reads do not see them. [Commands](Self::exec) are rejected, and
    /// [events](Self::event) are dropped.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_runtime::{Result, context::Context};
    /// # async fn example(ctx: &Context, config: ConfigMap) -> Result<()> {
    /// if let Err(error) = ctx.dry_run().apply(config.clone()).await {
    ///     println!("the API server would reject it: {error}");
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn dry_run(&self) -> Self {
        Self { options: WriteOptions { dry_run: true, ..self.options }, ..self.clone() }
    }

    /// Returns whether writes are dry runs.
    pub fn is_dry_run(&self) -> bool {
        self.options.dry_run
    }

    /// Returns a context whose writes are validated like this: with `Strict`, the API server rejects unknown and
    /// duplicate fields, which it drops silently otherwise.
    #[must_use]
    pub fn validating_fields(&self, directive: &ValidationDirective) -> Self {
        let name = match directive {
            ValidationDirective::Strict => "Strict",
            ValidationDirective::Warn => "Warn",
            ValidationDirective::Ignore => "Ignore",
        };
        Self { options: WriteOptions { field_validation: Some(name), ..self.options }, ..self.clone() }
    }
}

impl WriteOptions {
    /// Adds the options to a request. Deletions have theirs in the body.
    pub(super) fn add_to(self, request: &mut http::Request<Vec<u8>>) {
        if request.method() == http::Method::DELETE {
            return;
        }
        let dry_run = self.dry_run.then_some("dryRun=All");
        let validation = self.field_validation.map(|directive| format!("fieldValidation={directive}"));
        let options: Vec<&str> = dry_run.into_iter().chain(validation.as_deref()).collect();
        if options.is_empty() {
            return;
        }
        let uri = request.uri().to_string();
        let separator = if uri.contains('?') { "&" } else { "?" };
        if let Ok(uri) = format!("{uri}{separator}{}", options.join("&")).parse() {
            *request.uri_mut() = uri;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_added_to_the_query() {
        for (method, uri, expected) in [
            ("POST", "/api/v1/pods", "/api/v1/pods?dryRun=All&fieldValidation=Strict"),
            ("PATCH", "/api/v1/pods/a?&force=true", "/api/v1/pods/a?&force=true&dryRun=All&fieldValidation=Strict"),
            ("DELETE", "/api/v1/pods/a?", "/api/v1/pods/a?"),
        ] {
            let mut request = http::Request::builder().method(method).uri(uri).body(Vec::new()).unwrap();
            WriteOptions { dry_run: true, field_validation: Some("Strict") }.add_to(&mut request);
            assert_eq!(request.uri(), expected);
        }
    }
}
