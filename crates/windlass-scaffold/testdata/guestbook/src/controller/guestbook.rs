//! Keeps guestbook objects as they are asked for.

use windlass::prelude::*;

use crate::api::guestbook::{Guestbook, GuestbookStatus};

/// What is watched, and what is done about it. What belongs to a guestbook is watched with `.owns::<Deployment>()`.
pub fn controller() -> Controller<Guestbook> {
    Controller::new("guestbook", reconcile)
}

/// Makes the cluster as a guestbook says, and says in its status how far that is. Called whenever it, or what belongs to
/// it, may have changed.
async fn reconcile(guestbook: Arc<Guestbook>, ctx: Context) -> Result<Action> {
    // Here: `ctx.apply_owned(&guestbook, ...)` for everything that should be there because of it.
    let mut status = GuestbookStatus::default();
    status.set_condition(ready(true).reason("Reconciled").message("all is as it should be"));
    ctx.set_status(&guestbook, status).await?;
    Ok(Action::done())
}
