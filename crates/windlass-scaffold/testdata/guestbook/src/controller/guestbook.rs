//! Reconciles Guestbook objects.

use windlass::prelude::*;

use crate::api::guestbook::{Guestbook, GuestbookStatus};

/// Configures the controller. Add `.owns::<Deployment>()` to watch Deployments owned by a Guestbook.
pub fn controller() -> Controller<Guestbook> {
    Controller::new("guestbook", reconcile)
}

/// Reconciles the cluster with the spec of a Guestbook and reports progress in its status.
///
/// Called whenever the Guestbook or a resource it owns may have changed.
async fn reconcile(guestbook: Arc<Guestbook>, ctx: Context) -> Result<Action> {
    // TODO: apply the resources that a Guestbook needs with `ctx.apply_owned(&guestbook, ...)`.
    let mut status = GuestbookStatus::default();
    status.set_condition(ready(true).reason("Reconciled").message("all resources are up to date"));
    ctx.set_status(&guestbook, status).await?;
    Ok(Action::done())
}
