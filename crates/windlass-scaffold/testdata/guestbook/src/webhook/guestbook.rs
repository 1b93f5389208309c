//! Defaulting and validation for Guestbook objects.

use kube::ResourceExt;
use windlass::webhook::{Denied, Request, Warnings, Webhook};

use crate::api::guestbook::Guestbook;

/// Label that names the manager of an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Maximum length of a name: dependent resources add a suffix to it, and the result must fit into a label.
pub const MAX_NAME_LENGTH: usize = 52;

/// Configures the webhook.
pub fn webhook() -> Webhook<Guestbook> {
    Webhook::new()
        .default_with(|guestbook: &mut Guestbook, _: &Request<Guestbook>| default(guestbook))
        .validate(|request: &Request<Guestbook>| match &request.object {
            Some(new) => validate(request.old_object.as_ref(), new),
            None => Ok(Warnings::none()),
        })
}

/// Sets defaults for fields that are unset.
pub fn default(guestbook: &mut Guestbook) {
    let labels = guestbook.labels_mut();
    labels.entry(MANAGED_BY.into()).or_insert("guestbook".into());
}

/// Rejects invalid objects. `old` is `None` when the object is created.
pub fn validate(old: Option<&Guestbook>, new: &Guestbook) -> Result<Warnings, Denied> {
    if old.is_none() && new.name_any().len() > MAX_NAME_LENGTH {
        let message = format!("must be no more than {MAX_NAME_LENGTH} characters");
        return Err(Denied::field("metadata.name", message));
    }
    Ok(Warnings::none())
}
