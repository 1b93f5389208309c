//! Probes and lifecycle hooks.

use std::{io, net::Ipv4Addr, time::Duration};

use k8s_openapi::{
    api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    deadline, grpc,
    launch::{ProcessSpec, Spawner},
};

/// Bytes of a response that are read.
const ANSWER_MAX: u64 = 4096;

/// The target of probes and hooks.
#[derive(Clone)]
pub(super) struct ProbeTarget {
    pub(super) container: Container,
    pub(super) address: Ipv4Addr,
    /// The template for commands.
    pub(super) plan: ProcessSpec,
    pub(super) rewrite: std::sync::Arc<super::volumes::Mounts>,
    pub(super) spawner: Spawner,
}

/// The result of one probe.
pub(super) type Outcome = Result<(), String>;

impl ProbeTarget {
    /// Probes once.
    async fn probe(&self, probe: &Probe) -> Outcome {
        let limit = seconds(probe.timeout_seconds, 1);
        let looking = async {
            if let Some(exec) = &probe.exec {
                return self.command(exec.command.as_deref().unwrap_or_default()).await;
            }
            if let Some(get) = &probe.http_get {
                return self.http(get).await;
            }
            if let Some(socket) = &probe.tcp_socket {
                let host = socket.host.clone().unwrap_or_else(|| self.address.to_string());
                let port = self.port(&socket.port).ok_or("unknown port")?;
                return TcpStream::connect((host.as_str(), port)).await.map(drop).map_err(|error| error.to_string());
            }
            if let Some(grpc) = &probe.grpc {
                let port = u16::try_from(grpc.port).map_err(|_| "unknown port")?;
                return grpc::check(&self.address.to_string(), port, grpc.service.as_deref().unwrap_or_default()).await;
            }
            Ok(())
        };
        timeout(limit, looking).await.unwrap_or_else(|_| Err(format!("timed out after {}s", limit.as_secs())))
    }

    /// Runs a hook.
    pub(super) async fn hook(&self, hook: &LifecycleHandler) -> Outcome {
        if let Some(exec) = &hook.exec {
            return self.command(exec.command.as_deref().unwrap_or_default()).await;
        }
        if let Some(get) = &hook.http_get {
            return self.http(get).await;
        }
        if let Some(pause) = &hook.sleep {
            sleep(deadline::seconds(pause.seconds)).await;
        }
        Ok(())
    }

