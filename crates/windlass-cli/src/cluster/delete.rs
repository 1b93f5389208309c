//! Deleting objects from a cluster.

use std::{fmt, time::Duration};

use kube::{Api, api::DeleteParams, core::DynamicObject};
use serde_json::Value;

use super::{Cluster, Reference, order, resources::Resources, target::causes, wait};
use crate::failure::ErrorWithHint;

/// Options of a deletion. The default does not wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeleteOptions {
    /// The server only reports what it would do.
    pub(crate) dry_run: bool,
    /// Time to wait until all objects are deleted.
    pub(crate) wait: Option<Duration>,
}

/// Result of deleting an object.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    /// The object.
    pub(crate) reference: Reference,
    /// Whether it existed.
    pub(crate) was_there: bool,
    /// Whether this is a dry run.
    pub(crate) dry_run: bool,
}

impl fmt::Display for Deleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reference, was_there, dry_run } = self;
        match (was_there, dry_run) {
            (false, _) => write!(f, "{reference}: not found"),
            (true, true) => write!(f, "{reference}: would be deleted"),
            (true, false) => write!(f, "{reference}: deleted"),
        }
    }
}

impl Cluster {
    /// Deletes objects in reverse order of applying, and reports each. Missing objects are not an error.
    pub(crate) async fn delete(
        &self,
        objects: &[Value],
        options: DeleteOptions,
        report: &mut (dyn FnMut(&Deleted) + Send),
    ) -> anyhow::Result<Vec<Deleted>> {
        let mut resources = Resources::new(self.client.clone(), self.namespace.clone());
        let (mut all, mut pending) = (Vec::with_capacity(objects.len()), Vec::new());
        for object in order::applied(objects).into_iter().rev() {
            let reference = Reference::of(object);
            let found = resources.find(&reference).await.map_err(|error| failed(&reference, &error))?;
            let deleted = match found {
                None => Deleted { reference, was_there: false, dry_run: options.dry_run },
                Some((api, reference)) => {
                    let uid = delete(&api, &reference, options).await.map_err(|error| failed(&reference, &error))?;
                    let deleted = Deleted { reference, was_there: uid.is_some(), dry_run: options.dry_run };
                    pending.extend(uid.map(|uid| (api, deleted.reference.clone(), uid)));
                    deleted
                }
            };
            report(&deleted);
            all.push(deleted);
        }
        if let (Some(within), false) = (options.wait, options.dry_run) {
            for (api, reference, uid) in pending {
                if !wait::gone(&api, &reference.name, &uid, within).await? {
                    let message = format!("{reference} still exists after {} seconds", within.as_secs());
                    let hint = "check its finalizers: the controllers that set them must remove them";
                    return Err(ErrorWithHint { message, hint: hint.into() }.into());
                }
            }
        }
        Ok(all)
    }
}

/// Deletes an object; returns its reference if it existed.
async fn delete(
    api: &Api<DynamicObject>,
    reference: &Reference,
    options: DeleteOptions,
) -> Result<Option<String>, kube::Error> {
    let Some(there) = api.get_opt(&reference.name).await? else { return Ok(None) };
    let mut parameters = DeleteParams::background();
    parameters.dry_run = options.dry_run;
    match api.delete(&reference.name, &parameters).await {
        Ok(_) => Ok(Some(there.metadata.uid.unwrap_or_default())),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

fn failed(reference: &Reference, error: &kube::Error) -> anyhow::Error {
    let (why, hint) = match error {
        kube::Error::Api(status) if status.code == 403 => {
            (status.message.clone(), "choose a context with sufficient permissions with --context")
        }
        kube::Error::Api(status) => (status.message.clone(), "objects deleted so far stay deleted; try again"),
        error => (causes(error), "check that the cluster is running, then try again"),
    };
    ErrorWithHint { message: format!("cannot delete {reference}: {why}"), hint: hint.into() }.into()
}
