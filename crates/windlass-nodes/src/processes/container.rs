//! One container: started, watched, ended and started again.

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

use self::prepare::Trouble;
use super::{
    launch::{Plan, Terminal},
    logs::{Log, Stream},
    pod::{Run, Stop},
    status::{self, Doing, Ended, Role, starts_again},
    volumes::Mounts,
};

/// The longest pause before a container is started again.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// How long a container has to run until its failures are forgotten.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// The process of a container, for whoever wants to talk to it.
pub(super) struct Instance {
    /// How something is run beside it.
    pub(super) plan: Plan,
    pub(super) mounts: Arc<Mounts>,
    pub(super) log: Arc<Log>,
    /// What it says, while somebody listens.
    pub(super) attached: broadcast::Sender<(Stream, Bytes)>,
    /// What it hears, if it listens.
    pub(super) stdin: tokio::sync::Mutex<Option<Input>>,
    /// Whether the first one who talks to it is the last.
    pub(super) stdin_once: bool,
    pub(super) terminal: Option<Terminal>,
    /// How it ended, once it has.
    pub(super) ended: watch::Receiver<Option<i32>>,
}

/// How often a container has failed, and how long it waits for that.
#[derive(Debug)]
struct Backoff {
    first: Duration,
    failures: u32,
}

impl Backoff {
    /// The pause after a run of some length. The first one is none.
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
    /// Keeps a container running as the pod's policy says, until it has ended for good or is told to.
    pub(super) async fn supervise(
        self: Arc<Self>,
        container: Container,
        role: Role,
        mut stop: watch::Receiver<Option<Stop>>,
    ) {
        let policy = status::policy(&self.pod).to_owned();
        let name = &container.name;
        let mut backoff = Backoff { first: self.shared.pause, failures: 0 };
        let mut troubles = Backoff { first: self.shared.pause, failures: 1 };
        let mut ended = match self.seen(name).map(|seen| seen.doing) {
            Some(Doing::Ended(ended)) => Some((ended, Duration::ZERO)),
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

    /// A container that keeps failing waits; answers whether it may go on.
    async fn pause(
        &self,
        container: &Container,
        ended: &Ended,
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
            seen.doing = Doing::Waiting { reason: "CrashLoopBackOff".to_owned(), message: Some(message) };
        });
        wait(pause, stop).await
    }

    /// A container that cannot be started says why and waits; answers whether it may go on.
    async fn trouble(
        &self,
        container: &Container,
        trouble: Trouble,
        pause: Duration,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> bool {
        let name = &container.name;
        let image = container.image.as_deref().unwrap_or_default();
        match trouble {
            Trouble::Image(why) => {
                let message = why.to_string();
                self.event(EventType::Warning, "Failed", format!("Failed to pull image {image:?}: {message}"));
                self.event(EventType::Warning, "Failed", "Error: ErrImagePull");
                self.wait_for(name, "ErrImagePull", Some(message.clone()));
                if !wait(self.shared.pause.min(Duration::from_secs(1)), stop).await {
                    return false;
                }
                self.event(EventType::Normal, "BackOff", format!("Back-off pulling image {image:?}"));
                let message = format!("Back-off pulling image {image:?}: ErrImagePull: {message}");
                self.wait_for(name, "ImagePullBackOff", Some(message));
            }
            Trouble::Config(message) => {
                self.event(EventType::Warning, "Failed", format!("Error: {message}"));
                self.wait_for(name, "CreateContainerConfigError", Some(message));
            }
            Trouble::Volumes(message) => {
                self.event(EventType::Warning, "FailedMount", message);
            }
        }
        wait(pause, stop).await
    }

    fn wait_for(&self, container: &str, reason: &str, message: Option<String>) {
        self.update(container, |seen| {
            if let Doing::Ended(ended) = &seen.doing {
                seen.last = Some(ended.clone());
            }
            seen.doing = Doing::Waiting { reason: reason.to_owned(), message };
            seen.ready = false;
            seen.started = false;
        });
    }
}

fn is_stopped(stop: &watch::Receiver<Option<Stop>>) -> bool {
    stop.borrow().is_some()
}

/// Waits for a time, unless it is time to stop; answers whether to go on.
async fn wait(pause: Duration, stop: &mut watch::Receiver<Option<Stop>>) -> bool {
    tokio::select! {
        biased;
        _ = stop.wait_for(Option::is_some) => false,
        () = sleep(pause) => true,
    }
}

/// A duration as Go shows it.
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
    fn a_container_that_keeps_failing_waits_longer_and_longer_until_it_has_run_for_a_while() {
        let mut backoff = Backoff { first: Duration::from_secs(10), failures: 0 };
        let short = Duration::from_secs(1);
        let pauses: Vec<u64> = (0..8).map(|_| backoff.after(short).as_secs()).collect();
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff.after(FORGIVEN_AFTER).as_secs(), 0);
        assert_eq!(shown(Duration::from_secs(80)), "1m20s");
    }
}
