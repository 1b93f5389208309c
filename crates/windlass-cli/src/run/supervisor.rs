//! The main loop of a run: executes the decisions of [`Lifecycle`].

use std::{future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

use super::{
    build::{BuildOptions, Built},
    changes::Changes,
    event::{Build, Event, Operator, Reporter, in_words},
    forbidden::LogReader,
    install::Installer,
    lifecycle::{Action, Input, Lifecycle},
    operator::{OnReady, OperatorOptions, RunningOperator, Samples},
    process::ending,
    resources::Resources,
    tunnel::Installation,
};
use crate::failure::ErrorWithHint;

/// Timeout for removing the webhooks of the run.
const WITHDRAWING: Duration = Duration::from_secs(5);

/// A command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Restart,
    Pause,
    Quit,
}

/// All parts of a run.
pub(crate) struct Supervisor {
    pub(crate) build_options: BuildOptions,
    pub(crate) operator_options: OperatorOptions,
    pub(crate) installer: Installer,
    pub(crate) resources: Resources,
    pub(crate) reporter: Reporter,
    /// Sources to watch, unless disabled.
    pub(crate) changes: Option<Changes>,
    /// A directory of manifests to apply once.
    pub(crate) samples: Samples,
    /// Requests of the operator, if it runs as its service account.
    pub(crate) audit: Option<LogReader>,
    /// Whether a failed first build ends the run, since the sources are not watched.
    pub(crate) must_build: bool,
}

/// A build or installation in progress.
type Work = Pin<Box<dyn Future<Output = WorkOutcome>>>;

enum WorkOutcome {
    Built(anyhow::Result<Built>),
    Installed(anyhow::Result<Installation>),
}

/// Changing state of the run.
#[derive(Default)]
struct RunState {
    lifecycle: Lifecycle,
    work: Option<Work>,
    operator: Option<RunningOperator>,
    due: Option<Instant>,
    program: Option<PathBuf>,
    installation: Arc<Installation>,
}

