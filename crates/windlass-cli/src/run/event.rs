//! What happens during a run, for whoever shows it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::failure;

/// How many events may wait to be shown. A program that logs faster waits, as it would for a terminal.
const WAITING: usize = 1024;

/// Something that has happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// Where the API server is, and the kubeconfig that leads there.
    Cluster {
        server: String,
        kubeconfig: Option<String>,
    },
    /// A line of somebody's output.
    Line(Source, String),
    /// Files have changed.
    Changed(Vec<String>),
    /// Changes are gathered and not acted on, or acted on again.
    Paused(bool),
    Build(Build),
    Operator(Operator),
    /// What the operator counts.
    Numbers(Vec<ControllerNumbers>),
    /// All objects of a kind, from now on.
    Resources {
        kind: String,
        objects: Vec<Resource>,
    },
    /// An object has changed or is new.
    Resource(Resource),
    /// An object is gone.
    Gone {
        kind: String,
        namespace: Option<String>,
        name: String,
    },
    /// There are these kinds, and no others.
    Kinds(Vec<String>),
    /// The run is about to end.
    Ending,
}

/// Whose output a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Cargo,
    Operator,
    Windlass,
    /// Of Windlass, about something that went wrong.
    Trouble,
}

/// What becomes of a build.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Build {
    Started,
    Done { took: Duration, fresh: bool },
    Failed { why: String },
}

/// What becomes of the operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operator {
    /// It was built, and the cluster gets what it needs.
    Installing,
    Starting {
        process: u32,
    },
    /// It is there and has seen all that it watches.
    Ready,
    /// It is asked to end.
    Stopping,
    /// It was not asked to.
    Crashed {
        how: String,
        again: Duration,
    },
    /// It cannot start.
    Failed {
        why: String,
    },
}

/// What a controller has done since it was started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ControllerNumbers {
    pub(crate) name: String,
    pub(crate) reconciles: f64,
    pub(crate) errors: f64,
    pub(crate) queued: f64,
    pub(crate) active: f64,
    /// Upper bounds in seconds, and how many reconciles took no longer.
    pub(crate) buckets: Vec<(f64, f64)>,
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
    /// `status.phase`, where there is one.
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
    /// What it is in words, where it has none of its own and somebody would want to read of it.
    pub(crate) fn sentence(&self) -> Option<(Source, String)> {
        let said = |text: String| Some((Source::Windlass, text));
        match self {
            Self::Cluster { server, kubeconfig: Some(kubeconfig) } => {
                said(format!("Kubernetes is at {server}: export KUBECONFIG={kubeconfig}"))
            }
            Self::Cluster { server, kubeconfig: None } => said(format!("Kubernetes is at {server}")),
            Self::Line(source, text) => Some((*source, text.clone())),
            Self::Changed(paths) => said(match &paths[..] {
                [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} other files have changed", rest.len()),
                paths => format!("{} changed", paths.join(", ")),
            }),
            Self::Paused(true) => said("paused: changes are not acted on".into()),
            Self::Paused(false) => said("changes are acted on again".into()),
            Self::Build(Build::Started) => said("building".into()),
            Self::Build(Build::Done { fresh: true, .. }) => said("nothing had to be built".into()),
            Self::Build(Build::Done { took, fresh: false }) => said(format!("built in {:.1} s", took.as_secs_f64())),
            Self::Build(Build::Failed { why }) => Some((Source::Trouble, why.clone())),
            Self::Operator(Operator::Starting { process }) => said(format!("started the operator, process {process}")),
            Self::Operator(Operator::Ready) => said("the operator is ready".into()),
            Self::Operator(Operator::Stopping) => said("stopping the operator".into()),
            Self::Operator(Operator::Crashed { how, again }) => {
                Some((Source::Trouble, format!("the operator {how}; it is started again in {} s", again.as_secs())))
            }
            Self::Operator(Operator::Failed { why }) => Some((Source::Trouble, why.clone())),
            Self::Ending => said("stopping".into()),
            Self::Operator(Operator::Installing)
            | Self::Numbers(_)
            | Self::Resources { .. }
            | Self::Resource(_)
            | Self::Gone { .. }
            | Self::Kinds(_) => None,
        }
    }
}

impl Resource {
    /// Which it is, and how it fares.
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

/// Where events are reported. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Reporter(mpsc::Sender<Event>);

impl Reporter {
    /// One, and where its events arrive.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Waits until there is room. Nobody listens once the run is over, which is as well.
    pub(crate) async fn tell(&self, event: Event) {
        let _ = self.0.send(event).await;
    }

    /// A sentence about what is done.
    pub(crate) async fn say(&self, text: impl Into<String>) {
        self.tell(Event::Line(Source::Windlass, text.into())).await;
    }

    /// Something went wrong, and what can be done about it.
    pub(crate) async fn complain(&self, error: &anyhow::Error) {
        self.tell(Event::Line(Source::Trouble, in_words(error))).await;
    }
}

/// An error with its causes and what to do about it, in a line.
pub(crate) fn in_words(error: &anyhow::Error) -> String {
    match failure::hint(error) {
        Some(hint) => format!("{error:#}; hint: {hint}"),
        None => format!("{error:#}"),
    }
}
