//! Events of a run, to be shown.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::failure;

/// Capacity for events. A program that logs faster is slowed down, as it would be by a terminal.
const WAITING: usize = 1024;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// URL of the API server, and its kubeconfig.
    Cluster {
        server: String,
        kubeconfig: Option<String>,
    },
    /// A line of output.
    Line(Source, String),
    /// Files have changed.
    Changed(Vec<String>),
    /// Restarts after changes are paused or resumed.
    Paused(bool),
    Build(Build),
    Operator(Operator),
    /// Metrics of the operator.
    Numbers(Vec<ControllerNumbers>),
    /// The last reconciles of all controllers, oldest first.
    Reconciles(Vec<Reconcile>),
    /// All objects of a kind.
    Resources {
        kind: String,
        objects: Vec<Resource>,
    },
    /// An object was created or changed.
    Resource(Resource),
    /// An object was deleted.
    Gone {
        kind: String,
        namespace: Option<String>,
        name: String,
    },
    /// The complete set of watched kinds.
    Kinds(Vec<String>),
    /// The run is about to end.
    Ending,
}

/// Source of a line of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Cargo,
    Operator,
    Windlass,
    /// An error of Windlass itself.
    Error,
}

/// State of a build.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Build {
    Started,
    Done { took: Duration, fresh: bool },
    Failed { why: String },
}

/// State of the operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operator {
    /// It was built, and its resources are being installed.
    Installing,
    Starting {
        process: u32,
    },
    /// It has started and its caches are synced.
    Ready,
    /// It was asked to stop.
    Stopping,
    /// It stopped by itself.
    Crashed {
        how: String,
        again: Duration,
    },
    /// It cannot start.
    Failed {
        why: String,
    },
}

/// Metrics of a controller since it was started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ControllerNumbers {
    pub(crate) name: String,
    pub(crate) reconciles: f64,
    pub(crate) errors: f64,
    pub(crate) queued: f64,
    pub(crate) active: f64,
    /// Upper bounds in seconds, and cumulative counts of reconciles.
    pub(crate) buckets: Vec<(f64, f64)>,
    /// Reconciles by cause.
    pub(crate) causes: BTreeMap<String, f64>,
}

/// A reconcile that has ended.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Reconcile {
    #[serde(skip)]
    pub(crate) controller: String,
    /// Counted per controller and process, from one.
    pub(crate) number: u64,
    pub(crate) object: String,
    /// As in the field `causes` of the operator's log.
    pub(crate) causes: Vec<String>,
    pub(crate) ended: Timestamp,
    pub(crate) seconds: f64,
    pub(crate) result: String,
}

/// An object of the project.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resource {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) generation: Option<i64>,
    pub(crate) observed: Option<i64>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) deleting: bool,
    pub(crate) conditions: Vec<Condition>,
    /// `status.phase`, if present.
    pub(crate) phase: Option<String>,
}

/// A condition of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Event {
    /// Describes the event in a sentence, if it is worth a line.
    pub(crate) fn sentence(&self) -> Option<(Source, String)> {
        let said = |text: String| Some((Source::Windlass, text));
        match self {
            Self::Cluster { server, kubeconfig: Some(kubeconfig) } => {
                said(format!("Kubernetes is running at {server}: export KUBECONFIG={kubeconfig}"))
            }
            Self::Cluster { server, kubeconfig: None } => said(format!("Kubernetes is running at {server}")),
            Self::Line(source, text) => Some((*source, text.clone())),
            Self::Changed(paths) => said(match &paths[..] {
                [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} other files have changed", rest.len()),
                paths => format!("{} changed", paths.join(", ")),
            }),
            Self::Paused(true) => said("paused: changes do not trigger a restart".into()),
            Self::Paused(false) => said("resumed: changes trigger a restart".into()),
            Self::Build(Build::Started) => said("building".into()),
            Self::Build(Build::Done { fresh: true, .. }) => said("the build is up to date".into()),
            Self::Build(Build::Done { took, fresh: false }) => said(format!("built in {:.1} s", took.as_secs_f64())),
            Self::Build(Build::Failed { why }) => Some((Source::Error, why.clone())),
            Self::Operator(Operator::Starting { process }) => said(format!("started the operator, process {process}")),
            Self::Operator(Operator::Ready) => said("the operator is ready".into()),
            Self::Operator(Operator::Stopping) => said("stopping the operator".into()),
            Self::Operator(Operator::Crashed { how, again }) => {
                Some((Source::Error, format!("the operator {how}; restarting in {} s", again.as_secs())))
            }
            Self::Operator(Operator::Failed { why }) => Some((Source::Error, why.clone())),
            Self::Ending => said("stopping".into()),
            Self::Operator(Operator::Installing)
            | Self::Numbers(_)
            | Self::Reconciles(_)
            | Self::Resources { .. }
            | Self::Resource(_)
            | Self::Gone { .. }
            | Self::Kinds(_) => None,
        }
    }
}

impl Reconcile {
    /// Returns whether it has failed.
    pub(crate) fn has_failed(&self) -> bool {
        ["error", "panic", "timeout"].contains(&self.result.as_str())
    }

    /// Describes the reconcile: `default/first: object 4->7 (3ms)`.
    pub(crate) fn sentence(&self) -> String {
        let Self { object, causes, seconds, result, .. } = self;
        let causes = if causes.is_empty() { "unknown".to_owned() } else { causes.join(", ") };
        let result = if result == "success" { String::new() } else { format!(", {result}") };
        format!("{object}: {causes} ({}{result})", in_seconds(*seconds))
    }
}

impl Resource {
    /// Describes the object and its conditions.
    pub(crate) fn sentence(&self) -> String {
        let Self { kind, name, .. } = self;
        let mut text = match &self.namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}:"),
            None => format!("{kind} {name}:"),
        };
        for Condition { kind, status, reason, .. } in &self.conditions {
            text.push_str(&format!(" {kind}={status}"));
            if !reason.is_empty() {
                text.push_str(&format!(" ({reason})"));
            }
        }
        if let Some(phase) = &self.phase {
            text.push_str(&format!(" {phase}"));
        }
        if self.deleting {
            text.push_str(" is being deleted");
        } else if text.ends_with(':') {
            text.push_str(" no conditions yet");
        }
        text
    }
}

/// A cheap handle for reporting events.
#[derive(Clone, Debug)]
pub(crate) struct Reporter(mpsc::Sender<Event>);

impl Reporter {
    /// Creates a reporter and the receiver of its events.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Waits for capacity. Events after the end of the run are dropped.
    pub(crate) async fn send(&self, event: Event) {
        let _ = self.0.send(event).await;
    }

    /// Reports progress.
    pub(crate) async fn say(&self, text: impl Into<String>) {
        self.send(Event::Line(Source::Windlass, text.into())).await;
    }

    /// Reports an error with its hint.
    pub(crate) async fn complain(&self, error: &anyhow::Error) {
        self.send(Event::Line(Source::Error, in_words(error))).await;
    }
}

/// Formats an error with its causes and hint on one line.
pub(crate) fn in_words(error: &anyhow::Error) -> String {
    match failure::hint(error) {
        Some(hint) => format!("{error:#}; hint: {hint}"),
        None => format!("{error:#}"),
    }
}

/// Formats a duration: `12ms`, `1.2s`, `20s`.
pub(crate) fn in_seconds(time: f64) -> String {
    match time {
        time if time < 0.9995 => format!("{:.0}ms", time * 1000.0),
        time if time < 9.95 => format!("{time:.1}s"),
        time => format!("{time:.0}s"),
    }
}