impl Supervisor {
    /// Builds and runs until it is asked to stop, then cleans up.
    pub(crate) async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        // A killed run may have left webhooks that block all writes, and a build takes its time.
        self.withdraw("failed to remove webhooks of an earlier run").await;
        let mut state = RunState::default();
        // Ends with this function.
        let mut tasks = JoinSet::new();
        if let Some(credentials) = self.operator_options.credentials.clone() {
            if let Some(audit) = self.audit.take() {
                tasks.spawn(audit.explain(credentials.clone(), self.reporter.clone()).boxed());
            }
            tasks.spawn(credentials.keep_renewed().boxed());
        }
        let action = state.lifecycle.on(Input::Restart);
        self.act(action, &mut state).await;
        tokio::pin!(stop);
        let outcome = loop {
            let input = tokio::select! {
                () = &mut stop => break Ok(()),
                Some(command) = commands.recv() => match command {
                    Command::Quit => break Ok(()),
                    Command::Restart => Some(Input::Restart),
                    Command::Pause => Some(Input::Pause),
                },
                paths = changed(&mut self.changes) => match paths == ["Cargo.lock"] && state.work.is_some() {
                    // Cargo reports it when it starts.
                    true => None,
                    false => {
                        self.reporter.send(Event::Changed(paths)).await;
                        Some(Input::Changed)
                    }
                },
                done = finished(&mut state.work) => {
                    state.work = None;
                    match self.worked(done, &mut state).await {
                        Ok(input) => Some(input),
                        Err(error) => break Err(error),
                    }
                }
                (status, after) = ended(&mut state.operator) => {
                    state.operator = None;
                    let action = state.lifecycle.on(Input::Exited { after });
                    let again = if let Action::Wait(again) = action { again } else { Duration::ZERO };
                    self.reporter.send(Event::Operator(Operator::Crashed { how: ending(status), again })).await;
                    self.act(action, &mut state).await;
                    None
                }
                () = reached(state.due) => {
                    state.due = None;
                    Some(Input::Due)
                }
            };
            let Some(input) = input else { continue };
            let action = state.lifecycle.on(input);
            if input == Input::Pause {
                self.reporter.send(Event::Paused(state.lifecycle.paused())).await;
            }
            self.act(action, &mut state).await;
        };
        self.reporter.send(Event::Ending).await;
        self.end(state).await;
        outcome
    }

    async fn act(&mut self, action: Action, state: &mut RunState) {
        match action {
            Action::Nothing => {}
            Action::Build => {
                // Cancels the build or installation in progress.
                state.work = None;
                self.reporter.send(Event::Build(Build::Started)).await;
                state.work = Some(match self.build_options.start(&self.reporter) {
                    Ok(building) => Box::pin(async { WorkOutcome::Built(building.finish().await) }),
                    Err(error) => Box::pin(future::ready(WorkOutcome::Built(Err(error)))),
                });
            }
            Action::Install => {
                self.reporter.send(Event::Operator(Operator::Installing)).await;
                let (installer, program) = (self.installer.clone(), state.program.clone().unwrap_or_default());
                state.work = Some(Box::pin(async move { WorkOutcome::Installed(installer.install(program).await) }));
            }
            Action::Wait(time) => state.due = Some(Instant::now() + time),
            Action::Start => self.start(state).await,
        }
    }

    async fn start(&mut self, state: &mut RunState) {
        state.due = None;
        if let Some(operator) = state.operator.take() {
            self.reporter.send(Event::Operator(Operator::Stopping)).await;
            operator.stop().await;
        }
        let after = OnReady {
            installer: self.installer.clone(),
            installation: state.installation.clone(),
            samples: self.samples.clone(),
        };
        let program = state.program.clone().unwrap_or_default();
        match self.operator_options.start(&program, after, &self.reporter) {
            Ok(operator) => {
                self.reporter.send(Event::Operator(Operator::Starting { process: operator.id() })).await;
                state.operator = Some(operator);
            }
            Err(error) => self.reporter.send(Event::Operator(Operator::Failed { why: in_words(&error) })).await,
        }
    }

    /// Handles the end of a build or an installation.
    async fn worked(&mut self, done: WorkOutcome, state: &mut RunState) -> anyhow::Result<Input> {
        Ok(match done {
            WorkOutcome::Built(Ok(Built { program, fresh, took })) => {
                state.program = Some(program);
                self.must_build = false;
                self.reporter.send(Event::Build(Build::Done { took, fresh })).await;
                Input::Built { fresh }
            }
            WorkOutcome::Built(Err(error)) => {
                if self.must_build {
                    let hint = "fix the compiler errors and run it again";
                    return Err(ErrorWithHint { message: format!("{error:#}"), hint: hint.into() }.into());
                }
                self.reporter.send(Event::Build(Build::Failed { why: in_words(&error) })).await;
                Input::BuildFailed
            }
            WorkOutcome::Installed(Ok(installation)) => {
                self.resources.follow(&installation.definitions).await;
                state.installation = Arc::new(installation);
                Input::Installed
            }
            WorkOutcome::Installed(Err(error)) => {
                self.reporter.send(Event::Operator(Operator::Failed { why: in_words(&error) })).await;
                Input::InstallFailed
            }
        })
    }

    /// Webhooks are removed first: without an operator to respond, they would block writes.
    async fn end(self, mut state: RunState) {
        state.work = None;
        self.withdraw("failed to remove webhooks of this run").await;
        if let Some(operator) = state.operator {
            operator.stop().await;
        }
    }

    async fn withdraw(&self, otherwise: &'static str) {
        let withdrawn = tokio::time::timeout(WITHDRAWING, self.installer.withdraw()).await;
        let withdrawn = withdrawn.unwrap_or_else(|_| Err(anyhow::anyhow!("the cluster does not respond")));
        if let Err(error) = withdrawn {
            self.reporter.complain(&error.context(otherwise)).await;
        }
    }
}

async fn changed(changes: &mut Option<Changes>) -> Vec<String> {
    match changes {
        Some(changes) => changes.next().await,
        None => future::pending().await,
    }
}

async fn finished(work: &mut Option<Work>) -> WorkOutcome {
    match work {
        Some(work) => work.await,
        None => future::pending().await,
    }
}

async fn ended(operator: &mut Option<RunningOperator>) -> (std::io::Result<std::process::ExitStatus>, Duration) {
    match operator {
        Some(operator) => operator.ended().await,
        None => future::pending().await,
    }
}

async fn reached(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => future::pending().await,
    }
}
