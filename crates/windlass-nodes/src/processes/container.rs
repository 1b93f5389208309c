//! The life of one container: start, supervision, restarts and termination.

mod prepare;
mod running;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use k8s_openapi::api::core::v1::Container;
use tokio::{
    sync::{broadcast, watch},
    time::{Instant, sleep},
};
use windlass::events::EventType;
use windlass_apiserver::pod_connections::Input;

use self::prepare::StartError;
use super::{
    launch::{ProcessSpec, Terminal},
    logs::{Log, Stream},
    pod::{Run, Stop},
    status::{self, Role, RunState, Termination, starts_again},
    volumes::Mounts,
};

/// Maximum backoff before a container is restarted.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Time for which a container has to run until its failures no longer count.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// The main process of a container, for other processes to connect to.
pub(super) struct Instance {
    /// The template for commands that run alongside it.
    pub(super) plan: ProcessSpec,
    pub(super) mounts: Arc<Mounts>,
    pub(super) log: Arc<Log>,
    /// Its output, for attached clients.
    pub(super) attached: broadcast::Sender<(Stream, Bytes)>,
    /// Its standard input, if open.
    pub(super) stdin: tokio::sync::Mutex<Option<Input>>,
    /// Whether standard input is closed after the first attached client.
    pub(super) stdin_once: bool,
    pub(super) terminal: Option<Terminal>,
    /// Its process group.
    pub(super) group: i32,
    /// The exit code, once it has ended.
    pub(super) ended: watch::Receiver<Option<i32>>,
}

/// Counts the failures of a container and computes its backoff.
#[derive(Debug)]
struct Backoff {
    first: Duration,
    failures: u32,
}

impl Backoff {
    /// Returns the backoff after a run of the given length. The first is zero.
    fn after(&mut self, ran: Duration) -> Duration {
        if ran >= FORGIVEN_AFTER {
            self.failures = 0;
        }
        self.failures += 1;
        match self.failures {
            1 => Duration::ZERO,
            count => self.first.saturating_mul(2u32.saturating_pow(count - 2)).min(PAUSE_MAX),
        }
    }
}

impl Run {
    /// Keeps a container running according to the restart policy, until it has ended for good or is stopped.
    pub(super) async fn supervise(
        self: Arc<Self>,
        container: Container,
        role: Role,
        mut stop: watch::Receiver<Option<Stop>>,
    ) {
        let policy = status::policy(&self.pod).to_owned();
        let name = &container.name;
        let mut backoff = Backoff { first: self.shared.restart_backoff, failures: 0 };
        let mut troubles = Backoff { first: self.shared.restart_backoff, failures: 1 };
        let mut ended = match self.seen(name).map(|seen| seen.state) {
            Some(RunState::Terminated(ended)) => Some((ended, Duration::ZERO)),
            _ => None,
        };
        loop {
            if let Some((ended, ran)) = ended.take() {
                if !starts_again(&policy, role, ended.code) || is_stopped(&stop) {
                    return;
                }
                let pause = backoff.after(ran);
                if !pause.is_zero() && !self.pause(&container, &ended, pause, &mut stop).await {
                    return;
                }
            }
            if is_stopped(&stop) {
                return;
            }
            match self.prepare(&container).await {
                Ok(prepared) => {
                    troubles.failures = 1;
                    let began = Instant::now();
                    let end = self.run_once(&container, role, prepared, &mut stop).await;
                    ended = Some((end, began.elapsed()));
                }
                Err(trouble) => {
                    let pause = troubles.after(Duration::ZERO).min(Duration::from_secs(60));
                    if !self.trouble(&container, trouble, pause, &mut stop).await {
                        return;
                    }
                }
            }
        }
    }

    /// Waits for the backoff of a failing container. Returns whether to continue.
    async fn pause(
        &self,
        container: &Container,
        ended: &Termination,
        pause: Duration,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> bool {
        let name = &container.name;
        let pod = format!("{}_{}({})", self.key.name(), self.key.namespace().unwrap_or_default(), self.uid);
        let shown = shown(pause);
        let message = format!("back-off {shown} restarting failed container={name} pod={pod}");
        self.event(EventType::Warning, "BackOff", format!("Back-off restarting failed container {name} in pod {pod}"));
        self.update(name, |seen| {
            seen.last = Some(ended.clone());
            seen.state = RunState::Waiting { reason: "CrashLoopBackOff".to_owned(), message: Some(message) };
        });
        wait(pause, stop).await
    }

    /// Reports why a container cannot be started and waits. Returns whether to continue.
    async fn trouble(
        &self,
        container: &Container,
        trouble: StartError,
        pause: Duration,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> bool {
        let name = &container.name;
        let image = container.image.as_deref().unwrap_or_default();
        match trouble {
            StartError::Image(why) => {
                let message = why.to_string();
                self.event(EventType::Warning, "Failed", format!("Failed to pull image {image:?}: {message}"));
                self.event(EventType::Warning, "Failed", "Error: ErrImagePull");
                self.wait_for(name, "ErrImagePull", Some(message.clone()));
                if !wait(self.shared.restart_backoff.min(Duration::from_secs(1)), stop).await {
                    return false;
                }
                self.event(EventType::Normal, "BackOff", format!("Back-off pulling image {image:?}"));
                let message = format!("Back-off pulling image {image:?}: ErrImagePull: {message}");
                self.wait_for(name, "ImagePullBackOff", Some(message));
            }
            StartError::Config(message) => {
                self.event(EventType::Warning, "Failed", format!("Error: {message}"));
                self.wait_for(name, "CreateContainerConfigError", Some(message));
            }
            StartError::Volumes(message) => {
                self.event(EventType::Warning, "FailedMount", message);
            }
        }
        wait(pause, stop).await
    }

    fn wait_for(&self, container: &str, reason: &str, message: Option<String>) {
        self.update(container, |seen| {
            if let RunState::Terminated(ended) = &seen.state {
                seen.last = Some(ended.clone());
            }
            seen.state = RunState::Waiting { reason: reason.to_owned(), message };
            seen.ready = false;
            seen.started = false;
        });
    }
}

fn is_stopped(stop: &watch::Receiver<Option<Stop>>) -> bool {
    stop.borrow().is_some()
}

/// Waits for a time or for the stop signal. Returns whether to continue.
async fn wait(pause: Duration, stop: &mut watch::Receiver<Option<Stop>>) -> bool {
    tokio::select! {
        biased;
        _ = stop.wait_for(Option::is_some) => false,
        () = sleep(pause) => true,
    }
}

/// Formats a duration as Go does.
fn shown(pause: Duration) -> String {
    match (pause.as_secs() / 60, pause.as_secs() % 60) {
        (0, 0) => format!("{}ms", pause.as_millis()),
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_restart_backoff_grows_until_a_container_has_run_for_a_while() {
        let mut backoff = Backoff { first: Duration::from_secs(10), failures: 0 };
        let short = Duration::from_secs(1);
        let pauses: Vec<u64> = (0..8).map(|_| backoff.after(short).as_secs()).collect();
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff.after(FORGIVEN_AFTER).as_secs(), 0);
        assert_eq!(shown(Duration::from_secs(80)), "1m20s");
    }
}
