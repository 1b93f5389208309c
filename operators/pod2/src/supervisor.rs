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

/// A process that has run for so long has not ended soon.
const LONG: Duration = Duration::from_secs(600);

/// The processes of all Pod2s. They end when this is dropped.
#[derive(Default)]
pub struct Supervisor {
    running: Mutex<HashMap<ObjectKey, Running>>,
    /// Asks for a reconcile of what has changed.
    changed: Trigger,
}

struct Running {
    uid: String,
    containers: Arc<Mutex<Vec<ContainerStatus>>>,
    /// The time that processes have to end, once they are to.
    stop: watch::Sender<Option<Duration>>,
    /// Aborted when dropped.
    _tasks: JoinSet<()>,
}

/// What is to run.
pub struct Plan {
    /// The uid of the Pod2.
    pub uid: String,
    /// Its containers.
    pub containers: Vec<Container>,
    /// What is known of them, in the same order.
    pub known: Vec<ContainerStatus>,
    /// When they are started again.
    pub policy: RestartPolicy,
}

impl Supervisor {
    /// What asks for a reconcile when something has become of a process.
    pub fn trigger(&self) -> Trigger {
        self.changed.clone()
    }

    /// What has become of the containers, if they are run here.
    pub fn containers(&self, key: &ObjectKey, uid: &str) -> Option<Vec<ContainerStatus>> {
        let running = self.running.lock();
        running.get(key).filter(|running| running.uid == uid).map(|running| running.containers.lock().clone())
    }

    /// Starts what is to run. Whatever ran under the name before is ended. Must be called within a tokio runtime.
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

    /// Asks the processes of a Pod2 to end, and kills them when their time is up. Answers whether all have ended; if
    /// not, the trigger tells when one has.
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

/// The life of one container.
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

    /// Runs the process once. Answers how it ended.
    async fn run(&mut self) -> (i32, String) {
        let mut process = match Process::start(&self.container, &self.uid) {
            Ok(process) => process,
            // As of a shell that does not find a program.
            Err(error) => return (127, format!("cannot be started: {error}")),
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