    async fn command(&self, words: &[String]) -> Outcome {
        let words = words.iter().map(|word| self.rewrite.rewrite(word)).collect();
        let plan = ProcessSpec { words, ..self.plan.clone() };
        match self.spawner.run(plan).await {
            Ok(0) => Ok(()),
            Ok(code) => Err(format!("command terminated with exit code {code}")),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn http(&self, get: &HTTPGetAction) -> Outcome {
        let host = get.host.clone().filter(|host| !host.is_empty()).unwrap_or_else(|| self.address.to_string());
        let port = self.port(&get.port).ok_or("unknown port")?;
        let failed =
            |error: io::Error| format!("Get \"http://{host}:{port}{}\": {error}", get.path.as_deref().unwrap_or("/"));
        let mut stream = TcpStream::connect((host.as_str(), port)).await.map_err(failed)?;
        if get.scheme.as_deref() == Some("HTTPS") {
            // For HTTPS, an established connection suffices: probes do not verify certificates.
            return Ok(());
        }
        let request = request(get, &host, port);
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer).await.map_err(failed)?;
        match status_code(&answer) {
            Some(200..=399) => Ok(()),
            Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
            None => Err("the response is not HTTP".to_owned()),
        }
    }

    /// Resolves a port by number or by the container's name for it.
    fn port(&self, port: &IntOrString) -> Option<u16> {
        match port {
            IntOrString::Int(number) => u16::try_from(*number).ok(),
            IntOrString::String(name) => {
                let ports = self.container.ports.iter().flatten();
                let named = ports.into_iter().find(|port| port.name.as_deref() == Some(name));
                named.map_or_else(|| name.parse().ok(), |port| u16::try_from(port.container_port).ok())
            }
        }
    }

    /// Probes periodically. `report` is called when the container turns healthy or unhealthy, with the reason, and
    /// returns whether to continue.
    pub(super) async fn watch(&self, probe: &Probe, mut report: impl FnMut(Outcome) -> bool) {
        sleep(seconds(probe.initial_delay_seconds, 0)).await;
        let mut verdict = ProbeCounter::new(probe);
        loop {
            let outcome = self.probe(probe).await;
            if let Some(outcome) = verdict.after(outcome)
                && !report(outcome)
            {
                return;
            }
            sleep(seconds(probe.period_seconds, 10).max(Duration::from_millis(100))).await;
        }
    }
}

fn request(get: &HTTPGetAction, host: &str, port: u16) -> String {
    let path = get.path.as_deref().filter(|path| path.starts_with('/')).unwrap_or("/");
    let clean = |text: &str| text.replace(['\r', '\n'], " ");
    let mut request = format!("GET {} HTTP/1.1\r\n", clean(path));
    let headers = get.http_headers.as_deref().unwrap_or_default();
    if !headers.iter().any(|header| header.name.eq_ignore_ascii_case("host")) {
        request += &format!("Host: {host}:{port}\r\n");
    }
    for header in headers {
        request += &format!("{}: {}\r\n", clean(&header.name), clean(&header.value));
    }
    request + "User-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n\r\n"
}

/// The status code of a response.
fn status_code(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.strip_prefix("HTTP/1.")?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(given.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(default))
}

/// Counts results up to the thresholds of a probe.
#[derive(Debug)]
struct ProbeCounter {
    successes_needed: u32,
    failures_needed: u32,
    successes: u32,
    failures: u32,
    well: Option<bool>,
}

impl ProbeCounter {
    fn new(probe: &Probe) -> Self {
        let count =
            |given: Option<i32>, default| given.and_then(|count| u32::try_from(count).ok()).unwrap_or(default).max(1);
        Self {
            successes_needed: count(probe.success_threshold, 1),
            failures_needed: count(probe.failure_threshold, 3),
            successes: 0,
            failures: 0,
            well: None,
        }
    }

    /// Returns the result to report after a probe, or `None` if nothing changed. Repeated failures are reported each
    /// time the threshold is reached again.
    fn after(&mut self, outcome: Outcome) -> Option<Outcome> {
        if outcome.is_ok() {
            self.failures = 0;
            self.successes += 1;
            let turned = self.successes >= self.successes_needed && self.well != Some(true);
            return turned.then(|| {
                self.well = Some(true);
                outcome
            });
        }
        self.successes = 0;
        self.failures += 1;
        (self.failures >= self.failures_needed).then(|| {
            self.failures = 0;
            self.well = Some(false);
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn results_are_reported_at_the_thresholds_of_the_probe() {
        let probe = Probe { success_threshold: Some(2), failure_threshold: Some(3), ..Probe::default() };
        let mut verdict = ProbeCounter::new(&probe);
        let looks = [true, true, true, false, false, true, false, false, false, false, false, false];
        let told: Vec<Option<bool>> = looks
            .into_iter()
            .map(|well| verdict.after(if well { Ok(()) } else { Err(String::new()) }).map(|outcome| outcome.is_ok()))
            .collect();
        let (up, down, no) = (Some(true), Some(false), None);
        assert_eq!(told, [no, up, no, no, no, no, no, no, down, no, no, down]);
    }

    proptest! {
        #[test]
        fn no_response_panics(answer in proptest::collection::vec(any::<u8>(), 0..60), code in any::<u16>()) {
            status_code(&answer);
            let answer = format!("HTTP/1.1 {code} x\r\n");
            prop_assert_eq!(status_code(answer.as_bytes()), Some(code));
        }
    }
}
