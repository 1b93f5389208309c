//! What is filled in and refused when guestbook objects are written.

use kube::ResourceExt;
use windlass::webhook::{Denied, Request, Warnings, Webhook};

use crate::api::guestbook::Guestbook;

/// The label that tells who looks after an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Names of what belongs to an object begin with its name, and have to fit a label.
pub const LONGEST_NAME: usize = 52;

/// What the API server asks.
pub fn webhook() -> Webhook<Guestbook> {
    Webhook::new()
        .default_with(|guestbook: &mut Guestbook, _: &Request<Guestbook>| default(guestbook))
        .validate(|request: &Request<Guestbook>| match &request.object {
            Some(new) => validate(request.old_object.as_ref(), new),
            None => Ok(Warnings::none()),
        })
}

/// Fills in what was left out.
pub fn default(guestbook: &mut Guestbook) {
    let labels = guestbook.labels_mut();
    labels.entry(MANAGED_BY.into()).or_insert("guestbook".into());
}

/// Refuses what cannot be. There is no old one when it is made.
pub fn validate(old: Option<&Guestbook>, new: &Guestbook) -> Result<Warnings, Denied> {
    if old.is_none() && new.name_any().len() > LONGEST_NAME {
        let message = format!("must be no more than {LONGEST_NAME} characters");
        return Err(Denied::field("metadata.name", message));
    }
    Ok(Warnings::none())
}
