//! Keeps the processes of a Pod2 running, and reports their states.

use std::time::Duration;

use kube::ResourceExt;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass::{
    controller::{Daemon, DaemonContext},
    prelude::*,
};

use crate::{
    api::pod2::{Container, ContainerStatus, Phase, Pod2, State},
    life::{pause, restarts, resumed},
    process::{Process, end_leftover},
};

/// A process that has run for this long resets its backoff.
const LONG: Duration = Duration::from_secs(600);
/// Longest grace period of a Pod2.
const LONGEST_GRACE: Duration = Duration::from_secs(3600);

/// The states of the containers, for reconciles.
pub(crate) struct Containers(pub(crate) Vec<ContainerStatus>);

/// The processes of a Pod2: they start with it, and are killed at the latest when this is dropped.
pub(crate) fn daemon() -> Daemon<Pod2> {
    Daemon::new(run).grace(LONGEST_GRACE + Duration::from_secs(1))
}

async fn run(pod: Arc<Pod2>, daemon: DaemonContext<Pod2>) -> Result<()> {
    let told = pod.status.clone().unwrap_or_default();
    if matches!(told.phase, Phase::Succeeded | Phase::Failed) {
        return Ok(());
    }
    let known = |container: &Container| {
        let known = told.containers.iter().find(|known| known.name == container.name).cloned();
        known.unwrap_or_else(|| ContainerStatus { name: container.name.clone(), ..ContainerStatus::default() })
    };
    let uid = pod.uid().unwrap_or_default();
    let known: Vec<ContainerStatus> = pod.spec.containers.iter().map(known).collect();
    known.iter().filter_map(|container| container.pid).for_each(|pid| end_leftover(pid, &uid));
    let resumed = known.into_iter().map(|container| resumed(container, pod.spec.restart_policy));
    let supervisor = Supervisor { pod: &pod, uid, daemon, states: Mutex::new(resumed.collect()) };
    supervisor.report();
    futures_util::future::join_all((0..pod.spec.containers.len()).map(|place| supervisor.keep(place))).await;
    Ok(())
}

struct Supervisor<'a> {
    pod: &'a Pod2,
    uid: String,
    daemon: DaemonContext<Pod2>,
    states: Mutex<Vec<ContainerStatus>>,
}

impl Supervisor<'_> {
    /// Runs the process of a container until it is over.
    async fn keep(&self, place: usize) {
        let mut soon = 0;
        while self.states.lock()[place].state != State::Terminated {
            let began = Instant::now();
            let (code, reason) = self.run(place).await;
            soon = if began.elapsed() < LONG { soon + 1 } else { 0 };
            if self.daemon.is_stopping() {
                // The next operator decides whether it starts again.
                return;
            }
            let again = restarts(self.pod.spec.restart_policy, code);
            self.change(place, |container| {
                container.pid = None;
                container.exit_code = Some(code);
                container.reason = reason;
                container.state = if again { State::Waiting } else { State::Terminated };
                container.restart_count += u32::from(again);
            });
            if again && tokio::time::timeout(pause(soon), self.daemon.stopping()).await.is_ok() {
                return;
            }
        }
    }

    /// Runs the process once and returns its exit code and a reason.
    async fn run(&self, place: usize) -> (i32, String) {
        let mut process = match Process::start(&self.pod.spec.containers[place], &self.uid) {
            Ok(process) => process,
            // The exit code of a shell that cannot find a program.
            Err(error) => return (127, format!("failed to start: {error}")),
        };
        let pid = process.id();
        self.change(place, |container| {
            (container.state, container.pid, container.reason) = (State::Running, pid, String::new());
        });
        tokio::select! {
            code = process.ended() => return (code, String::new()),
            () = self.daemon.stopping() => process.terminate(),
        }
        let grace = Duration::from_secs(self.pod.spec.termination_grace_period_seconds.unsigned_abs());
        if let Ok(code) = tokio::time::timeout(grace.min(LONGEST_GRACE), process.ended()).await {
            return (code, String::new());
        }
        process.kill();
        (process.ended().await, "Killed".to_owned())
    }

    fn change(&self, place: usize, change: impl FnOnce(&mut ContainerStatus)) {
        change(&mut self.states.lock()[place]);
        self.report();
    }

    fn report(&self) {
        self.daemon.report(Containers(self.states.lock().clone()));
    }
}
