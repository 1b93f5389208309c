//! Keeps the processes of each Pod2 running.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use windlass::{controller::Trigger, key::ObjectKey};

use crate::{
    api::pod2::{Container, ContainerStatus, RestartPolicy, State},
    life::{pause, restarts},
    process::{Process, end_leftover},
};

/// A process that has run for this long resets its backoff.
const LONG: Duration = Duration::from_secs(600);

/// The processes of all Pod2s. They are killed when this is dropped.
#[derive(Default)]
pub struct Supervisor {
    running: Mutex<HashMap<ObjectKey, Running>>,
    /// Triggers a reconcile when a process changes.
    changed: Trigger,
}

struct Running {
    uid: String,
    containers: Arc<Mutex<Vec<ContainerStatus>>>,
    /// Grace period for the processes to exit, once they should.
    stop: watch::Sender<Option<Duration>>,
    /// Aborted when dropped.
    _tasks: JoinSet<()>,
}

/// The processes to run for a Pod2.
pub struct Plan {
    /// UID of the Pod2.
    pub uid: String,
    /// Containers of the Pod2.
    pub containers: Vec<Container>,
    /// Last known states of the containers, in the same order.
    pub known: Vec<ContainerStatus>,
    /// When containers are restarted.
    pub policy: RestartPolicy,
}

impl Supervisor {
    /// Returns the trigger that fires when a process changes.
    pub fn trigger(&self) -> Trigger {
        self.changed.clone()
    }

    /// Returns the states of the containers, or `None` if they do not run here.
    pub fn containers(&self, key: &ObjectKey, uid: &str) -> Option<Vec<ContainerStatus>> {
        let running = self.running.lock();
        running.get(key).filter(|running| running.uid == uid).map(|running| running.containers.lock().clone())
    }

    /// Starts the processes, and ends those of an earlier Pod2 with the same name. Must be called within a tokio
    /// runtime.
    pub fn start(&self, key: &ObjectKey, plan: Plan) {
        let containers = Arc::new(Mutex::new(plan.known));
        let (stop, stopping) = watch::channel(None);
        let mut tasks = JoinSet::new();
        for (place, container) in plan.containers.into_iter().enumerate() {
            let life = Life {
                container,
                place,
                uid: plan.uid.clone(),
                policy: plan.policy,
                containers: containers.clone(),
                stopping: stopping.clone(),
                key: key.clone(),
                changed: self.changed.clone(),
            };
            tasks.spawn(life.live());
        }
        let running = Running { uid: plan.uid, containers, stop, _tasks: tasks };
        self.running.lock().insert(key.clone(), running);
    }

    /// Sends SIGTERM to the processes of a Pod2, and SIGKILL after the grace period. Returns whether all have exited;
    /// if not, the trigger fires when one has.
    pub fn stop(&self, key: &ObjectKey, grace: Duration) -> bool {
        let mut all = self.running.lock();
        let Some(running) = all.get(key) else { return true };
        running.stop.send_if_modified(|time| time.replace(grace).is_none());
        let ended = running.containers.lock().iter().all(|container| container.state != State::Running);
        if ended {
            all.remove(key);
        }
        ended
    }
}

/// The lifecycle of one container.
struct Life {
    container: Container,
    place: usize,
    uid: String,
    policy: RestartPolicy,
    containers: Arc<Mutex<Vec<ContainerStatus>>>,
    stopping: watch::Receiver<Option<Duration>>,
    key: ObjectKey,
    changed: Trigger,
}

impl Life {
    async fn live(mut self) {
        let known = self.containers.lock().get(self.place).cloned().unwrap_or_default();
        if known.state == State::Terminated {
            return;
        }
        if let Some(pid) = known.pid {
            end_leftover(pid, &self.uid);
        }
        let mut soon = 0;
        loop {
            let began = Instant::now();
            let (code, reason) = self.run().await;
            soon = if began.elapsed() < LONG { soon + 1 } else { 0 };
            let again = restarts(self.policy, code) && self.stopping.borrow().is_none();
            self.become_(|container| {
                container.pid = None;
                container.exit_code = Some(code);
                container.reason = reason;
                container.state = if again { State::Waiting } else { State::Terminated };
                container.restart_count += u32::from(again);
            });
            if !again {
                return;
            }
            if tokio::time::timeout(pause(soon), self.stopping.wait_for(Option::is_some)).await.is_ok() {
                self.become_(|container| container.state = State::Terminated);
                return;
            }
        }
    }

    /// Runs the process once and returns its exit code and a reason.
    async fn run(&mut self) -> (i32, String) {
        let mut process = match Process::start(&self.container, &self.uid) {
            Ok(process) => process,
            // The exit code of a shell that cannot find a program.
            Err(error) => return (127, format!("failed to start: {error}")),
        };
        let pid = process.id();
        self.become_(|container| {
            (container.state, container.pid, container.reason) = (State::Running, pid, String::new());
        });
        let grace = tokio::select! {
            code = process.ended() => return (code, String::new()),
            stop = self.stopping.wait_for(Option::is_some) => stop.ok().and_then(|time| *time).unwrap_or_default(),
        };
        process.terminate();
        if let Ok(code) = tokio::time::timeout(grace, process.ended()).await {
            return (code, String::new());
        }
        process.kill();
        (process.ended().await, "Killed".to_owned())
    }

    fn become_(&self, change: impl FnOnce(&mut ContainerStatus)) {
        if let Some(container) = self.containers.lock().get_mut(self.place) {
            change(container);
        }
        self.changed.enqueue(self.key.clone());
    }
}
