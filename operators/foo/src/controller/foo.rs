//! Maintains a Deployment for every Foo.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{Container, PodSpec, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::api::ObjectMeta;
use windlass::prelude::*;

use crate::api::foo::{Foo, FooStatus};

/// Watches Foos and their Deployments.
pub fn controller() -> Controller<Foo> {
    Controller::new("foo", reconcile).owns::<Deployment>().concurrency(2)
}

/// Reconciles the Deployment with the Foo's spec and reports progress in its status.
pub async fn reconcile(foo: Arc<Foo>, ctx: Context) -> Result<Action> {
    if foo.spec.deployment_name.is_empty() {
        return Err(Error::terminal("spec.deploymentName must not be empty"));
    }
    let mut status = FooStatus::default();
    match ctx.apply_set(&foo, "deployment", &Desired::new().with(deployment(&foo))).await {
        Ok(applied) => {
            let running = applied.get::<Deployment>().and_then(|deployment| deployment.status.clone());
            status.available_replicas = running.and_then(|running| running.available_replicas).unwrap_or(0);
            status.set_condition(ready(true).reason("Synced"));
        }
        Err(error) if error.is_not_ours() => {
            let note = format!("Resource {:?} already exists and is not managed by Foo", foo.spec.deployment_name);
            ctx.event(&foo).warning("ErrResourceExists", &note);
            status.set_condition(ready(false).reason("ErrResourceExists").message(note));
            ctx.set_status(&foo, status).await?;
            return Err(error.into());
        }
        Err(error) => return Err(error.into()),
    }
    ctx.set_status(&foo, status).await?;
    ctx.event(&foo).normal("Synced", "Foo synced successfully");
    Ok(Action::done())
}

fn deployment(foo: &Foo) -> Deployment {
    let labels = [("app", "nginx"), ("controller", foo.metadata.name.as_deref().unwrap_or_default())];
    let labels: std::collections::BTreeMap<_, _> =
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let container =
        Container { name: "nginx".to_owned(), image: Some("nginx:latest".to_owned()), ..Container::default() };
    Deployment {
        metadata: ObjectMeta { name: Some(foo.spec.deployment_name.clone()), ..ObjectMeta::default() },
        spec: Some(DeploymentSpec {
            replicas: Some(foo.spec.replicas),
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}
