//! Metrics of an operator, read from `/metrics` with the names of controller-runtime.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::event::ControllerNumbers;

/// Timeout of a request: the process is on this machine.
const ANSWER: Duration = Duration::from_secs(2);
/// Enough for the metrics of hundreds of controllers.
const LARGEST: usize = 8 << 20;

/// Returns the body of a successful response of the operator.
pub(crate) async fn page(port: u16, path: &str) -> anyhow::Result<String> {
    let asking = async {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get(path).header("host", "127.0.0.1").body(Empty::<Bytes>::new())?;
        let answer = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
            ensure!(status.is_success(), "{status}");
            anyhow::Ok(String::from_utf8_lossy(&body).into_owned())
        };
        tokio::pin!(answer, connection);
        tokio::select! {
            answer = &mut answer => answer,
            ended = &mut connection => {
                ended?;
                answer.await
            }
        }
    };
    tokio::time::timeout(ANSWER, asking).await.context("no response")?
}

/// Parses the metrics of all controllers by name.
pub(crate) fn controllers(text: &str) -> Vec<ControllerNumbers> {
    let mut all: BTreeMap<String, ControllerNumbers> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(sample) = Sample::parse(line) else { continue };
        let Some(name) = sample.label("controller") else { continue };
        let of = |all: &mut BTreeMap<String, ControllerNumbers>, change: &dyn Fn(&mut ControllerNumbers)| {
            let fresh = || ControllerNumbers { name: name.to_owned(), ..ControllerNumbers::default() };
            change(all.entry(name.to_owned()).or_insert_with(fresh));
        };
        match sample.name {
            "controller_runtime_reconcile_total" => of(&mut all, &|it| it.reconciles += sample.value),
            "controller_runtime_reconcile_errors_total" => of(&mut all, &|it| it.errors += sample.value),
            "controller_runtime_active_workers" => of(&mut all, &|it| it.active += sample.value),
            "windlass_reconcile_causes_total" => {
                let Some(cause) = sample.label("cause") else { continue };
                of(&mut all, &|it| *it.causes.entry(cause.to_owned()).or_default() += sample.value);
            }
            "workqueue_depth" => of(&mut all, &|it| it.queued += sample.value),
            "controller_runtime_reconcile_time_seconds_bucket" => {
                let Some(bound) = sample.label("le").and_then(|bound| bound.parse().ok()) else { continue };
                of(&mut all, &|it| it.buckets.push((bound, sample.value)));
            }
            _ => {}
        }
    }
    all.into_values().collect()
}

/// A line of the text format.
struct Sample<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (head, value) = match line.rfind('}') {
            Some(end) => line.split_at(end + 1),
            None => line.split_once(' ')?,
        };
        let value = value.split_whitespace().next()?.parse().ok()?;
        let (name, labels) = head.split_once('{').unwrap_or((head, ""));
        Some(Self { name, labels: labels.trim_end_matches('}'), value })
    }

    /// Returns the value of a label. Names of controllers contain no escapes.
    fn label(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.labels;
        loop {
            let (key, after) = rest.split_once("=\"")?;
            let (value, after) = after.split_once('"')?;
            if key.trim_start_matches([',', ' ']) == name {
                return Some(value);
            }
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_read_from_the_text_format() {
        let text = r#"# HELP controller_runtime_reconcile_total Reconciles, by result
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="book",result="success"} 5
controller_runtime_reconcile_total{result="error",controller="book"} 2
controller_runtime_reconcile_errors_total{controller="book"} 2
controller_runtime_reconcile_time_seconds_bucket{le="0.005",controller="book"} 6
controller_runtime_reconcile_time_seconds_bucket{le="+Inf",controller="book"} 7
controller_runtime_reconcile_time_seconds_sum{controller="book"} 0.1
controller_runtime_active_workers{controller="book"} 1
windlass_reconcile_causes_total{controller="book",cause="object"} 6
windlass_reconcile_causes_total{controller="book",cause="retry"} 1
workqueue_depth{name="book",controller="book",priority="0"} 3
workqueue_depth{name="book",controller="book",priority="-100"} 4
controller_runtime_active_workers{controller="pen"} 0
process_open_fds 12
nonsense
{"#;
        let numbers = controllers(text);
        let book = ControllerNumbers {
            name: "book".into(),
            reconciles: 7.0,
            errors: 2.0,
            queued: 7.0,
            active: 1.0,
            buckets: vec![(0.005, 6.0), (f64::INFINITY, 7.0)],
            causes: [("object".to_owned(), 6.0), ("retry".to_owned(), 1.0)].into(),
        };
        assert_eq!(numbers, [book, ControllerNumbers { name: "pen".into(), ..ControllerNumbers::default() }]);
    }
}
