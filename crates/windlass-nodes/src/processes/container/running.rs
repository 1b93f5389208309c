//! One run of a container, from start to exit.

use std::{fs, path::PathBuf, process::ExitStatus, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::Container;
use rustix::process::Signal;
use tokio::{
    sync::{broadcast, watch},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use windlass::events::EventType;
use windlass_apiserver::pod_connections::Input;
use windlass_clock::now_in_seconds;

use super::{Instance, Run, RunState, Stop, Stream, Termination, prepare::Prepared};
use crate::processes::{
    deadline,
    launch::{Started, Talk, exit_code},
    logs::{self, Log},
    probes::ProbeTarget,
    status::Role,
};

/// Number of output chunks that an attached client may lag behind.
const ATTACHED: usize = 256;
/// Time to read the output of a container after it has exited.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Maximum length of a termination message.
const MESSAGE_MAX: usize = 4096;

/// Reasons why a container is terminated.
enum End {
    /// A probe failed; it gets this grace period.
    Unhealthy { why: String, grace: Duration },
    /// Its pod terminates.
    Stopped,
}

impl Run {
    /// Runs a container once. Its state is running until this returns, and terminated afterwards.
    pub(super) async fn run_once(
        &self,
        container: &Container,
        role: Role,
        prepared: Prepared,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Termination {
        let name = &container.name;
        let restarts = self.seen(name).map_or(0, |seen| seen.restarts + i32::from(seen.id.is_some()));
        let id = format!("windlass://{}_{name}_{restarts}", self.uid);
        let began = now_in_seconds();
        let ended = |code: i32, reason: &str, message: Option<String>| Termination {
            code,
            reason: reason.to_owned(),
            message: message.filter(|message| !message.is_empty()),
            started: Some(began),
            finished: Some(now_in_seconds()),
            id: Some(id.clone()),
        };
        let finish = |ended: Termination| {
            self.update(name, |seen| {
                remember(seen);
                (seen.restarts, seen.id) = (restarts, ended.id.clone());
                // An init container that has succeeded is ready.
                seen.ready = role == Role::Init && ended.code == 0;
                seen.started = false;
                seen.state = RunState::Terminated(ended.clone());
            });
            ended
        };
        let talk = match container.tty {
            Some(true) => Talk::Terminal,
            _ => Talk::Pipes { stdin: container.stdin == Some(true) },
        };
        let path = self.log_path(name, restarts);
        let started = match Log::create(&path) {
            Ok(log) => self.shared.spawner.start(prepared.plan.clone(), talk).await.map(|started| (log, started)),
            Err(error) => Err(error),
        };
        let (log, mut started) = match started {
            Ok(started) => started,
            Err(error) => {
                let message = format!("failed to start container {name:?}: {error}");
                self.event(EventType::Warning, "Failed", format!("Error: {message}"));
                return finish(ended(128, "StartError", Some(message)));
            }
        };
        self.remove_old_logs(name, restarts);
        // Commands and probes see what the container sees.
        let mut prepared = prepared;
        if let Some(root) = &mut prepared.plan.root {
            root.of = Some(started.group.id());
        }
        let (over, has_ended) = watch::channel(None);
        let (instance, pumps) = self.connect(container, &prepared, log.clone(), &mut started, has_ended);
        self.set_instance(name, instance);
        let image = container.image.as_deref().unwrap_or_default();
        let present = format!("Container image {image:?} already present on machine");
        self.event(EventType::Normal, "Pulled", present);
        self.event(EventType::Normal, "Created", "Container created");
        self.event(EventType::Normal, "Started", "Container started");
        let target = ProbeTarget {
            container: container.clone(),
            address: self.addresses.pod.unwrap_or(std::net::Ipv4Addr::LOCALHOST),
            plan: prepared.plan.clone(),
            rewrite: prepared.mounts.clone(),
            spawner: self.shared.spawner.clone(),
        };
        let code = self.attend(container, &mut started, &target, stop, || {
            self.update(name, |seen| {
                remember(seen);
                (seen.restarts, seen.id) = (restarts, Some(id.clone()));
                seen.state = RunState::Running { since: began };
                seen.started = container.startup_probe.is_none();
                seen.ready = seen.started && container.readiness_probe.is_none() && role != Role::Ephemeral;
            });
        });
        let code = code.await.map_or(255, exit_code);
        started.group.leader_ended();
        drop(started);
        finish_output(pumps).await;
        log.close();
        over.send_replace(Some(code));
        let message = self.message(container, &prepared, &path, code);
        finish(ended(code, if code == 0 { "Completed" } else { "Error" }, message))
    }

    /// Creates the handle for clients, and the tasks that copy output to the log.
    fn connect(
        &self,
        container: &Container,
        prepared: &Prepared,
        log: Arc<Log>,
        started: &mut Started,
        ended: watch::Receiver<Option<i32>>,
    ) -> (Arc<Instance>, JoinSet<()>) {
        let attached = broadcast::Sender::new(ATTACHED);
        let mut pumps = JoinSet::new();
        let mut stdin: Option<Input> = started.stdin.take().map(|stdin| Box::pin(stdin) as Input);
        if let Some(stdout) = started.stdout.take() {
            pumps.spawn(logs::pump(stdout, Stream::Stdout, log.clone(), attached.clone()).boxed());
        }
        if let Some(stderr) = started.stderr.take() {
            pumps.spawn(logs::pump(stderr, Stream::Stderr, log.clone(), attached.clone()).boxed());
        }
        let terminal = started.terminal.take();
        if let Some(Ok((read, write))) = terminal.as_ref().map(super::Terminal::handles) {
            pumps.spawn(logs::pump(read, Stream::Stdout, log.clone(), attached.clone()).boxed());
            stdin = (container.stdin == Some(true)).then(|| Box::pin(write) as Input);
        }
        let instance = Instance {
            plan: prepared.plan.clone(),
            mounts: prepared.mounts.clone(),
            log,
            attached,
            stdin: tokio::sync::Mutex::new(stdin),
            stdin_once: container.stdin_once == Some(true),
            terminal,
            group: started.group.id(),
            ended,
        };
        (Arc::new(instance), pumps)
    }

    /// Waits until a process has ended, on its own or by termination.
    async fn attend(
        &self,
        container: &Container,
        started: &mut Started,
        target: &ProbeTarget,
        stop: &mut watch::Receiver<Option<Stop>>,
        running: impl FnOnce(),
    ) -> std::io::Result<ExitStatus> {
        let post_start = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        let health = async {
            if let Some(hook) = post_start
                && let Err(why) = target.hook(hook).await
            {
                self.event(EventType::Warning, "FailedPostStartHook", format!("PostStartHook failed: {why}"));
                return End::Unhealthy { why: "FailedPostStartHook".to_owned(), grace: self.grace() };
            }
            running();
            self.watch_health(container, target).await
        };
        let end = tokio::select! {
            biased;
            ended = started.child.wait() => return ended,
            _ = stop.wait_for(Option::is_some) => End::Stopped,
            end = health => end,
        };
        let limit = match end {
            End::Stopped => {
                self.event(EventType::Normal, "Killing", format!("Stopping container {}", container.name));
                None
            }
            End::Unhealthy { why, grace } => {
                let note = format!("Container {} {why}, will be restarted", container.name);
                self.event(EventType::Normal, "Killing", note);
                Some(deadline::after(grace))
            }
        };
        self.update(&container.name, |seen| seen.ready = false);
        terminate(container, started, target, stop, limit).await
    }

    /// Runs the probes of a container; resolves when it has to be terminated.
    async fn watch_health(&self, container: &Container, target: &ProbeTarget) -> End {
        let name = &container.name;
        let unhealthy = |kind: &str, why: &str| {
            self.event(EventType::Warning, "Unhealthy", format!("{kind} probe failed: {why}"));
        };
        let grace = |seconds: Option<i64>| {
            seconds.filter(|seconds| *seconds >= 0).map_or_else(|| self.grace(), deadline::seconds)
        };
        if let Some(probe) = &container.startup_probe {
            let mut failed = None;
            target
                .watch(probe, |outcome| {
                    failed = outcome.err();
                    false
                })
                .await;
            if let Some(why) = failed {
                unhealthy("Startup", &why);
                let grace = grace(probe.termination_grace_period_seconds);
                return End::Unhealthy { why: "failed startup probe".to_owned(), grace };
            }
            self.update(name, |seen| {
                seen.started = true;
                seen.ready = container.readiness_probe.is_none();
            });
        }
        let readiness = async {
            if let Some(probe) = &container.readiness_probe {
                target
                    .watch(probe, |outcome| {
                        if let Err(why) = &outcome {
                            unhealthy("Readiness", why);
                        }
                        self.update(name, |seen| seen.ready = outcome.is_ok());
                        true
                    })
                    .await;
            }
            std::future::pending::<End>().await
        };
        let liveness = async {
            let Some(probe) = &container.liveness_probe else { return std::future::pending().await };
            target
                .watch(probe, |outcome| {
                    if let Err(why) = &outcome {
                        unhealthy("Liveness", why);
                    }
                    outcome.is_ok()
                })
                .await;
            End::Unhealthy {
                why: "failed liveness probe".to_owned(),
                grace: grace(probe.termination_grace_period_seconds),
            }
        };
        tokio::select! {
            end = readiness => end,
            end = liveness => end,
        }
    }

    /// Returns the termination message of a container.
    fn message(&self, container: &Container, prepared: &Prepared, log: &std::path::Path, code: i32) -> Option<String> {
        let mut bytes = fs::read(&prepared.last_message).unwrap_or_default();
        bytes.truncate(MESSAGE_MAX);
        let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        match bytes.is_empty() && falls_back && code != 0 {
            true => Some(logs::last_words(log)),
            false => Some(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    pub(in crate::processes) fn log_path(&self, container: &str, restarts: i32) -> PathBuf {
        crate::processes::log_path(&self.directory, container, restarts)
    }

    /// Removes old logs; the current and the previous one are kept.
    fn remove_old_logs(&self, container: &str, restarts: i32) {
        let old = self.log_path(container, restarts - 2);
        let _ = fs::remove_file(old.with_extension("log.1"));
        let _ = fs::remove_file(old);
    }
}

/// Keeps the last termination of a container that changes its state.
fn remember(seen: &mut crate::processes::status::ContainerRecord) {
    if let RunState::Terminated(ended) = &seen.state {
        seen.last = Some(ended.clone());
    }
}

/// Reads the remaining output of a process that has ended. A child it left behind may still hold the pipe open.
async fn finish_output(mut pumps: JoinSet<()>) {
    let _ = timeout(LAST_WORDS, async { while pumps.join_next().await.is_some() {} }).await;
}

/// Terminates a process: preStop hook, signal, and SIGKILL when the grace period is over. The grace period is given or
/// the pod's, which may become shorter in the meantime.
async fn terminate(
    container: &Container,
    started: &mut Started,
    target: &ProbeTarget,
    stop: &mut watch::Receiver<Option<Stop>>,
    limit: Option<Instant>,
) -> std::io::Result<ExitStatus> {
    let lifecycle = container.lifecycle.as_ref();
    let signal =
        lifecycle.and_then(|lifecycle| lifecycle.stop_signal.as_deref()).and_then(signal).unwrap_or(Signal::TERM);
    let Started { child, group, .. } = started;
    let asking = async {
        if let Some(hook) = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref())
            && let Err(error) = target.hook(hook).await
        {
            tracing::debug!(error, container = container.name, "preStop hook failed");
        }
        group.signal(signal);
        std::future::pending::<()>().await;
    };
    tokio::pin!(asking);
    loop {
        let pods = stop.borrow_and_update().map(|stop| stop.deadline);
        let deadline = match (limit, pods) {
            (Some(limit), Some(pods)) => limit.min(pods),
            (limit, pods) => limit.or(pods).unwrap_or_else(Instant::now),
        };
        tokio::select! {
            ended = child.wait() => return ended,
            () = sleep_until(deadline) => {
                group.signal(Signal::KILL);
                return child.wait().await;
            }
            Ok(()) = stop.changed() => {}
            () = &mut asking => {}
        }
    }
}

/// Parses the name of a signal.
fn signal(name: &str) -> Option<Signal> {
    Some(match name {
        "SIGTERM" => Signal::TERM,
        "SIGINT" => Signal::INT,
        "SIGQUIT" => Signal::QUIT,
        "SIGHUP" => Signal::HUP,
        "SIGUSR1" => Signal::USR1,
        "SIGUSR2" => Signal::USR2,
        "SIGKILL" => Signal::KILL,
        _ => return None,
    })
}
