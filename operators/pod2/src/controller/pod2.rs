//! Starts the processes of Pod2s, reports their state, and ends them.

use std::time::Duration;

use kube::ResourceExt;
use windlass::prelude::*;

use crate::{
    api::pod2::{ContainerStatus, Phase, Pod2, Pod2Status, State},
    life::{phase, resumed},
    supervisor::{Plan, Supervisor},
};

/// Keeps a Pod2 until its processes have ended.
pub const FINALIZER: &str = "samples.windlass.dev/processes";

/// Watches Pod2s and the processes of their containers.
pub fn controller() -> Controller<Pod2> {
    let supervisor = Arc::new(Supervisor::default());
    let trigger = supervisor.trigger();
    Controller::new("pod2", Processes { supervisor }).source(trigger).cleans_up(FINALIZER).concurrency(4)
}

struct Processes {
    supervisor: Arc<Supervisor>,
}

impl Reconciler<Pod2> for Processes {
    async fn reconcile(&self, pod: Arc<Pod2>, ctx: Context) -> Result<Action> {
        let key = ObjectKey::of(&*pod);
        let uid = pod.uid().unwrap_or_default();
        let told = pod.status.clone().unwrap_or_default();
        let containers = match self.supervisor.containers(&key, &uid) {
            Some(containers) => containers,
            None if matches!(told.phase, Phase::Succeeded | Phase::Failed) => return Ok(Action::done()),
            None => {
                let known = pod.spec.containers.iter().map(|container| {
                    let known = told.containers.iter().find(|known| known.name == container.name).cloned();
                    let pid = known.as_ref().and_then(|known| known.pid);
                    let known =
                        known.unwrap_or_else(|| ContainerStatus { name: container.name.clone(), ..Default::default() });
                    // The supervisor kills processes that are left over.
                    ContainerStatus { pid, ..resumed(known, pod.spec.restart_policy) }
                });
                let known: Vec<ContainerStatus> = known.collect();
                let containers = pod.spec.containers.clone();
                self.supervisor
                    .start(&key, Plan { uid, containers, known: known.clone(), policy: pod.spec.restart_policy });
                known
            }
        };
        tell(&pod, containers, &ctx).await?;
        Ok(Action::done())
    }

    /// Ends the processes. The end of each triggers another call.
    async fn cleanup(&self, pod: Arc<Pod2>, ctx: Context) -> Result<Action> {
        let key = ObjectKey::of(&*pod);
        let grace = Duration::from_secs(pod.spec.termination_grace_period_seconds.unsigned_abs());
        if self.supervisor.stop(&key, grace) {
            return Ok(Action::done());
        }
        if let Some(containers) = self.supervisor.containers(&key, &pod.uid().unwrap_or_default()) {
            tell(&pod, containers, &ctx).await?;
        }
        Ok(Action::requeue_after(grace + Duration::from_secs(1)))
    }
}

async fn tell(pod: &Arc<Pod2>, containers: Vec<ContainerStatus>, ctx: &Context) -> Result<()> {
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
