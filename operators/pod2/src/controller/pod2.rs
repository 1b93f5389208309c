//! Reports the state of the processes of Pod2s.

use windlass::prelude::*;

use crate::{
    api::pod2::{ContainerStatus, Phase, Pod2, Pod2Status, State},
    containers::{self, Containers},
    life::phase,
};

/// Keeps a Pod2 until its processes have ended.
pub const FINALIZER: &str = "samples.windlass.dev/processes";

/// Watches Pod2s and the processes of their containers.
pub fn controller() -> Controller<Pod2> {
    Controller::new("pod2", reconcile).daemon(containers::daemon()).cleans_up(FINALIZER).concurrency(4)
}

async fn reconcile(pod: Arc<Pod2>, ctx: Context) -> Result<Action> {
    if let Some(containers) = ctx.reported::<Containers>() {
        write_status(&pod, containers.0.clone(), &ctx).await?;
    }
    Ok(Action::done())
}

async fn write_status(pod: &Arc<Pod2>, containers: Vec<ContainerStatus>, ctx: &Context) -> Result<()> {
    let mut status = Pod2Status {
        phase: phase(&containers),
        restarts: containers.iter().map(|container| container.restart_count).sum(),
        ..Pod2Status::default()
    };
    let before = pod.status.as_ref().map(|status| status.phase).unwrap_or_default();
    let running = containers.iter().filter(|container| container.state == State::Running).count();
    let message = format!("{running} of {} processes are running", containers.len());
    let is_ready = running == containers.len();
    status.set_condition(ready(is_ready).reason(if is_ready { "Running" } else { "NotRunning" }).message(message));
    status.containers = containers;
    let now = status.phase;
    ctx.set_status(pod, status).await?;
    match now {
        _ if now == before => {}
        Phase::Succeeded => ctx.event(pod).normal("Succeeded", "all processes have succeeded"),
        Phase::Failed => ctx.event(pod).warning("Failed", "a process has failed"),
        Phase::Pending | Phase::Running => {}
    }
    Ok(())
}
