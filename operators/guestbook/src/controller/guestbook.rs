//! Maintains the Deployment and the Service of every Guestbook.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use kube::ResourceExt;
use windlass::prelude::*;

use crate::{
    api::guestbook::{Guestbook, GuestbookStatus},
    objects::{deployment, service, url},
};

/// Watches Guestbooks, their Deployments and Services, and the ConfigMaps with their settings.
pub fn controller() -> Controller<Guestbook> {
    Controller::new("guestbook", reconcile)
        .owns::<Deployment>()
        .owns::<Service>()
        .watches_referenced::<ConfigMap>(|guestbook| vec![settings(guestbook)])
        .concurrency(2)
}

/// Returns the key of the ConfigMap with the settings.
fn settings(guestbook: &Guestbook) -> ObjectKey {
    ObjectKey::namespaced(&guestbook.namespace().unwrap_or_default(), &guestbook.spec.config_map_name)
}

async fn reconcile(guestbook: Arc<Guestbook>, ctx: Context) -> Result<Action> {
    let Some(settings) = ctx.get::<ConfigMap>(&settings(&guestbook))? else {
        let message = format!("ConfigMap {} not found", guestbook.spec.config_map_name);
        return report(&guestbook, &ctx, "ConfigMapMissing", message).await;
    };
    let desired = Desired::new().with(deployment(&guestbook, &settings)).with(service(&guestbook));
    let applied = match ctx.apply_set(&guestbook, "guestbook", &desired).await {
        // Objects with other owners are not watched.
        Err(error) if error.is_not_ours() => {
            report(&guestbook, &ctx, "NameTaken", error.to_string()).await?;
            return Ok(Action::requeue_after(Duration::from_secs(30)));
        }
        applied => applied?,
    };
    let pods = applied.get::<Deployment>().and_then(|deployment| deployment.status.clone()).unwrap_or_default();
    let mut status = GuestbookStatus {
        url: Some(url(&guestbook)),
        replicas: pods.replicas.unwrap_or(0),
        ready_replicas: pods.ready_replicas.unwrap_or(0),
        ..GuestbookStatus::default()
    };
    status.set_condition(applied.condition());
    ctx.set_status(&guestbook, status).await?;
    Ok(Action::done())
}

/// Reports why the guestbook is not served.
async fn report(guestbook: &Arc<Guestbook>, ctx: &Context, reason: &str, message: String) -> Result<Action> {
    ctx.event(guestbook).warning(reason, &message);
    let mut status = GuestbookStatus::default();
    status.set_condition(ready(false).reason(reason).message(message));
    ctx.set_status(guestbook, status).await?;
    Ok(Action::done())
}
