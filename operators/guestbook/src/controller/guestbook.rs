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
        .watches::<ConfigMap>(readers)
        .concurrency(2)
}

async fn reconcile(guestbook: Arc<Guestbook>, ctx: Context) -> Result<Action> {
    let settings = ObjectKey::namespaced(&guestbook.namespace().unwrap_or_default(), &guestbook.spec.config_map_name);
    let mut status = GuestbookStatus::default();
    match ctx.get::<ConfigMap>(&settings)? {
        Some(settings) => {
            let wanted = deployment(&guestbook, &settings);
            let pods = match ctx.apply_owned(&guestbook, wanted).await {
                Err(error) if error.is_not_ours() => return taken(&guestbook, &ctx, "Deployment").await,
                applied => applied?.status.clone().unwrap_or_default(),
            };
            match ctx.apply_owned(&guestbook, service(&guestbook)).await {
                Err(error) if error.is_not_ours() => return taken(&guestbook, &ctx, "Service").await,
                applied => applied?,
            };
            status.url = Some(url(&guestbook));
            status.replicas = pods.replicas.unwrap_or(0);
            status.ready_replicas = pods.ready_replicas.unwrap_or(0);
            let is_ready = status.ready_replicas >= guestbook.spec.size;
            let reason = if is_ready { "Serving" } else { "Starting" };
            let message = format!("{} of {} pods are ready", status.ready_replicas, guestbook.spec.size);
            status.set_condition(ready(is_ready).reason(reason).message(message));
        }
        None => {
            let message = format!("ConfigMap {} not found", guestbook.spec.config_map_name);
            ctx.event(&guestbook).warning("ConfigMapMissing", &message);
            status.set_condition(ready(false).reason("ConfigMapMissing").message(message));
        }
    }
    ctx.set_status(&guestbook, status).await?;
    Ok(Action::done())
}

/// Reports that an object with the name exists and belongs to something else. Checks again periodically, because such
/// objects are not watched.
async fn taken(guestbook: &Arc<Guestbook>, ctx: &Context, kind: &str) -> Result<Action> {
    let message = format!("{kind} {} exists and is not owned by the guestbook", guestbook.name_any());
    ctx.event(guestbook).warning("NameTaken", &message);
    let mut status = GuestbookStatus::default();
    status.set_condition(ready(false).reason("NameTaken").message(message));
    ctx.set_status(guestbook, status).await?;
    Ok(Action::requeue_after(Duration::from_secs(30)))
}

/// Returns the guestbooks that read a ConfigMap.
fn readers(settings: &ConfigMap, ctx: &Context) -> Vec<ObjectKey> {
    let all: Vec<Arc<Guestbook>> = ctx.list_in(&settings.namespace().unwrap_or_default()).unwrap_or_default();
    let reading = all.iter().filter(|guestbook| guestbook.spec.config_map_name == settings.name_any());
    reading.map(|guestbook| ObjectKey::of(&**guestbook)).collect()
}
